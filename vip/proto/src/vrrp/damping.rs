//! How often a router may take the VIP from an Active that is alive.

use std::time::Duration;

use kedge_core::Instant;

/// A hold-down after each take-over from a living Active; it doubles on each return within a
/// minute. It never delays a take-over from a silent Active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damping {
    hold: Duration,
    last: Option<Instant>,
}

impl Damping {
    pub(super) const fn new() -> Self {
        Self {
            hold: FIRST,
            last: None,
        }
    }

    /// Whether a living Active may be overruled at `now`.
    pub(super) fn allows(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now >= last + self.hold)
    }

    /// Counts a take-over from a living Active.
    pub(super) fn overruled(&mut self, now: Instant) {
        let returned = self.last.is_some_and(|last| now.since(last) < WITHIN);
        self.hold = if returned {
            (self.hold * 2).min(LONGEST)
        } else {
            FIRST
        };
        self.last = Some(now);
    }
}

const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);
const WITHIN: Duration = Duration::from_secs(60);
