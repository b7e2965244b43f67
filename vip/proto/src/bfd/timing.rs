//! Intervals: how often to send, and after how much silence a peer is gone.

use std::time::Duration;

use kedge_core::{Instant, bfd::SessionState};

use super::{Session, poll::Poll};
use crate::wire::bfd::{Interval, Multiplier};

/// After how much silence a peer is gone (RFC 5880 section 6.8.4): its multiplier times the slower
/// of what we take and what it sends.
#[must_use]
pub fn detection_time(remote: Multiplier, required_rx: Interval, remote_tx: Interval) -> Duration {
    required_rx.max(remote_tx).duration() * u32::from(remote.get())
}

/// When a packet may go after the one before it, and when it must.
///
/// RFC 5880 section 6.8.7 leaves a quarter of the interval to chance. A sixteenth of the interval within
/// it is left to the host: a packet goes on a wake-up that is for something else, if there is one, and a
/// host of many sessions wakes up half as often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// No sooner than this.
    pub opens: Duration,
    /// No later than this.
    pub closes: Duration,
}

impl Window {
    /// The window of an interval: no sooner than three quarters of it, and it closes with it at the
    /// latest, with a multiplier of one with nine tenths of it. `draw` is any number.
    #[must_use]
    pub fn of(interval: Interval, own: Multiplier, draw: u32) -> Self {
        let interval = interval.duration();
        let whole = if own.get() == 1 {
            interval * 9 / 10
        } else {
            interval
        };
        let width = interval / WIDTH;
        let chance = whole.saturating_sub(interval * 3 / 4 + width).as_nanos();
        let part = (chance * u128::from(draw)) >> 32;
        let part = Duration::from_nanos(u64::try_from(part).unwrap_or_default());
        let closes = whole.saturating_sub(part);
        Self {
            opens: closes.saturating_sub(width),
            closes,
        }
    }
}

/// A [`Window`] on the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) opens: Instant,
    pub(super) closes: Instant,
}

impl Session {
    /// The interval at which we send at most.
    pub(super) fn interval(&self) -> Interval {
        let interval = self.used.tx.max(self.remote.required_min_rx);
        interval.max(Interval::LEAST)
    }

    /// After how much silence the peer is gone, as far as it was heard.
    pub(super) fn detection(&self) -> Duration {
        let remote = &self.remote;
        detection_time(remote.multiplier, self.used.rx, remote.desired_min_tx)
    }

    /// Whether packets are sent from time to time (RFC 5880 section 6.8.7).
    fn transmits(&self) -> bool {
        let waits = self.config.passive && self.remote.discriminator.is_none();
        let both_up = self.state == SessionState::Up && self.remote.state == SessionState::Up;
        let demanded = self.remote.demand && both_up && self.poll == Poll::Idle;
        !waits && !demanded && !self.remote.required_min_rx.is_zero() && !self.ended
    }

    /// Sets when the next packet goes: no later than the interval in force after the last one.
    pub(super) fn schedule(&mut self, now: Instant) {
        self.tx = self.transmits().then(|| match self.sent_at {
            Some(sent) => {
                let window = Window::of(self.interval(), self.config.multiplier, self.draw);
                Span {
                    opens: (sent + window.opens).max(now),
                    closes: (sent + window.closes).max(now),
                }
            }
            None => Span {
                opens: now,
                closes: now,
            },
        });
    }

    /// When [`handle_timeout`](kedge_core::Machine::handle_timeout) first finds something to do: from here
    /// on a packet may go, up to [`poll_timeout`](kedge_core::Machine::poll_timeout) it need not.
    #[must_use]
    pub fn ready_at(&self) -> Option<Instant> {
        let opens = self.tx.map(|tx| tx.opens);
        let all = [opens, self.detect_at, self.leaves_at];
        all.into_iter().flatten().min()
    }

    /// Sets when the peer is gone.
    pub(super) fn watch(&mut self) {
        self.detect_at = self.remote.heard_at.map(|heard| heard + self.detection());
    }
}

/// Which part of an interval a window is wide.
const WIDTH: u32 = 16;
