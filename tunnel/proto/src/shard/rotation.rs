//! Keys that are followed by others while sessions go on (docs/adr/0040).
//!
//! A device has up to two keys of its own, and so has each peer. Whichever pair an initiation is for
//! is answered. Whoever has a newer pair than the one its packets are sent with asks for a session
//! with it, now and then, until it is answered: not before that the other end is known to have it.

use std::{cmp::Reverse, time::Duration};

use kedge_core::Instant;

use super::{Shard, position, slot};
use crate::{
    directory::PeerId,
    keys::{PresharedKey, PrivateKey, PublicKey},
    memory::Remembered,
    noise::{Caller, Noise},
    peer::{Ends, Message, Name},
};

impl Shard {
    /// Has one more private key, the newest: peers that know it are answered, and all are asked
    /// whether they do. Sessions stay.
    pub fn add_key(&mut self, now: Instant, key: &PrivateKey, noise: Noise) {
        if self.door.open(key, noise) {
            self.look_again(now);
        }
    }

    /// Goes without a private key from here on, unless it is the only one. Whoever knows no other
    /// one is refused, and sessions that it began are over.
    pub fn drop_key(&mut self, now: Instant, key: &PublicKey) {
        if !self.door.close(key) {
            return;
        }
        for id in self.ids() {
            self.keep_to_keys(now, id);
        }
        self.look_again(now);
    }

    /// By which keys it is known, the newest last.
    pub fn keys(&self) -> impl Iterator<Item = PublicKey> {
        self.door.keys()
    }

    /// A peer has these keys from here on.
    pub(super) fn know_by(
        &mut self,
        now: Instant,
        id: PeerId,
        keys: (PublicKey, Option<PublicKey>),
    ) {
        let Some(slot) = slot(&mut self.peers, id).filter(|slot| slot.peer.keys() != keys) else {
            return;
        };
        let before = slot.peer.keys();
        slot.peer.set_keys(keys);
        slot.peer.try_anew();
        for key in [Some(before.0), before.1].into_iter().flatten() {
            self.by_key.remove(&key);
        }
        for key in [Some(keys.0), keys.1].into_iter().flatten() {
            self.by_key.insert(key, id);
        }
        self.keep_to_keys(now, id);
    }

    /// Has the tie that an initiation is for.
    pub(super) fn meet(&mut self, now: Instant, id: PeerId, caller: &Caller) {
        let pair = Ends {
            local: caller.local,
            remote: caller.key,
        };
        let Some(slot) = slot(&mut self.peers, id) else {
            return;
        };
        if slot.peer.is_asleep() {
            let front = slot.peer.front();
            self.name(now, id, Name { pair, ..front });
            self.wake_up(now, id);
        } else if !slot.peer.has_tie(pair) {
            self.tie(now, id, pair);
        }
    }

    /// Asks for a session with keys that the peer may have by now.
    pub(super) fn try_other_keys(
        &mut self,
        now: Instant,
        id: PeerId,
        due: Instant,
        dst: &mut [u8],
    ) -> Option<Message> {
        let slot = slot(&mut self.peers, id).filter(|slot| slot.due == due)?;
        if self.door.is_single() && slot.peer.keys().1.is_none() && !slot.peer.has_ties() {
            return None;
        }
        let idle: Vec<Ends> = slot.peer.idle_ties(now).collect();
        let next = self.next_pair(id);
        for pair in idle.into_iter().filter(|pair| Some(*pair) != next) {
            self.untie(now, id, pair);
        }
        let slot = self::slot(&mut self.peers, id)?;
        let Some(pair) = next.filter(|_| slot.peer.is_in_use()) else {
            slot.peer.try_anew();
            return None;
        };
        let jitter = self.jitter.up_to(JITTER);
        let first = if slot.peer.calls() { FIRST_CALL } else { FIRST };
        // Without a session nothing else may lead to one.
        let pause = if slot.peer.is_connected() {
            AGAIN
        } else {
            SOON
        };
        let rotation = slot.peer.rare_mut();
        let at = *rotation.next_try.get_or_insert(now + first + jitter);
        if now < at {
            return None;
        }
        rotation.next_try = Some(now + pause + jitter);
        rotation.tries += 1;
        if !slot.peer.has_tie(pair) {
            self.tie(now, id, pair);
        }
        let slot = self::slot(&mut self.peers, id)?;
        slot.peer.try_tie(now, pair, dst)
    }

    /// The pair to ask for: newer than the one in front while that has a session, else any, each in its
    /// turn.
    fn next_pair(&mut self, id: PeerId) -> Option<Ends> {
        let slot = slot(&mut self.peers, id)?;
        let (front, connected) = (slot.peer.front().pair, slot.peer.is_connected());
        let (keys, tries) = (slot.peer.keys(), slot.peer.tries());
        let remote = [keys.1, Some(keys.0)].into_iter().flatten();
        let remote: Vec<PublicKey> = remote.collect();
        let mut pairs = Vec::new();
        for (older, local) in self.door.ids().rev().enumerate() {
            for (at, remote) in remote.iter().enumerate() {
                let pair = Ends {
                    local,
                    remote: *remote,
                };
                pairs.push((older + at, pair));
            }
        }
        let age = |(_, pair): &&(usize, Ends)| *pair == front;
        let age = pairs.iter().find(age).map(|(age, _)| *age);
        pairs.retain(|(older, pair)| *pair != front && !(connected && age <= Some(*older)));
        pairs.sort_by_key(|(older, _)| *older);
        let turn = tries.checked_rem(pairs.len())?;
        pairs.get(turn).map(|(_, pair)| *pair)
    }

