//! The Noise cores, hidden: handshakes and sessions of one peer.
//!
//! There are two, and a shard is told which of them its peers run on. `boringtun` hides boringtun's
//! `Tunn`, which reads clocks and randomness by itself (docs/adr/0006); `own` is ours, to which
//! both are arguments (docs/adr/0026). Everything around them takes either.

mod boringtun;
mod doors;
mod own;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use kedge_core::Instant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

pub(crate) use self::doors::{DoorId, Doors};
pub use self::own::{HEAD, Seed, Session, Stamp, Stamps, TAIL, Wall};
use crate::{
    drops::DropReason,
    keys::{PrivateKey, PublicKey},
    wire::{self, Kind},
};

/// A Noise core by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoreName {
    /// boringtun's core.
    #[default]
    Boringtun,
    /// A core of Kedge's own.
    Own,
}

/// A Noise core with what it cannot get by itself.
#[derive(Debug)]
pub enum Noise {
    /// boringtun's core reads the clocks and the system's randomness.
    Boringtun,
    /// Our own core is given both.
    Own {
        /// Strong randomness that is used for nothing else.
        seed: Seed,
        /// What the time is.
        wall: Wall,
    },
}

/// What every peer of a device shares: our key, and the check that a handshake message is for it.
pub(crate) enum FrontDoor {
    Boringtun(Box<boringtun::FrontDoor>),
    Own(Box<own::FrontDoor>),
}

/// One peer's handshakes and sessions.
pub(crate) enum NoiseCore {
    Boringtun(Box<boringtun::Succession>),
    Own(Box<own::Core>),
    /// None: what is known of the peer until a core is made for it. Of ten thousand peers most are
    /// never heard, and a core is a hundred times as large.
    Asleep(Known),
}

/// The stamps of a peer without a core. Boxed, since most such peers have none.
#[derive(Default)]
pub(crate) struct Known(Option<Box<Stamps>>);

/// Who sent an initiation, and how far it has been read.
pub(crate) struct Caller {
    /// By which key it knows us.
    pub(crate) local: DoorId,
    pub(crate) key: PublicKey,
    call: Option<own::Call>,
}

/// What became of a datagram. Bytes stand at the start of the buffer that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// A keepalive, or a cookie for the next time.
    Nothing,
    /// A cookie that is worth an initiation at once.
    Cookie,
    /// A message of this length is to be sent.
    Reply(usize),
    /// An inner packet of this length.
    Packet(usize),
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tick {
    Nothing,
    /// A message of this length is to be sent.
    Send(usize),
    /// Handshakes were given up; sessions are gone.
    Expired,
}

impl Known {
    pub(crate) fn stamps(&self) -> Stamps {
        self.0.as_deref().copied().unwrap_or_default()
    }
}

impl From<Stamps> for Known {
    fn from(stamps: Stamps) -> Self {
        Self((stamps != Stamps::default()).then(|| Box::new(stamps)))
    }
}

impl FrontDoor {
    pub(crate) fn new(key: &PrivateKey, noise: Noise) -> Self {
        match noise {
            Noise::Boringtun => Self::Boringtun(Box::new(boringtun::FrontDoor::new(key))),
            Noise::Own { seed, wall } => Self::Own(Box::new(own::FrontDoor::new(key, &seed, wall))),
        }
    }

    /// Whether the sender of an initiation knows our public key.
    pub(crate) fn check(&self, datagram: &[u8]) -> Result<(), DropReason> {
        match self {
            Self::Boringtun(door) => door.check(datagram),
            Self::Own(door) => door.check(datagram),
        }
    }

