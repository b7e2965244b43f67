//! The asking side of the echo.
//!
//! ```text
//!              answer                    3 misses
//!   Unknown ───────────► Up ─────────────────────────► Down
//!      │                 ▲  (a miss probes again at    │ ▲ probes go on, every second miss
//!      │ 3 misses        │   once, not a second later) │ │ forces a handshake again
//!      └──────────► Down └────────── answer ───────────┘ ┘
//! ```
//!
//! With the default of one second, 500 ms and three misses a gateway that forgot its keys is found
//! at most 1 + 3 × 0.5 s after it did.

use std::{collections::VecDeque, time::Duration};

use kedge_core::{Instant, Machine};

use super::Message;

/// How often to ask and when to worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// From one probe to the next while answers come.
    pub interval: Duration,
    /// The shortest wait for an answer; four round trips when that is longer, never more than the
    /// interval.
    pub timeout: Duration,
    /// Misses in a row that mean "the session is gone".
    pub misses: u32,
}

/// What can happen to the prober.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A message arrived from the peer's overlay address.
    Received(Message),
    /// The path may have changed (link up, new address): ask at once. A wait for an answer that
    /// has begun goes on, so that many of these do not hide a dead peer.
    Ask,
}

/// What the shell must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this to the peer's overlay address.
    Send(Message),
    /// The session is dead: start a handshake whatever the timers say.
    ForceHandshake,
    /// The first answer after none.
    Up {
        /// The round trip through the tunnel.
        rtt: Duration,
    },
    /// The last of the misses in a row that mean "gone".
    Down,
}

/// Why a message was refused; also the label of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// A probe where an answer was expected.
    #[error("not an answer")]
    NotAnAnswer,
    /// An answer to another process or prober.
    #[error("foreign session")]
    Session,
    /// An answer to what was not asked, was answered already or is long ago.
    #[error("unexpected answer")]
    Unexpected,
}

/// What the prober knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether the peer answers: `None` before the first verdict.
    pub up: Option<bool>,
    /// The smoothed round trip.
    pub rtt: Option<Duration>,
    /// Probes sent.
    pub sent: u64,
    /// Answers received.
    pub answered: u64,
    /// Misses in a row.
    pub misses: u32,
    /// Of the last 32 finished probes, how many were missed, in percent.
    pub loss_percent: u8,
    /// When the last answer came.
    pub last_answer: Option<Instant>,
    /// Handshakes forced.
    pub forced: u64,
}

/// The asking side of the echo, for one peer.
#[derive(Debug)]
pub struct Prober {
    config: Config,
    session: u64,
    /// Sequence number of the next probe.
    next: u64,
    next_at: Instant,
    waiting: Option<Waiting>,
    /// Probes that may still be answered, oldest first.
    open: VecDeque<(u64, Instant)>,
    /// The last 32 results, newest in bit 0; a set bit is a miss.
    history: u32,
    finished: u32,
    report: Report,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The oldest probe that has not finished; an answer to a later one finishes it too.
    sequence: u64,
    until: Instant,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            timeout: Duration::from_millis(500),
            misses: 3,
        }
    }
}

impl Prober {
    /// A prober that asks for the first time at `now`; `session` is random.
    #[must_use]
    pub fn new(config: Config, session: u64, now: Instant) -> Self {
        let shortest = Duration::from_millis(1);
        let config = Config {
            interval: config.interval.max(shortest),
            timeout: config.timeout.max(shortest),
            misses: config.misses.max(1),
        };
        Self {
            config,
            session,
            next: 0,
            next_at: now,
            waiting: None,
            open: VecDeque::with_capacity(REMEMBERED),
            history: 0,
            finished: 0,
            report: Report::default(),
            outputs: VecDeque::with_capacity(4),
        }
    }

    /// What is known about the peer.
    #[must_use]
    pub fn report(&self) -> Report {
        let seen = self.finished.min(u32::BITS);
        let missed = self.history.count_ones();
        let percent = (missed * 100).checked_div(seen).unwrap_or_default();
        Report {
            loss_percent: u8::try_from(percent).unwrap_or(100),
            ..self.report
        }
    }

