//! What reaches beyond a shard: clocks, stamps that outlive it, and sessions that other
//! threads use.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kedge_core::Instant;

use super::{Shard, position, slot};
use crate::{
    directory::PeerId,
    keys::PublicKey,
    noise::{Session, Stamps},
};

impl Shard {
    /// Sets the wall clock, which stamps initiations: it stands at `unix` after 1970. boringtun
    /// reads it by itself.
    pub fn set_wall(&self, now: Instant, unix: Duration) {
        self.door.set_wall(now, unix);
    }

    /// The highest stamps seen from and sent to each peer, those of removed ones included: what
    /// must outlive a restart, so that old initiations stay refused and new ones are not.
    /// boringtun does not tell.
    #[must_use]
    pub fn stamps(&self) -> BTreeMap<PublicKey, Stamps> {
        let mut all = self.stamps.clone();
        for slot in self.peers.iter().flatten() {
            if let Some(stamps) = slot.peer.stamps() {
                all.insert(slot.key, stamps);
            }
        }
        all
    }

    /// Takes over stamps from before a restart, for peers there are and peers to come. Nothing goes
    /// back.
    pub fn restore_stamps(&mut self, stamps: BTreeMap<PublicKey, Stamps>) {
        for (key, stamps) in stamps {
            let id = self.by_key.get(&key).copied();
            match id.and_then(|id| slot(&mut self.peers, id)) {
                Some(slot) => slot.peer.raise_stamps(stamps),
                None => self.keep_stamps(key, stamps),
            }
        }
    }

    /// The session that packets for a peer are sealed with, for a thread of its own. Only our own
    /// core shares it.
    #[must_use]
    pub fn session(&self, now: Instant, id: PeerId) -> Option<Arc<Session>> {
        self.peers.get(position(id))?.as_ref()?.peer.session(now)
    }

    pub(super) fn keep_stamps(&mut self, key: PublicKey, stamps: Stamps) {
        if self.stamps.len() < STRANGERS {
            self.stamps.insert(key, stamps);
        }
    }
}

/// Keys that are no peer's, of which stamps are kept: 1 MB.
const STRANGERS: usize = 16_384;
