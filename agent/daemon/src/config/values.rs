//! Bounded values of the configuration. What exists is valid; ranges stand nowhere else.

use std::{borrow::Cow, fmt, net::SocketAddr, str::FromStr, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kedge_core::{Span, vip::AdvertInterval};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::file::{HealthFile, ProbeFile};

impl Serialize for HealthFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::None => serializer.serialize_str("none"),
            Self::Probe(probe) => probe.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for HealthFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrProbe;

        impl<'de> Visitor<'de> for WordOrProbe {
            type Value = HealthFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`auto`, `none` or a probe with a url")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<HealthFile, E> {
                match text {
                    "auto" => Ok(HealthFile::Auto),
                    "none" => Ok(HealthFile::None),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<HealthFile, A::Error> {
                let probe = ProbeFile::deserialize(MapAccessDeserializer::new(map))?;
                Ok(HealthFile::Probe(Box::new(probe)))
            }
        }

        deserializer.deserialize_any(WordOrProbe)
    }
}

impl JsonSchema for HealthFile {
    fn schema_name() -> Cow<'static, str> {
        "Health".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let probe = generator.subschema_for::<ProbeFile>();
        json_schema!({ "anyOf": [{ "enum": ["auto", "none"] }, probe] })
    }
}

/// Makes a newtype over a whole number within a range.
macro_rules! bounded {
    ($(#[$doc:meta])* $name:ident($repr:ty), $what:literal, $low:literal..=$high:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "i64", into = "i64")]
        pub struct $name($repr);

        impl $name {
            /// The number.
            #[must_use]
            pub const fn get(self) -> $repr {
                self.0
            }
        }

        impl TryFrom<i64> for $name {
            type Error = String;

            fn try_from(value: i64) -> Result<Self, String> {
                match <$repr>::try_from(value) {
                    Ok(number) if ($low..=$high).contains(&number) => Ok(Self(number)),
                    _ if $low == $high => Err(format!("{} must be {}, not {value}", $what, $low)),
                    _ => Err(format!("{} must be {} to {}, not {value}", $what, $low, $high)),
                }
            }
        }

        impl From<$name> for i64 {
            fn from(value: $name) -> Self {
                Self::from(value.0)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "integer", "minimum": $low, "maximum": $high })
            }
        }
    };
}

bounded! {
    /// The version of the configuration format.
    Version(u8), "version", 1..=1
}
impl Version {
    pub(super) const LATEST: Self = Self(1);
}

bounded! {
    /// The version of the VRRP protocol.
    VrrpVersion(u8), "a VRRP version", 2..=3
}
impl VrrpVersion {
    pub(super) const THREE: Self = Self(3);
}

bounded! {
    /// The lowest TTL accepted from a unicast peer.
    MinTtl(u8), "min_ttl", 1..=255
}
impl MinTtl {
    pub(super) const ON_LINK: Self = Self(255);
    pub(super) const MULTIHOP: Self = Self(super::check::bfd::MULTIHOP_TTL);
}

bounded! {
    /// What a failed track takes from the priority, as a negative number.
    TrackWeight(i16), "a weight is what a failure takes from the priority and", -253..=-1
}
impl TrackWeight {
    /// What a failure costs.
    #[must_use]
    pub const fn cost(self) -> u16 {
        self.0.unsigned_abs()
    }
}

bounded! {
    /// Probes in a row.
    Attempts(u32), "a number of probes", 1..=100
}
bounded! {
    /// An MTU. Below 1280 there is no IPv6.
    Mtu(u16), "mtu", 1280..=9000
}