    fn answered(&mut self, now: Instant, message: Message) -> Result<(), Reject> {
        if !message.is_answer {
            return Err(Reject::NotAnAnswer);
        }
        if message.session != self.session {
            return Err(Reject::Session);
        }
        let position = self
            .open
            .iter()
            .position(|(sequence, _)| *sequence == message.sequence);
        let (_, sent_at) = position
            .and_then(|at| self.open.remove(at))
            .ok_or(Reject::Unexpected)?;
        if self
            .waiting
            .is_some_and(|waiting| waiting.sequence <= message.sequence)
        {
            self.waiting = None;
            self.finish(false);
        }
        let rtt = now.since(sent_at);
        self.report.answered += 1;
        self.report.misses = 0;
        self.report.last_answer = Some(now);
        if self.report.up == Some(true) {
            let smoothed = self.report.rtt.map_or(rtt, |known| (known * 7 + rtt) / 8);
            self.report.rtt = Some(smoothed);
        } else {
            // The first probe may have waited for a handshake: its time says nothing of the path.
            self.report.rtt = None;
            self.report.up = Some(true);
            self.outputs.push_back(Output::Up { rtt });
        }
        Ok(())
    }

    fn missed(&mut self, now: Instant) {
        self.finish(true);
        self.report.misses = self.report.misses.saturating_add(1);
        self.next_at = now;
        let Some(beyond) = self.report.misses.checked_sub(self.config.misses) else {
            return;
        };
        if self.report.up != Some(false) {
            self.report.up = Some(false);
            self.outputs.push_back(Output::Down);
        }
        let pace = if beyond < PATIENCE { 2 } else { 10 };
        if beyond.is_multiple_of(pace) {
            self.report.forced += 1;
            self.outputs.push_back(Output::ForceHandshake);
        }
    }

    fn finish(&mut self, missed: bool) {
        self.history = self.history << 1 | u32::from(missed);
        self.finished = self.finished.saturating_add(1);
    }

    fn ask(&mut self, now: Instant) {
        let sequence = self.next;
        self.next += 1;
        if self.open.len() >= REMEMBERED {
            // The one whose answer is waited for stays, however many were asked since.
            let waited_for = self.waiting.map(|waiting| waiting.sequence);
            let first = self.open.front().map(|(sequence, _)| *sequence);
            let spare = usize::from(first.is_some() && first == waited_for);
            self.open.remove(spare);
        }
        self.open.push_back((sequence, now));
        let until = now + self.patience();
        self.waiting.get_or_insert(Waiting { sequence, until });
        self.next_at = now + self.config.interval;
        self.report.sent += 1;
        let message = Message {
            is_answer: false,
            session: self.session,
            sequence,
        };
        self.outputs.push_back(Output::Send(message));
    }

    /// How long to wait for an answer: a slow path is given four round trips.
    fn patience(&self) -> Duration {
        let usual = self.report.rtt.map_or(self.config.timeout, |rtt| rtt * 4);
        usual
            .max(self.config.timeout)
            .min(self.config.interval.max(self.config.timeout))
    }
}

impl Machine for Prober {
    type Input = Input;
    type Output = Output;
    type Reject = Reject;

    fn handle_input(&mut self, now: Instant, input: Input) -> Result<(), Reject> {
        match input {
            Input::Received(message) => self.answered(now, message),
            Input::Ask => {
                self.ask(now);
                Ok(())
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.waiting.is_some_and(|waiting| now >= waiting.until) {
            self.waiting = None;
            self.missed(now);
        }
        if self.waiting.is_none() && now >= self.next_at {
            self.ask(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.waiting.map_or(self.next_at, |waiting| waiting.until))
    }
}

/// Probes whose late answers still count as a sign of life.
const REMEMBERED: usize = 16;

/// Misses after the verdict during which a handshake is forced with every second one (each
/// second); afterwards each fifth second, as WireGuard's own retries do.
const PATIENCE: u32 = 40;

#[cfg(test)]
mod tests;
