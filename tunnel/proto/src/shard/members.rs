//! Who is a peer of the shard, and by which index.

use std::{cmp::Reverse, iter, time::Duration};

use kedge_core::Instant;

use super::{Shard, Slot, position, slot};
use crate::{
    directory::{Change, Entry, PeerId, grow, pack},
    keys::PresharedKey,
    memory::Remembered,
    peer::{Ends, Name, Peer},
};

impl Shard {
    /// Takes over a change of peers. Sessions of peers that stay are kept; the prefix table is
    /// replaced as a whole.
    pub fn apply(&mut self, now: Instant, change: Change) {
        self.note_strays(&change);
        for id in change.remove {
            self.others.remove(&id);
            self.remove(now, id);
        }
        for other in change.others {
            self.others.insert(other.id, other);
        }
        let indices = self.make_room(now, &change.add);
        for (entry, index) in change.add.into_iter().zip(indices) {
            self.add(now, entry, index);
        }
        for update in change.update {
            let id = update.entry.id;
            if let Some(slot) = slot(&mut self.peers, id) {
                let spec = update.entry.spec;
                slot.peer.update(now, &spec, update.endpoint_changed);
                slot.relays = spec.relays;
                self.know_by(now, id, (spec.public_key, spec.next()));
                if update.preshared_key_changed {
                    self.share(now, id, spec.preshared_key);
                }
            }
            if let Some(slot) = slot(&mut self.peers, id) {
                slot.due = now;
                self.timers.push(Reverse((now, id)));
                self.settle(id);
            }
        }
        if let Some(table) = change.table {
            self.routes.swap(table);
        }
    }

    /// Has all tables know who comes, and says by which indices. The peers themselves are made after that, so that
    /// what tables leave behind as they grow does not lie among them.
    fn make_room(&mut self, now: Instant, add: &[Entry]) -> Vec<u32> {
        let before = self.by_index.len();
        let mut indices = Vec::with_capacity(add.len());
        for entry in add {
            let index = self.free_index(now);
            self.by_index.insert(index, entry.id);
            indices.push(index);
        }
        pack(&mut self.by_index, before);
        let keys = |entry: &Entry| {
            entry
                .spec
                .keys()
                .zip(iter::repeat(entry.id))
                .collect::<Vec<_>>()
        };
        grow(&mut self.by_key, add.iter().flat_map(keys));
        let last = add.iter().map(|entry| position(entry.id)).max();
        let room = last.map_or(0, |last| last + 1);
        if room > self.peers.len() {
            self.peers.resize_with(room, || None);
        }
        indices
    }

    fn add(&mut self, now: Instant, entry: Entry, index: u32) {
        let Entry {
            id, spec, counters, ..
        } = entry;
        let key = spec.public_key;
        let remembered = self.absent.0.remove(&key).unwrap_or_default();
        let pair = Ends {
            local: self.door.oldest(),
            remote: key,
        };
        let front = Name {
            pair,
            index,
            former: None,
        };
        let mut peer = Peer::new(front, remembered.stamps, &spec, counters, now);
        peer.set_keys((key, spec.next()));
        if let (None, Some(endpoint)) = (spec.endpoint, remembered.endpoint) {
            peer.set_endpoint(endpoint);
        }
        let endpoint = peer.endpoint();
        // Whom nobody wants to talk to is not looked at, and takes no place among the timers.
        let due = if peer.is_in_use() { now } else { Instant::FAR };
        if let Some(place) = self.peers.get_mut(position(id)) {
            let state = peer.state();
            *place = Some(Box::new(Slot {
                peer,
                state,
                endpoint: endpoint.into(),
                preshared_key: spec.preshared_key,
                called_at: None,
                due,
                is_ready: false,
                relays: spec.relays,
                realm: spec.realm,
                mtu: None,
            }));
        }
        if due < Instant::FAR {
            self.timers.push(Reverse((due, id)));
        }
        self.moved(None, endpoint);
    }

    fn remove(&mut self, now: Instant, id: PeerId) {
        let removed = self.peers.get_mut(position(id)).and_then(Option::take);
        if let Some(mut slot) = removed {
            slot.peer.discard(&mut self.budget);
            self.moved(slot.endpoint.get(), None);
            // Who is added again is somebody whose place is not known; its old initiations stay old.
            for (key, stamps) in slot.peer.all_stamps() {
                let endpoint = None;
                self.keep(key, Remembered { stamps, endpoint });
            }
            let keys = slot.peer.keys();
            for key in [Some(keys.0), keys.1].into_iter().flatten() {
                self.by_key.remove(&key);
            }
            for name in slot.peer.names() {
                self.retire_all(now, name);
            }
        }
    }

    /// Makes a core for a peer that has none.
    pub(super) fn wake_up(&mut self, now: Instant, id: PeerId) {
        let Some(slot) = slot(&mut self.peers, id).filter(|slot| slot.peer.is_asleep()) else {
            return;
        };
        let psk = slot.preshared_key.as_ref().map(PresharedKey::bytes);
        let Name { pair, index, .. } = slot.peer.front();
        let core = self.door.core(pair.local, &pair.remote, psk, index);
        slot.peer.wake(now, core);
        slot.due = now;
        self.timers.push(Reverse((now, id)));
    }

    /// The same if it is called for by what is due or waits.
    pub(super) fn wake_called(&mut self, now: Instant, id: PeerId) {
        if slot(&mut self.peers, id).is_some_and(|slot| slot.peer.is_called()) {
            self.wake_up(now, id);
        }
    }

    /// Takes an index out of use.
    pub(super) fn retire(&mut self, now: Instant, index: u32) {
        self.by_index.remove(&index);
        self.retired.push_back((now, index));
    }

    pub(super) fn retire_all(&mut self, now: Instant, name: Name) {
        for index in name.indices() {
            self.retire(now, index);
        }
    }

    /// An index that no peer has, or had a short while ago: the shard's number below 16 random
    /// bits.
    pub(super) fn free_index(&mut self, now: Instant) -> u32 {
        while self
            .retired
            .front()
            .is_some_and(|(at, _)| now.since(*at) >= RETIREMENT)
        {
            self.retired.pop_front();
        }
        let mut random = self.jitter.bits();
        for _ in 0..=u16::MAX {
            let index = u32::from(random) << 8 | u32::from(self.number);
            let retired = self.retired.iter().any(|(_, old)| *old == index);
            if !retired && !self.by_index.contains_key(&index) {
                return index;
            }
            random = random.wrapping_add(1);
        }
        // All 65 536 are taken: a late datagram for a removed peer fails to decrypt, no more.
        u32::from(random) << 8 | u32::from(self.number)
    }
}

/// Twice REJECT_AFTER_TIME: nothing sealed for the old peer is still valid.
const RETIREMENT: Duration = Duration::from_secs(360);
