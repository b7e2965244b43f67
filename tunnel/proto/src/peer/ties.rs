//! The pairs of keys that a peer and we can have sessions with, while one of us changes its key.
//!
//! ```text
//!   in front: sends, re-keys, says where the session stands
//!      ▲  │
//!      │  ▼  a handshake beside it was answered, or confirmed by data
//!   beside: answers handshakes and opens what comes, and sends nothing else
//! ```
//!
//! The new session is there before the old one is left, and the old one opens what was on its way
//! until it is too old. Both ends follow the newest session that both have, as they do with one key.

use std::net::SocketAddr;

use kedge_core::Instant;

use super::{Message, Peer, Received, doubt::Stale};
use crate::{
    counters::State,
    drops::DropReason,
    keys::PublicKey,
    noise::{Caller, DoorId, NoiseCore, Stamps},
    way::Way,
    wire::Kind,
};

/// One of our keys and one of the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) local: DoorId,
    pub(crate) remote: PublicKey,
}

/// The peer's keys as they are wanted: the one it has, and the one it goes over to.
pub(crate) type Keys = (PublicKey, Option<PublicKey>);

/// What hardly any peer has: more than one pair of keys, places it was called at, handshakes that were
/// forced, another place than its first.
#[derive(Default)]
pub(crate) struct Rare {
    /// Where it was called last: whoever answers from one of these places is there.
    pub(super) called: Vec<SocketAddr>,
    pub(super) moved_at: Option<Instant>,
    pub(super) forced_at: Option<Instant>,
    /// A handshake is wanted that may not be forced yet.
    pub(super) wished: bool,
    pub(super) rearm_at: Option<Instant>,
    /// Initiations of it that were refused, since they are older than one before.
    pub(super) stale: Stale,
    beside: Vec<Tie>,
    /// Since when another tie is in front, until somebody asks.
    turned: Option<Instant>,
    /// Where they are not the key in front alone.
    keys: Option<Keys>,
    /// When it is asked for a session with other keys than it has, and how often it was.
    pub(crate) next_try: Option<Instant>,
    pub(crate) tries: usize,
}

/// What a tie is known by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    pub(crate) pair: Ends,
    /// 24 bits above those that tell its sessions apart.
    pub(crate) index: u32,
    /// That of the core that goes on with the session of before.
    pub(crate) former: Option<u32>,
}

/// Handshakes and sessions of one pair of keys.
pub(crate) struct Tie {
    pub(crate) name: Name,
    core: NoiseCore,
    since: Instant,
}

impl Name {
    pub(crate) fn indices(self) -> impl Iterator<Item = u32> {
        [Some(self.index), self.former].into_iter().flatten()
    }
}

impl Peer {
    /// The pair in front.
    pub(crate) const fn front(&self) -> Name {
        self.front
    }

    /// Gives the front another name, which its core was made for.
    pub(crate) fn set_front(&mut self, now: Instant, name: Name) {
        if self.front.pair != name.pair {
            self.rare_mut().turned = Some(now);
        }
        self.front = name;
    }

    /// Since when another tie is in front, once.
    pub(crate) fn take_turned(&mut self) -> Option<Instant> {
        self.rare.as_mut()?.turned.take()
    }

    /// The peer's keys as they are wanted.
    pub(crate) fn keys(&self) -> Keys {
        let keys = self.rare.as_ref().and_then(|it| it.keys);
        keys.unwrap_or((self.front.pair.remote, None))
    }

    /// Wants it to have these keys.
    pub(crate) fn set_keys(&mut self, keys: Keys) {
        let plain = keys == (self.front.pair.remote, None);
        if !plain || self.rare.is_some() {
            self.rare_mut().keys = Some(keys).filter(|_| !plain);
        }
    }

    pub(crate) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Has it asked for a session with other keys from the beginning.
    pub(crate) fn try_anew(&mut self) {
        if let Some(rotation) = &mut self.rare {
            (rotation.next_try, rotation.tries) = (None, 0);
        }
    }

    /// How often it was asked.
    pub(crate) fn tries(&self) -> usize {
        self.rare.as_ref().map_or(0, |it| it.tries)
    }

    fn beside(&self) -> &[Tie] {
        self.rare.as_ref().map_or(&[], |it| &it.beside)
    }

