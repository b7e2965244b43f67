//! The key of the tunnel, and the one it goes over to.

use kedge_core::Instant;
use kedge_host::tunnel_keys::Standing;
use kedge_net::clock;
use kedge_tunnel_device::PeerStats;
use kedge_tunnel_proto::{
    counters::State,
    keys::{Overlap, PrivateKey, PublicKey},
};

use super::Tunnel;

/// The keys by which this host is known.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) current: PublicKey,
    /// The next one, and since when this process has it.
    next: Option<(PublicKey, Instant)>,
}

impl Keys {
    pub(super) const fn of(current: PublicKey) -> Self {
        Self {
            current,
            next: None,
        }
    }

    pub(super) fn next(&self) -> Option<String> {
        self.next.map(|(key, _)| key.to_string())
    }
}

impl Tunnel {
    /// Is known by `key` from here on, and goes over to `next`.
    pub fn set_keys(&mut self, key: PrivateKey, next: Option<PrivateKey>) {
        self.keys.current = key.public();
        let since = clock::now();
        self.keys.next = next.as_ref().map(|next| (next.public(), since));
        self.keeper.set_keys(key, next);
    }

    /// The public keys.
    pub fn public_keys(&self) -> (String, Option<String>) {
        (self.keys.current.to_string(), self.keys.next())
    }

    /// How far the peers are with the next key. The old one is kept for gateways, whether they answer or
    /// not, and for whoever has a session.
    pub fn standing(&self) -> Standing {
        let Some((next, since)) = &self.keys.next else {
            return Standing::default();
        };
        let peers = self.wish.as_ref().map_or(&[][..], |wish| &wish.peers);
        let gateway = |name: &str| peers.iter().any(|it| it.name == name && it.echo.is_some());
        let counts = |peer: &PeerStats| peer.state == State::Connected || gateway(&peer.name);
        let Overlap {
            moved,
            waiting,
            over,
        } = self.keeper.overlap(next, *since, counts);
        Standing {
            moved,
            waiting,
            over,
        }
    }
}
