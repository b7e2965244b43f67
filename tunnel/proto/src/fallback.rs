//! When datagrams for a gateway leave UDP for a stream over TLS, and when they come back.
//!
//! ```text
//!            15 s without an answer over UDP, and there is a stream
//!    Udp ─────────────────────────────────────────────────────────► Tls
//!     ▲  (from 5 s on a stream is asked for)                         │
//!     ├───────── 3 answers over UDP in a row, once a minute at most ─┤
//!     └───────── the stream broke, or carries no answer for 10 s ────┘
//!                (it is asked for again, and taken at once while UDP is silent)
//! ```
//!
//! An answer is one through the tunnel: both directions carried it, and nobody else can give it. While a
//! stream is in use UDP is asked in the background, by [`Question`]s that move nobody.

mod lane;
mod question;
mod queue;
pub mod record;

use std::{collections::VecDeque, fmt, time::Duration};

use kedge_core::{Instant, Machine};

pub use self::{
    lane::{is_lane, lane},
    question::{QUESTION, Question},
    queue::{PATIENCE, Queue},
};

/// How patient it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// After so long without an answer over UDP a stream is taken.
    pub patience: Duration,
    /// After so long it is asked for.
    pub call_after: Duration,
    /// After so long without an answer a stream in use is given up.
    pub deaf_after: Duration,
    /// How long an answer over UDP is waited for until the next question.
    pub ask: Duration,
    /// From an answer to the next question.
    pub ask_again: Duration,
    /// Answers in a row that lead back to UDP.
    pub answers: u32,
    /// From one return to UDP to the next.
    pub return_pause: Duration,
    /// How long a stream stays after it was left: what is on its way arrives.
    pub linger: Duration,
    /// The first pause before a stream that failed is asked for again. It doubles.
    pub first_pause: Duration,
    /// The longest.
    pub longest_pause: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(15),
            call_after: Duration::from_secs(5),
            deaf_after: Duration::from_secs(10),
            ask: Duration::from_secs(5),
            ask_again: Duration::from_secs(1),
            answers: 3,
            return_pause: Duration::from_mins(1),
            linger: Duration::from_secs(5),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(15),
        }
    }
}

/// The way datagrams take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// As it should be.
    #[default]
    Udp,
    /// In a stream over TLS.
    Tls,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// When the last question through the tunnel was answered, whichever way it took.
    Answered(Instant),
    /// There is a stream.
    Called,
    /// There is none, or no longer.
    Broken,
    /// The question of that number was answered over UDP.
    AnsweredOverUdp(u64),
    /// The network changed: what failed is tried at once.
    Changed,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Make a stream.
    Call,
    /// No stream is needed.
    HangUp,
    /// Send this way from here on.
    Take {
        /// The way.
        way: Way,
        /// Why.
        because: Because,
    },
    /// Ask over UDP.
    Ask(u64),
}

/// Why datagrams take the way they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// UDP comes first, and nothing speaks against it.
    First,
    /// Nothing was answered over UDP for so long.
    Silent(Duration),
    /// The stream broke.
    Broken,
    /// The stream carried no answer for so long.
    Deaf(Duration),
    /// So many questions in a row were answered over UDP.
    Answered(u32),
}

/// Why an input was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// There was no such question, or it was answered already.
    #[error("the answer to no question")]
    Unasked,
    /// No stream was asked for.
    #[error("a stream that nobody asked for")]
    Uncalled,
}

/// The way to one gateway.
#[derive(Clone, Debug)]
pub struct Fallback {
    config: Config,
    way: Way,
    because: Because,
    since: Instant,
    /// When UDP was known to work last; at first, when somebody began to wait for it.
    udp_at: Instant,
    /// The last answer that came by the stream in use.
    tls_at: Instant,
    stream: Stream,
    pause: Duration,
    /// The question that waits for its answer.
    asked: Option<u64>,
    next: u64,
    ask_at: Instant,
    in_a_row: u32,
    returned_at: Option<Instant>,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    None { again_at: Instant },
    Called,
    There,
}

impl Fallback {
    /// Over UDP, with nothing known of it.
    #[must_use]
    pub const fn new(now: Instant, config: Config) -> Self {
        Self {
            config,
            way: Way::Udp,
            because: Because::First,
            since: now,
            udp_at: now,
            tls_at: now,
            stream: Stream::None { again_at: now },
            pause: config.first_pause,
            asked: None,
            next: 0,
            ask_at: now,
            in_a_row: 0,
            returned_at: None,
            outputs: VecDeque::new(),
        }
    }

    /// The way, why, and since when.
    #[must_use]
    pub const fn way(&self) -> (Way, Because, Instant) {
        (self.way, self.because, self.since)
    }

    /// How long UDP has been silent, if it is for longer than it may be.
    #[must_use]
    pub fn silence(&self, now: Instant) -> Option<Duration> {
        let silence = now.since(self.udp_at);
        (self.way == Way::Tls || silence >= self.config.patience).then_some(silence)
    }

    /// Whether the last question over UDP was answered, while a stream is in use.
    #[must_use]
    pub const fn is_answered_over_udp(&self) -> bool {
        self.in_a_row > 0
    }

    fn run(&mut self, now: Instant) {
        match self.way {
            Way::Udp => self.over_udp(now),
            Way::Tls => self.over_tls(now),
        }
    }

