//! A configured session: its machine, its socket, and what is noted about it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, SystemTime},
};

use kedge_core::{
    Instant, Machine, Problem,
    bfd::{Liveness, SessionState},
};
use kedge_net::bfd::{self, Arrival, Sender, Way};
use kedge_vip_proto::{
    bfd::{Command, Config, Event, Input, Output, Received, Reject, Session},
    wire::bfd::{Control, Discriminator, Packet},
};

use super::{BfdEvent, BfdSnapshot, BfdSpec, Level, demux::Place, pace::Pace, problems};

/// A session, and what is noted about it.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) spec: BfdSpec,
    session: Session,
    sender: Option<Sender>,
    /// From where on a port is looked for; the one it had, once it had one.
    port: u16,
    /// Why there is no sender.
    trouble: Option<Problem>,
    /// Since when it says nothing of the path.
    unknown_since: Instant,
    changed: SystemTime,
    refused: BTreeMap<&'static str, u64>,
    last_refusal: Option<(Reject, Instant)>,
    /// The TTL of the last packet that had too low a one.
    far: Option<(u8, Instant)>,
    /// What the kernel answered to the last packet, if it did not send it.
    unsent: Option<i32>,
    losses: VecDeque<Instant>,
}

/// What came of an input or a timeout.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) events: Vec<BfdEvent>,
    pub(super) ended: bool,
    /// Its socket went: it is to be opened anew.
    pub(super) broken: bool,
}

impl Instance {
    /// A session that begins; `config` is the one to run with, which may differ from the wanted
    /// one.
    pub(super) fn new(
        now: Instant,
        spec: BfdSpec,
        config: Config,
        local: Discriminator,
        seed: u64,
    ) -> Self {
        let spread = u16::try_from(seed % u64::from(PORTS)).unwrap_or_default();
        Self {
            session: Session::new(now, config, local, seed),
            spec,
            sender: None,
            port: FIRST_PORT.saturating_add(spread),
            trouble: None,
            unknown_since: now,
            changed: SystemTime::now(),
            refused: BTreeMap::new(),
            last_refusal: None,
            far: None,
            unsent: None,
            losses: VecDeque::new(),
        }
    }

    pub(super) fn local(&self) -> Discriminator {
        self.session.local()
    }

