//! One peer: its sessions, its timers, where it is.
//!
//! ```text
//!            packet, always-up            answered / confirmed by data
//!   Idle ────────────────────► Connecting ───────────────────────────► Connected
//!     ▲                            │ 90 s without answer                 │ 180 s old
//!     └────────────────────────────┴─────────────────────────────────────┘
//!        (an always-up peer starts again after 0–333 ms)
//! ```
//!
//! Where datagrams go is moved by authenticated *data* only. Handshakes are answered to where they
//! came from, but a replayed one must not lead the peer's traffic away.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use kedge_core::Instant;

use self::padding::padded;
use crate::{
    backlog::{Backlog, Budget},
    counters::{Counters, State},
    directory::PeerSpec,
    drops::DropReason,
    jitter::Jitter,
    noise::{Caller, NoiseCore, Opened, Session as Keys, Stamps, Tick},
    packet::ecn::Ecn,
    way::Way,
    wire::Kind,
};

use self::ties::Rare;
pub(crate) use self::ties::{Ends, Name};

/// One peer.
pub(crate) struct Peer {
    core: NoiseCore,
    /// Whose core that is.
    front: Name,
    rare: Option<Box<Rare>>,
    counters: Arc<Counters>,
    endpoint: Option<SocketAddr>,
    /// At which of our addresses it called us.
    here: Option<IpAddr>,
    /// Whether an initiation of ours was not answered so far.
    unanswered: bool,
    keepalive: Option<Duration>,
    always_up: bool,
    backlog: Backlog,
    /// The highest counter seen in the newest session.
    heard: Option<u64>,
    state: State,
    /// When the newest session began, and whether we asked for it.
    session: Option<Session>,
    sent_at: Instant,
    ticked_at: Instant,
    owed: Owed,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    since: Instant,
    initiator: bool,
}

/// What is to be sent as soon as there is a buffer for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    Nothing,
    Keepalive,
    Initiation,
}

/// A message at the start of the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) to: SocketAddr,
    pub(crate) from: Option<IpAddr>,
    pub(crate) length: usize,
    /// What its packet says of congestion.
    pub(crate) ecn: Ecn,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Nothing,
    Reply(Message),
    /// An inner packet of this length stands at the start of the buffer.
    Packet(usize),
}

impl Peer {
    /// A peer that has no core yet.
    pub(crate) fn new(
        front: Name,
        stamps: Stamps,
        spec: &PeerSpec,
        counters: Arc<Counters>,
        now: Instant,
    ) -> Self {
        counters.set_endpoint(spec.endpoint);
        Self {
            core: NoiseCore::Asleep(stamps.into()),
            front,
            rare: None,
            counters,
            endpoint: spec.endpoint,
            here: None,
            unanswered: false,
            keepalive: spec.keepalive,
            always_up: spec.always_up,
            backlog: Backlog::default(),
            heard: None,
            state: State::Idle,
            session: None,
            sent_at: now,
            ticked_at: now,
            owed: Owed::Nothing,
        }
    }

    /// The session to send with, of a core that shares it.
    pub(crate) fn session(&self, now: Instant) -> Option<Arc<Keys>> {
        self.core.session(now)
    }

    /// The highest stamps seen and sent, of a core that tells.
    pub(crate) fn stamps(&self) -> Option<Stamps> {
        self.core.stamps()
    }

    /// Takes over stamps from before.
    pub(crate) fn raise_stamps(&mut self, stamps: Stamps) {
        self.core.raise_stamps(stamps);
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) const fn state(&self) -> State {
        self.state
    }

    pub(crate) const fn endpoint(&self) -> Option<SocketAddr> {
        self.endpoint
    }