    fn over_udp(&mut self, now: Instant) {
        let silence = now.since(self.udp_at);
        if silence < self.config.call_after {
            let lingers = now < self.since + self.config.linger;
            if self.stream != Stream::There || !lingers {
                self.hang_up(now);
            }
            return;
        }
        match self.stream {
            Stream::None { again_at } if now >= again_at => {
                self.stream = Stream::Called;
                self.outputs.push_back(Output::Call);
            }
            Stream::There if silence >= self.config.patience => {
                self.take(now, Way::Tls, Because::Silent(silence));
            }
            Stream::None { .. } | Stream::Called | Stream::There => {}
        }
    }

    fn over_tls(&mut self, now: Instant) {
        let deaf = now.since(self.tls_at);
        if deaf >= self.config.deaf_after {
            self.outputs.push_back(Output::HangUp);
            self.pause_calls(now);
            return self.take(now, Way::Udp, Because::Deaf(deaf));
        }
        if now < self.ask_at {
            return;
        }
        if self.asked.is_some() {
            self.in_a_row = 0;
        }
        self.asked = Some(self.next);
        self.ask_at = now + self.config.ask;
        self.outputs.push_back(Output::Ask(self.next));
        self.next += 1;
    }

    fn answered_over_udp(&mut self, now: Instant, number: u64) -> Result<(), Reject> {
        self.asked
            .take_if(|asked| *asked == number)
            .ok_or(Reject::Unasked)?;
        self.in_a_row += 1;
        self.ask_at = now + self.config.ask_again;
        let may = self
            .returned_at
            .is_none_or(|at| now.since(at) >= self.config.return_pause);
        if may && self.in_a_row >= self.config.answers {
            self.returned_at = Some(now);
            self.udp_at = now;
            self.take(now, Way::Udp, Because::Answered(self.in_a_row));
        }
        Ok(())
    }

    fn take(&mut self, now: Instant, way: Way, because: Because) {
        (self.way, self.because, self.since) = (way, because, now);
        self.asked = None;
        self.in_a_row = 0;
        self.tls_at = now;
        self.ask_at = now + self.config.ask;
        self.outputs.push_back(Output::Take { way, because });
    }

    fn hang_up(&mut self, now: Instant) {
        if matches!(self.stream, Stream::None { .. }) {
            return;
        }
        self.stream = Stream::None { again_at: now };
        self.pause = self.config.first_pause;
        self.outputs.push_back(Output::HangUp);
    }

    /// The next call waits, and the one after that longer.
    fn pause_calls(&mut self, now: Instant) {
        let again_at = now + self.pause;
        self.stream = Stream::None { again_at };
        self.pause = (self.pause * 2).min(self.config.longest_pause);
    }

    fn broken(&mut self, now: Instant) -> Result<(), Reject> {
        match self.stream {
            Stream::None { .. } => return Err(Reject::Uncalled),
            Stream::Called | Stream::There => self.pause_calls(now),
        }
        if self.way == Way::Tls {
            self.take(now, Way::Udp, Because::Broken);
        }
        Ok(())
    }
}

impl Machine for Fallback {
    type Input = Input;
    type Output = Output;
    type Reject = Reject;

    fn handle_input(&mut self, now: Instant, input: Input) -> Result<(), Reject> {
        match input {
            // What came before a change of the way says nothing of the way since.
            Input::Answered(at) if at <= self.since => {}
            Input::Answered(at) if self.way == Way::Udp => self.udp_at = self.udp_at.max(at),
            Input::Answered(at) => {
                self.tls_at = self.tls_at.max(at);
                self.pause = self.config.first_pause;
            }
            Input::Called if self.stream == Stream::Called => self.stream = Stream::There,
            Input::Called => return Err(Reject::Uncalled),
            Input::Broken => self.broken(now)?,
            Input::AnsweredOverUdp(number) => self.answered_over_udp(now, number)?,
            Input::Changed => {
                self.ask_at = now;
                self.pause = self.config.first_pause;
                if let Stream::None { again_at } = &mut self.stream {
                    *again_at = now;
                }
            }
        }
        self.run(now);
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|due| due <= now) {
            self.run(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.way == Way::Tls {
            return Some(self.ask_at.min(self.tls_at + self.config.deaf_after));
        }
        let call_at = self.udp_at + self.config.call_after;
        match self.stream {
            Stream::None { again_at } => Some(call_at.max(again_at)),
            Stream::Called => None,
            // It goes when it has lingered, unless UDP is silent again by then.
            Stream::There => {
                let gone_at = self.since + self.config.linger;
                let taken_at = self.udp_at + self.config.patience;
                Some(if gone_at < call_at { gone_at } else { taken_at })
            }
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Tls => "tls",
        })
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("UDP comes first"),
            Self::Silent(silence) => {
                write!(f, "UDP got no answer for {:.0} s", silence.as_secs_f64())
            }
            Self::Broken => f.write_str("the connection over TLS broke"),
            Self::Deaf(deaf) => write!(
                f,
                "the connection over TLS carried no answer for {:.0} s",
                deaf.as_secs_f64()
            ),
            Self::Answered(many) => write!(f, "UDP answered {many} times in a row"),
        }
    }
}

#[cfg(test)]
mod tests;