    /// When it has something due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.session.poll_timeout()
    }

    /// When it has something to do already, if anybody is awake.
    pub(super) fn ready_at(&self) -> Option<Instant> {
        self.session.ready_at()
    }

    /// When it has not come up for so long that it is worth a word.
    pub(super) fn notice_at(&self) -> Option<Instant> {
        let is_unknown = self.session.liveness() == Liveness::Unknown;
        let is_awaited = is_unknown && !self.spec.config.shutdown && self.trouble.is_none();
        (is_awaited && !self.spec.on_request).then(|| self.unknown_since + COMES_UP)
    }

    pub(super) const fn has_socket(&self) -> bool {
        self.sender.is_some()
    }

    /// Opens its socket, if it has none. `receiving` is why nothing can be received.
    pub(super) fn open(&mut self, receiving: Option<&Problem>) {
        if let Some(problem) = receiving {
            self.sender = None;
            self.trouble = Some(problem.clone());
            return;
        }
        if self.sender.is_some() {
            return;
        }
        let way = Way {
            peer: self.spec.peer,
            port: self.spec.port(),
            interface: self.spec.interface.as_deref(),
            source: self.spec.source,
        };
        let ports = (self.port..=u16::MAX).chain(FIRST_PORT..self.port);
        let open = || Sender::open(&way, ports.take(TRIES));
        match bfd::within(self.spec.inside.as_deref(), open) {
            Ok(sender) => {
                self.port = sender.port();
                self.sender = Some(sender);
                self.trouble = None;
            }
            Err(error) => self.trouble = Some(problems::socket(&self.spec.name, &error)),
        }
    }

    /// Whether a packet that names nobody is for this session.
    pub(super) fn is_meant(&self, arrival: &Arrival, (inside, port): &Place) -> bool {
        let sender = self.sender.as_ref();
        let interface = sender.and_then(Sender::ifindex);
        self.spec.port() == *port
            && self.spec.inside == *inside
            && self.spec.peer == arrival.from
            && interface.is_none_or(|index| index == arrival.ifindex)
            && (self.spec.source.is_none() || self.spec.source == arrival.to)
    }

    /// Takes a packet of this session.
    pub(super) fn take(&mut self, now: Instant, arrival: &Arrival, packet: &Packet<'_>) -> Outcome {
        let ttl = arrival.ttl.unwrap_or_default();
        let received = Received {
            ttl,
            sealed: packet.auth.is_some(),
            control: packet.control,
        };
        let given = self.give(now, Input::Packet(received));
        given.unwrap_or_else(|reject| {
            self.count(reject.label());
            self.last_refusal = Some((reject, now));
            if reject == Reject::Ttl {
                self.far = Some((ttl, now));
            }
            Outcome::default()
        })
    }

    pub(super) fn count(&mut self, reason: &'static str) {
        let count = self.refused.entry(reason).or_default();
        *count = count.saturating_add(1);
    }

    /// Runs with a configuration from here on.
    pub(super) fn configure(&mut self, now: Instant, config: Config) -> Outcome {
        self.give(now, Input::Config(config)).unwrap_or_default()
    }

    pub(super) fn stop(&mut self, now: Instant) -> Outcome {
        let given = self.give(now, Input::Command(Command::Stop));
        given.unwrap_or(Outcome {
            ended: true,
            ..Outcome::default()
        })
    }

    pub(super) fn timeout(&mut self, now: Instant) -> Outcome {
        if self.ready_at().is_none_or(|ready| ready > now) {
            return Outcome::default();
        }
        self.session.handle_timeout(now);
        self.drain(now)
    }

    fn give(&mut self, now: Instant, input: Input) -> Result<Outcome, Reject> {
        self.session.handle_input(now, input)?;
        Ok(self.drain(now))
    }

    fn drain(&mut self, now: Instant) -> Outcome {
        let mut outcome = Outcome::default();
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(control) => outcome.broken |= !self.send(&control),
                Output::Event(event) => {
                    outcome.events.push(self.note(now, &event));
                }
                Output::Ended => outcome.ended = true,
            }
        }
        outcome
    }

    fn note(&mut self, now: Instant, event: &Event) -> BfdEvent {
        self.changed = SystemTime::now();
        match event.liveness {
            Liveness::Unknown => self.unknown_since = now,
            Liveness::Alive => {
                self.last_refusal = None;
            }
            Liveness::Lost if event.from == SessionState::Up => self.losses.push_back(now),
            Liveness::Lost => {}
        }
        let fresh = |at: &Instant| now.since(*at) < FLAPPING;
        while self.losses.len() > MANY || self.losses.front().is_some_and(|at| !fresh(at)) {
            self.losses.pop_front();
        }
        BfdEvent {
            name: self.spec.name.clone(),
            from: event.from,
            to: event.to,
            liveness: event.liveness,
            because: event.because.to_string(),
            at: self.changed,
            boottime: now,
        }
    }

    /// Sends a packet; whether the socket is good for more.
    fn send(&mut self, control: &Control) -> bool {
        let is_up = control.state == SessionState::Up;
        let Some(sender) = &self.sender else {
            return false;
        };
        let interface = self.spec.interface.as_deref();
        // Asked where it costs a call a second at most.
        let moved = !is_up && interface.is_some_and(|name| !sender.is_on(name));
        match sender.send(&control.emit()) {
            Ok(()) => self.unsent = None,
            Err(error) => self.unsent = error.raw_os_error(),
        }
        let good = !moved && (is_up || self.unsent.is_none());
        if !good {
            self.sender = None;
        }
        good
    }

    pub(super) fn level(&self) -> Level {
        let view = self.session.view();
        Level {
            state: view.state,
            liveness: view.liveness,
            peer_leaves: self.peer_leaves(),
            because: view.because.to_string(),
        }
    }

    /// Whether the peer says that it was told to stop.
    pub(super) fn peer_leaves(&self) -> bool {
        let remote = self.session.view().remote;
        remote.heard_at.is_some() && remote.state == SessionState::AdminDown
    }

    pub(super) fn snapshot(&self, now: Instant, pace: &Pace) -> BfdSnapshot {
        BfdSnapshot {
            spec: self.spec.clone(),
            view: self.session.view(),
            since: self.changed,
            port: self.sender.as_ref().map(Sender::port),
            refused: self.refused.clone(),
            problems: self.problems(now, pace),
        }
    }

    fn problems(&self, now: Instant, pace: &Pace) -> Vec<Problem> {
        if self.spec.on_request {
            return Vec::new();
        }
        let view = self.session.view();
        let name = &self.spec.name;
        let recent = |at: Instant| now.since(at) < NOTICE_LASTS;
        let mut problems: Vec<Problem> = self.trouble.iter().cloned().collect();
        if view.liveness == Liveness::Lost {
            problems.push(problems::lost(name, &view));
        }
        if self.notice_at().is_some_and(|due| due <= now) {
            let refused = self.last_refusal.filter(|(_, at)| recent(*at));
            let refused = refused.map(|(reject, _)| reject);
            problems.push(problems::not_up(&self.spec, &view, refused, self.unsent));
        }
        if let Some((ttl, _)) = self.far.filter(|(_, at)| recent(*at)) {
            problems.push(problems::ttl(&self.spec, ttl));
        }
        let losses = self.losses.iter();
        let losses = losses.filter(|at| now.since(**at) < FLAPPING).count();
        if losses >= FLAPS {
            problems.push(problems::flaps(name, losses, FLAPPING));
        }
        if let Some(why) = pace.refusal(&self.spec.config) {
            problems.push(problems::too_fast(&self.spec, why));
        }
        problems
    }
}

/// Sessions by name, for readers.
pub(super) type Snapshots = Arc<Vec<BfdSnapshot>>;

/// RFC 5881 section 4.
const FIRST_PORT: u16 = 49_152;
const PORTS: u16 = u16::MAX - FIRST_PORT;
/// As good as every port, without looking through them all while a host has none left.
const TRIES: usize = 64;
/// How long a session may take to come up before that is worth a word.
const COMES_UP: Duration = Duration::from_secs(10);
/// How long something that happened once counts as a problem.
const NOTICE_LASTS: Duration = Duration::from_secs(90);
const FLAPPING: Duration = Duration::from_secs(600);
const FLAPS: usize = 3;
/// More losses than that are not counted.
const MANY: usize = 100;
