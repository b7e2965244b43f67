//! The wall clock as people and programs read it. Nothing about ownership depends on it.

use std::time::SystemTime;

/// RFC 3339 in UTC with whole seconds; empty outside the years people write.
#[must_use]
pub fn rfc3339(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map_or_else(|_| String::new(), |at| format!("{at:.0}"))
}

/// RFC 3339 in UTC with microseconds; empty outside the years people write.
#[must_use]
pub fn rfc3339_micros(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map_or_else(|_| String::new(), |at| format!("{at:.6}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
        assert_eq!(rfc3339(at), "2023-11-14T22:13:20Z");
        assert_eq!(rfc3339_micros(at), "2023-11-14T22:13:20.123456Z");
    }
}
