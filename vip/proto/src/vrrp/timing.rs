//! The intervals of RFC 9568 section 6.1 and RFC 3768 section 6.1 at full precision.

use std::time::Duration;

use kedge_core::{
    Instant,
    vip::{AdvertInterval, Priority},
};

use crate::wire::vrrp::Version;

/// `Skew_Time`: `(256 - priority) * interval / 256`; in version 2 the interval has no part in it,
/// `(256 - priority) / 256` seconds.
#[must_use]
pub fn skew(version: Version, interval: AdvertInterval, priority: Priority) -> Duration {
    longest_skew(version, interval) * (256 - u32::from(priority.get())) / 256
}

/// What `Skew_Time` is a part of.
fn longest_skew(version: Version, interval: AdvertInterval) -> Duration {
    match version {
        Version::Three => interval.duration(),
        Version::Two { .. } => Duration::from_secs(1),
    }
}

/// `Active_Down_Interval`: `3 * interval + Skew_Time`.
#[must_use]
pub fn active_down(version: Version, interval: AdvertInterval, priority: Priority) -> Duration {
    interval.duration() * ADVERTS_LOST + skew(version, interval, priority)
}

/// The longest `Active_Down_Interval` any Backup can have.
pub(super) fn longest_active_down(version: Version, interval: AdvertInterval) -> Duration {
    interval.duration() * ADVERTS_LOST + longest_skew(version, interval)
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
pub const ADVERTS_LOST: u32 = 3;
