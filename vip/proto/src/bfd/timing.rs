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

/// Numbers that need not be secret, only different: SplitMix64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn roll(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((mixed ^ mixed >> 31) >> 32).unwrap_or_default()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The upper halves of the generator's published numbers for this seed.
    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut dice = Dice::new(1_234_567);
        let numbers = [
            6_457_827_717_110_365_317_u64,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        for number in numbers {
            assert_eq!(u64::from(dice.roll()), number >> 32);
        }
        // Its two ends have a bit in common, which the last step takes out.
        let first = Dice::new(1).roll();
        assert_eq!(u64::from(first), 10_451_216_379_200_822_465_u64 >> 32);
    }
}
