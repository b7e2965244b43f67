//! Values of BFD sessions.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use kedge_core::Span;
use kedge_vip_speaker::bfd::{Config, Interval, Multiplier};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::within;

checked_text! {
    /// An interval of a BFD session.
    BfdSpan(Duration),
    |text| within(text, "a BFD interval", Duration::from_millis(10), Duration::from_secs(60)),
    |value| Span::new(*value).to_string(),
    { "type": "string", "examples": ["300ms", "1s"] }
}

impl BfdSpan {
    pub(in crate::config) const TRANSMIT: Self = Self::of(Config::DEFAULT.desired_min_tx);
    pub(in crate::config) const RECEIVE: Self = Self::of(Config::DEFAULT.required_min_rx);

    const fn of(interval: Interval) -> Self {
        Self(interval.duration())
    }

    /// The duration.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        self.0
    }
}

bounded! {
    /// How many packets in a row may be missing.
    DetectMultiplier(u8), "detect_multiplier", 1..=255
}

impl DetectMultiplier {
    pub(in crate::config) const DEFAULT: Self = Self(Multiplier::DEFAULT.get());
}
