//! The time of day, so that tests can move it, and never before what has certainly been.
//!
//! A manager without a clock of its own boots in 1970. What it issued tells better: the authority,
//! and the newest certificate. By a time before those no certificate would hold, and what was
//! issued then would be over at once.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use rustls::time_provider::TimeProvider;
use rustls_pki_types::UnixTime;

/// Tells the time.
#[derive(Clone)]
pub struct Clock {
    tell: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    floor: Arc<Mutex<SystemTime>>,
}

impl Clock {
    /// The system's time.
    #[must_use]
    pub fn system() -> Self {
        Self::new(SystemTime::now)
    }

    /// A time that `tell` tells.
    pub fn new(tell: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self {
            tell: Arc::new(tell),
            floor: Arc::new(Mutex::new(SystemTime::UNIX_EPOCH + RELEASE)),
        }
    }

    /// Now, or the latest that has been where the clock says it is earlier.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        (self.tell)().max(self.floor())
    }

    /// Takes a moment for one that has been; says whether the clock is behind it.
    pub fn raise(&self, seen: SystemTime) -> bool {
        let mut floor = self.floor.lock().unwrap_or_else(PoisonError::into_inner);
        *floor = (*floor).max(seen);
        (self.tell)() < seen
    }

    fn floor(&self) -> SystemTime {
        *self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Now, to be compared and printed.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::try_from(self.now()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Now as RFC 3339, to the second.
    #[must_use]
    pub fn text(&self) -> String {
        to_text(self.timestamp())
    }
}

/// A time as RFC 3339, to the second.
#[must_use]
pub fn to_text(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let since = self.now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(UnixTime::since_unix_epoch(since))
    }
}

// 2026-11-01: no manager of this version was older. A constant, so that builds are reproducible.
const RELEASE: Duration = Duration::from_secs(1_793_491_200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_never_before_what_has_been() {
        let clock = Clock::new(|| SystemTime::UNIX_EPOCH);
        let release = SystemTime::UNIX_EPOCH + RELEASE;
        assert_eq!(clock.now(), release);
        let seen = release + Duration::from_secs(60);
        assert!(clock.raise(seen), "it is behind");
        assert!(clock.clone().raise(release));
        assert_eq!(clock.now(), seen, "it never goes back");
        let right = Clock::new(move || seen);
        assert!(!right.raise(release));
        assert_eq!(right.now(), seen);
    }
}
