//! Seeded randomness for what only has to differ: jitter and indices. SplitMix64.

use std::time::Duration;

/// A stream of numbers that follows from its seed.
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A span from zero to `limit`.
    pub(crate) fn up_to(&mut self, limit: Duration) -> Duration {
        let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.next() % micros.saturating_add(1))
    }

    /// 16 bits.
    pub(crate) fn bits(&mut self) -> u16 {
        let [a, b, ..] = self.next().to_le_bytes();
        u16::from_le_bytes([a, b])
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_within_the_limit() {
        let limit = Duration::from_millis(333);
        let (mut a, mut b) = (Jitter::new(7), Jitter::new(7));
        let spans: Vec<Duration> = (0..1_000).map(|_| a.up_to(limit)).collect();
        assert!(
            spans
                .iter()
                .all(|span| *span <= limit && *span == b.up_to(limit))
        );
        let spread = spans
            .iter()
            .max()
            .unwrap()
            .abs_diff(*spans.iter().min().unwrap());
        assert!(spread > Duration::from_millis(320), "{spread:?}");
    }
}
