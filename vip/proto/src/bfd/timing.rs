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

/// An interval less a random part (RFC 5880 section 6.8.7): up to a quarter, and with a multiplier
/// of one at least a tenth. `draw` is any number.
#[must_use]
pub fn jittered(interval: Interval, own: Multiplier, draw: u32) -> Duration {
    let interval = interval.duration();
    let whole = if own.get() == 1 {
        interval * 9 / 10
    } else {
        interval
    };
    let range = whole.saturating_sub(interval * 3 / 4).as_nanos();
    let part = (range * u128::from(draw)) >> 32;
    whole.saturating_sub(Duration::from_nanos(
        u64::try_from(part).unwrap_or_default(),
    ))
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
        self.tx_at = self.transmits().then(|| match self.sent_at {
            Some(sent) => {
                let after = jittered(self.interval(), self.config.multiplier, self.draw);
                (sent + after).max(now)
            }
            None => now,
        });
    }

    /// Sets when the peer is gone.
    pub(super) fn watch(&mut self) {
        self.detect_at = self.remote.heard_at.map(|heard| heard + self.detection());
    }
}
