//! When datagrams for a gateway leave the usual UDP port for another one, or UDP for a stream over TLS, and
//! when they come back.
//!
//! ```text
//!            15 s without an answer over UDP, and there is a stream
//!    Udp ─────────────────────────────────────────────────────────► Tls
//!     ▲  (from 5 s on a stream is asked for)                         │
//!     ├───────── 3 answers over UDP in a row, once a minute at most ─┤
//!     └───────── the stream broke, or carries no answer for 10 s ────┘
//!                (it is asked for again, and taken at once while UDP is silent)
//!
//!            5 s without an answer over UDP
//!    Udp ──────────────────────────────────► Other ──► Tls, as from Udp, while nothing proves it
//!     ▲                                        │
//!     ├── no first answer within 5 s: for 15 s it is left alone
//!     ├── no answer for 10 s ──────────────────┤
//!     └── 3 answers over the usual port in a row, once a minute at most
//! ```
//! Another port is as good as the usual one, and most firewalls let 443/udp pass, so it comes before a
//! stream. Where there is one, a stream is asked for when the port was tried in vain.
//!
//! An answer is one through the tunnel: both directions carried it, and nobody else can give it. While a
//! stream is in use UDP is asked in the background, by [`Question`]s that move nobody.

mod lane;
mod question;
mod queue;
pub mod record;
mod terms;

use std::{collections::VecDeque, time::Duration};

use kedge_core::{Instant, Machine};

pub use self::{
    lane::{is_lane, lane},
    question::{QUESTION, Question},
    queue::{PATIENCE, Queue},
    terms::{Because, Config, Input, Output, Reject, Way, Ways},
};

