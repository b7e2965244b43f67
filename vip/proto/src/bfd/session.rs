//! The session itself: what it knows, which inputs it takes, and its deadlines.

use std::collections::VecDeque;

use kedge_core::{
    Instant, Machine,
    bfd::{Liveness, SessionState},
};

use super::{
    Because, Command, Config, Event, Input, Output, Reject, Remote, Stats, View,
    poll::{Poll, Timers},
    timing::Span,
};
use crate::{
    dice::Dice,
    wire::bfd::{Control, Diagnostic, Discriminator, Interval},
};

/// One BFD session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub(super) config: Config,
    pub(super) local: Discriminator,
    pub(super) state: SessionState,
    pub(super) liveness: Liveness,
    pub(super) diagnostic: Diagnostic,
    pub(super) remote: Remote,
    /// What our packets say.
    pub(super) said: Timers,
    /// What is in force: the peer may not know of what is said yet.
    pub(super) used: Timers,
    pub(super) poll: Poll,
    /// When a packet went last, other than an answer to a poll.
    pub(super) sent_at: Option<Instant>,
    /// When the next packet goes.
    pub(super) tx: Option<Span>,
    pub(super) detect_at: Option<Instant>,
    /// Until when it leaves.
    pub(super) leaves_at: Option<Instant>,
    pub(super) ended: bool,
    pub(super) dice: Dice,
    /// What shortens the interval under way.
    pub(super) draw: u32,
    pub(super) stats: Stats,
    since: Instant,
    because: Because,
    outputs: VecDeque<Output>,
}

impl Session {
    /// A session that begins at `now`. `local` is unique on this host and hard to guess, `seed` is
    /// any number: it spreads the packets.
    #[must_use]
    pub fn new(now: Instant, config: Config, local: Discriminator, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let draw = dice.roll();
        let timers = Timers {
            tx: config.desired_min_tx.max(Interval::SLOW),
            rx: config.required_min_rx,
        };
        let (state, because, diagnostic) = if config.shutdown {
            let state = SessionState::AdminDown;
            (state, Because::Shutdown, Diagnostic::ADMIN_DOWN)
        } else {
            (SessionState::Down, Because::Started, Diagnostic::NONE)
        };
        let mut session = Self {
            config,
            local,
            state,
            liveness: Liveness::Unknown,
            diagnostic,
            remote: Remote::SILENT,
            said: timers,
            used: timers,
            poll: Poll::Idle,
            sent_at: None,
            tx: None,
            detect_at: None,
            leaves_at: None,
            ended: false,
            dice,
            draw,
            stats: Stats::default(),
            since: now,
            because,
            outputs: VecDeque::with_capacity(OUTPUTS),
        };
        session.schedule(now);
        session
    }

    /// Our number of it.
    #[must_use]
    pub const fn local(&self) -> Discriminator {
        self.local
    }

    /// How it runs.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Its state.
    #[must_use]
    pub const fn state(&self) -> SessionState {
        self.state
    }

    /// What it says about the path.
    #[must_use]
    pub const fn liveness(&self) -> Liveness {
        self.liveness
    }

    /// What it shows.
    #[must_use]
    pub fn view(&self) -> View {
        View {
            state: self.state,
            liveness: self.liveness,
            since: self.since,
            because: self.because,
            local: self.local,
            diagnostic: self.diagnostic,
            transmit_interval: self.interval().duration(),
            detection_time: self.remote.heard_at.map(|_| self.detection()),
            polling: self.poll != Poll::Idle,
            remote: self.remote,
            stats: self.stats,
        }
    }

    /// Goes to a state and tells the peer at once (RFC 5880 section 6.8.7), unless an answer that
    /// is due anyway does.
    pub(super) fn go(&mut self, now: Instant, to: SessionState, because: Because) {
        let from = self.state;
        self.state = to;
        self.since = now;
        self.because = because;
        self.diagnostic = diagnostic(because).unwrap_or(self.diagnostic);
        let liveness = self.judged(from, because);
        match (self.liveness, liveness) {
            (Liveness::Alive, Liveness::Lost) => {
                self.stats.losses = self.stats.losses.saturating_add(1);
            }
            (_, Liveness::Alive) => self.stats.ups = self.stats.ups.saturating_add(1),
            _ => {}
        }
        self.liveness = liveness;
        self.outputs.push_back(Output::Event(Event {
            from,
            to,
            liveness,
            because,
        }));
        self.retime(now);
    }

    /// Hears that the peer was told to stop while nothing else changes.
    pub(super) fn excuse(&mut self) {
        if self.liveness == Liveness::Lost {
            self.liveness = Liveness::Unknown;
            self.because = Because::PeerAdminDown;
            self.outputs.push_back(Output::Event(Event {
                from: self.state,
                to: self.state,
                liveness: self.liveness,
                because: self.because,
            }));
        }
    }

