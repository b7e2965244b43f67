//! Time as a plain value.

use std::{
    fmt,
    ops::{Add, AddAssign, Sub},
    time::Duration,
};

/// A point in time: nanoseconds since an arbitrary epoch.
///
/// `std::time::Instant` cannot be built from a value, so it can be neither replayed nor hashed
/// nor fuzzed, and it stops while the host is suspended. The one clock that produces these values
/// in production is `kedge_net::clock` (`CLOCK_BOOTTIME`); tests and simulations supply their own.
///
/// Arithmetic saturates: a deadline may be "never" ([`Instant::FAR`]) but can never wrap.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The epoch.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const FAR: Self = Self(u64::MAX);

    /// A point `nanos` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`, zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Instant::FAR + Duration::from_secs(1), Instant::FAR);
        assert_eq!(Instant::ZERO - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::ZERO.since(Instant::FAR), Duration::ZERO);
        assert_eq!(Instant::ZERO + Duration::MAX, Instant::FAR);
    }

    #[test]
    fn since_is_the_inverse_of_add() {
        let start = Instant::from_nanos(7);
        let span = Duration::from_millis(1_500);
        assert_eq!((start + span).since(start), span);
        assert_eq!((start + span) - span, start);
    }
}
