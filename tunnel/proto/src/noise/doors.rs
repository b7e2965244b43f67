//! The keys of a device: one, or two while it goes over from one to the other.

use std::{net::SocketAddr, time::Duration};

use kedge_core::Instant;
use zeroize::Zeroizing;

use super::{Caller, FrontDoor, Noise, NoiseCore};
use crate::{
    drops::DropReason,
    keys::{PrivateKey, PublicKey},
};

/// A front door for each key of a device, the newest last. There is always one.
pub(crate) struct Doors {
    oldest: Door,
    newer: Vec<Door>,
    /// How many there were.
    doors: u16,
}

/// A key of a device, by a number that no other one has had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DoorId(u16);

struct Door {
    id: DoorId,
    key: PublicKey,
    front: FrontDoor,
}

impl Doors {
    pub(crate) fn new(key: &PrivateKey, noise: Noise) -> Self {
        Self {
            oldest: Door::new(DoorId(0), key, noise),
            newer: Vec::new(),
            doors: 1,
        }
    }

    /// Has one more key, the newest. False if it is there already.
    pub(crate) fn open(&mut self, key: &PrivateKey, noise: Noise) -> bool {
        let door = Door::new(DoorId(self.doors), key, noise);
        let fresh = self.all().all(|known| known.key != door.key);
        if fresh {
            self.doors = self.doors.wrapping_add(1);
            self.newer.push(door);
        }
        fresh
    }

    /// Goes without a key, unless it is the only one.
    pub(crate) fn close(&mut self, key: &PublicKey) -> bool {
        if self.oldest.key != *key {
            let before = self.newer.len();
            self.newer.retain(|door| door.key != *key);
            return self.newer.len() != before;
        }
        if self.newer.is_empty() {
            return false;
        }
        self.oldest = self.newer.remove(0);
        true
    }

    /// The keys, the newest last.
    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = PublicKey> {
        self.all().map(|door| door.key)
    }

    pub(crate) const fn is_single(&self) -> bool {
        self.newer.is_empty()
    }

    pub(crate) const fn oldest(&self) -> DoorId {
        self.oldest.id
    }

    /// The same by their numbers.
    pub(crate) fn ids(&self) -> impl DoubleEndedIterator<Item = DoorId> {
        self.all().map(|door| door.id)
    }

    /// The key of that number, while it is there.
    pub(crate) fn key(&self, id: DoorId) -> Option<PublicKey> {
        let mut all = self.all();
        all.find(|door| door.id == id).map(|door| door.key)
    }

    pub(crate) fn has(&self, id: DoorId) -> bool {
        self.all().any(|door| door.id == id)
    }

    /// Whether the sender of an initiation knows one of our public keys.
    pub(crate) fn check(&self, datagram: &[u8]) -> Result<(), DropReason> {
        self.meant(datagram).map(drop)
    }

    /// Whether a cookie in an initiation proves that its sender receives what is sent to `from`.
    pub(crate) fn proves(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> bool {
        self.meant_mut(datagram)
            .is_ok_and(|door| door.front.proves(now, from, datagram))
    }

    /// Writes the cookie for whoever sent an initiation to `dst`, and says how long it is.
    pub(crate) fn cookie(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<usize, DropReason> {
        let door = self.meant_mut(datagram)?;
        door.front.cookie(now, from, datagram, dst)
    }

    /// Who sent an initiation that was checked, and which of our keys is meant.
    pub(crate) fn initiator(&self, datagram: &[u8]) -> Result<Caller, DropReason> {
        // With one key it was found to be meant when it came.
        let door = match &*self.newer {
            [] => &self.oldest,
            _ => self.meant(datagram)?,
        };
        door.front.initiator(door.id, datagram)
    }

    /// Sets the wall clock of the core that does not read it.
    pub(crate) fn set_wall(&self, now: Instant, unix: Duration) {
        for door in self.all() {
            door.front.set_wall(now, unix);
        }
    }

    /// The core of a peer that knows us by that key, or by the oldest one if it is gone.
    pub(crate) fn core(
        &mut self,
        id: DoorId,
        peer: &PublicKey,
        psk: Option<Zeroizing<[u8; 32]>>,
        index: u32,
    ) -> NoiseCore {
        let newer = self.newer.iter_mut().find(|door| door.id == id);
        let door = newer.unwrap_or(&mut self.oldest);
        door.front.core(peer, psk, index)
    }

    fn all(&self) -> impl DoubleEndedIterator<Item = &Door> {
        std::iter::once(&self.oldest).chain(&self.newer)
    }

    /// Whom an initiation is for. With one key alone it costs one hash.
    fn meant(&self, datagram: &[u8]) -> Result<&Door, DropReason> {
        let mut reason = DropReason::BadMac;
        for door in self.all() {
            match door.front.check(datagram) {
                Ok(()) => return Ok(door),
                Err(refused) => reason = refused,
            }
        }
        Err(reason)
    }

    fn meant_mut(&mut self, datagram: &[u8]) -> Result<&mut Door, DropReason> {
        let id = self.meant(datagram)?.id;
        let newer = self.newer.iter_mut().find(|door| door.id == id);
        Ok(newer.unwrap_or(&mut self.oldest))
    }
}

impl Door {
    fn new(id: DoorId, key: &PrivateKey, noise: Noise) -> Self {
        Self {
            id,
            key: key.public(),
            front: FrontDoor::new(key, noise),
        }
    }
}
