//! What the way to a peer carries in one piece (DPLPMTUD, RFC 8899), in bytes of an inner packet.
//!
//! No router is asked and none is believed: a padded question that is answered has arrived, and one
//! that is not answered, though smaller ones are, has not.
//!
//! ```text
//!          Path                 answered          1280 answered            nothing between is left
//!   Idle ───────► Ask (small) ───────────► Base ────────────────► Search ─────────────► Complete
//!                  ▲ │ unanswered           │ unanswered            ▲  10 min: one byte   │ │ ▲
//!                  │ ▼                      ▼                       │  more, then all     │ │ │ answered
//!                 Silent ◄── 5 s … 60 s    Floor ──► Ask            └─────────────────────┘ ▼ │
//!                  (the peer answers                                         unanswered  Confirm
//!                   no question of any size)           Ask ◄──────────────────────────── (as data goes)
//! ```
//!
//! The first thing tried is the most that the way may carry, which is right nearly everywhere; what
//! follows halves what is between.

mod packet;
mod steps;

use std::{collections::VecDeque, time::Duration};

use kedge_core::{Instant, Machine};

pub use self::packet::Question;
use crate::echo::Message;

/// The least every way must carry: below it there is no IPv6 (RFC 8200 section 5).
pub const FLOOR: u16 = 1280;

/// How patiently to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The shortest wait for an answer; four round trips where that is longer.
    pub patience: Duration,
    /// The longest.
    pub longest: Duration,
    /// Questions of one size that must go unanswered before it counts as too large (`MAX_PROBES`).
    pub tries: u8,
    /// How often, at most, what was found is confirmed (`CONFIRMATION_TIMER`).
    pub confirm: Duration,
    /// So many bytes must have been sent to the peer since: a way that nobody uses is not asked.
    pub enough: u64,
    /// After so long more is tried (`PMTU_RAISE_TIMER`).
    pub raise: Duration,
    /// A peer that answered nothing is asked again after this, and then ever more rarely.
    pub again: Duration,
    /// The rarest.
    pub rarest: Duration,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// There is a way to the peer, or it is another one.
    Path {
        /// What its first link can carry: more cannot pass.
        most: u16,
        /// What is used until more is known.
        start: u16,
    },
    /// An answer came from the peer.
    Received(Message),
    /// So many bytes were sent to the peer so far.
    Sent(u64),
}

/// What the shell must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Ask in one piece, never in fragments.
    Ask {
        /// The question.
        message: Message,
        /// How long the inner packet is; `None` is as short as can be.
        size: Option<u16>,
    },
}

/// Why an answer was refused; also the label of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// A question where an answer was expected.
    #[error("not an answer")]
    NotAnAnswer,
    /// An answer to another process.
    #[error("foreign session")]
    Session,
    /// An answer to what was not asked, was answered already or is long ago.
    #[error("unexpected answer")]
    Unexpected,
}

/// What is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The largest inner packet that is to be sent.
    pub mtu: u16,
    /// Why it is that.
    pub standing: Standing,
    /// What the first link can carry.
    pub most: u16,
    /// Whether that is the last word for now: no larger one is being tried.
    pub settled: bool,
    /// Questions asked.
    pub asked: u64,
    /// How often data ceased to pass that had passed before.
    pub holes: u64,
}

/// Why it is that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Nothing is known yet.
    #[default]
    Unasked,
    /// The peer answers no question, of whatever size.
    Unanswered,
    /// A packet of that size has arrived.
    Probed,
    /// Not even the least arrives in one piece.
    Floor,
}

/// The search, for one direction of the way to one peer.
#[derive(Debug)]
pub struct Discovery {
    config: Config,
    session: u64,
    next: u64,
    most: u16,
    mtu: u16,
    standing: Standing,
    state: State,
    rtt: Option<Duration>,
    /// Bytes sent to the peer, as was told last.
    sent: u64,
    /// Questions that may still be answered, oldest first.
    flying: VecDeque<Flight>,
    pause: Duration,
    asked: u64,
    holes: u64,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// Does anybody answer? What is tried first after that, where it is not the most.
    Ask {
        trial: Trial,
        before: Option<u16>,
    },
    Base {
        trial: Trial,
        before: Option<u16>,
    },
    Search(Search),
    Complete {
        confirm_at: Instant,
        sent: u64,
        raise_at: Instant,
    },
    Confirm {
        trial: Trial,
        raise_at: Instant,
    },
    Silent {
        again_at: Instant,
    },
    Floor {
        again_at: Instant,
    },
}

/// One size, asked a few times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Trial {
    size: Option<u16>,
    left: u8,
    until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Search {
    /// Passes.
    low: u16,
    /// Nothing larger passes.
    high: u16,
    trial: Trial,
    /// Whether the largest was tried.
    leapt: bool,
    /// It only wants to know whether there is more than before.
    climbs: bool,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    sequence: u64,
    size: Option<u16>,
    at: Instant,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            patience: Duration::from_millis(200),
            longest: Duration::from_secs(1),
            tries: 3,
            confirm: Duration::from_secs(2),
            enough: 8 << 10,
            raise: Duration::from_mins(10),
            again: Duration::from_secs(5),
            rarest: Duration::from_mins(1),
        }
    }
}

impl Discovery {
    /// Asks nothing until there is a way; `session` is random.
    #[must_use]
    pub const fn new(config: Config, session: u64) -> Self {
        Self {
            pause: config.again,
            config,
            session,
            next: 0,
            most: FLOOR,
            mtu: FLOOR,
            standing: Standing::Unasked,
            state: State::Idle,
            rtt: None,
            sent: 0,
            flying: VecDeque::new(),
            asked: 0,
            holes: 0,
            outputs: VecDeque::new(),
        }
    }

