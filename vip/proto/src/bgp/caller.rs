//! When a neighbour is called: at once, again after a while, and later after each time that it came
//! to nothing.

use std::time::Duration;

use kedge_core::{Instant, bgp::SessionState};

use super::{Because, Output, Session};

/// What is done to have a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Nothing, and calls are not taken: until then, or until somebody says so.
    Idle(Option<Instant>),
    /// The neighbour is called; until then.
    Dialing(Instant),
    /// Calls are taken; it is called then, or never.
    Waiting(Option<Instant>),
    /// There is a connection.
    Content,
}

/// What a failure means for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damp {
    /// Calls are taken all the time.
    No,
    /// Something is wrong with what is said: both sides rest (RFC 4271 section 8.1.1,
    /// DampPeerOscillations), longer each time.
    Yes,
    /// As long as that at least.
    For(Duration),
}

impl Caller {
    pub(super) const fn state(self) -> SessionState {
        match self {
            Self::Idle(_) => SessionState::Idle,
            Self::Dialing(_) => SessionState::Connect,
            Self::Waiting(_) | Self::Content => SessionState::Active,
        }
    }

    pub(super) const fn deadline(self) -> Option<Instant> {
        match self {
            Self::Idle(at) | Self::Waiting(at) => at,
            Self::Dialing(at) => Some(at),
            Self::Content => None,
        }
    }
}

impl Session {
    /// Begins, unless it is kept down.
    pub(super) fn start(&mut self, now: Instant) {
        self.hang_up();
        if self.config.shutdown.is_some() || self.is_held() {
            self.caller = Caller::Idle(None);
        } else if self.config.passive {
            self.caller = Caller::Waiting(None);
        } else {
            self.dial(now);
        }
    }

    pub(super) fn dial(&mut self, now: Instant) {
        self.caller = Caller::Dialing(now + self.spread(self.retry()));
        self.outputs.push_back(Output::Dial);
    }

    /// Gives a call up that is under way.
    pub(super) fn hang_up(&mut self) {
        if matches!(self.caller, Caller::Dialing(_)) {
            self.outputs.push_back(Output::HangUp);
            self.caller = Caller::Content;
        }
    }

    /// What comes after the last connection, or a call that came to nothing.
    pub(super) fn try_later(&mut self, now: Instant, damp: Damp) {
        if self.leaving.is_some() {
            return;
        }
        self.hang_up();
        if self.is_held() {
            self.caller = Caller::Idle(None);
            return;
        }
        let rest = match damp {
            Damp::No => None,
            Damp::Yes => Some(Duration::ZERO),
            Damp::For(least) => Some(least),
        };
        self.caller = match rest {
            Some(least) => {
                let doubled = REST * (1 << self.failures.min(8));
                self.failures = self.failures.saturating_add(1);
                let rest = self.spread(doubled.min(REST_MOST)).max(least);
                Caller::Idle(Some(now + rest))
            }
            None if self.config.passive => Caller::Waiting(None),
            None => {
                let retry = self.retry();
                let pause = match self.attempts {
                    0 => retry.min(FIRST),
                    more => retry * (1 << (more - 1).min(3)),
                };
                self.attempts = self.attempts.saturating_add(1);
                Caller::Waiting(Some(now + self.spread(pause)))
            }
        };
    }

    /// Its address is known from here on: there is no point in waiting any longer.
    pub(super) fn find(&mut self, now: Instant) {
        if matches!(self.caller, Caller::Dialing(_) | Caller::Waiting(Some(_))) {
            self.attempts = 0;
            self.hang_up();
            self.dial(now);
            self.go(now, Because::Found);
        }
    }

    /// What is due of it.
    pub(super) fn call(&mut self, now: Instant) {
        match self.caller {
            Caller::Idle(_) => {
                self.start(now);
                self.go(now, Because::Retry);
            }
            Caller::Dialing(_) => {
                self.hang_up();
                self.dial(now);
            }
            Caller::Waiting(_) => {
                self.dial(now);
                self.go(now, Because::Retry);
            }
            Caller::Content => {}
        }
    }

    fn retry(&self) -> Duration {
        self.config.connect_retry.max(RETRY_LEAST)
    }

    /// Less a random part of up to a quarter (RFC 4271 section 10).
    pub(super) fn spread(&mut self, whole: Duration) -> Duration {
        let quarter = whole / 4;
        let part = (quarter.as_nanos() * u128::from(self.dice.roll())) >> 32;
        let part = Duration::from_nanos(u64::try_from(part).unwrap_or_default());
        whole.saturating_sub(part)
    }
}

/// How long to wait for the first call after a connection that ended without a word: the neighbour
/// may have been started anew.
const FIRST: Duration = Duration::from_secs(1);
/// The shortest time between two calls, whatever was configured.
const RETRY_LEAST: Duration = Duration::from_millis(100);
/// How long both sides rest after the first error, and at most.
const REST: Duration = Duration::from_secs(1);
const REST_MOST: Duration = Duration::from_secs(30);