    /// Seals the packet of `length` bytes that stands in `slot` behind [`HEAD`](crate::noise::HEAD) bytes of room; the
    /// message then stands at the slot's start. Without a session the packet waits, and the message
    /// is an initiation.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        (slot, length): (&mut [u8], usize),
        mtu: usize,
        budget: &mut Budget,
        scratch: &mut [u8],
    ) -> Result<Option<Message>, DropReason> {
        self.refresh(now, budget, scratch);
        let to = self.endpoint.ok_or(DropReason::NoEndpoint)?;
        let padded = padded(slot, length, mtu)?;
        if self.state == State::Connected {
            let (length, ecn) = (padded.len(), Ecn::outside(padded));
            let length = self.core.seal_in_place(now, slot, length, scratch)?;
            self.sent_at = now;
            self.counters.sent(length);
            self.counters.carried();
            return Ok(Some(self.message(to, length).with(ecn)));
        }
        let kept = self.backlog.push(budget, padded);
        let initiation = self.initiate(now, false, slot);
        // The initiation goes out although the oldest packet did not survive.
        if let Err(reason) = kept {
            self.counters.drops.count(reason);
        }
        Ok(initiation)
    }

    /// Opens a datagram for one of this peer's indices, or an initiation of its key with what is
    /// known of it.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        from: Way,
        (kind, caller): (Kind, Option<Caller>),
        datagram: &[u8],
        budget: &mut Budget,
        dst: &mut [u8],
    ) -> Result<Received, DropReason> {
        self.refresh(now, budget, dst);
        if let Some(at) = self.beside_of(kind, caller.as_ref()) {
            return self.receive_beside(now, (at, from), (kind, caller), datagram, dst);
        }
        let opened = self.core.open(now, (kind, caller), datagram, dst);
        if matches!(kind, Kind::Data { .. })
            && self.state == State::Connected
            && let Some(question) = Self::questioned(opened, datagram, dst)
        {
            return Ok(self.hear_question(now, from, question, datagram.len(), dst));
        }
        // A data message whose content is no IP packet was authentic all the same.
        let authentic = opened.is_ok() || opened == Err(DropReason::NotIp);
        match kind {
            Kind::Data { receiver, counter } if authentic => {
                self.heard(now, from, (receiver, counter), datagram.len());
            }
            Kind::Response { receiver } if opened.is_ok() => {
                self.counters.received_handshake(datagram.len());
                self.core.answered(receiver);
                self.heard = None;
                self.meet(now, from.there);
                self.established(now, true);
                self.sent_at = now;
            }
            Kind::Initiation if opened.is_ok() => {
                self.counters.received_handshake(datagram.len());
            }
            Kind::CookieReply { .. } if opened.is_ok() => {
                self.counters.received_handshake(datagram.len());
                // The core would wait out its five seconds before it uses the cookie.
                if opened == Ok(Opened::Cookie) {
                    self.owe(Owed::Initiation);
                }
            }
            _ => {}
        }
        self.outcome(kind, from, opened?)
    }

    /// Does what is due, at most one message at a time.
    pub(crate) fn tick(
        &mut self,
        now: Instant,
        jitter: &mut Jitter,
        budget: &mut Budget,
        dst: &mut [u8],
    ) -> Option<Message> {
        self.tick_beside(now, dst);
        self.grant(now);
        let ticked = self.tick_core(now, budget, dst);
        if let Tick::Send(length) = ticked {
            self.asks();
            self.counters.sent(length);
            let to = self.endpoint?;
            return Some(self.message(to, length));
        }
        let to = self.endpoint?;
        if self.state != State::Connected && self.wants_session() {
            if !self.core.is_expired() {
                return self.initiate(now, false, dst);
            }
            // Peers that gave up together must not come back together.
            let rearm_at = &mut self.rare_mut().rearm_at;
            let at = *rearm_at.get_or_insert_with(|| now + jitter.up_to(JITTER));
            if now < at {
                return None;
            }
            *rearm_at = None;
            return self.initiate(now, false, dst);
        }
        let session = self.session.filter(|_| self.state == State::Connected)?;
        if self.always_up && session.initiator && now.since(session.since) >= REKEY {
            // The core re-keys only when data was sent; an idle session would end with a gap.
            if let Some(message) = self.initiate(now, false, dst) {
                return Some(message);
            }
        }
        if self
            .keepalive
            .is_some_and(|interval| now.since(self.sent_at) >= interval)
        {
            let length = self.seal(now, &[], dst).ok()?;
            return Some(self.message(to, length));
        }
        None
    }

    /// What is owed or waits, one message at a time, until `None`.
    pub(crate) fn flush(
        &mut self,
        now: Instant,
        budget: &mut Budget,
        dst: &mut [u8],
    ) -> Option<Message> {
        let to = self.endpoint?;
        let owed = std::mem::replace(&mut self.owed, Owed::Nothing);
        if owed == Owed::Initiation
            && let Some(message) = self.initiate(now, true, dst)
        {
            return Some(message);
        }
        if self.state != State::Connected {
            return None;
        }
        if let Some(packet) = self.backlog.pop(budget) {
            return match self.seal(now, &packet, dst) {
                Ok(length) => {
                    self.counters.carried();
                    Some(self.message(to, length).with(Ecn::outside(&packet)))
                }
                Err(reason) => {
                    self.counters.drops.count(reason);
                    None
                }
            };
        }
        if owed == Owed::Keepalive {
            let length = self.seal(now, &[], dst).ok()?;
            return Some(self.message(to, length));
        }
        None
    }

    /// When to tick next: soon while something goes on, rarely else, and never without a core.
    pub(crate) fn next_tick(&self, now: Instant, jitter: &mut Jitter) -> Instant {
        let granted = self.put_off_until().unwrap_or(Instant::FAR);
        if self.core.is_asleep() {
            return granted;
        }
        let busy = self.state != State::Idle || self.wants_session();
        let usual = now + if busy { ACTIVE } else { DORMANT } + jitter.up_to(JITTER);
        let retry = self.core.retry_at().filter(|at| *at > now);
        retry.map_or(usual, |at| at.min(usual)).min(granted)
    }

    /// Whether [`flush`](Self::flush) may have something.
    pub(crate) fn has_more(&self) -> bool {
        let waits = self.state == State::Connected && !self.backlog.is_empty();
        self.endpoint.is_some() && (waits || self.owed != Owed::Nothing)
    }

    /// An authentic data message came: the peer is alive, and there.
    fn heard(&mut self, now: Instant, from: Way, (receiver, counter): (u32, u64), length: usize) {
        self.counters.received(now, length);
        self.unanswered = false;
        if self.core.confirm(receiver) {
            self.heard = None;
            self.established(now, false);
        } else if self.state != State::Connected && self.core.has_session(now) {
            self.set_state(State::Connected);
        }
        self.place(now, from, (receiver, counter));
    }

    /// Takes note of where the newest message of the newest session came from.
    fn place(&mut self, now: Instant, from: Way, (receiver, counter): (u32, u64)) {
        if !self.core.is_newest(now, receiver)
            || self.heard.is_some_and(|highest| counter <= highest)
        {
            return;
        }
        self.heard = Some(counter);
        let moved_at = self.rare.as_ref().and_then(|it| it.moved_at);
        let settled = moved_at.is_none_or(|at| now.since(at) >= MOVE_PAUSE);
        if self.endpoint != Some(from.there) && settled {
            self.move_to(now, from.there);
        }
        self.called_at(from);
    }

    fn established(&mut self, now: Instant, initiator: bool) {
        self.session = Some(Session {
            since: now,
            initiator,
        });
        self.unanswered = false;
        if let Some(rare) = &mut self.rare {
            rare.rearm_at = None;
            // What was wanted is there.
            rare.wished = false;
        }
        self.counters.handshake_completed(now);
        self.set_state(State::Connected);
    }

    fn seal(&mut self, now: Instant, inner: &[u8], dst: &mut [u8]) -> Result<usize, DropReason> {
        let length = self.core.seal(now, inner, dst)?;
        self.sent_at = now;
        self.counters.sent(length);
        Ok(length)
    }

    fn initiate(&mut self, now: Instant, force: bool, dst: &mut [u8]) -> Option<Message> {
        let to = self.endpoint?;
        let length = self.core.initiate(now, force, dst)?;
        self.asks();
        self.counters.sent(length);
        if self.state == State::Idle {
            self.set_state(State::Connecting);
        }
        Some(self.message(to, length))
    }

    /// Looks at the age of the sessions before they are used: a thread that slept must not seal
    /// with keys that are too old, and a packet that comes too late for them waits for the next.
    /// A message that falls due is made again at the next flush.
    fn refresh(&mut self, now: Instant, budget: &mut Budget, dst: &mut [u8]) {
        let lapsed = self.state == State::Connected && self.core.has_lapsed(now);
        if now.since(self.ticked_at) < STALE && !lapsed {
            return;
        }
        let tick = self.core.expire(now, dst);
        self.ticked(now, tick, budget);
        if let Tick::Send(_) = tick {
            self.owe(Owed::Initiation);
        }
    }

    fn tick_core(&mut self, now: Instant, budget: &mut Budget, dst: &mut [u8]) -> Tick {
        let tick = self.core.tick(now, dst);
        self.ticked(now, tick, budget);
        tick
    }

    fn ticked(&mut self, now: Instant, tick: Tick, budget: &mut Budget) {
        self.ticked_at = now;
        if tick == Tick::Expired {
            let waiting = self.backlog.clear(budget);
            self.counters.drops.count_many(DropReason::Expired, waiting);
            self.set_state(State::Idle);
        } else if self.state == State::Connected && !self.core.has_session(now) {
            self.set_state(State::Idle);
        }
    }

    fn wants_session(&self) -> bool {
        self.always_up || self.keepalive.is_some() || !self.backlog.is_empty()
    }

    fn owe(&mut self, owed: Owed) {
        if self.owed != Owed::Initiation {
            self.owed = owed;
        }
    }

    pub(crate) fn set_endpoint(&mut self, endpoint: SocketAddr) {
        self.endpoint = Some(endpoint);
        self.here = None;
        self.counters.set_endpoint(Some(endpoint));
    }

    fn set_state(&mut self, state: State) {
        if state == State::Idle {
            self.core.forget_confirmed();
        }
        self.state = state;
        self.counters.set_state(state);
    }
}

/// From one tick to the next while there is a session or one is wanted, before jitter.
const ACTIVE: Duration = Duration::from_millis(100);
/// The same for a peer nobody talks to.
const DORMANT: Duration = Duration::from_secs(1);
/// WireGuard's own: re-keys and retries of many peers spread over a third of a second.
const JITTER: Duration = Duration::from_millis(333);
/// Without a tick for so long the age of a session is unknown.
const STALE: Duration = Duration::from_secs(1);
/// When a session is replaced (REKEY_AFTER_TIME).
const REKEY: Duration = Duration::from_secs(120);
/// Nothing that was sealed longer ago is opened (REJECT_AFTER_TIME).
pub(crate) const REJECT: Duration = Duration::from_secs(180);
/// A peer moves at most once in this time.
const MOVE_PAUSE: Duration = Duration::from_secs(1);
/// A handshake is forced at most once in this time; a wish for another one waits for its end.
const FORCE_PAUSE: Duration = Duration::from_millis(300);
/// So long after the last one that we asked for: peers answer no two within 20 ms, here and elsewhere.
const CALL_PAUSE: Duration = Duration::from_millis(50);

mod asleep;
mod doubt;
mod here;
mod live;
mod padding;
mod question;
mod ties;
mod whole;
