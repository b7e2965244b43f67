//! Packets: VRRP versions 3 (RFC 9568) and 2 (RFC 3768), ARP for Ethernet and IPv4 (RFC 826,
//! RFC 5227), Neighbor Discovery for IPv6 (RFC 4861), BFD (RFC 5880), BGP (RFC 4271), and the part
//! of an IP header that their checks need.

use std::fmt;

use kedge_core::vip::Vrid;

pub mod addresses;
pub mod arp;
pub mod bfd;
pub mod bgp;
pub mod checksum;
pub mod ip;
pub mod nd;
pub mod neighbor;
pub mod password;
pub mod vrrp;

pub use addresses::Addresses;
pub use neighbor::{Claim, Neighbor};
pub use password::Password;

/// An Ethernet hardware address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// `ff:ff:ff:ff:ff:ff`, where announcements and probes go.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// `00:00:00:00:00:00`, the unknown target of a request.
    pub const ZERO: Self = Self([0; 6]);

    /// That of a virtual router, where addresses of the one or the other family are (RFC 9568
    /// section 7.3).
    #[must_use]
    pub const fn virtual_router(vrid: Vrid, ipv6: bool) -> Self {
        let family = if ipv6 { 2 } else { 1 };
        Self([0x00, 0x00, 0x5e, 0x00, family, vrid.get()])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Why bytes are not a packet we act on; also the label of their counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ParseError {
    /// Fewer bytes than the packet's own fields claim.
    #[error("the packet is shorter than its fields claim")]
    Truncated,
    /// Neither IPv4 nor IPv6, a bad header length or a bad header checksum.
    #[error("the IP header is malformed")]
    BadIpHeader,
    /// A fragment: adverts are never fragmented.
    #[error("the packet is a fragment")]
    Fragment,
    /// An IP packet that is not VRRP (protocol 112).
    #[error("the packet is not VRRP")]
    NotVrrp,
    /// The TTL or hop limit is not 255: the packet crossed a router (RFC 9568 sections 5.1.1.3
    /// and 5.1.2.3).
    #[error("the TTL is not 255, so the packet crossed a router")]
    Ttl,
    /// A VRRP version that does not exist, or version 2 over IPv6.
    #[error("the VRRP version is neither 2 (IPv4 only) nor 3")]
    Version,
    /// A way to authenticate version 2 adverts that is neither "none" nor a password.
    #[error("the authentication type of version 2 is neither 0 (none) nor 1 (password)")]
    AuthType,
    /// A version 2 interval that no router here can have.
    #[error("the advertisement interval is longer than 40 s")]
    LongInterval,
    /// A VRRP packet type other than advertisement.
    #[error("the VRRP packet is not an advertisement")]
    NotAdvertisement,
    /// An address count of zero (RFC 9568 section 5.2.5: ignore).
    #[error("the advertisement carries no address")]
    NoAddress,
    /// An advertisement interval of zero (RFC 9568 section 7.1: discard).
    #[error("the advertisement interval is zero")]
    ZeroInterval,
    /// A virtual router identifier of zero.
    #[error("the virtual router identifier is zero")]
    ZeroVrid,
    /// Neither checksum form matches.
    #[error("the checksum is wrong in both forms")]
    Checksum,
    /// Not ARP for Ethernet and IPv4, or neither request nor reply.
    #[error("not an ARP request or reply for Ethernet and IPv4")]
    NotArp,
    /// Neither a Neighbor Solicitation nor a Neighbor Advertisement.
    #[error("not a neighbor solicitation or advertisement")]
    NotNd,
}

impl ParseError {
    /// The `reason` label of the counter of dropped packets.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::BadIpHeader => "bad_ip_header",
            Self::Fragment => "fragment",
            Self::NotVrrp => "not_vrrp",
            Self::Ttl => "ttl",
            Self::Version => "version",
            Self::AuthType => "auth_type",
            Self::LongInterval => "long_interval",
            Self::NotAdvertisement => "not_advertisement",
            Self::NoAddress => "no_address",
            Self::ZeroInterval => "zero_interval",
            Self::ZeroVrid => "zero_vrid",
            Self::Checksum => "checksum",
            Self::NotArp => "not_arp",
            Self::NotNd => "not_nd",
        }
    }
}

#[cfg(test)]
mod tests;
