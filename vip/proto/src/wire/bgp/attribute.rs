//! What routes say of themselves (RFC 4271 section 5).

use std::fmt;

use kedge_core::bgp::{Community, ExtendedCommunity, LargeCommunity};

use super::AsPath;

/// The number of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttributeCode(pub u8);

/// Where a route came from at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// From inside its autonomous system.
    Igp,
    /// From EGP.
    Egp,
    /// From somewhere else.
    Incomplete,
}

/// What the routes of an UPDATE say, but for their next hops.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attributes {
    /// ORIGIN.
    pub origin: Origin,
    /// AS_PATH; in numbers of four bytes, whatever the peer speaks.
    pub as_path: AsPath,
    /// MULTI_EXIT_DISC: the less the better, among ways into one autonomous system.
    pub med: Option<u32>,
    /// LOCAL_PREF: the more the better, within an autonomous system.
    pub local_pref: Option<u32>,
    /// COMMUNITIES.
    pub communities: Vec<Community>,
    /// EXTENDED COMMUNITIES.
    pub extended: Vec<ExtendedCommunity>,
    /// LARGE_COMMUNITY.
    pub large: Vec<LargeCommunity>,
}

impl Attributes {
    /// Those of a route that begins here.
    #[must_use]
    pub const fn new(as_path: AsPath) -> Self {
        Self {
            origin: Origin::Igp,
            as_path,
            med: None,
            local_pref: None,
            communities: Vec::new(),
            extended: Vec::new(),
            large: Vec::new(),
        }
    }
}

impl AttributeCode {
    /// ORIGIN.
    pub const ORIGIN: Self = Self(1);
    /// AS_PATH.
    pub const AS_PATH: Self = Self(2);
    /// NEXT_HOP.
    pub const NEXT_HOP: Self = Self(3);
    /// MULTI_EXIT_DISC.
    pub const MED: Self = Self(4);
    /// LOCAL_PREF.
    pub const LOCAL_PREF: Self = Self(5);
    /// ATOMIC_AGGREGATE.
    pub const ATOMIC_AGGREGATE: Self = Self(6);
    /// AGGREGATOR.
    pub const AGGREGATOR: Self = Self(7);
    /// COMMUNITIES (RFC 1997).
    pub const COMMUNITIES: Self = Self(8);
    /// ORIGINATOR_ID (RFC 4456).
    pub const ORIGINATOR_ID: Self = Self(9);
    /// CLUSTER_LIST (RFC 4456).
    pub const CLUSTER_LIST: Self = Self(10);
    /// MP_REACH_NLRI (RFC 4760).
    pub const MP_REACH: Self = Self(14);
    /// MP_UNREACH_NLRI (RFC 4760).
    pub const MP_UNREACH: Self = Self(15);
    /// EXTENDED COMMUNITIES (RFC 4360).
    pub const EXTENDED_COMMUNITIES: Self = Self(16);
    /// AS4_PATH (RFC 6793).
    pub const AS4_PATH: Self = Self(17);
    /// AS4_AGGREGATOR (RFC 6793).
    pub const AS4_AGGREGATOR: Self = Self(18);
    /// IPv6 Address Specific Extended Communities (RFC 5701).
    pub const IPV6_EXTENDED_COMMUNITIES: Self = Self(25);
    /// LARGE_COMMUNITY (RFC 8092).
    pub const LARGE_COMMUNITIES: Self = Self(32);

    /// The flags that it must have, of those two; `None` for one that nobody here knows.
    pub(super) const fn flags(self) -> Option<u8> {
        Some(match self {
            Self::ORIGIN
            | Self::AS_PATH
            | Self::NEXT_HOP
            | Self::LOCAL_PREF
            | Self::ATOMIC_AGGREGATE => TRANSITIVE,
            Self::MED
            | Self::ORIGINATOR_ID
            | Self::CLUSTER_LIST
            | Self::MP_REACH
            | Self::MP_UNREACH => OPTIONAL,
            Self::AGGREGATOR
            | Self::COMMUNITIES
            | Self::EXTENDED_COMMUNITIES
            | Self::AS4_PATH
            | Self::AS4_AGGREGATOR
            | Self::IPV6_EXTENDED_COMMUNITIES
            | Self::LARGE_COMMUNITIES => OPTIONAL | TRANSITIVE,
            _ => return None,
        })
    }

    /// Whether it carries destinations.
    pub(super) const fn is_multiprotocol(self) -> bool {
        matches!(self, Self::MP_REACH | Self::MP_UNREACH)
    }

    const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::ORIGIN => "ORIGIN",
            Self::AS_PATH => "AS_PATH",
            Self::NEXT_HOP => "NEXT_HOP",
            Self::MED => "MULTI_EXIT_DISC",
            Self::LOCAL_PREF => "LOCAL_PREF",
            Self::ATOMIC_AGGREGATE => "ATOMIC_AGGREGATE",
            Self::AGGREGATOR => "AGGREGATOR",
            Self::COMMUNITIES => "COMMUNITIES",
            Self::ORIGINATOR_ID => "ORIGINATOR_ID",
            Self::CLUSTER_LIST => "CLUSTER_LIST",
            Self::MP_REACH => "MP_REACH_NLRI",
            Self::MP_UNREACH => "MP_UNREACH_NLRI",
            Self::EXTENDED_COMMUNITIES => "EXTENDED COMMUNITIES",
            Self::AS4_PATH => "AS4_PATH",
            Self::AS4_AGGREGATOR => "AS4_AGGREGATOR",
            Self::IPV6_EXTENDED_COMMUNITIES => "IPV6 EXTENDED COMMUNITIES",
            Self::LARGE_COMMUNITIES => "LARGE_COMMUNITY",
            _ => return None,
        })
    }
}

impl Origin {
    pub(super) const fn of(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Igp),
            1 => Some(Self::Egp),
            2 => Some(Self::Incomplete),
            _ => None,
        }
    }

    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Igp => 0,
            Self::Egp => 1,
            Self::Incomplete => 2,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Igp => "igp",
            Self::Egp => "egp",
            Self::Incomplete => "incomplete",
        })
    }
}

impl fmt::Display for AttributeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "attribute {}", self.0),
        }
    }
}

/// The flags of an attribute: not everybody has to know it; who does not passes it on; its length
/// has two bytes.
pub(super) const OPTIONAL: u8 = 0x80;
pub(super) const TRANSITIVE: u8 = 0x40;
pub(super) const EXTENDED_LENGTH: u8 = 0x10;
