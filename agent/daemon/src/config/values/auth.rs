//! Values of signed advertisements.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use kedge_core::Span;
use kedge_vip_speaker::auth::{KeyId, Window};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, Visitor},
};

use super::span;

/// The number of a key: 1 to 255, also as a text, as the keys of maps are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub struct AuthKeyId(KeyId);

impl AuthKeyId {
    /// The number.
    #[must_use]
    pub const fn id(&self) -> KeyId {
        self.0
    }
}

impl From<AuthKeyId> for String {
    fn from(id: AuthKeyId) -> Self {
        id.0.get().to_string()
    }
}

impl<'de> Deserialize<'de> for AuthKeyId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;

        impl Visitor<'_> for NumberOrText {
            type Value = AuthKeyId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the number of a key, 1 to 255")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<AuthKeyId, E> {
                KeyId::try_from(number).map(AuthKeyId).map_err(E::custom)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<AuthKeyId, E> {
                self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<AuthKeyId, E> {
                match text.parse() {
                    Ok(number) => self.visit_i64(number),
                    Err(_) => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
        }

        deserializer.deserialize_any(NumberOrText)
    }
}

impl JsonSchema for AuthKeyId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AuthKeyId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "minimum": 1, "maximum": 255,
            "pattern": "^[0-9]{1,3}$" })
    }
}

checked_text! {
    /// How far clocks may differ.
    TimeWindow(Window),
    |text| span(text).and_then(|span| {
        let seconds = u16::try_from(span.as_secs()).ok().filter(|_| span.subsec_nanos() == 0);
        let window = seconds.and_then(|seconds| Window::new(seconds).ok());
        window.ok_or_else(|| format!("time_window must be whole seconds, 1s to 5m, not {text}"))
    }),
    |value| Span::new(Duration::from_secs(value.seconds().into())).to_string(),
    { "type": "string", "examples": ["5s"] }
}

impl TimeWindow {
    /// The window.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.0
    }
}
