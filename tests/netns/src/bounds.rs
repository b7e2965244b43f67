//! What the RFCs promise, computed apart from the code under test.

use std::time::Duration;

/// How long a Backup waits for a silent Active: RFC 9568 section 6.1, and RFC 3768 section 6.1 for
/// version 2, whose skew is a part of a second.
#[must_use]
pub fn active_down(version: u8, interval: Duration, priority: u8) -> Duration {
    let whole = if version == 2 {
        Duration::from_secs(1)
    } else {
        interval
    };
    interval * 3 + whole * (256 - u32::from(priority)) / 256
}
