//! Packets: VRRPv3 for IPv4 (RFC 9568), ARP for Ethernet and IPv4 (RFC 826, RFC 5227) and the
//! part of an IPv4 header that VRRP's checks need.

use std::fmt;

pub mod addresses;
pub mod arp;
pub mod checksum;
pub mod ipv4;
pub mod vrrp;

pub use addresses::Addresses;

/// An Ethernet hardware address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// `ff:ff:ff:ff:ff:ff`, where announcements and probes go.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// `00:00:00:00:00:00`, the unknown target of a request.
    pub const ZERO: Self = Self([0; 6]);
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
    /// Not IPv4, a bad header length or a bad header checksum.
    #[error("the IPv4 header is malformed")]
    BadIpHeader,
    /// A fragment: adverts are never fragmented.
    #[error("the packet is an IPv4 fragment")]
    Fragment,
    /// An IPv4 packet that is not VRRP (protocol 112).
    #[error("the packet is not VRRP")]
    NotVrrp,
    /// The TTL is not 255: the packet crossed a router (RFC 9568 section 5.1.1.3).
    #[error("the TTL is not 255, so the packet crossed a router")]
    Ttl,
    /// VRRP version 2, which this router does not speak.
    #[error("the advertisement is VRRP version 2")]
    VersionTwo,
    /// A VRRP version that does not exist.
    #[error("the VRRP version is neither 2 nor 3")]
    Version,
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
            Self::VersionTwo => "version_2",
            Self::Version => "version",
            Self::NotAdvertisement => "not_advertisement",
            Self::NoAddress => "no_address",
            Self::ZeroInterval => "zero_interval",
            Self::ZeroVrid => "zero_vrid",
            Self::Checksum => "checksum",
            Self::NotArp => "not_arp",
        }
    }
}

#[cfg(test)]
mod tests;
