//! How long to wait before the next attempt.

use std::time::Duration;

use aws_lc_rs::rand;

/// Growing waits with jitter: a fleet whose manager returns does not return as one.
#[derive(Clone, Debug)]
pub struct Backoff {
    least: Duration,
    most: Duration,
    last: Duration,
}

impl Backoff {
    /// Waits from `least` to `most`.
    #[must_use]
    pub const fn new(least: Duration, most: Duration) -> Self {
        Self {
            least,
            most,
            last: Duration::ZERO,
        }
    }

    /// The next wait: somewhere between the least and three times the last one.
    pub fn next_wait(&mut self) -> Duration {
        let ceiling = (self.last * 3).clamp(self.least, self.most);
        self.last = self.least + (ceiling - self.least).mul_f64(random_fraction());
        if self.last.is_zero() {
            self.last = self.least;
        }
        // The ceiling grows even when the dice are low.
        let wait = self.last;
        self.last = self.last.max(ceiling / 2);
        wait
    }

    /// The next wait after a failure. Who was told when to come again waits at least so long, and
    /// not to the second: others were told the same.
    pub fn wait_after(&mut self, told: Option<Duration>) -> Duration {
        let wait = self.next_wait();
        let told = told.map(|told| told.mul_f64(1.0 + random_fraction() / 4.0));
        told.map_or(wait, |told| told.max(wait))
    }

    /// Starts from the least wait again.
    pub const fn reset(&mut self) {
        self.last = Duration::ZERO;
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_secs(1), Duration::from_secs(60))
    }
}

/// A number from 0 (included) to 1 (excluded); one half when there is no randomness.
pub(super) fn random_fraction() -> f64 {
    let mut bytes = [0; 4];
    match rand::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0),
        Err(_) => 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_differ_and_start_again() {
        let (least, most) = (Duration::from_secs(1), Duration::from_secs(60));
        let mut backoff = Backoff::new(least, most);
        let waits: Vec<Duration> = (0..40).map(|_| backoff.next_wait()).collect();
        assert!(waits.iter().all(|wait| (least..=most).contains(wait)));
        assert_eq!(waits[0], least);
        assert!(waits[20..].iter().any(|wait| *wait > most / 3), "{waits:?}");
        assert_ne!(waits[30], waits[31]);
        backoff.reset();
        assert_eq!(backoff.next_wait(), least);
        let told = Duration::from_secs(100);
        for _ in 0..40 {
            let wait = backoff.wait_after(Some(told));
            assert!((told..=told.mul_f64(1.25)).contains(&wait), "{wait:?}");
        }
    }
}
