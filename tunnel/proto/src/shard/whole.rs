//! What the ways to peers carry: packets that find it out, padding that keeps to it, and questions
//! whether a way works at all.

use std::net::SocketAddr;

use kedge_core::Instant;

use super::{Shard, Slot, Transmit, slot, transmit};
use crate::directory::PeerId;

impl Shard {
    /// Has packets for these peers padded up to what the way to each carries, and for all others up to
    /// the device's MTU.
    pub fn set_paths(&mut self, paths: &[(PeerId, u16)]) {
        for slot in self.peers.iter_mut().flatten() {
            slot.mtu = None;
        }
        for (id, mtu) in paths {
            if let Some(slot) = slot(&mut self.peers, *id) {
                slot.mtu = Some(*mtu);
            }
        }
    }

    /// Asks a peer over the way to `place`, wherever its packets go; the datagram stands at the start of
    /// `dst`. `None` where there is no session.
    pub fn ask(
        &mut self,
        now: Instant,
        id: PeerId,
        place: SocketAddr,
        number: u64,
        dst: &mut [u8],
    ) -> Option<Transmit> {
        let slot = slot(&mut self.peers, id).filter(|_| !self.rests)?;
        let message = slot.peer.ask(now, place.into(), number, dst);
        message.map(|message| transmit(id, message))
    }

    /// Seals the packet of `length` bytes that stands in `into` as in [`send`](Self::send), for one peer
    /// and without padding; `None` where there is no session for it. The caller sends the datagram in
    /// one piece or not at all.
    pub fn send_whole(
        &mut self,
        now: Instant,
        id: PeerId,
        into: &mut [u8],
        length: usize,
    ) -> Option<Transmit> {
        let awake = |slot: &&mut Slot| !slot.peer.is_asleep();
        let slot = slot(&mut self.peers, id).filter(awake);
        let slot = slot.filter(|_| !self.rests)?;
        let (budget, scratch) = (&mut self.budget, &mut self.scratch);
        let message = slot.peer.send_whole(now, (into, length), budget, scratch);
        self.settle(id);
        message.map(|message| transmit(id, message))
    }
}
