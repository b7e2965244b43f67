//! Numbers of an instance: intervals and delays in decimal seconds.

use std::time::Duration;

use kedge_core::Span;

/// `advert_int`, in the steps Kedge has, and whether it had to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    /// As Kedge writes it.
    pub(super) text: String,
    /// Whether keepalived meant the same.
    pub(super) is_exact: bool,
}

/// The interval in seconds, as a version of VRRP can carry it; `None` when it is no number.
pub(super) fn interval(text: &str, version: u8) -> Option<Interval> {
    let meant = seconds(text)?;
    let millis = meant.as_millis();
    // Version 2 counts whole seconds (Kedge up to 40); version 3 hundredths of a second, in 12 bits.
    let (step, least, most) = if version == 2 {
        (1_000, 1_000, 40_000)
    } else {
        (10, 10, 40_950)
    };
    let rounded = ((millis + step / 2) / step * step).clamp(least, most);
    let rounded = Duration::from_millis(u64::try_from(rounded).ok()?);
    Some(Interval {
        text: Span::new(rounded).to_string(),
        is_exact: rounded == meant,
    })
}

/// A time in decimal seconds, up to a day.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let plain = |c: char| c.is_ascii_digit() || c == '.';
    let number: f64 = text.chars().all(plain).then(|| text.parse().ok())??;
    let time = Duration::try_from_secs_f64(number).ok()?;
    // What a decimal fraction cannot say exactly is noise below a microsecond.
    let time = Duration::from_micros(u64::try_from((time.as_nanos() + 500) / 1_000).ok()?);
    (time <= Duration::from_secs(86_400)).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_what_the_wire_can_carry() {
        for (text, version, expected, is_exact) in [
            ("1", 2, "1s", true),
            ("1", 3, "1s", true),
            ("0.92", 3, "920ms", true),
            ("0.001", 3, "10ms", false),
            ("0.125", 3, "130ms", false),
            ("1.5", 2, "2s", false),
            ("60", 3, "40.95s", false),
            ("255", 2, "40s", false),
        ] {
            let found = interval(text, version).unwrap();
            let expected: Span = expected.parse().unwrap();
            assert_eq!(found.text, expected.to_string(), "{text} v{version}");
            assert_eq!(found.is_exact, is_exact, "{text} v{version}");
        }
        for text in ["", "-1", "x", "1e3", "1.2.3", "999999999"] {
            assert_eq!(interval(text, 3), None, "{text}");
        }
    }
}
