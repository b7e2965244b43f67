//! What changes about a device while it runs: its key, what its peers share, its MTU, whether it can
//! send.

use std::cmp::Reverse;

use kedge_core::Instant;

use super::{Shard, position, slot};
use crate::{
    directory::PeerId,
    keys::{PresharedKey, PrivateKey},
    noise::{FrontDoor, Noise, NoiseCore},
};

impl Shard {
    /// Has another private key. No session outlives it: peers know us by the key that belongs to it.
    pub fn set_private_key(&mut self, now: Instant, key: &PrivateKey, noise: Noise) {
        self.door = FrontDoor::new(key, noise);
        let ids: Vec<PeerId> = (0_u32..)
            .zip(&self.peers)
            .filter(|(_, slot)| slot.is_some())
            .map(|(number, _)| PeerId(number))
            .collect();
        for id in ids {
            self.replace_core(now, id);
        }
    }

    /// Has another MTU, up to which packets are padded.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.mtu = usize::from(mtu);
    }

    /// Nothing can be sent from here on: a few packets of each peer wait, sessions and timers stand
    /// still.
    pub const fn rest(&mut self) {
        self.rests = true;
    }

    /// Everything can be sent, from a place that peers may not know yet: those in use are told at once.
    pub fn wake(&mut self, now: Instant) {
        self.rests = false;
        for position in 0..self.peers.len() {
            let Ok(number) = u32::try_from(position) else {
                return;
            };
            let id = PeerId(number);
            if let Some(slot) = slot(&mut self.peers, id) {
                slot.peer.announce();
                slot.due = now;
                self.timers.push(Reverse((now, id)));
                self.settle(id);
            }
        }
    }

    /// Shares another key with a peer. The session stays where the core can do that, else the peer
    /// needs a new one.
    pub(super) fn share(&mut self, now: Instant, id: PeerId, key: Option<PresharedKey>) {
        let Some(slot) = slot(&mut self.peers, id) else {
            return;
        };
        let changed = slot.peer.set_preshared_key(key.as_ref());
        slot.preshared_key = key;
        if !changed {
            self.replace_core(now, id);
        }
    }

    /// Gives a peer a core without sessions, and an index of its own.
    fn replace_core(&mut self, now: Instant, id: PeerId) {
        let index = self.free_index(now);
        let Some(slot) = self.peers.get_mut(position(id)).and_then(Option::as_mut) else {
            return;
        };
        let psk = slot.preshared_key.as_ref().map(PresharedKey::bytes);
        let mut core: NoiseCore = self.door.core(&slot.key, psk, index);
        if let Some(stamps) = slot.peer.stamps() {
            core.raise_stamps(stamps);
        }
        slot.peer.replace_core(core);
        slot.due = now;
        let old = std::mem::replace(&mut slot.index, index);
        self.by_index.insert(index, id);
        self.retire(now, old);
        self.timers.push(Reverse((now, id)));
        self.settle(id);
    }
}