    /// Drops what was agreed on with keys that one of the ends has no more.
    fn keep_to_keys(&mut self, now: Instant, id: PeerId) {
        let Some(slot) = self.peers.get(position(id)).and_then(Option::as_deref) else {
            return;
        };
        let (keys, front) = (slot.peer.keys(), slot.peer.front());
        let valid = |name: &Name| {
            let Ends { local, remote } = name.pair;
            self.door.has(local) && (remote == keys.0 || Some(remote) == keys.1)
        };
        let front_stays = valid(&front);
        let beside = slot.peer.names().filter(|name| name.pair != front.pair);
        let gone: Vec<Name> = beside.filter(|name| !valid(name)).collect();
        for name in gone {
            self.untie(now, id, name.pair);
        }
        if front_stays {
            return;
        }
        let pair = Ends {
            local: self.door.oldest(),
            remote: keys.0,
        };
        let Some(slot) = self::slot(&mut self.peers, id) else {
            return;
        };
        if slot.peer.is_asleep() {
            self.name(now, id, Name { pair, ..front });
            return;
        }
        if !slot.peer.has_tie(pair) {
            self.tie(now, id, pair);
        }
        let slot = self::slot(&mut self.peers, id);
        if let Some(name) = slot.and_then(|slot| slot.peer.put_forward(now, pair)) {
            self.retire_all(now, name);
        }
        self.settle(id);
    }

    /// Gives a peer that has no core another pair in front.
    fn name(&mut self, now: Instant, id: PeerId, name: Name) {
        let Some(slot) = slot(&mut self.peers, id) else {
            return;
        };
        let before = slot.peer.front().pair.remote;
        if before != name.pair.remote {
            // What is known of one key says nothing of the other.
            let stamps = slot.peer.take_stamps();
            let endpoint = None;
            self.keep(before, Remembered { stamps, endpoint });
            let known = self.absent.0.remove(&name.pair.remote).unwrap_or_default();
            if let Some(slot) = self::slot(&mut self.peers, id) {
                slot.peer.raise_stamps(known.stamps);
            }
        }
        if let Some(slot) = self::slot(&mut self.peers, id) {
            slot.peer.set_front(now, name);
            self.settle(id);
        }
    }

    fn tie(&mut self, now: Instant, id: PeerId, pair: Ends) {
        let index = self.free_index(now);
        let known = self.absent.0.remove(&pair.remote).unwrap_or_default();
        let Some(slot) = slot(&mut self.peers, id) else {
            return;
        };
        let psk = slot.preshared_key.as_ref().map(PresharedKey::bytes);
        let mut core = self.door.core(pair.local, &pair.remote, psk, index);
        core.raise_stamps(known.stamps);
        let name = Name {
            pair,
            index,
            former: None,
        };
        slot.peer.tie(now, name, core);
        self.by_index.insert(index, id);
    }

    pub(super) fn untie(&mut self, now: Instant, id: PeerId, pair: Ends) {
        let Some(slot) = slot(&mut self.peers, id) else {
            return;
        };
        let Some((name, stamps)) = slot.peer.untie(pair) else {
            return;
        };
        let others = slot.peer.knows(pair.remote);
        self.retire_all(now, name);
        if !others {
            let endpoint = None;
            self.keep(pair.remote, Remembered { stamps, endpoint });
        }
    }

    /// Has nothing but what is in front.
    pub(super) fn untie_all(&mut self, now: Instant, id: PeerId) {
        let Some(slot) = slot(&mut self.peers, id) else {
            return;
        };
        let front = slot.peer.front().pair;
        let names: Vec<Name> = slot.peer.names().collect();
        for name in names.into_iter().filter(|name| name.pair != front) {
            self.untie(now, id, name.pair);
        }
    }

    pub(super) fn ids(&self) -> Vec<PeerId> {
        let slots = (0_u32..).zip(&self.peers);
        let there = slots.filter(|(_, slot)| slot.is_some());
        there.map(|(number, _)| PeerId(number)).collect()
    }

    fn look_again(&mut self, now: Instant) {
        for id in self.ids() {
            if let Some(slot) = slot(&mut self.peers, id).filter(|slot| !slot.peer.is_asleep()) {
                slot.peer.try_anew();
                slot.due = now;
                self.timers.push(Reverse((now, id)));
            }
        }
    }
}

/// How long who always keeps a session waits before it asks for one with other keys: the other end may
/// hear of them at the same time.
const FIRST_CALL: Duration = Duration::from_millis(500);
/// The same for everybody else: who is called by thousands does not call them all at once.
const FIRST: Duration = Duration::from_secs(5);
/// From one try to the next without a session.
const SOON: Duration = Duration::from_secs(1);
/// From one try to the next beside a session.
const AGAIN: Duration = Duration::from_secs(10);
/// So that peers that heard of a key together do not ask together.
const JITTER: Duration = Duration::from_secs(2);
