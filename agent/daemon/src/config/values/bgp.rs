//! Values of BGP neighbours.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use kedge_core::Span;
use kedge_vip_speaker::bgp::{Config, HoldTime};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{span, within};

checked_text! {
    /// After how much silence a BGP session is lost.
    SilenceSpan(HoldTime),
    |text| span(text).and_then(|span| {
        let whole = (span.subsec_nanos() == 0).then(|| u16::try_from(span.as_secs()).ok()).flatten();
        whole.and_then(HoldTime::from_secs).ok_or_else(|| {
            format!("a hold time must be 3s to 65535s in whole seconds, or 0s for never, not {text}")
        })
    }),
    |value| Span::new(Duration::from_secs(u64::from(value.secs()))).to_string(),
    { "type": "string", "examples": ["9s", "90s"] }
}

impl SilenceSpan {
    pub(in crate::config) const DEFAULT: Self = Self(HoldTime::DEFAULT);

    /// The hold time.
    #[must_use]
    pub const fn hold_time(&self) -> HoldTime {
        self.0
    }
}

checked_text! {
    /// How long to wait between two calls.
    RetrySpan(Duration),
    |text| within(text, "the time between two calls", Duration::from_secs(1), Duration::from_secs(300)),
    |value| Span::new(*value).to_string(),
    { "type": "string", "examples": ["5s"] }
}

impl RetrySpan {
    pub(in crate::config) const DEFAULT: Self = Self(Config::CONNECT_RETRY);

    /// The duration.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        self.0
    }
}

checked_text! {
    /// How long routes say that they go away. The agent ends no sooner, and its unit gives it ten seconds.
    GracefulSpan(Duration),
    |text| within(text, "graceful_shutdown", Duration::ZERO, Duration::from_secs(5)),
    |value| Span::new(*value).to_string(),
    { "type": "string", "examples": ["2s"] }
}

impl GracefulSpan {
    pub(in crate::config) const NONE: Self = Self(Duration::ZERO);

    /// The duration.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        self.0
    }
}

bounded! {
    /// How many routers may be between two neighbours.
    RoutersBetween(u8), "multihop is how many routers may be in between and", 1..=254
}

bounded! {
    /// How often a number is put in front of a path once more. More than a few is what other operators
    /// filter out.
    Prepend(u8), "prepend", 0..=16
}

bounded! {
    /// How many destinations a neighbour may announce.
    MaxPrefixes(u32), "max_prefixes", 1..=1_000_000_000
}

/// The number of a table of routes that is not one of the kernel's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct RouteTable(u32);

impl RouteTable {
    /// Our protocol number.
    pub(in crate::config) const DEFAULT: Self = Self(kedge_net::PROTOCOL as u32);

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<i64> for RouteTable {
    type Error = String;

    fn try_from(value: i64) -> Result<Self, String> {
        let number = u32::try_from(value).ok();
        // `default`, `main` and `local`: packets of this host would follow what stands there.
        let free = number.filter(|number| *number != 0 && !(253..=255).contains(number));
        free.map(Self).ok_or_else(|| {
            format!("table must be 1 to 4294967295 and none of 253, 254 and 255, not {value}")
        })
    }
}

impl From<RouteTable> for i64 {
    fn from(table: RouteTable) -> Self {
        Self::from(table.0)
    }
}

impl JsonSchema for RouteTable {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RouteTable".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "integer", "minimum": 1, "maximum": u32::MAX, "not": { "enum": [253, 254, 255] }
        })
    }
}