    fn beside_mut(&mut self) -> &mut [Tie] {
        self.rare.as_mut().map_or(&mut [], |it| &mut it.beside)
    }

    /// All pairs there are, and their indices.
    pub(crate) fn names(&self) -> impl Iterator<Item = Name> {
        std::iter::once(self.front).chain(self.beside().iter().map(|tie| tie.name))
    }

    /// Whether there is a tie for that pair.
    pub(crate) fn has_tie(&self, pair: Ends) -> bool {
        self.names().any(|name| name.pair == pair)
    }

    /// Has a tie more, beside the one in front. It knows what the others know of the peer.
    pub(crate) fn tie(&mut self, now: Instant, name: Name, mut core: NoiseCore) {
        core.raise_stamps(self.stamps_for(name.pair));
        self.rare_mut().beside.push(Tie {
            name,
            core,
            since: now,
        });
    }

    /// Takes a tie away, which is not the one in front; what it knew is left to the others.
    pub(crate) fn untie(&mut self, pair: Ends) -> Option<(Name, Stamps)> {
        let beside = &mut self.rare.as_mut()?.beside;
        let at = beside.iter().position(|tie| tie.name.pair == pair)?;
        let tie = beside.swap_remove(at);
        let stamps = tie.core.stamps().unwrap_or_default();
        self.inherit(pair.remote, stamps);
        Some((tie.name, stamps))
    }

    /// Whether there is a tie of that key of the peer's.
    pub(crate) fn knows(&self, remote: PublicKey) -> bool {
        self.names().any(|name| name.pair.remote == remote)
    }