    /// What is known.
    #[must_use]
    pub const fn report(&self) -> Report {
        Report {
            mtu: self.mtu,
            standing: self.standing,
            most: self.most,
            settled: self.is_settled(),
            asked: self.asked,
            holes: self.holes,
        }
    }

    const fn is_settled(&self) -> bool {
        match self.state {
            State::Idle | State::Ask { .. } | State::Base { .. } => false,
            // Whether there is more than before is asked ever again.
            State::Search(search) => search.climbs,
            State::Complete { .. }
            | State::Confirm { .. }
            | State::Silent { .. }
            | State::Floor { .. } => true,
        }
    }

    fn path(&mut self, now: Instant, most: u16, start: u16) {
        self.most = most.max(FLOOR);
        let start = start.clamp(FLOOR, self.most);
        self.mtu = match self.standing {
            // What passed elsewhere says nothing of here, but less does no harm until more is known.
            Standing::Probed | Standing::Floor => start.min(self.mtu),
            Standing::Unasked | Standing::Unanswered => start,
        };
        self.standing = Standing::Unasked;
        self.rtt = None;
        self.pause = self.config.again;
        self.flying.clear();
        self.begin(now, None);
    }

    fn begin(&mut self, now: Instant, before: Option<u16>) {
        let trial = self.trial(now, None);
        self.state = State::Ask { trial, before };
    }

    fn answered(&mut self, now: Instant, message: Message) -> Result<(), Reject> {
        if !message.is_answer {
            return Err(Reject::NotAnAnswer);
        }
        if message.session != self.session {
            return Err(Reject::Session);
        }
        let known = |flight: &Flight| flight.sequence == message.sequence;
        let at = self.flying.iter().position(known);
        let flight = at.and_then(|at| self.flying.remove(at));
        let flight = flight.ok_or(Reject::Unexpected)?;
        let took = now.since(flight.at);
        self.rtt = Some(self.rtt.map_or(took, |rtt| (rtt * 7 + took) / 8));
        self.passed(now, flight.size.unwrap_or_default());
        Ok(())
    }

    fn sent(&mut self, now: Instant, total: u64) {
        self.sent = total;
        if let State::Complete {
            confirm_at,
            sent,
            raise_at,
        } = self.state
            && now >= confirm_at
            && total.wrapping_sub(sent) >= self.config.enough
        {
            let trial = self.trial(now, Some(self.mtu));
            self.state = State::Confirm { trial, raise_at };
        }
    }

    fn trial(&mut self, now: Instant, size: Option<u16>) -> Trial {
        Trial {
            size,
            left: self.config.tries.saturating_sub(1),
            until: self.ask(now, size),
        }
    }

    /// Asks, and says until when an answer is waited for.
    fn ask(&mut self, now: Instant, size: Option<u16>) -> Instant {
        self.next += 1;
        self.asked += 1;
        let sequence = self.next;
        if self.flying.len() >= FLYING {
            self.flying.pop_front();
        }
        self.flying.push_back(Flight {
            sequence,
            size,
            at: now,
        });
        let message = Message {
            is_answer: false,
            session: self.session,
            sequence,
        };
        self.outputs.push_back(Output::Ask { message, size });
        let wait = self.rtt.map_or(self.config.longest, |rtt| rtt * 4);
        now + wait.max(self.config.patience).min(self.config.longest)
    }

    /// What an answer is waited for in.
    const fn pending(&self) -> Option<Trial> {
        match self.state {
            State::Ask { trial, .. } | State::Base { trial, .. } | State::Confirm { trial, .. } => {
                Some(trial)
            }
            State::Search(search) => Some(search.trial),
            State::Idle | State::Complete { .. } | State::Silent { .. } | State::Floor { .. } => {
                None
            }
        }
    }

    fn ask_again(&mut self, now: Instant, trial: Trial) {
        let again = Trial {
            left: trial.left.saturating_sub(1),
            until: self.ask(now, trial.size),
            ..trial
        };
        match &mut self.state {
            State::Ask { trial, .. } | State::Base { trial, .. } | State::Confirm { trial, .. } => {
                *trial = again;
            }
            State::Search(search) => {
                search.trial = again;
                // What was hoped for did not come at once: on with what is known.
                self.mtu = search.low;
                self.standing = Standing::Probed;
            }
            State::Idle | State::Complete { .. } | State::Silent { .. } | State::Floor { .. } => {}
        }
    }
}

impl Machine for Discovery {
    type Input = Input;
    type Output = Output;
    type Reject = Reject;

    fn handle_input(&mut self, now: Instant, input: Input) -> Result<(), Reject> {
        match input {
            Input::Path { most, start } => self.path(now, most, start),
            Input::Received(message) => return self.answered(now, message),
            Input::Sent(total) => self.sent(now, total),
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|at| now < at) {
            return;
        }
        match (self.pending(), self.state) {
            (Some(trial), _) if trial.left > 0 => self.ask_again(now, trial),
            (Some(_), _) => self.exhausted(now),
            (None, State::Complete { .. }) => self.climb(now),
            (None, _) => self.begin(now, None),
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if let Some(trial) = self.pending() {
            return Some(trial.until);
        }
        match self.state {
            State::Complete { raise_at, .. } => (self.mtu < self.most).then_some(raise_at),
            State::Silent { again_at } | State::Floor { again_at } => Some(again_at),
            State::Idle
            | State::Ask { .. }
            | State::Base { .. }
            | State::Search(_)
            | State::Confirm { .. } => None,
        }
    }
}

/// Questions that may still be answered; of more the oldest is forgotten.
const FLYING: usize = 16;

#[cfg(test)]
mod tests;
