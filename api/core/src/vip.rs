//! Bounded values of VRRP (RFC 9568) that configuration, wire and custom resources share.

use std::{fmt, net::IpAddr, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {allowed}, not {value}")]
pub struct OutOfRange {
    /// The quantity.
    pub what: &'static str,
    /// The range in words.
    pub allowed: &'static str,
    /// The value that was given.
    pub value: i64,
}

/// A virtual router identifier, 1..=255 (RFC 9568 section 5.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "u8")]
pub struct Vrid(u8);

impl Vrid {
    /// The identifier, if `value` is in range.
    ///
    /// # Errors
    ///
    /// Zero is not a virtual router.
    pub const fn new(value: u8) -> Result<Self, OutOfRange> {
        if value == 0 {
            Err(OutOfRange {
                what: "vrid",
                allowed: "1 to 255",
                value: 0,
            })
        } else {
            Ok(Self(value))
        }
    }

    /// The identifier every host derives by itself from the VIP's first address:
    /// `1 + FNV-1a-32(address bytes) mod 255`.
    ///
    /// It is never re-chosen by listening: hosts that disagree on a VRID are two owners.
    #[must_use]
    pub fn derive(address: IpAddr) -> Self {
        let hash = |bytes: &[u8]| {
            bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| {
                (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
            })
        };
        let hash = match address {
            IpAddr::V4(v4) => hash(&v4.octets()),
            IpAddr::V6(v6) => hash(&v6.octets()),
        };
        Self(u8::try_from(hash % 255).unwrap_or(0).saturating_add(1))
    }

    /// The identifier as a number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<i64> for Vrid {
    type Error = OutOfRange;

    fn try_from(value: i64) -> Result<Self, OutOfRange> {
        let byte = u8::try_from(value).unwrap_or(0);
        Self::new(byte).map_err(|error| OutOfRange { value, ..error })
    }
}

impl From<Vrid> for u8 {
    fn from(vrid: Vrid) -> Self {
        vrid.0
    }
}

impl fmt::Display for Vrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for Vrid {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Vrid".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "minimum": 1, "maximum": 255 })
    }
}

/// A router's priority in a VRRP advertisement, 1..=255 (RFC 9568 section 5.2.4).
///
/// 255 belongs to the owner of the address; 0 means "I am leaving" and is not a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "u8")]
pub struct Priority(u8);

impl Priority {
    /// The priority of the address owner.
    pub const OWNER: Self = Self(255);

    /// The priority, if `value` is in range.
    ///
    /// # Errors
    ///
    /// Zero is a goodbye, never configurable.
    pub const fn new(value: u8) -> Result<Self, OutOfRange> {
        if value == 0 {
            Err(OutOfRange {
                what: "priority",
                allowed: "1 to 255",
                value: 0,
            })
        } else {
            Ok(Self(value))
        }
    }

    /// The priority as a number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<i64> for Priority {
    type Error = OutOfRange;

    fn try_from(value: i64) -> Result<Self, OutOfRange> {
        let byte = u8::try_from(value).unwrap_or(0);
        Self::new(byte).map_err(|error| OutOfRange { value, ..error })
    }
}

impl From<Priority> for u8 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for Priority {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Priority".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "minimum": 1, "maximum": 255 })
    }
}

/// An advertisement interval: 10 ms to 40.95 s in steps of 10 ms (RFC 9568 section 5.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdvertInterval(u16);

impl AdvertInterval {
    /// 100 ms: the default of Kedge.
    pub const DEFAULT: Self = Self(10);
    /// 10 ms: the shortest there is.
    pub const FAST: Self = Self(1);
    /// 1 s: the default of the protocol (RFC 9568 section 6.1).
    pub const WAN: Self = Self(100);

    /// An interval of `value` centiseconds.
    ///
    /// # Errors
    ///
    /// Zero, or more than the 12 bits of the field.
    pub const fn from_centis(value: u16) -> Result<Self, OutOfRange> {
        if value == 0 || value > 4095 {
            let value = value as i64;
            Err(OutOfRange {
                what: "advert interval",
                allowed: "1 to 4095 centiseconds",
                value,
            })
        } else {
            Ok(Self(value))
        }
    }

    /// The interval in centiseconds.
    #[must_use]
    pub const fn centis(self) -> u16 {
        self.0
    }

    /// The interval as a duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0 as u64 * 10)
    }
}

impl TryFrom<Duration> for AdvertInterval {
    type Error = OutOfRange;

    fn try_from(duration: Duration) -> Result<Self, OutOfRange> {
        let refused = || OutOfRange {
            what: "advert interval",
            allowed: "10ms to 40.95s in steps of 10ms",
            value: i64::try_from(duration.as_millis()).unwrap_or(i64::MAX),
        };
        if !duration.as_nanos().is_multiple_of(10_000_000) {
            return Err(refused());
        }
        let centis = u16::try_from(duration.as_millis() / 10).map_err(|_| refused())?;
        Self::from_centis(centis).map_err(|_| refused())
    }
}

/// What a VRRP router is doing: the same words on the wire, in JSON and in custom resources.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum RouterState {
    /// Configured, not started.
    #[default]
    Initialize,
    /// Listening for the Active router.
    Backup,
    /// Holds the address and answers for it.
    Active,
    /// Said goodbye, still answering until a successor speaks.
    Releasing,
    /// Cannot hold the address: link, conflict or critical track.
    Fault,
}

impl fmt::Display for RouterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Initialize => "Initialize",
            Self::Backup => "Backup",
            Self::Active => "Active",
            Self::Releasing => "Releasing",
            Self::Fault => "Fault",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_derived_vrid_is_the_documented_hash() {
        // FNV-1a-32 of 0a 14 0e 0a, computed independently with the published constants.
        let vrid = Vrid::derive("10.20.14.10".parse().unwrap());
        assert_eq!(vrid.get(), reference(&[10, 20, 14, 10]));
        assert!(vrid.get() >= 1);
    }

    fn reference(bytes: &[u8]) -> u8 {
        let mut hash: u64 = 2_166_136_261;
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)) * 16_777_619 % (1 << 32);
        }
        u8::try_from(1 + hash % 255).unwrap()
    }

    #[test]
    fn ranges_are_enforced() {
        assert!(Vrid::try_from(0).is_err());
        assert!(Vrid::try_from(256).is_err());
        assert_eq!(Vrid::try_from(256).unwrap_err().value, 256);
        assert!(Priority::try_from(-1).is_err());
        assert!(AdvertInterval::try_from(Duration::from_millis(5)).is_err());
        assert!(AdvertInterval::try_from(Duration::from_millis(15)).is_err());
        assert!(AdvertInterval::try_from(Duration::from_millis(40_960)).is_err());
        assert_eq!(
            AdvertInterval::try_from(Duration::from_millis(40_950))
                .unwrap()
                .centis(),
            4095
        );
    }
}