    /// Whether a cookie in an initiation proves that its sender receives what is sent to `from`.
    pub(crate) fn proves(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> bool {
        // Without a cookie mac2 is zero, and there is nothing to work out.
        if datagram.ends_with(&[0; 16]) {
            return false;
        }
        match self {
            Self::Boringtun(door) => door.proves(from, datagram),
            Self::Own(door) => door.proves(now, from, datagram),
        }
    }

    /// Writes the cookie for whoever sent an initiation to `dst`, and says how long it is.
    pub(crate) fn cookie(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<usize, DropReason> {
        match self {
            Self::Boringtun(door) => door.cookie(from, datagram, dst),
            Self::Own(door) => door.cookie(now, from, datagram, dst),
        }
    }

    /// Who sent an initiation that was checked.
    pub(crate) fn initiator(&self, local: DoorId, datagram: &[u8]) -> Result<Caller, DropReason> {
        let (key, call) = match self {
            Self::Boringtun(door) => (door.initiator(datagram)?, None),
            Self::Own(door) => {
                let (key, call) = door.initiator(datagram)?;
                (key, Some(call))
            }
        };
        Ok(Caller { local, key, call })
    }

    /// Sets the wall clock of the core that does not read it.
    pub(crate) fn set_wall(&self, now: Instant, unix: Duration) {
        match self {
            Self::Boringtun(_) => {}
            Self::Own(door) => door.set_wall(now, unix),
        }
    }

    /// The core of a peer, whose session indices are `index << 8 | n`; `index` has 24 bits and is
    /// nobody else's.
    pub(crate) fn core(
        &mut self,
        peer: &PublicKey,
        psk: Option<Zeroizing<[u8; 32]>>,
        index: u32,
    ) -> NoiseCore {
        match self {
            Self::Boringtun(door) => {
                NoiseCore::Boringtun(Box::new(boringtun::Succession::new(door, peer, psk, index)))
            }
            Self::Own(door) => NoiseCore::Own(Box::new(own::Core::new(door, peer, psk, index))),
        }
    }
}

impl NoiseCore {
    /// Whether there is no core.
    pub(crate) const fn is_asleep(&self) -> bool {
        matches!(self, Self::Asleep(_))
    }

    /// Goes without a core while it would do nothing and knows nothing but stamps. boringtun's does not
    /// tell its own, without which a replayed initiation would be a new one.
    pub(crate) fn rest(&mut self) {
        if let Self::Own(core) = self
            && core.is_at_rest()
        {
            *self = Self::Asleep(core.stamps().into());
        }
    }

    /// Seals a packet, or a keepalive when it is empty. There must be a session.
    pub(crate) fn seal(
        &mut self,
        now: Instant,
        inner: &[u8],
        dst: &mut [u8],
    ) -> Result<usize, DropReason> {
        let needed = (inner.len() + wire::DATA_OVERHEAD).max(wire::INITIATION);
        if dst.len() < needed {
            return Err(DropReason::Oversized);
        }
        match self {
            Self::Asleep(_) => Err(DropReason::UnknownSession),
            Self::Boringtun(core) => core.seal(inner, dst),
            Self::Own(core) => core.seal(now, inner, dst),
        }
    }

    /// Seals the packet of `length` bytes that stands in `slot` behind [`HEAD`] bytes of room; the
    /// message then stands at the slot's start. The core that cannot seal in place copies the packet
    /// into `scratch` before.
    pub(crate) fn seal_in_place(
        &mut self,
        now: Instant,
        slot: &mut [u8],
        length: usize,
        scratch: &mut [u8],
    ) -> Result<usize, DropReason> {
        let oversized = DropReason::Oversized;
        match self {
            Self::Asleep(_) => Err(DropReason::UnknownSession),
            Self::Boringtun(_) => {
                let inner = slot.get(HEAD..HEAD + length).ok_or(oversized)?;
                let copy = scratch.get_mut(..length).ok_or(oversized)?;
                copy.copy_from_slice(inner);
                self.seal(now, copy, slot)
            }
            Self::Own(core) => {
                let buffer = slot.get_mut(..HEAD + length + TAIL).ok_or(oversized)?;
                core.seal_in_place(now, buffer)
            }
        }
    }

    /// Opens a datagram that was classified as being for this core; an initiation comes with what
    /// the front door found out about it.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        (kind, caller): (Kind, Option<Caller>),
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<Opened, DropReason> {
        if dst.len() < datagram.len().max(wire::INITIATION) {
            return Err(DropReason::Oversized);
        }
        match self {
            Self::Asleep(_) => Err(DropReason::UnknownSession),
            Self::Boringtun(core) => core.open(kind, datagram, dst),
            Self::Own(core) => {
                let call = caller.and_then(|caller| caller.call);
                core.open(now, kind, datagram, call, dst)
            }
        }
    }

    /// Does what is due. Must run at least once a second while packets flow.
    pub(crate) fn tick(&mut self, now: Instant, dst: &mut [u8]) -> Tick {
        if dst.len() < wire::INITIATION {
            return Tick::Nothing;
        }
        match self {
            Self::Asleep(_) => Tick::Nothing,
            Self::Boringtun(core) => core.tick(dst),
            Self::Own(core) => core.tick(now, dst),
        }
    }

    /// Drops sessions that are too old. boringtun cannot do that alone: it may have written a
    /// message, too.
    pub(crate) fn expire(&mut self, now: Instant, dst: &mut [u8]) -> Tick {
        match self {
            Self::Asleep(_) => Tick::Nothing,
            Self::Boringtun(_) => self.tick(now, dst),
            Self::Own(core) => core.expire(now),
        }
    }

    /// Starts a handshake; `None` when one is under way and `force` does not ask for another.
    pub(crate) fn initiate(&mut self, now: Instant, force: bool, dst: &mut [u8]) -> Option<usize> {
        if dst.len() < wire::INITIATION {
            return None;
        }
        match self {
            Self::Asleep(_) => None,
            Self::Boringtun(core) => core.initiate(force, dst),
            Self::Own(core) => core.initiate(now, force, dst),
        }
    }

    /// Mixes another preshared key into every handshake from here on; sessions stay. False when the
    /// core cannot: boringtun's is [succeeded](Self::succeed) by another one.
    pub(crate) fn set_preshared_key(&mut self, key: Option<Zeroizing<[u8; 32]>>) -> bool {
        match self {
            Self::Asleep(_) => true,
            Self::Boringtun(_) => false,
            Self::Own(core) => {
                core.set_preshared_key(key);
                true
            }
        }
    }

    /// Goes on with the session of the core before this one, of which the index is returned if it has
    /// one.
    pub(crate) fn succeed(&mut self, before: Self) -> Option<u32> {
        match (self, before) {
            (Self::Boringtun(core), Self::Boringtun(before)) => core.succeed(*before),
            _ => None,
        }
    }

    /// Notes that the session `index` answers an initiation of ours.
    pub(crate) fn answered(&mut self, index: u32) {
        match self {
            Self::Boringtun(core) => core.answered(index),
            Self::Own(_) | Self::Asleep(_) => {}
        }
    }

    /// Notes that the peer uses the session `index`; true when it is a newer one than before.
    pub(crate) fn confirm(&mut self, index: u32) -> bool {
        match self {
            Self::Asleep(_) => false,
            Self::Boringtun(core) => core.confirm(index),
            Self::Own(core) => core.take_rotated(),
        }
    }

    /// Forgets which session both ends had: there is none.
    pub(crate) fn forget_confirmed(&mut self) {
        match self {
            Self::Boringtun(core) => core.forget_confirmed(),
            Self::Own(_) | Self::Asleep(_) => {}
        }
    }

    /// Whether `index` is the newest session both ends have.
    pub(crate) fn is_newest(&self, now: Instant, index: u32) -> bool {
        match self {
            Self::Asleep(_) => false,
            Self::Boringtun(core) => core.is_newest(index),
            Self::Own(core) => core
                .session(now)
                .is_some_and(|session| session.local() == index),
        }
    }

    /// Whether there is a session to send with. boringtun's may be older than it should be.
    pub(crate) fn has_session(&self, now: Instant) -> bool {
        match self {
            Self::Asleep(_) => false,
            Self::Boringtun(core) => core.has_session(),
            Self::Own(core) => core.session(now).is_some(),
        }
    }

    /// Whether the session to send with is over. boringtun's core knows that in its tick alone.
    pub(crate) fn has_lapsed(&self, now: Instant) -> bool {
        match self {
            Self::Asleep(_) => false,
            Self::Boringtun(_) => false,
            Self::Own(core) => core.session(now).is_none(),
        }
    }

    /// Whether handshakes were given up.
    pub(crate) fn is_expired(&self) -> bool {
        match self {
            Self::Asleep(_) => false,
            Self::Boringtun(core) => core.is_expired(),
            Self::Own(core) => core.has_given_up(),
        }
    }

    /// When an unanswered initiation is to be repeated, if the core knows.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        match self {
            Self::Asleep(_) => None,
            Self::Boringtun(_) => None,
            Self::Own(core) => core.retry_at(),
        }
    }

