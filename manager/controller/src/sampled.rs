//! Log lines that strangers can cause: one each ten seconds, and how many were left out.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Decides which of many equal events is told.
#[derive(Debug, Default)]
pub struct Sampled(Mutex<Past>);

#[derive(Debug, Default)]
struct Past {
    told: Option<Instant>,
    left_out: u64,
}

impl Sampled {
    /// Whether the event at `now` is told, and then how many before it were not.
    pub fn tell(&self, now: Instant) -> Option<u64> {
        let mut past = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = |told: Instant| now.saturating_duration_since(told) < EVERY;
        if past.told.is_some_and(recent) {
            past.left_out = past.left_out.saturating_add(1);
            return None;
        }
        past.told = Some(now);
        Some(std::mem::take(&mut past.left_out))
    }
}

const EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_is_told_each_ten_seconds_with_the_count_of_the_others() {
        let (sampled, start) = (Sampled::default(), Instant::now());
        assert_eq!(sampled.tell(start), Some(0));
        for second in 1..10 {
            assert_eq!(sampled.tell(start + Duration::from_secs(second)), None);
        }
        assert_eq!(sampled.tell(start + EVERY), Some(9));
        assert_eq!(sampled.tell(start + EVERY * 2), Some(0));
    }
}
