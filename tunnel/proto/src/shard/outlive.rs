//! What reaches beyond a shard: clocks, what outlives it, and sessions that other
//! threads use.

use std::{sync::Arc, time::Duration};

use kedge_core::Instant;

use super::{Shard, position, slot};
use crate::{
    directory::PeerId,
    fallback::is_lane,
    keys::PublicKey,
    memory::{Memory, Remembered},
    noise::Session,
    other,
};

impl Shard {
    /// Sets the wall clock, which stamps initiations: it stands at `unix` after 1970. boringtun
    /// reads it by itself.
    pub fn set_wall(&self, now: Instant, unix: Duration) {
        self.door.set_wall(now, unix);
    }

    /// What must outlive a restart, of removed peers, too.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let mut all = self.absent.clone();
        for slot in self.peers.iter().flatten() {
            // A stream does not outlive the process.
            let endpoint = slot.endpoint.get().filter(|place| !is_lane(*place));
            let endpoint = endpoint.map(other::address);
            for (key, stamps) in slot.peer.all_stamps() {
                let known = all.0.entry(key).or_default();
                known.stamps.raise(stamps);
                known.endpoint = endpoint;
            }
        }
        all
    }

    /// What must outlive a restart, if there is more of it than the last time.
    pub fn learned(&mut self) -> Option<Memory> {
        std::mem::take(&mut self.learned).then(|| self.memory())
    }

    /// Takes over what was known before a restart, for peers there are and peers to come. Stamps
    /// never go back, and a place that is known is not changed.
    pub fn remember(&mut self, memory: Memory) {
        for (key, remembered) in memory.0 {
            let id = self.by_key.get(&key).copied();
            match id.and_then(|id| slot(&mut self.peers, id)) {
                Some(slot) if slot.peer.knows(key) => slot.peer.inherit(key, remembered.stamps),
                _ => self.keep(key, remembered),
            }
        }
    }

    /// The session that packets for a peer are sealed with, for a thread of its own. Only our own
    /// core shares it.
    #[must_use]
    pub fn session(&self, now: Instant, id: PeerId) -> Option<Arc<Session>> {
        self.peers.get(position(id))?.as_ref()?.peer.session(now)
    }

    pub(super) fn keep(&mut self, key: PublicKey, remembered: Remembered) {
        self.learned = true;
        if self.absent.0.len() < ABSENT && remembered != Remembered::default() {
            self.absent.0.insert(key, remembered);
        }
    }
}

/// Keys that are no peer's, of which something is kept: 8 MB. A shard has as many peers at most.
const ABSENT: usize = 65_536;
