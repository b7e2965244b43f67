//! The part of an IPv4 header that VRRP's checks need.

use std::net::Ipv4Addr;

use super::{ParseError, checksum::Sum};

/// The IP protocol number of VRRP.
pub const PROTOCOL_VRRP: u8 = 112;
/// Where adverts go (RFC 9568 section 5.1.1.2).
pub const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
/// The TTL that proves a packet did not cross a router.
pub const TTL: u8 = 255;

/// The fields of an IPv4 header that VRRP's checks need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The source address.
    pub src: Ipv4Addr,
    /// The destination address.
    pub dst: Ipv4Addr,
    /// The time to live.
    pub ttl: u8,
    /// The protocol of the payload.
    pub protocol: u8,
}

impl Header {
    /// Splits an IPv4 packet, as a packet socket delivers it, into header and payload.
    ///
    /// Options are skipped, link-layer padding after the packet's total length is cut off. The
    /// header checksum is verified, because a packet socket hands over what arrived.
    ///
    /// # Errors
    ///
    /// The bytes are not a complete, unfragmented IPv4 packet.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
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
        if version_ihl >> 4 != 4 || header_len < fixed.len() {
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
        let src = Ipv4Addr::new(s0, s1, s2, s3);
        let dst = Ipv4Addr::new(d0, d1, d2, d3);
        Ok((
            Self {
                src,
                dst,
                ttl,
                protocol,
            },
            payload,
        ))
    }
}