/// Makes a newtype over a text that is checked when it is read.
macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident($inner:ty), |$text:ident| $parse:expr, |$value:ident| $show:expr, $schema:tt) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name($inner);

        impl FromStr for $name {
            type Err = String;

            fn from_str($text: &str) -> Result<Self, String> {
                $parse.map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $value = &self.0;
                f.write_str(&$show)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

checked_text! {
    /// The time between VRRP advertisements.
    AdvertSpan(AdvertInterval),
    |text| span(text).and_then(|span| AdvertInterval::try_from(span).map_err(|_| format!(
        "advert_interval must be 10ms to 40.95s in steps of 10ms, not {text}"
    ))),
    |value| Span::new(value.duration()).to_string(),
    { "type": "string", "examples": ["100ms", "1s"] }
}

impl From<AdvertInterval> for AdvertSpan {
    fn from(interval: AdvertInterval) -> Self {
        Self(interval)
    }
}

impl AdvertSpan {
    /// The interval.
    #[must_use]
    pub const fn interval(&self) -> AdvertInterval {
        self.0
    }
}

checked_text! {
    /// A time of a health probe.
    ProbeSpan(Duration),
    |text| within(text, "a probe's time", Duration::from_millis(50), Duration::from_secs(60)),
    |value| Span::new(*value).to_string(),
    { "type": "string", "examples": ["500ms", "2s"] }
}

impl ProbeSpan {
    pub(super) const fn from(duration: Duration) -> Self {
        Self(duration)
    }

    /// The duration.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        self.0
    }
}

checked_text! {
    /// A time of a tracked script.
    ScriptSpan(Duration),
    |text| within(text, "a script's time", Duration::from_millis(100), Duration::from_secs(3_600)),
    |value| Span::new(*value).to_string(),
    { "type": "string", "examples": ["1s", "10s"] }
}

impl ScriptSpan {
    pub(super) const fn from(duration: Duration) -> Self {
        Self(duration)
    }

    /// The duration.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        self.0
    }
}

mod track;
pub use track::{DomainName, ProcessName, UnitName, UserName};

checked_text! {
    /// The time between keepalives; zero is none.
    Keepalive(Duration),
    |text| span(text).and_then(|span| {
        let whole = span.subsec_nanos() == 0 && span.as_secs() <= u64::from(u16::MAX);
        whole.then_some(span).ok_or_else(|| {
            format!("keepalive must be whole seconds up to 65535s, 0s for none, not {text}")
        })
    }),
    |value| Span::new(*value).to_string(),
    { "type": "string", "examples": ["25s"] }
}

impl Keepalive {
    pub(super) const OFF: Self = Self(Duration::ZERO);

    /// The duration, unless it is off.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        (!self.0.is_zero()).then_some(self.0)
    }
}

mod auth;
pub use auth::{AuthKeyId, TimeWindow};
mod bfd;
pub use bfd::{BfdSpan, DetectMultiplier};
mod bgp;
pub use bgp::{
    GracefulSpan, MaxPrefixes, Prepend, RetrySpan, RouteTable, RoutersBetween, SilenceSpan,
};
mod proxy;
pub use proxy::ProxyUrl;

checked_text! {
    /// A time to wait.
    Delay(Duration),
    |text| within(text, "a delay", Duration::ZERO, Duration::from_secs(3_600)),
    |value| Span::new(*value).to_string(),
    { "type": "string", "examples": ["30s"] }
}

impl Delay {
    pub(super) const NONE: Self = Self(Duration::ZERO);
    pub(super) const LINK_UP: Self = Self(kedge_vip_proto::vrrp::Config::LINK_UP_WAIT);
    pub(crate) const RETURN: Self = Self(Duration::from_secs(10));

    /// The duration.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        self.0
    }
}

checked_text! {
    /// An `https://` URL.
    HttpsUrl(String),
    |text| https(text),
    |value| value.clone(),
    { "type": "string", "pattern": "^https://[^/]+" }
}

impl HttpsUrl {
    /// The URL as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where an API server on this host says whether it is ready.
    pub(crate) fn api_server() -> Self {
        Self("https://127.0.0.1:6443/readyz".to_owned())
    }

