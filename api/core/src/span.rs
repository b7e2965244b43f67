//! Durations as people write them.

use std::{fmt, str::FromStr, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A duration in configuration: a number with a unit, such as `100ms`, `1.5s`, `2m`, `1h`.
///
/// Units are `ms`, `s`, `m`, `h`, `d`. A number without unit is refused, because nobody can tell
/// whether `100` means seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Span(Duration);

/// A text that is not a [`Span`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration: write a number and a unit, such as 100ms, 1.5s, 2m or 1h")]
pub struct BadSpan(String);

impl Span {
    /// A span of `duration`.
    #[must_use]
    pub const fn new(duration: Duration) -> Self {
        Self(duration)
    }

    /// A span of whole milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// A span of whole seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// The duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Span {
    type Err = BadSpan;

    fn from_str(text: &str) -> Result<Self, BadSpan> {
        parse(text)
            .map(Self)
            .ok_or_else(|| BadSpan(text.escape_debug().take(40).collect()))
    }
}

fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let factor: u64 = match unit {
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        "d" => 86_400 * 1_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let mut nanos = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(factor) / u128::from(scale);
    nanos = nanos.checked_add(u64::try_from(part).ok()?)?;
    Some(Duration::from_nanos(nanos))
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        for (unit, size) in [
            ("d", 86_400_000_000_000),
            ("h", 3_600_000_000_000),
            ("m", 60_000_000_000),
        ] {
            if nanos >= size && nanos.is_multiple_of(size) {
                return write!(f, "{}{unit}", nanos / size);
            }
        }
        if nanos.is_multiple_of(1_000_000_000) {
            write!(f, "{}s", nanos / 1_000_000_000)
        } else if nanos.is_multiple_of(1_000_000) {
            write!(f, "{}ms", nanos / 1_000_000)
        } else {
            // Below a millisecond there is no unit; a fraction keeps the value exact.
            let text = format!("{}.{:06}", nanos / 1_000_000, nanos % 1_000_000);
            write!(f, "{}ms", text.trim_end_matches('0'))
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for Span {
    type Error = BadSpan;

    fn try_from(text: String) -> Result<Self, BadSpan> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_are_read_with_units_only() {
        let ok = |text: &str, millis: u64| {
            assert_eq!(
                text.parse::<Span>().unwrap().duration(),
                Duration::from_millis(millis)
            );
        };
        ok("100ms", 100);
        ok("1s", 1_000);
        ok("1.5s", 1_500);
        ok("2m", 120_000);
        ok("1h", 3_600_000);
        ok("0.25h", 900_000);
        for bad in [
            "",
            "100",
            "ms",
            "1.s",
            ".5s",
            "-1s",
            "1 s",
            "1sec",
            "99999999999999d",
            "1e3s",
        ] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_back(nanos in 0_u64..10_u64.pow(18)) {
            let span = Span::new(Duration::from_nanos(nanos));
            prop_assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }
    }
}
