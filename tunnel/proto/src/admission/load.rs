//! Whether handshakes are more than the processor should spend on them.

use std::time::Duration;

use kedge_core::Instant;

/// What handshakes would cost if every one that is asked for were done, and how long they wait.
///
/// What is *asked for* counts, not what is done: cookies make the handshakes of a flood cheap, but
/// not the flood.
#[derive(Debug)]
pub(super) struct Load {
    /// What one handshake costs, averaged.
    cost: Duration,
    slots: [Slot; SLOTS],
    current: usize,
    since: Instant,
    high: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    asked: u32,
    longest_wait: Duration,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            cost: TYPICAL,
            slots: [Slot::default(); SLOTS],
            current: 0,
            since: Instant::ZERO,
            high: false,
        }
    }
}

impl Load {
    /// Notes that a handshake is asked for.
    pub(super) fn asked(&mut self, now: Instant) {
        self.advance(now);
        let slot = self.slot();
        slot.asked = slot.asked.saturating_add(1);
    }

    /// Notes that one comes behind so many, before it is known how long they take: of thousands that
    /// come at once most are here before the first has waited for long.
    pub(super) fn queued(&mut self, now: Instant, ahead: usize) {
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        self.waited(now, self.cost.saturating_mul(ahead));
    }

    /// Notes how long one has waited for its turn.
    pub(super) fn waited(&mut self, now: Instant, wait: Duration) {
        self.advance(now);
        let slot = self.slot();
        slot.longest_wait = slot.longest_wait.max(wait);
    }

    /// Notes how long one has kept the processor.
    pub(super) fn took(&mut self, time: Duration) {
        // A thread that was put aside meanwhile says nothing about handshakes.
        let time = time.min(TYPICAL * 8);
        self.cost = (self.cost * 15 + time) / 16;
    }

    /// Whether it is too much.
    pub(super) fn is_high(&mut self, now: Instant) -> bool {
        self.advance(now);
        self.judge();
        self.high
    }

    fn judge(&mut self) {
        let asked = self.slots.iter().map(|slot| slot.asked).sum::<u32>();
        let demand = self.cost.saturating_mul(asked);
        let wait = self.slots.iter().map(|slot| slot.longest_wait).max();
        let wait = wait.unwrap_or_default();
        // Twice as much to begin as to end, or it would begin and end all the time.
        self.high = if self.high {
            demand >= SHARE / 2 || wait >= WAIT / 2
        } else {
            demand > SHARE || wait > WAIT
        };
    }

    /// Forgets what is a window old.
    fn advance(&mut self, now: Instant) {
        if now.since(self.since) >= SLOT * (SLOTS as u32) {
            self.slots = [Slot::default(); SLOTS];
            self.since = now;
        }
        while now.since(self.since) >= SLOT {
            self.since += SLOT;
            self.current = (self.current + 1) % SLOTS;
            *self.slot() = Slot::default();
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "`current` is a remainder of their number"
    )]
    fn slot(&mut self) -> &mut Slot {
        &mut self.slots[self.current]
    }
}

/// What a handshake costs until one was measured: a Diffie-Hellman is some 40 µs, and there are four.
const TYPICAL: Duration = Duration::from_micros(170);

/// A window of one second.
const SLOTS: usize = 8;
const SLOT: Duration = Duration::from_millis(125);

/// Half of one processor, in a window.
const SHARE: Duration = Duration::from_millis(500);

/// Longer than strangers wait when all is well.
const WAIT: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(100) + Duration::from_millis(millis)
    }

    /// `rate` handshakes a second, evenly, from `begin` for `length` milliseconds.
    fn ask(load: &mut Load, begin: u64, length: u64, rate: u64) {
        for number in 0..rate * length / 1_000 {
            load.asked(at(begin + number * 1_000 / rate));
            // It is looked at all the time, and remembers.
            load.is_high(at(begin + number * 1_000 / rate));
        }
    }

    #[test]
    fn half_a_processor_is_too_much_and_a_quarter_is_few_enough() {
        let mut load = Load::default();
        for (begin, rate, high) in [
            (0, 2_500, false),
            (2_000, 3_500, true),
            // Between the two it stays as it was.
            (4_000, 2_000, true),
            (6_000, 1_200, false),
            (8_000, 2_000, false),
        ] {
            ask(&mut load, begin, 2_000, rate);
            assert_eq!(load.is_high(at(begin + 2_000)), high, "{rate} a second");
        }
    }

    #[test]
    fn it_is_the_cost_that_counts() {
        let mut load = Load::default();
        (0..200).for_each(|_| load.took(Duration::from_micros(50)));
        ask(&mut load, 0, 2_000, 3_500);
        assert!(!load.is_high(at(2_000)));
        (0..200).for_each(|_| load.took(Duration::from_micros(500)));
        ask(&mut load, 2_000, 2_000, 1_200);
        assert!(load.is_high(at(4_000)));
    }

    #[test]
    fn one_that_was_put_aside_does_not_count_for_much() {
        let mut load = Load::default();
        load.took(Duration::from_secs(10));
        ask(&mut load, 0, 2_000, 1_800);
        assert!(!load.is_high(at(2_000)));
    }

    #[test]
    fn who_will_wait_long_is_a_sign_before_anybody_has() {
        let mut load = Load::default();
        load.queued(at(0), 117);
        assert!(!load.is_high(at(0)), "19.9 ms");
        load.queued(at(0), 118);
        assert!(load.is_high(at(0)), "20.1 ms");
    }

    #[test]
    fn who_waits_long_is_a_sign_as_well_and_is_forgotten() {
        let mut load = Load::default();
        load.waited(at(0), Duration::from_millis(20));
        assert!(!load.is_high(at(0)));
        load.waited(at(1), Duration::from_millis(21));
        assert!(load.is_high(at(1)));
        assert!(load.is_high(at(900)));
        assert!(!load.is_high(at(1_200)), "without anybody asking");
    }
}
