//! A Noise core of our own: WireGuard's handshake, sessions and timers.
//!
//! It reads no clock and no randomness: both are arguments, so the same inputs give the same bytes.

mod door;
mod doubt;
mod exchange;
mod handshake;
mod macs;
mod primitives;
mod random;
mod session;
mod slots;
mod stamp;
mod timers;
mod window;

use std::{fmt, sync::Arc};

use kedge_core::Instant;
use zeroize::Zeroizing;

pub(super) use self::macs::name;
pub(crate) use self::{door::FrontDoor, handshake::Call};
use self::{
    door::Identity,
    doubt::Doubt,
    handshake::{Pending, Remote},
    macs::{Jar, Labels},
    random::Random,
    slots::Slots,
    timers::{Due, Timers},
};
pub use self::{
    session::{HEAD, Session, TAIL},
    stamp::{Stamp, Stamps, Wall},
};
use super::{Opened, Tick};
use crate::{
    drops::DropReason,
    keys::PublicKey,
    wire::{self, Kind},
};

/// 32 bytes of strong randomness, from which all randomness of a core follows.
pub struct Seed(Zeroizing<[u8; 32]>);

impl Seed {
    /// A seed. Whoever knows it knows every key that comes from it.
    #[must_use]
    pub const fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }

    fn random(&self) -> Random {
        Random::new(self.0.clone())
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// One peer's handshakes and sessions.
pub(crate) struct Core {
    identity: Arc<Identity>,
    remote: Remote,
    labels: Labels,
    random: Random,
    /// Our indices are `base | n`.
    base: u32,
    last: u8,
    stamps: Stamps,
    /// Whether what was seen of them may be wrong.
    doubt: Option<Doubt>,
    /// The newest initiation of ours, and the one before it, whose answer may still come.
    pending: Option<Pending>,
    overtaken: Option<Pending>,
    jar: Jar,
    slots: Slots,
    timers: Timers,
    /// A session was confirmed and nobody has asked since.
    rotated: bool,
}

impl Core {
    /// A core whose session indices are `index << 8 | n`; `index` has 24 bits and is nobody
    /// else's. A key of low order, with which there can be no secret, makes a core whose
    /// handshakes all fail.
    pub(crate) fn new(
        door: &mut FrontDoor,
        peer: &PublicKey,
        psk: Option<Zeroizing<[u8; 32]>>,
        index: u32,
    ) -> Self {
        let public = *peer.as_bytes();
        let mut random = door.random.fork();
        let shared = door.identity.pair.agree(&public);
        Self {
            identity: Arc::clone(&door.identity),
            remote: Remote {
                public,
                psk: psk.unwrap_or_default(),
                // Not zeros, which the peer would know.
                shared: shared.unwrap_or_else(|_| random.bytes()),
            },
            labels: Labels::new(&public),
            random,
            base: index << 8,
            last: 0,
            stamps: Stamps::default(),
            doubt: None,
            pending: None,
            overtaken: None,
            jar: Jar::default(),
            slots: Slots::default(),
            timers: Timers::default(),
            rotated: false,
        }
    }

    pub(crate) const fn stamps(&self) -> Stamps {
        self.stamps
    }

    /// Takes over what is known from before; nothing goes back.
    pub(crate) fn raise_stamps(&mut self, stamps: Stamps) {
        self.stamps.raise(stamps);
    }

    /// Answers initiations that are older than one before, for a while: the peer's clock may have gone
    /// back.
    pub(crate) fn doubt(&mut self, now: Instant) {
        self.doubt = Some(Doubt::new(now));
    }

    /// Whether there is no session, nobody asks for one, and nothing is in doubt.
    pub(crate) fn is_at_rest(&self) -> bool {
        let asks = self.pending.is_some() || self.overtaken.is_some();
        !asks && self.slots.is_empty() && self.doubt.is_none()
    }

    /// Mixes another preshared key into every handshake that ends from here on. An initiation under
    /// way does not hold one yet.
    pub(crate) fn set_preshared_key(&mut self, key: Option<Zeroizing<[u8; 32]>>) {
        self.remote.psk = key.unwrap_or_default();
    }

    /// The session to send with.
    pub(crate) fn session(&self, now: Instant) -> Option<&Arc<Session>> {
        self.slots.current(now)
    }

    pub(crate) fn seal(
        &mut self,
        now: Instant,
        inner: &[u8],
        dst: &mut [u8],
    ) -> Result<usize, DropReason> {
        let session = self.slots.current(now).ok_or(DropReason::UnknownSession)?;
        let length = session.seal_into(now, inner, dst)?;
        let worn = session.is_worn_by_sending(now);
        self.sealed(now, worn, inner.is_empty());
        Ok(length)
    }

    /// Seals what stands in `buffer` between [`HEAD`] and [`TAIL`] bytes of room.
    pub(crate) fn seal_in_place(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Result<usize, DropReason> {
        let session = self.slots.current(now).ok_or(DropReason::UnknownSession)?;
        session.seal_in_place(now, buffer)?;
        let worn = session.is_worn_by_sending(now);
        self.sealed(now, worn, buffer.len() == HEAD + TAIL);
        Ok(buffer.len())
    }

    fn sealed(&mut self, now: Instant, worn: bool, keepalive: bool) {
        if worn {
            self.timers.wear();
        }
        self.timers.sent(now, keepalive, &mut self.random);
    }

    /// Opens a datagram of this kind. An initiation is what the front door made of it.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        kind: Kind,
        datagram: &[u8],
        call: Option<Call>,
        dst: &mut [u8],
    ) -> Result<Opened, DropReason> {
        match kind {
            Kind::Initiation => {
                let call = call.ok_or(DropReason::UnexpectedHandshake)?;
                self.respond(now, call, dst).map(Opened::Reply)
            }
            Kind::Response { receiver } => {
                self.identity.labels.check(datagram)?;
                self.finish(now, receiver, datagram, dst).map(Opened::Reply)
            }
            Kind::CookieReply { .. } => {
                let again = self.jar.accept(now, &self.labels, datagram)?;
                Ok(if again {
                    Opened::Cookie
                } else {
                    Opened::Nothing
                })
            }
            Kind::Data { receiver, .. } => self.packet(now, receiver, datagram, dst),
        }
    }

    /// Drops what is too old, and sends nothing.
    pub(crate) fn expire(&mut self, now: Instant) -> Tick {
        self.slots.expire(now);
        self.doubt.take_if(|doubt| doubt.is_over(now));
        if self.timers.due(now) != Due::GiveUp {
            return Tick::Nothing;
        }
        self.timers.gave_up();
        self.pending = None;
        self.overtaken = None;
        match self.slots.current(now) {
            Some(_) => Tick::Nothing,
            None => Tick::Expired,
        }
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Instant, dst: &mut [u8]) -> Tick {
        let expired = self.expire(now);
        if expired != Tick::Nothing {
            return expired;
        }
        let sent = match self.timers.due(now) {
            Due::Initiation => self.write_initiation(now, dst).ok(),
            Due::Keepalive => self.seal(now, &[], dst).ok(),
            Due::Nothing | Due::GiveUp => None,
        };
        sent.map_or(Tick::Nothing, Tick::Send)
    }

    /// Starts a handshake; `None` when one is under way and `force` does not ask for another.
    pub(crate) fn initiate(&mut self, now: Instant, force: bool, dst: &mut [u8]) -> Option<usize> {
        if force || self.timers.may_initiate(now) {
            self.write_initiation(now, dst).ok()
        } else {
            None
        }
    }

    /// When an initiation that stays unanswered is repeated.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.timers.retry_at()
    }

    /// Whether a session was confirmed since the last call.
    pub(crate) fn take_rotated(&mut self) -> bool {
        std::mem::take(&mut self.rotated)
    }

    pub(crate) const fn has_given_up(&self) -> bool {
        self.timers.has_given_up()
    }

    fn write_initiation(&mut self, now: Instant, dst: &mut [u8]) -> Result<usize, DropReason> {
        let message = dst
            .get_mut(..wire::INITIATION)
            .ok_or(DropReason::Oversized)?;
        let index = self.free_index();
        let stamp = self.stamps.stamp(self.identity.wall.at(now));
        let pending = Pending::initiate(
            &self.identity.pair,
            &self.remote,
            &mut self.random,
            index,
            stamp,
            message,
        )?;
        self.jar.sign(now, &self.labels, index, message)?;
        self.overtaken = self.pending.replace(pending);
        self.timers.initiated(now, &mut self.random);
        Ok(wire::INITIATION)
    }

    fn respond(
        &mut self,
        now: Instant,
        mut call: Call,
        dst: &mut [u8],
    ) -> Result<usize, DropReason> {
        let message = dst.get_mut(..wire::RESPONSE).ok_or(DropReason::Oversized)?;
        let stamp = call.stamp(&self.remote)?;
        let stale = !self.stamps.is_new(stamp);
        if stale && self.doubt.as_ref().is_none_or(|doubt| doubt.is_over(now)) {
            return Err(DropReason::StaleHandshake);
        }
        let index = self.free_index();
        let keys = call.respond(&self.remote, &mut self.random, index, message)?;
        self.jar.sign(now, &self.labels, index, message)?;
        match &mut self.doubt {
            // A recording would be refused no more, so it is not taken for true before it is used.
            Some(doubt) if stale => doubt.offered(index, stamp),
            _ => self.stamps.seen = Some(stamp),
        }
        self.slots.offer(Session::new(index, &keys, now, false));
        Ok(message.len())
    }

    fn finish(
        &mut self,
        now: Instant,
        receiver: u32,
        response: &[u8],
        dst: &mut [u8],
    ) -> Result<usize, DropReason> {
        let pending = [&self.pending, &self.overtaken]
            .into_iter()
            .flatten()
            .find(|pending| pending.index == receiver)
            .ok_or(DropReason::UnexpectedHandshake)?;
        let keys = pending.finish(&self.identity.pair, &self.remote, response)?;
        self.slots
            .establish(Session::new(receiver, &keys, now, true));
        // An answer to the newer one, if this was to the older, is on its way.
        self.pending.take_if(|pending| pending.index == receiver);
        self.overtaken = None;
        self.timers.answered();
        // The peer may not send before it has heard from us.
        self.seal(now, &[], dst)
    }

    fn packet(
        &mut self,
        now: Instant,
        receiver: u32,
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<Opened, DropReason> {
        let session = self
            .slots
            .find(receiver)
            .ok_or(DropReason::UnknownSession)?;
        let length = session.open_into(now, datagram, dst)?;
        if session.is_worn_by_receiving(now) {
            self.timers.wear();
        }
        if self.slots.confirm(receiver) {
            self.rotated = true;
            if let Some(stamp) = self.doubt.take().and_then(|doubt| doubt.settled(receiver)) {
                self.stamps.seen = Some(stamp);
            }
            self.pending = None;
            self.overtaken = None;
            self.timers.confirmed();
        }
        self.timers.heard(now, length == 0);
        if length == 0 {
            return Ok(Opened::Nothing);
        }
        dst.get(..length)
            .and_then(wire::inner_length)
            .map(Opened::Packet)
            .ok_or(DropReason::NotIp)
    }

    /// An index that nothing under way has.
    fn free_index(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            let index = self.base | u32::from(self.last);
            let waits = [&self.pending, &self.overtaken]
                .into_iter()
                .flatten()
                .any(|pending| pending.index == index);
            if !waits && self.slots.find(index).is_none() {
                return index;
            }
        }
    }
}
