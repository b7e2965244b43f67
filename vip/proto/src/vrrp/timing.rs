//! The intervals of RFC 9568 section 6.1 at full precision.

use std::time::Duration;

use kedge_core::{
    Instant,
    vip::{AdvertInterval, Priority},
};

/// `Skew_Time`: `(256 - priority) * interval / 256`.
pub(super) fn skew(interval: AdvertInterval, priority: Priority) -> Duration {
    interval.duration() * (256 - u32::from(priority.get())) / 256
}

/// `Active_Down_Interval`: `3 * interval + Skew_Time`.
pub(super) fn active_down(interval: AdvertInterval, priority: Priority) -> Duration {
    interval.duration() * ADVERTS_LOST + skew(interval, priority)
}

/// The longest `Active_Down_Interval` any Backup can have.
pub(super) fn longest_active_down(interval: AdvertInterval) -> Duration {
    interval.duration() * (ADVERTS_LOST + 1)
}

/// The first instant after `now` on the schedule that goes through `due`: what was missed is
/// skipped, because a burst tells nobody anything.
pub(super) fn next_after(now: Instant, due: Instant, interval: AdvertInterval) -> Instant {
    if due > now {
        return due;
    }
    let interval = u64::from(interval.centis()) * 10_000_000;
    let behind = now.as_nanos().saturating_sub(due.as_nanos());
    now + Duration::from_nanos(interval - behind % interval)
}

/// How many adverts must be missing before anybody may act.
pub(super) const ADVERTS_LOST: u32 = 3;
