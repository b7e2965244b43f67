//! Packets that find out what a way carries.

use std::net::SocketAddr;

use kedge_net::clock;
use kedge_tunnel_proto::{directory::PeerId, noise::HEAD};

use super::Worker;

impl Worker {
    /// Sends a packet in one piece, or not at all.
    pub(super) fn send_whole(&mut self, peer: PeerId, packet: &[u8]) {
        let now = clock::now();
        // What waits may be cut, this may not: they never go in one run.
        self.network.send(now, &mut self.outbox, &mut self.shard);
        let slot = self.outbox.slot();
        let inner = slot.get_mut(HEAD..);
        let Some(inner) = inner.and_then(|rest| rest.get_mut(..packet.len())) else {
            return;
        };
        inner.copy_from_slice(packet);
        let Some(transmit) = self.shard.send_whole(now, peer, slot, packet.len()) else {
            return;
        };
        if let Some(datagram) = slot.get(..transmit.length) {
            self.network.send_whole(now, &transmit, datagram);
        }
    }

    /// Asks a peer over the way to `place`, wherever its packets go.
    pub(super) fn ask(&mut self, peer: PeerId, place: SocketAddr, number: u64) {
        let now = clock::now();
        if self.outbox.is_full() {
            self.network.send(now, &mut self.outbox, &mut self.shard);
        }
        let slot = self.outbox.slot();
        if let Some(transmit) = self.shard.ask(now, peer, place, number, slot) {
            self.outbox.push(transmit);
        }
    }

    /// Keeps to what the ways carry from here on.
    pub(super) fn set_paths(&mut self, paths: &[(PeerId, u16)]) {
        self.shard.set_paths(paths);
        // Runs that were too large may fit from here on.
        self.network.forget_refusals();
    }
}
