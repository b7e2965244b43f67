//! Randomness that follows from a seed: ChaCha20 that forgets its key at every call.

use std::time::Duration;

use chacha20::{
    ChaCha20,
    cipher::{KeyIvInit as _, StreamCipher as _},
};
use zeroize::Zeroizing;

use super::primitives::Secret;

/// A stream of bytes as unpredictable as its seed. What was given out cannot be found again from
/// what is in memory.
pub(super) struct Random(Secret);

impl Random {
    pub(super) const fn new(seed: Secret) -> Self {
        Self(seed)
    }

    /// Random bytes.
    pub(super) fn bytes<const N: usize>(&mut self) -> Zeroizing<[u8; N]> {
        let mut stream = ChaCha20::new((&*self.0).into(), &[0; 12].into());
        let mut next = Zeroizing::new([0; 32]);
        stream.apply_keystream(&mut *next);
        let mut out = Zeroizing::new([0; N]);
        stream.apply_keystream(&mut *out);
        self.0 = next;
        out
    }

    /// A stream of its own.
    pub(super) fn fork(&mut self) -> Self {
        Self(self.bytes())
    }

    /// A span from zero to `limit`.
    pub(super) fn up_to(&mut self, limit: Duration) -> Duration {
        let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(u64::from_le_bytes(*self.bytes()) % micros.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: u8) -> Random {
        Random::new(Zeroizing::new([seed; 32]))
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_no_bytes_come_twice() {
        let (mut a, mut b, mut c) = (random(1), random(1), random(2));
        let mut seen = Vec::new();
        for _ in 0..100 {
            let bytes = a.bytes::<32>();
            assert_eq!(bytes, b.bytes());
            assert_ne!(bytes, c.bytes());
            assert!(!seen.contains(&*bytes));
            seen.push(*bytes);
        }
        assert_ne!(a.fork().bytes::<32>(), a.bytes());
    }

    #[test]
    fn spans_fill_the_range_and_stay_in_it() {
        let mut random = random(3);
        let limit = Duration::from_millis(333);
        let spans: Vec<Duration> = (0..1_000).map(|_| random.up_to(limit)).collect();
        assert!(spans.iter().all(|span| *span <= limit));
        assert!(spans.iter().any(|span| *span < Duration::from_millis(10)));
        assert!(spans.iter().any(|span| *span > Duration::from_millis(323)));
    }
}
