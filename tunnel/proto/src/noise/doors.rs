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
}

struct Door {
    key: PublicKey,
    front: FrontDoor,
}

impl Doors {
    pub(crate) fn new(key: &PrivateKey, noise: Noise) -> Self {
        Self {
            oldest: Door::new(key, noise),
            newer: Vec::new(),
        }
    }

    /// Has one more key, the newest. False if it is there already.
    pub(crate) fn open(&mut self, key: &PrivateKey, noise: Noise) -> bool {
        let door = Door::new(key, noise);
        let fresh = self.all().all(|known| known.key != door.key);
        if fresh {
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

    pub(crate) const fn oldest(&self) -> PublicKey {
        self.oldest.key
    }

    pub(crate) fn has(&self, key: &PublicKey) -> bool {
        self.all().any(|door| door.key == *key)
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
        door.front.initiator(door.key, datagram)
    }

    /// Sets the wall clock of the core that does not read it.
    pub(crate) fn set_wall(&self, now: Instant, unix: Duration) {
        for door in self.all() {
            door.front.set_wall(now, unix);
        }
    }

    /// The core of a peer that knows us by `key`, or by the oldest one if there is none such.
    pub(crate) fn core(
        &mut self,
        key: &PublicKey,
        peer: &PublicKey,
        psk: Option<Zeroizing<[u8; 32]>>,
        index: u32,
    ) -> NoiseCore {
        let newer = self.newer.iter_mut().find(|door| door.key == *key);
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
        let key = self.meant(datagram)?.key;
        let newer = self.newer.iter_mut().find(|door| door.key == key);
        Ok(newer.unwrap_or(&mut self.oldest))
    }
}

impl Door {
    fn new(key: &PrivateKey, noise: Noise) -> Self {
        Self {
            key: key.public(),
            front: FrontDoor::new(key, noise),
        }
    }
}