    /// The session to send with, of the core that shares it.
    pub(crate) fn session(&self, now: Instant) -> Option<Arc<Session>> {
        match self {
            Self::Asleep(_) => None,
            Self::Boringtun(_) => None,
            Self::Own(core) => core.session(now).map(Arc::clone),
        }
    }

    /// Answers initiations that are older than one before, for a while. False when the core cannot:
    /// boringtun's is [succeeded](Self::succeed) by another one, which has seen none.
    pub(crate) fn doubt(&mut self, now: Instant) -> bool {
        match self {
            Self::Boringtun(_) => false,
            Self::Own(core) => {
                core.doubt(now);
                true
            }
            Self::Asleep(_) => true,
        }
    }

    /// The highest stamps seen and sent, of the core that tells.
    pub(crate) fn stamps(&self) -> Option<Stamps> {
        match self {
            Self::Boringtun(_) => None,
            Self::Own(core) => Some(core.stamps()),
            Self::Asleep(known) => Some(known.stamps()),
        }
    }

    /// Takes over stamps from before.
    pub(crate) fn raise_stamps(&mut self, stamps: Stamps) {
        match self {
            Self::Boringtun(_) => {}
            Self::Own(core) => core.raise_stamps(stamps),
            Self::Asleep(known) => {
                let mut raised = known.stamps();
                raised.raise(stamps);
                *known = raised.into();
            }
        }
    }
}

#[cfg(test)]
mod tests;