    /// The URL's parts.
    #[must_use]
    pub fn uri(&self) -> hyper::Uri {
        // Parsed once already when the value was made.
        self.0.parse().unwrap_or_default()
    }
}

checked_text! {
    /// `host:port` of a peer: an address or a name.
    Endpoint(String),
    |text| endpoint(text),
    |value| value.clone(),
    { "type": "string", "examples": ["203.0.113.7:51820", "[2001:db8::7]:51820", "gw.example:51820"] }
}

impl Endpoint {
    /// The endpoint as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

checked_text! {
    /// The name of a network interface, 1 to 15 characters.
    InterfaceName(String),
    |text| interface(text),
    |value| value.clone(),
    { "type": "string", "minLength": 1, "maxLength": 15 }
}

impl InterfaceName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

checked_text! {
    /// The SHA-256 of a certificate's SubjectPublicKeyInfo, base64.
    CertificatePin([u8; 32]),
    |text| pin(text),
    |value| STANDARD.encode(value),
    { "type": "string", "minLength": 43, "maxLength": 44 }
}

impl CertificatePin {
    /// The digest.
    #[must_use]
    pub const fn digest(&self) -> &[u8; 32] {
        &self.0
    }
}

fn span(text: &str) -> Result<Duration, String> {
    let span = text.parse::<Span>().map_err(|error| error.to_string())?;
    Ok(span.duration())
}

fn within(text: &str, what: &str, low: Duration, high: Duration) -> Result<Duration, String> {
    let span = span(text)?;
    let (low, high) = (Span::new(low), Span::new(high));
    if (low.duration()..=high.duration()).contains(&span) {
        Ok(span)
    } else {
        Err(format!("{what} must be {low} to {high}, not {text}"))
    }
}

fn https(text: &str) -> Result<String, String> {
    let refused = || {
        let shown: String = text.escape_debug().take(80).collect();
        format!("`{shown}` is not a URL such as https://203.0.113.9:9443")
    };
    let uri: hyper::Uri = text.parse().map_err(|_| refused())?;
    let port_fits = uri.authority().is_some_and(|authority| {
        // `host:` and `host:99999` have a colon, but no port that can be used.
        let tail = authority.as_str().rsplit(']').next().unwrap_or_default();
        !tail.contains(':') || uri.port_u16().is_some_and(|port| port > 0)
    });
    let plain = uri.authority().is_some_and(|a| !a.as_str().contains('@'));
    if uri.scheme_str() == Some("https") && port_fits && plain {
        Ok(text.to_owned())
    } else {
        Err(refused())
    }
}

fn endpoint(text: &str) -> Result<String, String> {
    let named = || {
        let (host, port) = text.rsplit_once(':')?;
        let labels = host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.');
        let fits = labels && !host.is_empty() && host.len() <= 253;
        (fits && port.parse::<u16>().ok()? > 0).then_some(())
    };
    let address = text.parse::<SocketAddr>().is_ok_and(|at| at.port() > 0);
    if address || named().is_some() {
        Ok(text.to_owned())
    } else {
        let shown: String = text.escape_debug().take(80).collect();
        Err(format!(
            "`{shown}` is not host:port, such as 203.0.113.7:51820"
        ))
    }
}

fn interface(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'/';
    if (1..=15).contains(&text.len()) && text.bytes().all(plain) && text != "." && text != ".." {
        Ok(text.to_owned())
    } else {
        let shown: String = text.escape_debug().take(40).collect();
        Err(format!(
            "`{shown}` is not an interface name: 1 to 15 characters without / and spaces"
        ))
    }
}

fn pin(text: &str) -> Result<[u8; 32], String> {
    let padded = if text.len() == 43 {
        format!("{text}=")
    } else {
        text.to_owned()
    };
    let bytes = STANDARD.decode(padded).ok();
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| "a pin is the SHA-256 of the server's public key, base64".to_owned())
}
