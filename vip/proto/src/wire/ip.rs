//! The part of an IP header that VRRP's checks need.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{ParseError, checksum::Sum};

/// The IP protocol number of VRRP.
pub const PROTOCOL_VRRP: u8 = 112;
/// Where IPv4 adverts go (RFC 9568 section 5.1.1.2).
pub const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
/// Where IPv6 adverts go (RFC 9568 section 5.1.2.2).
pub const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12);
/// The TTL or hop limit that proves a packet did not cross a router.
pub const TTL: u8 = 255;

/// Where the adverts of a family go.
#[must_use]
pub const fn group(ipv6: bool) -> IpAddr {
    if ipv6 {
        IpAddr::V6(GROUP_V6)
    } else {
        IpAddr::V4(GROUP_V4)
    }
}

/// The fields of an IP header that VRRP's checks need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The source address.
    pub src: IpAddr,
    /// The destination address, of the same family.
    pub dst: IpAddr,
    /// The time to live, or hop limit.
    pub ttl: u8,
    /// The protocol of the payload.
    pub protocol: u8,
}

impl Header {
    /// Splits an IP packet, as a packet socket delivers it, into header and payload.
    ///
    /// IPv4 options are skipped, and the header's checksum is verified, because a packet socket
    /// hands over what arrived. Link-layer padding behind the packet is cut off. An IPv6 extension
    /// header counts as the payload: nobody sends adverts behind one.
    ///
    /// # Errors
    ///
    /// The bytes are not a complete, unfragmented IP packet.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        match bytes.first().map(|byte| byte >> 4) {
            Some(4) => v4(bytes),
            Some(6) => v6(bytes),
            Some(_) => Err(ParseError::BadIpHeader),
            None => Err(ParseError::Truncated),
        }
    }
}

fn v4(bytes: &[u8]) -> Result<(Header, &[u8]), ParseError> {
    let (fixed, _) = bytes
        .split_first_chunk::<20>()
        .ok_or(ParseError::Truncated)?;
    let [
        version_ihl,
        _tos,
        len_hi,
        len_lo,
        _id_hi,
        _id_lo,
        frag_hi,
        frag_lo,
        ttl,
        protocol,
        _sum_hi,
        _sum_lo,
        s0,
        s1,
        s2,
        s3,
        d0,
        d1,
        d2,
        d3,
    ] = *fixed;
    let header_len = usize::from(version_ihl & 0x0f) * 4;
    if header_len < fixed.len() {
        return Err(ParseError::BadIpHeader);
    }
    let total = usize::from(u16::from_be_bytes([len_hi, len_lo]));
    let packet = bytes.get(..total).ok_or(ParseError::Truncated)?;
    let (header, payload) = packet
        .split_at_checked(header_len)
        .ok_or(ParseError::BadIpHeader)?;
    if Sum::of(header) != Sum::VALID {
        return Err(ParseError::BadIpHeader);
    }
    // More-fragments flag or a fragment offset.
    if u16::from_be_bytes([frag_hi, frag_lo]) & 0x3fff != 0 {
        return Err(ParseError::Fragment);
    }
    let src = Ipv4Addr::new(s0, s1, s2, s3).into();
    let dst = Ipv4Addr::new(d0, d1, d2, d3).into();
    Ok((
        Header {
            src,
            dst,
            ttl,
            protocol,
        },
        payload,
    ))
}

fn v6(bytes: &[u8]) -> Result<(Header, &[u8]), ParseError> {
    let (fixed, rest) = bytes
        .split_first_chunk::<40>()
        .ok_or(ParseError::Truncated)?;
    let [_, _, _, _, len_hi, len_lo, protocol, ttl, ends @ ..] = *fixed;
    let length = usize::from(u16::from_be_bytes([len_hi, len_lo]));
    let payload = rest.get(..length).ok_or(ParseError::Truncated)?;
    if protocol == FRAGMENT_HEADER {
        return Err(ParseError::Fragment);
    }
    let (src, dst) = ends.split_at(16);
    let address = |octets: &[u8]| {
        let octets: [u8; 16] = octets.try_into().map_err(|_| ParseError::Truncated)?;
        Ok(IpAddr::V6(Ipv6Addr::from_octets(octets)))
    };
    Ok((
        Header {
            src: address(src)?,
            dst: address(dst)?,
            ttl,
            protocol,
        },
        payload,
    ))
}

/// The next-header number of an IPv6 fragment.
const FRAGMENT_HEADER: u8 = 44;
