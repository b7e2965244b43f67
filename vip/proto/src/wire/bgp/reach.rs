//! Destinations in attributes, with their next hop (RFC 4760, RFC 2545, RFC 8950).

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
};

use super::{Context, Family, Flaw, Prefix, cursor::Cursor};

/// Where packets to a destination go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NextHop {
    /// To an address of IPv4.
    V4(Ipv4Addr),
    /// To one of IPv6, and on the link that both are on to that of the link (RFC 2545).
    V6(Ipv6Addr, Option<Ipv6Addr>),
}

/// What MP_REACH_NLRI or MP_UNREACH_NLRI holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Multiprotocol {
    /// Of which family it is; `None` if of none of ours, and then nothing of it is read.
    pub family: Option<Family>,
    /// The next hop, where it announces.
    pub next_hop: Option<NextHop>,
    /// The destinations.
    pub prefixes: Vec<Prefix>,
}

impl Multiprotocol {
    /// Reads MP_REACH_NLRI. The length of the next hop says where the destinations begin: one that
    /// is none of its kind leaves nothing to rely on (RFC 7606 section 7.11).
    pub(super) fn reach(value: &[u8], context: &Context) -> Result<Self, Flaw> {
        let mut cursor = Cursor::new(value);
        let family = family(&mut cursor)?;
        let length = cursor.u8().ok_or(Flaw::Length)?;
        let next_hop = cursor.take(usize::from(length)).ok_or(Flaw::NextHop)?;
        // What was once a count, and is to be ignored.
        cursor.u8().ok_or(Flaw::Length)?;
        let Some(family) = family else {
            return Ok(Self::foreign());
        };
        let next_hop = NextHop::read(family, next_hop, context).ok_or(Flaw::NextHop)?;
        let mut prefixes = Vec::new();
        Prefix::read_all(family, cursor.rest(), &mut prefixes).ok_or(Flaw::Prefixes)?;
        Ok(Self {
            family: Some(family),
            next_hop: Some(next_hop),
            prefixes,
        })
    }

    /// Reads MP_UNREACH_NLRI.
    pub(super) fn unreach(value: &[u8]) -> Result<Self, Flaw> {
        let mut cursor = Cursor::new(value);
        let Some(family) = family(&mut cursor)? else {
            return Ok(Self::foreign());
        };
        let mut prefixes = Vec::new();
        Prefix::read_all(family, cursor.rest(), &mut prefixes).ok_or(Flaw::Prefixes)?;
        Ok(Self {
            family: Some(family),
            next_hop: None,
            prefixes,
        })
    }

    const fn foreign() -> Self {
        Self {
            family: None,
            next_hop: None,
            prefixes: Vec::new(),
        }
    }
}

impl NextHop {
    /// Whether routes of a family may have it.
    #[must_use]
    pub const fn suits(&self, family: Family, context: &Context) -> bool {
        match (self, family) {
            (Self::V4(_), Family::Ipv4) | (Self::V6(..), Family::Ipv6) => true,
            (Self::V6(..), Family::Ipv4) => context.extended_next_hop,
            (Self::V4(_), Family::Ipv6) => false,
        }
    }

    fn read(family: Family, bytes: &[u8], context: &Context) -> Option<Self> {
        let read = match *bytes {
            [a, b, c, d] => Self::V4(Ipv4Addr::new(a, b, c, d)),
            _ => {
                let (global, rest) = bytes.split_first_chunk::<16>()?;
                let link_local = match rest {
                    [] => None,
                    rest => Some(Ipv6Addr::from(<[u8; 16]>::try_from(rest).ok()?)),
                };
                Self::V6(Ipv6Addr::from(*global), link_local)
            }
        };
        read.suits(family, context).then_some(read)
    }

    /// Appends its length and itself.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::V4(address) => {
                out.push(4);
                out.extend(address.octets());
            }
            Self::V6(global, None) => {
                out.push(16);
                out.extend(global.octets());
            }
            Self::V6(global, Some(link_local)) => {
                out.push(32);
                out.extend(global.octets());
                out.extend(link_local.octets());
            }
        }
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(address) => f.pad(&address.to_string()),
            Self::V6(address, _) => f.pad(&address.to_string()),
        }
    }
}

fn family(cursor: &mut Cursor<'_>) -> Result<Option<Family>, Flaw> {
    let afi = cursor.u16().ok_or(Flaw::Length)?;
    let safi = cursor.u8().ok_or(Flaw::Length)?;
    Ok(Family::from_numbers(afi, safi))
}
