//! The time certificates are judged by: hosts without a clock of their own boot in 1970.

use std::time::{Duration, SystemTime};

use rustls::time_provider::TimeProvider;
use rustls_pki_types::UnixTime;

/// Never earlier than a floor.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlooredClock {
    floor: Duration,
}

impl FlooredClock {
    /// A clock that is never before this version of Kedge, nor before `seen`, a moment that has
    /// certainly been: the start of a certificate's life.
    pub(super) fn after(seen: Option<SystemTime>) -> Self {
        let seen = seen
            .and_then(|seen| seen.duration_since(SystemTime::UNIX_EPOCH).ok())
            .unwrap_or_default();
        Self {
            floor: seen.max(RELEASE),
        }
    }

    /// The time.
    pub(super) fn now(self) -> SystemTime {
        SystemTime::now().max(SystemTime::UNIX_EPOCH + self.floor)
    }
}

impl TimeProvider for FlooredClock {
    fn current_time(&self) -> Option<UnixTime> {
        let now = self.now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(UnixTime::since_unix_epoch(now))
    }
}

// 2026-11-01: no manager of this version was older. A constant, so that builds are reproducible.
const RELEASE: Duration = Duration::from_secs(1_793_491_200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_runs_before_what_has_been() {
        let far = SystemTime::now() + Duration::from_secs(1_000_000);
        assert_eq!(FlooredClock::after(Some(far)).now(), far);
        let epoch = FlooredClock::after(Some(SystemTime::UNIX_EPOCH));
        assert!(epoch.now() >= SystemTime::UNIX_EPOCH + RELEASE);
        assert!(epoch.current_time().is_some());
    }
}
