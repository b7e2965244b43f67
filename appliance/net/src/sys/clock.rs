//! The clock itself.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// `CLOCK_BOOTTIME`, which goes on while the host is suspended.
#[must_use]
pub fn boottime() -> Timespec {
    clock_gettime(ClockId::Boottime)
}
