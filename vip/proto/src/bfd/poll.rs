//! Poll sequences (RFC 5880 section 6.5): how new timers are agreed upon while a session is up.

use kedge_core::{Instant, bfd::SessionState};

use super::Session;
use crate::wire::bfd::Interval;

/// The two timers of this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timers {
    pub(super) tx: Interval,
    pub(super) rx: Interval,
}

/// Where the asking stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Poll {
    #[default]
    Idle,
    /// The next periodic packet asks.
    Wanted,
    /// A packet has asked.
    Asked,
}

impl Session {
    /// Goes over to the timers of the configuration, as far as the peer must not know first.
    pub(super) fn retime(&mut self, now: Instant) {
        let wanted = self.wanted_timers();
        if self.state != SessionState::Up {
            // Every packet says so, and nobody counts on anything else.
            self.poll = Poll::Idle;
            (self.said, self.used) = (wanted, wanted);
        } else if self.poll == Poll::Idle && wanted != self.said {
            self.said = wanted;
            self.poll = Poll::Wanted;
            self.stats.polls = self.stats.polls.saturating_add(1);
            // Sooner than it expects hurts no peer, and to wait longer hurts none either.
            self.used.tx = self.used.tx.min(wanted.tx);
            self.used.rx = self.used.rx.max(wanted.rx);
        }
        self.schedule(now);
        self.watch();
    }

    /// The peer has answered.
    pub(super) fn answered(&mut self, now: Instant) {
        if self.poll != Poll::Asked {
            return;
        }
        self.poll = Poll::Idle;
        self.used = self.said;
        // What changed meanwhile is asked next.
        self.retime(now);
    }

    fn wanted_timers(&self) -> Timers {
        let tx = self.config.desired_min_tx;
        Timers {
            tx: if self.state == SessionState::Up {
                tx
            } else {
                tx.max(Interval::SLOW)
            },
            rx: self.config.required_min_rx,
        }
    }
}
