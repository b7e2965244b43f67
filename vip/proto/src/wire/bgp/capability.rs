//! What a speaker can do beyond BGP's first edition (RFC 5492).

use kedge_core::bgp::Asn;

use super::{Family, cursor::Cursor};

/// A capability; of what nobody here uses, its code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// 1: routes of a kind, by AFI and SAFI (RFC 4760).
    Multiprotocol(u16, u8),
    /// 2: to send its routes again (RFC 2918).
    RouteRefresh,
    /// 5: routes of one kind with next hops of another (RFC 8950).
    ExtendedNextHop(Vec<ExtendedNextHop>),
    /// 6: messages of more than 4096 bytes (RFC 8654).
    ExtendedMessage,
    /// 64: to keep routes while the other restarts (RFC 4724).
    GracefulRestart {
        /// It restarted itself.
        restarted: bool,
        /// A NOTIFICATION is a restart too, but for the hard one (RFC 8538).
        notification: bool,
        /// For how many seconds at most, up to 4095.
        seconds: u16,
        /// The kinds of routes it keeps, by AFI, SAFI and flags.
        families: Vec<(u16, u8, u8)>,
    },
    /// 65: AS numbers of four bytes (RFC 6793).
    FourOctetAs(Asn),
    /// 70: to mark where routes that are sent again begin and end (RFC 7313).
    EnhancedRouteRefresh,
    /// Something else.
    Other(u8),
}

/// Routes of a kind that may have next hops of another, all by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExtendedNextHop {
    /// The AFI of the routes.
    pub afi: u16,
    /// Their SAFI.
    pub safi: u16,
    /// The AFI of the next hop.
    pub next_hop: u16,
}

impl ExtendedNextHop {
    /// IPv4 over IPv6.
    pub const IPV4_OVER_IPV6: Self = Self {
        afi: 1,
        safi: 1,
        next_hop: 2,
    };
}

/// What is wrong with a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// Its length is none of it, or beyond the end.
    Length,
    /// The number of the autonomous system is zero (RFC 7607).
    Asn,
}

impl Capability {
    /// Routes of a kind of ours.
    #[must_use]
    pub const fn of(family: Family) -> Self {
        Self::Multiprotocol(family.afi(), Family::UNICAST)
    }

    /// The number of the autonomous system, where it is that.
    pub(super) fn four_octet_as(&self) -> Option<Asn> {
        if let Self::FourOctetAs(asn) = self {
            Some(*asn)
        } else {
            None
        }
    }

    /// Reads those of a parameter.
    pub(super) fn read_all(bytes: &[u8], into: &mut Vec<Self>) -> Result<(), Malformed> {
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            let code = cursor.u8().ok_or(Malformed::Length)?;
            let length = cursor.u8().ok_or(Malformed::Length)?;
            let value = cursor.take(usize::from(length)).ok_or(Malformed::Length)?;
            into.push(Self::read(code, value)?);
        }
        Ok(())
    }

    fn read(code: u8, value: &[u8]) -> Result<Self, Malformed> {
        Ok(match code {
            1 => match *value {
                [high, low, _, safi] => Self::Multiprotocol(u16::from_be_bytes([high, low]), safi),
                _ => return Err(Malformed::Length),
            },
            2 if value.is_empty() => Self::RouteRefresh,
            5 => Self::extended_next_hop(value)?,
            6 if value.is_empty() => Self::ExtendedMessage,
            64 => Self::graceful_restart(value)?,
            65 => {
                let bytes: [u8; 4] = value.try_into().map_err(|_| Malformed::Length)?;
                let asn = Asn::new(u32::from_be_bytes(bytes)).ok_or(Malformed::Asn)?;
                Self::FourOctetAs(asn)
            }
            70 if value.is_empty() => Self::EnhancedRouteRefresh,
            2 | 6 | 70 => return Err(Malformed::Length),
            other => Self::Other(other),
        })
    }

    fn extended_next_hop(value: &[u8]) -> Result<Self, Malformed> {
        let (chunks, rest) = value.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(Malformed::Length);
        }
        let ways = chunks.iter().map(|&[a, b, c, d, e, f]| ExtendedNextHop {
            afi: u16::from_be_bytes([a, b]),
            safi: u16::from_be_bytes([c, d]),
            next_hop: u16::from_be_bytes([e, f]),
        });
        Ok(Self::ExtendedNextHop(ways.collect()))
    }

    fn graceful_restart(value: &[u8]) -> Result<Self, Malformed> {
        let (head, rest) = value.split_first_chunk().ok_or(Malformed::Length)?;
        let (chunks, spare) = rest.as_chunks::<4>();
        if !spare.is_empty() {
            return Err(Malformed::Length);
        }
        let head = u16::from_be_bytes(*head);
        let families = chunks
            .iter()
            .map(|&[high, low, safi, flags]| (u16::from_be_bytes([high, low]), safi, flags));
        Ok(Self::GracefulRestart {
            restarted: head & RESTARTED != 0,
            notification: head & NOTIFICATION != 0,
            seconds: head & SECONDS,
            families: families.collect(),
        })
    }

    /// Appends it.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let mut value = Vec::new();
        let code = match self {
            Self::Multiprotocol(afi, safi) => {
                value.extend(afi.to_be_bytes());
                value.extend([0, *safi]);
                1
            }
            Self::RouteRefresh => 2,
            Self::ExtendedNextHop(ways) => {
                for way in ways.iter().take(usize::from(u8::MAX) / 6) {
                    value.extend(way.afi.to_be_bytes());
                    value.extend(way.safi.to_be_bytes());
                    value.extend(way.next_hop.to_be_bytes());
                }
                5
            }
            Self::ExtendedMessage => 6,
            Self::GracefulRestart {
                restarted,
                notification,
                seconds,
                families,
            } => {
                let flag = |set: &bool, flag| if *set { flag } else { 0 };
                let head = flag(restarted, RESTARTED) | flag(notification, NOTIFICATION);
                value.extend((head | seconds & SECONDS).to_be_bytes());
                for (afi, safi, flags) in families.iter().take(usize::from(u8::MAX) / 4) {
                    value.extend(afi.to_be_bytes());
                    value.extend([*safi, *flags]);
                }
                64
            }
            Self::FourOctetAs(asn) => {
                value.extend(asn.get().to_be_bytes());
                65
            }
            Self::EnhancedRouteRefresh => 70,
            Self::Other(code) => *code,
        };
        out.push(code);
        out.push(u8::try_from(value.len()).unwrap_or_default());
        out.extend(value);
    }
}

const RESTARTED: u16 = 0x8000;
const NOTIFICATION: u16 = 0x4000;
const SECONDS: u16 = 0x0fff;
