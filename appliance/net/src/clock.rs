//! The one clock: `CLOCK_BOOTTIME` as a value.

use kedge_core::Instant;

use crate::sys::clock::boottime;

/// The time since boot, suspension included.
#[must_use]
pub fn now() -> Instant {
    let now = boottime();
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(now.tv_nsec).unwrap_or_default();
    Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_time_since_boot_and_never_goes_back() {
        let first = now();
        let second = now();
        assert!(second >= first);
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let ours = now().since(Instant::ZERO).as_secs_f64();
        assert!((ours - uptime).abs() < 1.0, "{ours} {uptime}");
    }
}