/// The way to one gateway.
#[derive(Clone, Debug)]
pub struct Fallback {
    config: Config,
    ways: Ways,
    way: Way,
    because: Because,
    since: Instant,
    /// When UDP was known to work last; at first, when somebody began to wait for it.
    udp_at: Instant,
    /// The last answer that came by the way in use, if it is not the usual one.
    heard_at: Instant,
    /// Whether there was one since it is in use.
    proven: bool,
    /// When the other port is worth a try.
    other_at: Instant,
    stream: Stream,
    pause: Duration,
    /// The question that waits for its answer.
    asked: Option<u64>,
    /// Whether the other port is asked, and not the usual one.
    asks_other: bool,
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
    pub const fn new(now: Instant, config: Config, ways: Ways) -> Self {
        Self {
            config,
            ways,
            way: Way::Udp,
            because: Because::First,
            since: now,
            udp_at: now,
            heard_at: now,
            proven: false,
            other_at: now,
            stream: Stream::None { again_at: now },
            pause: config.first_pause,
            asked: None,
            asks_other: false,
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
        (self.way != Way::Udp || silence >= self.config.patience).then_some(silence)
    }

    /// Whether the last question over the usual port was answered, while another way is in use.
    #[must_use]
    pub const fn is_answered_over_udp(&self) -> bool {
        self.in_a_row > 0 && !self.asks_other
    }

    /// Whether the way in use has carried an answer since it is in use.
    #[must_use]
    pub const fn is_proven(&self) -> bool {
        self.proven
    }

    fn run(&mut self, now: Instant) {
        match self.way {
            Way::Udp => self.over_udp(now),
            Way::Other => self.over_other(now),
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
        if self.ways.other && silence >= self.config.other_after && now >= self.other_at {
            self.take(now, Way::Other, Because::Silent(silence));
        } else {
            self.want_stream(now, silence);
        }
    }

    fn over_other(&mut self, now: Instant) {
        if self.is_proven() {
            if self.stream != Stream::There || now >= self.since + self.config.linger {
                self.hang_up(now);
            }
        } else if now.since(self.udp_at) >= self.config.patience {
            // It was tried before, in vain: a stream is as good as there is.
            self.want_stream(now, now.since(self.udp_at));
            if self.way != Way::Other {
                return;
            }
        }
        let deaf = now.since(self.heard_at);
        if deaf < self.other_deaf_after() {
            return self.ask(now);
        }
        self.other_at = now + self.config.other_pause;
        self.take(now, Way::Udp, Because::OtherDeaf(deaf));
        self.over_udp(now);
    }

    fn other_deaf_after(&self) -> Duration {
        if self.is_proven() {
            self.config.deaf_after
        } else {
            self.config.other_patience
        }
    }

    /// Asks for a stream, and takes it when UDP was silent for long enough.
    fn want_stream(&mut self, now: Instant, silence: Duration) {
        match self.stream {
            Stream::None { again_at } if self.ways.tls && now >= again_at => {
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
        let deaf = now.since(self.heard_at);
        if deaf >= self.config.deaf_after {
            self.outputs.push_back(Output::HangUp);
            self.pause_calls(now);
            return self.take(now, Way::Udp, Because::Deaf(deaf));
        }
        self.ask(now);
    }

    /// Asks whether a better way answers: the usual port, and from a stream the other one in turn.
    fn ask(&mut self, now: Instant) {
        if now < self.ask_at {
            return;
        }
        if self.asked.is_some() {
            self.in_a_row = 0;
            self.asks_other = !self.asks_other && self.ways.other && self.way == Way::Tls;
        }
        self.asked = Some(self.next);
        self.ask_at = now + self.config.ask;
        self.outputs.push_back(if self.asks_other {
            Output::AskOther(self.next)
        } else {
            Output::Ask(self.next)
        });
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
            let because = Because::Answered(self.in_a_row);
            if self.asks_other {
                self.take(now, Way::Other, because);
                self.prove();
            } else {
                self.udp_at = now;
                self.take(now, Way::Udp, because);
            }
        }
        Ok(())
    }

    fn take(&mut self, now: Instant, way: Way, because: Because) {
        (self.way, self.because, self.since) = (way, because, now);
        self.asked = None;
        self.asks_other = false;
        self.in_a_row = 0;
        self.heard_at = now;
        self.proven = false;
        self.ask_at = now + self.config.ask;
        self.outputs.push_back(Output::Take { way, because });
    }

    fn prove(&mut self) {
        if !std::mem::replace(&mut self.proven, true) && self.way == Way::Other {
            self.outputs.push_back(Output::Proven);
        }
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
                self.prove();
                self.heard_at = self.heard_at.max(at);
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
        match self.way {
            Way::Tls => Some(self.ask_at.min(self.heard_at + self.config.deaf_after)),
            Way::Other => {
                let deaf_at = self.heard_at + self.other_deaf_after();
                let own = self.ask_at.min(deaf_at);
                Some(self.stream_at_other().map_or(own, |at| at.min(own)))
            }
            Way::Udp => {
                let call_at = self.udp_at + self.config.call_after;
                let other_after = self.udp_at + self.config.other_after;
                let other_at = self.ways.other.then(|| other_after.max(self.other_at));
                other_at.into_iter().chain(self.stream_at(call_at)).min()
            }
        }
    }
}

impl Fallback {
    /// When something about the stream is due, over the usual port.
    fn stream_at(&self, call_at: Instant) -> Option<Instant> {
        match self.stream {
            Stream::None { again_at } => self.ways.tls.then(|| call_at.max(again_at)),
            Stream::Called => None,
            // It goes when it has lingered, unless UDP is silent again by then.
            Stream::There => {
                let gone_at = self.since + self.config.linger;
                let taken_at = self.udp_at + self.config.patience;
                Some(if gone_at < call_at { gone_at } else { taken_at })
            }
        }
    }

    /// The same over the other one.
    fn stream_at_other(&self) -> Option<Instant> {
        let taken_at = self.udp_at + self.config.patience;
        match (self.is_proven(), self.stream) {
            (true, Stream::There) => Some(self.since + self.config.linger),
            (false, Stream::There) => Some(taken_at),
            (false, Stream::None { again_at }) if self.ways.tls => Some(taken_at.max(again_at)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
