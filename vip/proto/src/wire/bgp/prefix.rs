//! Destinations: how many bits of an address, and which (RFC 4271 section 4.3).

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use super::cursor::Cursor;

/// A kind of routes, to single receivers alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4 unicast.
    Ipv4,
    /// IPv6 unicast.
    Ipv6,
}

/// A destination. What its length leaves of the address is zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ipv4, Self::Ipv6];
    /// The SAFI of both.
    pub(super) const UNICAST: u8 = 1;

    /// That of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::Ipv4,
            IpAddr::V6(_) => Self::Ipv6,
        }
    }

    /// By its numbers: AFI and SAFI.
    #[must_use]
    pub const fn from_numbers(afi: u16, safi: u8) -> Option<Self> {
        match (afi, safi) {
            (1, Self::UNICAST) => Some(Self::Ipv4),
            (2, Self::UNICAST) => Some(Self::Ipv6),
            _ => None,
        }
    }

    /// Its AFI.
    #[must_use]
    pub const fn afi(self) -> u16 {
        match self {
            Self::Ipv4 => 1,
            Self::Ipv6 => 2,
        }
    }

    /// The bits of an address of it.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ipv4 => 32,
            Self::Ipv6 => 128,
        }
    }
}

impl Prefix {
    /// The destination of which `address` is one; `None` with more bits than it has.
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let family = Family::of(address);
        let spare = u32::from(family.bits().checked_sub(length)?);
        let address = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(spare).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(spare).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Some(Self { address, length })
    }

    /// One address.
    #[must_use]
    pub const fn host(address: IpAddr) -> Self {
        let length = Family::of(address).bits();
        Self { address, length }
    }

    /// Its first address.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// How many bits it has.
    #[must_use]
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// Its kind.
    #[must_use]
    pub const fn family(&self) -> Family {
        Family::of(self.address)
    }

    /// Whether every address of `other` is one of it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        other.length >= self.length
            && Self::new(other.address, self.length).is_some_and(|outer| outer == *self)
    }

    /// The bytes it takes in a message.
    pub(super) fn len(&self) -> usize {
        1 + usize::from(self.length).div_ceil(8)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.push(self.length);
        let count = usize::from(self.length).div_ceil(8);
        match self.address {
            IpAddr::V4(v4) => out.extend(v4.octets().iter().take(count)),
            IpAddr::V6(v6) => out.extend(v6.octets().iter().take(count)),
        }
    }

    /// Reads destinations up to the end; `None` where one is too long or cut short.
    pub(super) fn read_all(family: Family, bytes: &[u8], into: &mut Vec<Self>) -> Option<()> {
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            into.push(Self::read(family, &mut cursor)?);
        }
        Some(())
    }

    fn read(family: Family, cursor: &mut Cursor<'_>) -> Option<Self> {
        let length = cursor.u8().filter(|length| *length <= family.bits())?;
        let bytes = cursor.take(usize::from(length).div_ceil(8))?;
        let address = match family {
            Family::Ipv4 => IpAddr::from(padded::<4>(bytes)),
            Family::Ipv6 => IpAddr::from(padded::<16>(bytes)),
        };
        Self::new(address, length)
    }
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut whole = [0; N];
    whole
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    whole
}

/// A text that is no destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a destination is an address, or an address and how many of its bits count")]
pub struct BadPrefix;

impl FromStr for Prefix {
    type Err = BadPrefix;

    fn from_str(text: &str) -> Result<Self, BadPrefix> {
        let Some((address, length)) = text.split_once('/') else {
            return text.parse().map(Self::host).map_err(|_| BadPrefix);
        };
        let address = address.parse().map_err(|_| BadPrefix)?;
        let length = length.parse().map_err(|_| BadPrefix)?;
        Self::new(address, length).ok_or(BadPrefix)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
        })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
