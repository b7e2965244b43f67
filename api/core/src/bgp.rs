//! Values of BGP (RFC 4271) that the wire, the configuration and the control socket share.

mod community;
mod peer_as;

use std::{fmt, net::Ipv4Addr, num::NonZeroU32};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use community::{BadCommunity, Community, ExtendedCommunity, LargeCommunity};
pub use peer_as::PeerAs;

/// The number of an autonomous system, 1 to 4294967295 (RFC 6793); zero is none (RFC 7607).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "u32")]
pub struct Asn(NonZeroU32);

/// A number that no autonomous system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the number of an autonomous system is 1 to 4294967295, not {0}")]
pub struct BadAsn(i64);

/// What a BGP speaker calls itself: four bytes, not all zero (RFC 6286).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Ipv4Addr", into = "Ipv4Addr")]
pub struct RouterId(NonZeroU32);

/// An identifier that no speaker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the identifier of a BGP speaker is not 0.0.0.0")]
pub struct BadRouterId;

/// The state of a BGP session (RFC 4271 section 8.2.2).
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
pub enum SessionState {
    /// Neither calls the peer nor takes its calls.
    #[default]
    Idle,
    /// Calls the peer.
    Connect,
    /// Waits for the peer's call, and calls it again after a while.
    Active,
    /// Connected; waits for the peer's OPEN.
    OpenSent,
    /// Both said OPEN; waits for the peer's agreement.
    OpenConfirm,
    /// Routes are exchanged.
    Established,
}

impl Asn {
    /// What stands for a number of four bytes where two are spoken (RFC 6793).
    pub const TRANS: Self = Self(NonZeroU32::MIN.saturating_add(23_455));

    /// The number, unless it is zero.
    #[must_use]
    pub const fn new(value: u32) -> Option<Self> {
        match NonZeroU32::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The number in two bytes: its own, or the one that stands for it.
    #[must_use]
    pub fn short(self) -> u16 {
        u16::try_from(self.get()).unwrap_or(23_456)
    }
}

impl RouterId {
    /// The identifier, unless it is zero.
    #[must_use]
    pub const fn new(value: u32) -> Option<Self> {
        match NonZeroU32::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// As the number it is compared by.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl TryFrom<i64> for Asn {
    type Error = BadAsn;

    fn try_from(value: i64) -> Result<Self, BadAsn> {
        let number = u32::try_from(value).map_err(|_| BadAsn(value))?;
        Self::new(number).ok_or(BadAsn(value))
    }
}

impl From<Asn> for u32 {
    fn from(asn: Asn) -> Self {
        asn.get()
    }
}

impl fmt::Display for Asn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for Asn {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Asn".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "minimum": 1, "maximum": 4_294_967_295_u32 })
    }
}

impl TryFrom<Ipv4Addr> for RouterId {
    type Error = BadRouterId;

    fn try_from(address: Ipv4Addr) -> Result<Self, BadRouterId> {
        Self::new(address.to_bits()).ok_or(BadRouterId)
    }
}

impl From<RouterId> for Ipv4Addr {
    fn from(id: RouterId) -> Self {
        Self::from_bits(id.get())
    }
}

impl fmt::Display for RouterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv4Addr::from(*self).fmt(f)
    }
}

impl JsonSchema for RouterId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RouterId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "ipv4" })
    }
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Idle => "Idle",
            Self::Connect => "Connect",
            Self::Active => "Active",
            Self::OpenSent => "OpenSent",
            Self::OpenConfirm => "OpenConfirm",
            Self::Established => "Established",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_four_bytes_has_a_stand_in_of_two() {
        assert_eq!(Asn::TRANS.get(), 23_456);
        assert_eq!(Asn::new(65_536).map(Asn::short), Some(23_456));
        assert_eq!(Asn::new(65_535).map(Asn::short), Some(65_535));
        assert_eq!(Asn::new(0), None);
    }

    #[test]
    fn ranges_are_enforced() {
        assert_eq!(Asn::try_from(0), Err(BadAsn(0)));
        assert_eq!(Asn::try_from(-1), Err(BadAsn(-1)));
        assert_eq!(Asn::try_from(1 << 32), Err(BadAsn(1 << 32)));
        assert_eq!(Asn::try_from((1 << 32) - 1).map(Asn::get), Ok(u32::MAX));
        assert_eq!(RouterId::try_from(Ipv4Addr::UNSPECIFIED), Err(BadRouterId));
    }

    #[test]
    fn an_identifier_compares_as_its_bytes_do() {
        let id = |text: &str| RouterId::try_from(text.parse::<Ipv4Addr>().unwrap()).unwrap();
        assert!(id("10.0.0.9") < id("10.0.1.1"));
        assert_eq!(id("10.0.0.9").to_string(), "10.0.0.9");
    }
}
