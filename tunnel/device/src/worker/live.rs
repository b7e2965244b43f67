//! What changes about a running device at once: between two packets.

use std::{net::SocketAddr, sync::Arc};

use kedge_net::{
    clock,
    udp::{Family, Sockets},
};
use kedge_tunnel_proto::{
    directory::{Change, PeerId},
    keys::{PrivateKey, PublicKey},
    noise::Noise,
    wire,
};
use tracing::warn;

use super::{UDP_V4, UDP_V6, Worker};
use crate::network::{At, Network};

/// What changes; the rest stays.
#[derive(Debug, Default)]
pub(crate) struct Reconfiguration {
    /// Another private key, with what its handshakes need.
    pub(crate) private_key: Option<(PrivateKey, Noise)>,
    /// Keys that come and go while sessions go on.
    pub(crate) identities: Identities,
    /// Other sockets, which may be none.
    pub(crate) sockets: Option<Arc<Sockets>>,
    /// Another MTU.
    pub(crate) mtu: Option<u16>,
    /// Other peers.
    pub(crate) change: Change,
}

/// Keys that come, with what their handshakes need, and keys that go.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    pub(crate) add: Vec<(PrivateKey, Noise)>,
    pub(crate) drop: Vec<PublicKey>,
}

impl Worker {
    /// Sends one initiation to each of these places.
    pub(super) fn call(&mut self, peer: PeerId, places: &[SocketAddr]) {
        let now = clock::now();
        let mut initiation = [0; wire::INITIATION];
        let length = self.shard.call(now, peer, places, &mut initiation);
        let Some(bytes) = length.and_then(|length| initiation.get(..length)) else {
            return;
        };
        for place in places {
            if self.outbox.is_full() {
                self.network.send(now, &mut self.outbox, &mut self.shard);
            }
            self.outbox.copy(*place, Some(peer), bytes);
        }
    }

    pub(super) fn reconfigure(&mut self, reconfiguration: Reconfiguration) {
        let Reconfiguration {
            private_key,
            identities,
            sockets,
            mtu,
            change,
        } = reconfiguration;
        if let Some(sockets) = sockets {
            self.move_to(sockets);
        }
        if let Some(mtu) = mtu {
            self.shard.set_mtu(mtu);
        }
        if let Some((key, noise)) = private_key {
            self.shard.set_private_key(clock::now(), &key, noise);
        }
        for (key, noise) in identities.add {
            self.shard.add_key(clock::now(), &key, noise);
        }
        for key in identities.drop {
            self.shard.drop_key(clock::now(), &key);
        }
        self.rename(&change);
        self.shard.apply(clock::now(), change);
    }

    /// Goes on with other sockets. What waits in the old ones is not lost.
    fn move_to(&mut self, sockets: Arc<Sockets>) {
        for family in [Family::V4, Family::V6] {
            self.drain_network(At::Own, family);
            if let Some(fd) = self.network.sockets().fd(family) {
                self.waiter.remove(&fd);
            }
        }
        for (family, key) in [(Family::V4, UDP_V4), (Family::V6, UDP_V6)] {
            if let Some(fd) = sockets.fd(family)
                && let Err(err) = self.waiter.add(&fd, key)
            {
                let error = &err as &dyn std::error::Error;
                warn!(
                    ?family,
                    error, "a socket of the tunnel cannot be waited for"
                );
            }
        }
        self.offload.meet(&sockets);
        if sockets.are_open() {
            self.shard.wake(clock::now());
        } else {
            self.shard.rest();
        }
        let lanes = Arc::clone(self.network.lanes());
        self.network = Network::new(sockets, lanes, self.offload.read().gso);
    }
}
