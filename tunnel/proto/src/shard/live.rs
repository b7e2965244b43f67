//! What changes about a device while it runs: its key, what its peers share, its MTU, whether it can
//! send.

use std::{
    cmp::Reverse,
    net::{IpAddr, SocketAddr},
};

use kedge_core::Instant;

use super::{EventKind, Shard, event::tell, position, slot};
use crate::{
    directory::PeerId,
    keys::{PresharedKey, PrivateKey},
    noise::{Doors, Noise, NoiseCore},
    peer::{Ends, Name, Peer},
};

impl Shard {
    /// Has another private key. No session outlives it: peers know us by the key that belongs to it.
    pub fn set_private_key(&mut self, now: Instant, key: &PrivateKey, noise: Noise) {
        self.door = Doors::new(key, noise);
        for id in self.ids() {
            self.untie_all(now, id);
            self.change_core(now, id, |peer, core| {
                peer.replace_core(core);
                None
            });
        }
    }

    /// Has another MTU, up to which packets are padded.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.mtu = usize::from(mtu);
    }

    /// Calls a peer that may be at each of `places`: makes one initiation, which stands at the start of
    /// `dst` and goes to all of them, and says how long it is. Whoever answers it from one of them is
    /// there.
    pub fn call(
        &mut self,
        now: Instant,
        id: PeerId,
        places: &[SocketAddr],
        dst: &mut [u8],
    ) -> Option<usize> {
        if self.rests {
            return None;
        }
        self.wake_up(now, id);
        let slot = slot(&mut self.peers, id)?;
        let length = slot.peer.call(now, places, dst);
        self.settle(id);
        length
    }

    /// This host cannot send from the address `here` any more, at which a peer called it.
    pub fn lost_address(&mut self, id: PeerId, here: IpAddr) {
        if let Some(slot) = slot(&mut self.peers, id) {
            slot.peer.lost_address(here);
        }
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

    /// Shares another key with a peer. The session stays, and the next handshake mixes the key in.
    pub(super) fn share(&mut self, now: Instant, id: PeerId, key: Option<PresharedKey>) {
        let Some(slot) = slot(&mut self.peers, id) else {
            return;
        };
        let changed = slot.peer.set_preshared_key(key.as_ref());
        slot.preshared_key = key;
        // Those beside it are made anew when they are called for: nobody changes both keys at once.
        self.untie_all(now, id);
        if !changed {
            self.change_core(now, id, |peer, core| peer.succeed(core));
        }
    }

    /// Notes that an initiation with these keys was refused, since it is older than one before. A peer that
    /// goes on with others as old is answered: its clock went back (docs/adr/0061).
    pub(super) fn was_stale(
        &mut self,
        now: Instant,
        (id, pair): (PeerId, Ends),
        initiation: &[u8],
    ) {
        let Some(slot) = slot(&mut self.peers, id) else {
            return;
        };
        if !slot.peer.was_stale(now, initiation) {
            return;
        }
        tell(&mut self.events, id, EventKind::Doubted);
        if slot.peer.doubt(now, pair) {
            return;
        }
        if slot.peer.front().pair == pair {
            self.change_core(now, id, |peer, core| peer.succeed(core));
        } else {
            // It is made anew when it is called for.
            self.untie(now, id, pair);
        }
    }

    /// Gives a peer a core, and an index of its own. `change` answers with the index that a former
    /// core goes on with.
    fn change_core(
        &mut self,
        now: Instant,
        id: PeerId,
        change: impl FnOnce(&mut Peer, NoiseCore) -> Option<u32>,
    ) {
        let index = self.free_index(now);
        let Some(slot) = self
            .peers
            .get_mut(position(id))
            .and_then(Option::as_deref_mut)
        else {
            return;
        };
        let before = slot.peer.front();
        let local = Some(before.pair.local).filter(|id| self.door.has(*id));
        let pair = Ends {
            local: local.unwrap_or_else(|| self.door.oldest()),
            ..before.pair
        };
        if slot.peer.is_asleep() {
            // Whatever core it is given is of the new key.
            slot.peer.set_front(now, Name { pair, ..before });
            return;
        }
        let psk = slot.preshared_key.as_ref().map(PresharedKey::bytes);
        let mut core = self.door.core(pair.local, &pair.remote, psk, index);
        if let Some(stamps) = slot.peer.stamps() {
            core.raise_stamps(stamps);
        }
        let former = change(&mut slot.peer, core);
        slot.due = now;
        let name = Name {
            pair,
            index,
            former,
        };
        slot.peer.set_front(now, name);
        self.by_index.insert(index, id);
        for old in before.indices().filter(|old| Some(*old) != former) {
            self.retire(now, old);
        }
        self.timers.push(Reverse((now, id)));
        self.settle(id);
    }
}
