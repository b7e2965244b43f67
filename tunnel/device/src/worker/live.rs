//! What changes about a running device at once: between two packets.

use std::{net::SocketAddr, sync::Arc};

use kedge_net::{clock, udp::Family};
use kedge_tunnel_proto::{
    directory::{Change, PeerId},
    keys::{PrivateKey, PublicKey},
    noise::Noise,
    wire,
};
use tracing::warn;

use super::{DOOR_V4, DOOR_V6, UDP_V4, UDP_V6, Worker};
use crate::network::{At, Network, Port};

/// What changes; the rest stays.
#[derive(Debug, Default)]
pub(crate) struct Reconfiguration {
    /// Another private key, with what its handshakes need.
    pub(crate) private_key: Option<(PrivateKey, Noise)>,
    /// Keys that come and go while sessions go on.
    pub(crate) identities: Identities,
    /// Other sockets, which may be none.
    pub(crate) port: Option<Port>,
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
            port,
            mtu,
            change,
        } = reconfiguration;
        if let Some(port) = port {
            self.move_to(port);
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
    fn move_to(&mut self, Port { sockets, door }: Port) {
        for (at, family) in [At::Own, At::Door].into_iter().flat_map(both) {
            self.drain_network(at, family);
            if let Some(fd) = self.network.heard_at(at).and_then(|it| it.fd(family)) {
                self.waiter.remove(&fd);
            }
        }
        for (sockets, family, key) in [
            (Some(&sockets), Family::V4, UDP_V4),
            (Some(&sockets), Family::V6, UDP_V6),
            (door.as_ref(), Family::V4, DOOR_V4),
            (door.as_ref(), Family::V6, DOOR_V6),
        ] {
            if let Some(fd) = sockets.and_then(|sockets| sockets.fd(family))
                && let Err(err) = self.waiter.add(&fd, key)
            {
                let error = &err as &dyn std::error::Error;
                warn!(
                    ?family,
                    error, "a socket of the tunnel cannot be waited for"
                );
            }
        }
        for sockets in door.iter().chain([&sockets]) {
            self.offload.meet(sockets);
        }
        if sockets.are_open() {
            self.shard.wake(clock::now());
        } else {
            self.shard.rest();
        }
        let lanes = Arc::clone(self.network.lanes());
        self.network = Network::new(sockets, lanes, self.offload.read().gso).with_door(door);
    }
}

fn both(at: At) -> [(At, Family); 2] {
    [(at, Family::V4), (at, Family::V6)]
}