    /// Only what was up can be lost, and not by an order (RFC 5882 section 3.2).
    fn judged(&self, from: SessionState, because: Because) -> Liveness {
        match because {
            Because::PeerAdminDown
            | Because::Shutdown
            | Because::Stopped
            | Because::Enabled
            | Because::Started => Liveness::Unknown,
            Because::BothHear => Liveness::Alive,
            Because::PeerDown { .. } | Because::Expired { .. } if from == SessionState::Up => {
                Liveness::Lost
            }
            Because::PeerHeard | Because::PeerDown { .. } | Because::Expired { .. } => {
                self.liveness
            }
        }
    }

    /// Sends a packet of its own accord.
    pub(super) fn send(&mut self, now: Instant) {
        let poll = self.poll != Poll::Idle;
        if poll {
            self.poll = Poll::Asked;
        }
        self.put(poll, false);
        self.sent_at = Some(now);
        self.draw = self.dice.roll();
        self.schedule(now);
    }

    /// Answers a poll: at once, whatever the schedule says.
    pub(super) fn answer(&mut self) {
        self.put(false, true);
    }

    fn put(&mut self, poll: bool, fin: bool) {
        self.stats.sent = self.stats.sent.saturating_add(1);
        self.outputs.push_back(Output::Send(Control {
            diagnostic: self.diagnostic,
            state: self.state,
            poll,
            fin,
            independent: false,
            demand: false,
            multiplier: self.config.multiplier,
            my: self.local,
            your: self.remote.discriminator,
            desired_min_tx: self.said.tx,
            required_min_rx: self.said.rx,
            required_min_echo_rx: Interval::ZERO,
        }));
    }

    fn configure(&mut self, now: Instant, config: Config) {
        if self.config == config {
            return;
        }
        let before = std::mem::replace(&mut self.config, config);
        let said = (self.said, before.multiplier);
        match (before.shutdown, config.shutdown) {
            (false, true) => self.go(now, SessionState::AdminDown, Because::Shutdown),
            (true, false) => self.go(now, SessionState::Down, Because::Enabled),
            (false, false) | (true, true) => self.retime(now),
        }
        // Nobody waits for the end of a long interval to learn what is new.
        let news = before.shutdown != config.shutdown || said != (self.said, config.multiplier);
        if news && self.tx.is_some() {
            self.send(now);
        }
    }

    fn stop(&mut self, now: Instant) {
        self.config.shutdown = true;
        if self.remote.discriminator.is_none() {
            // Nobody is there to be told.
            return self.end();
        }
        if self.state != SessionState::AdminDown {
            self.go(now, SessionState::AdminDown, Because::Stopped);
        }
        self.leaves_at = Some(now + self.their_detection());
        self.send(now);
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
        (self.tx, self.detect_at, self.leaves_at) = (None, None, None);
        self.outputs.push_back(Output::Ended);
    }

    fn expire(&mut self, now: Instant) {
        let silent = self
            .remote
            .heard_at
            .map_or_else(Default::default, |at| now.since(at));
        let limit = self.detection();
        self.remote = Remote::SILENT;
        match self.state {
            SessionState::Init | SessionState::Up => {
                self.go(now, SessionState::Down, Because::Expired { silent, limit });
                // It may hear us still.
                self.send(now);
            }
            SessionState::Down | SessionState::AdminDown => self.retime(now),
        }
    }

    /// After how much silence the peer calls us gone.
    fn their_detection(&self) -> std::time::Duration {
        self.interval().duration() * u32::from(self.config.multiplier.get())
    }
}

impl Machine for Session {
    type Input = Input;
    type Output = Output;
    type Reject = Reject;

    fn handle_input(&mut self, now: Instant, input: Input) -> Result<(), Reject> {
        if self.ended {
            return Err(Reject::Ended);
        }
        match input {
            Input::Packet(received) => self.receive(now, &received),
            Input::Config(_) | Input::Command(_) if self.leaves_at.is_some() => Err(Reject::Ended),
            Input::Config(config) => {
                self.configure(now, config);
                Ok(())
            }
            Input::Command(Command::Stop) => {
                self.stop(now);
                Ok(())
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.leaves_at) {
            return self.end();
        }
        if due(self.detect_at) {
            self.expire(now);
        }
        if due(self.tx.map(|tx| tx.opens)) {
            self.send(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let closes = self.tx.map(|tx| tx.closes);
        let all = [closes, self.detect_at, self.leaves_at];
        all.into_iter().flatten().min()
    }
}

const fn diagnostic(because: Because) -> Option<Diagnostic> {
    match because {
        Because::Expired { .. } => Some(Diagnostic::EXPIRED),
        Because::PeerDown { .. } | Because::PeerAdminDown => Some(Diagnostic::NEIGHBOR_DOWN),
        Because::Shutdown | Because::Stopped => Some(Diagnostic::ADMIN_DOWN),
        Because::BothHear | Because::Started | Because::Enabled => Some(Diagnostic::NONE),
        // The peer still learns from us why we were down.
        Because::PeerHeard => None,
    }
}

/// What one input leads to at most: an answer, a packet, an event, the end.
const OUTPUTS: usize = 4;