    pub(crate) fn has_ties(&self) -> bool {
        !self.beside().is_empty()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// Whether there is a session, or one is asked for.
    pub(crate) fn is_in_use(&self) -> bool {
        self.state != State::Idle || self.wants_session()
    }

    /// Whether it is us who call.
    pub(crate) const fn calls(&self) -> bool {
        self.always_up
    }

    /// What a peer without a core knows.
    pub(crate) fn take_stamps(&mut self) -> Stamps {
        match &mut self.core {
            NoiseCore::Asleep(known) => std::mem::take(known).stamps(),
            _ => Stamps::default(),
        }
    }

    /// Puts the tie of a pair in front that has no session yet, and drops the one that was there.
    pub(crate) fn put_forward(&mut self, now: Instant, pair: Ends) -> Option<Name> {
        let at = self.beside().iter().position(|tie| tie.name.pair == pair)?;
        let before = self.front.pair;
        self.come_forward(now, at);
        self.begin_anew();
        if self.core.has_session(now) {
            self.set_state(State::Connected);
        }
        self.untie(before).map(|(name, _)| name)
    }

    /// Ties beside the one in front that are of no use any more: without a session, and old enough
    /// for whatever they asked to have been answered.
    pub(crate) fn idle_ties(&self, now: Instant) -> impl Iterator<Item = Ends> {
        self.beside().iter().filter_map(move |tie| {
            let idle = !tie.core.has_session(now) && now.since(tie.since) >= super::REJECT;
            idle.then_some(tie.name.pair)
        })
    }

    /// Asks for a session with a pair that is not in front.
    pub(crate) fn try_tie(&mut self, now: Instant, pair: Ends, dst: &mut [u8]) -> Option<Message> {
        let to = self.endpoint?;
        let mut beside = self.beside_mut().iter_mut();
        let tie = beside.find(|tie| tie.name.pair == pair)?;
        tie.since = now;
        let length = tie.core.initiate(now, true, dst)?;
        self.counters.sent(length);
        Some(self.message(to, length))
    }

    /// Has the cores beside the one in front forget what is too old. What they would say stays unsaid:
    /// the one in front says it.
    pub(crate) fn tick_beside(&mut self, now: Instant, dst: &mut [u8]) {
        for tie in self.beside_mut() {
            let _ = tie.core.expire(now, dst);
        }
    }

    /// The highest stamps of each key of the peer's.
    pub(crate) fn all_stamps(&self) -> impl Iterator<Item = (PublicKey, Stamps)> {
        let front = (self.front.pair.remote, self.core.stamps());
        let beside = self.beside().iter();
        let beside = beside.map(|tie| (tie.name.pair.remote, tie.core.stamps()));
        let all = std::iter::once(front).chain(beside);
        all.map(|(key, stamps)| (key, stamps.unwrap_or_default()))
    }

    /// Takes over stamps of one of the peer's keys.
    pub(crate) fn inherit(&mut self, remote: PublicKey, stamps: Stamps) {
        if self.front.pair.remote == remote {
            self.core.raise_stamps(stamps);
        }
        for tie in self.beside_mut() {
            if tie.name.pair.remote == remote {
                tie.core.raise_stamps(stamps);
            }
        }
    }

    /// Has the core of a pair answer old initiations; false when it cannot.
    pub(crate) fn doubt(&mut self, now: Instant, pair: Ends) -> bool {
        let mut beside = self.beside_mut().iter_mut();
        match beside.find(|tie| tie.name.pair == pair) {
            Some(tie) => tie.core.doubt(now),
            None => self.core.doubt(now),
        }
    }

    /// Who is meant by a datagram, unless it is the tie in front.
    pub(super) fn beside_of(&self, kind: Kind, caller: Option<&Caller>) -> Option<usize> {
        let mut beside = self.beside().iter();
        match (kind, caller) {
            (Kind::Initiation, Some(caller)) => {
                let pair = Ends {
                    local: caller.local,
                    remote: caller.key,
                };
                beside.position(|tie| tie.name.pair == pair)
            }
            (Kind::Initiation, None) => None,
            (
                Kind::Response { receiver }
                | Kind::CookieReply { receiver }
                | Kind::Data { receiver, .. },
                _,
            ) => beside.position(|tie| tie.name.indices().any(|index| index == receiver >> 8)),
        }
    }

    /// Opens a datagram for a tie beside the one in front, which it may take the place of.
    pub(super) fn receive_beside(
        &mut self,
        now: Instant,
        (at, from): (usize, Way),
        (kind, caller): (Kind, Option<Caller>),
        datagram: &[u8],
        dst: &mut [u8],
    ) -> Result<Received, DropReason> {
        let rotation = self.rare.as_deref_mut();
        let tie = rotation.and_then(|it| it.beside.get_mut(at));
        let tie = tie.ok_or(DropReason::UnknownSession)?;
        let opened = tie.core.open(now, (kind, caller), datagram, dst);
        let authentic = opened.is_ok() || opened == Err(DropReason::NotIp);
        match kind {
            Kind::Data { receiver, counter } if authentic => {
                self.counters.received(now, datagram.len());
                self.unanswered = false;
                if tie.core.confirm(receiver) {
                    self.come_forward(now, at);
                    self.established(now, false);
                    self.place(now, from, (receiver, counter));
                }
                if let Some(question) = Self::questioned(opened, datagram, dst) {
                    return Ok(self.hear_question(now, from, question, 0, dst));
                }
            }
            Kind::Response { receiver } if opened.is_ok() => {
                self.counters.received_handshake(datagram.len());
                tie.core.answered(receiver);
                self.come_forward(now, at);
                self.meet(now, from.there);
                self.established(now, true);
                self.sent_at = now;
            }
            Kind::Initiation | Kind::CookieReply { .. } if opened.is_ok() => {
                tie.since = now;
                self.counters.received_handshake(datagram.len());
            }
            _ => {}
        }
        self.outcome(kind, from, opened?)
    }

    fn come_forward(&mut self, now: Instant, at: usize) {
        let Some(rotation) = self.rare.as_deref_mut() else {
            return;
        };
        let Some(tie) = rotation.beside.get_mut(at) else {
            return;
        };
        rotation.turned = Some(now);
        tie.since = now;
        std::mem::swap(&mut tie.core, &mut self.core);
        std::mem::swap(&mut tie.name, &mut self.front);
        self.heard = None;
    }

    /// What the others know that a new tie must not begin without.
    fn stamps_for(&self, pair: Ends) -> Stamps {
        let mut known = Stamps::default();
        for (remote, stamps) in self.all_stamps() {
            known.raise(Stamps {
                seen: stamps.seen.filter(|_| remote == pair.remote),
                sent: stamps.sent,
            });
        }
        known
    }
}
