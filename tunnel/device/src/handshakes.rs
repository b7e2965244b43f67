//! When handshakes were, by the clock on the wall.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use kedge_core::Instant;
use kedge_net::clock;
use kedge_tunnel_proto::keys::PublicKey;

/// When each handshake was first seen, so that its time does not move when the wall clock is set.
#[derive(Debug, Default)]
pub(crate) struct Handshakes(BTreeMap<PublicKey, (Instant, SystemTime)>);

impl Handshakes {
    /// The wall-clock time of a peer's last handshake, the same each time one asks.
    pub(crate) fn wall(&mut self, key: &PublicKey, at: Option<Instant>) -> Option<SystemTime> {
        let at = at?;
        if let Some((known, wall)) = self.0.get(key)
            && *known == at
        {
            return Some(*wall);
        }
        let wall = SystemTime::now().checked_sub(clock::now().since(at))?;
        self.0.insert(*key, (at, wall));
        Some(wall)
    }

    /// Keeps those of `peers` alone.
    pub(crate) fn forget_others(&mut self, peers: impl Iterator<Item = PublicKey>) {
        let peers: BTreeSet<PublicKey> = peers.collect();
        self.0.retain(|key, _| peers.contains(key));
    }
}
