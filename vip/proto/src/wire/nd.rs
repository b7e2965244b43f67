//! Neighbor Discovery for IPv6 (RFC 4861): announcements, probes, and what others claim.

pub mod router;

use std::net::Ipv6Addr;

use super::{Mac, ParseError, checksum::Sum, ip};

/// The length of an advertisement with its IPv6 header, the longest packet emitted here.
pub const LEN: usize = HEADER + ADVERTISEMENT;
/// The EtherType of IPv6.
pub const ETHERTYPE: u16 = 0x86dd;
/// Where announcements go: every node of the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// What a neighbour asks or says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// "Who has", 135.
    Solicitation,
    /// "Is at", 136.
    Advertisement {
        /// The sender forwards packets.
        router: bool,
        /// It answers a solicitation.
        solicited: bool,
        /// It replaces what caches have.
        overrides: bool,
    },
}

/// A Neighbor Solicitation or Neighbor Advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// The source address; unspecified in a probe.
    pub src: Ipv6Addr,
    /// The destination address.
    pub dst: Ipv6Addr,
    /// Whom it is about.
    pub target: Ipv6Addr,
    /// The link-layer address option, or the station that sent it where there is none.
    pub mac: Mac,
    /// Solicitation or advertisement.
    pub kind: Kind,
}

impl Packet {
    /// An unsolicited advertisement: "`address` is at `mac`, whatever you knew", for every node
    /// (RFC 4861 section 7.2.6). Its source is the address itself.
    ///
    /// The router flag says what the sending interface does, which the sender knows.
    #[must_use]
    pub const fn announcement(address: Ipv6Addr, mac: Mac) -> Self {
        Self {
            src: address,
            dst: ALL_NODES,
            target: address,
            mac,
            kind: Kind::Advertisement {
                router: false,
                solicited: false,
                overrides: true,
            },
        }
    }

    /// The probe of duplicate address detection (RFC 4862 section 5.4.2): "does anybody use
    /// `address`?" It claims nothing, so it changes nobody's cache.
    #[must_use]
    pub const fn probe(address: Ipv6Addr, mac: Mac) -> Self {
        Self {
            src: Ipv6Addr::UNSPECIFIED,
            dst: solicited_node(address),
            target: address,
            mac,
            kind: Kind::Solicitation,
        }
    }

    /// "Who has `target`?", asked of the group of its holders from `src` at `mac`.
    #[must_use]
    pub const fn question(src: Ipv6Addr, mac: Mac, target: Ipv6Addr) -> Self {
        Self {
            src,
            dst: solicited_node(target),
            target,
            mac,
            kind: Kind::Solicitation,
        }
    }

    /// Whether this is a probe of duplicate address detection.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.kind == Kind::Solicitation && self.src.is_unspecified()
    }

    /// The hardware address of the group it goes to (RFC 2464 section 7).
    #[must_use]
    pub const fn group_mac(&self) -> Mac {
        let [.., a, b, c, d] = self.dst.octets();
        Mac([0x33, 0x33, a, b, c, d])
    }

    /// Writes the packet with its IPv6 header into `buffer` and returns its length.
    ///
    /// A probe carries no link-layer address (RFC 4861 section 4.3), everything else does.
    #[must_use]
    pub fn emit(&self, buffer: &mut [u8; LEN]) -> usize {
        let length = if self.is_probe() {
            SHORTEST
        } else {
            ADVERTISEMENT
        };
        let (kind, flags, option) = match self.kind {
            Kind::Solicitation => (SOLICITATION, 0, SOURCE_OPTION),
            Kind::Advertisement {
                router,
                solicited,
                overrides,
            } => {
                let flags =
                    u8::from(router) << 7 | u8::from(solicited) << 6 | u8::from(overrides) << 5;
                (ADVERTISEMENT_TYPE, flags, TARGET_OPTION)
            }
        };
        let payload_length = u8::try_from(length).unwrap_or(u8::MAX);
        let [m0, m1, m2, m3, m4, m5] = self.mac.0;
        let parts: [&[u8]; 7] = [
            &[0x60, 0, 0, 0, 0, payload_length, ICMPV6, ip::TTL],
            &self.src.octets(),
            &self.dst.octets(),
            &[kind, 0, 0, 0, flags, 0, 0, 0],
            &self.target.octets(),
            &[option, 1],
            &[m0, m1, m2, m3, m4, m5],
        ];
        let bytes = parts.into_iter().flatten();
        for (slot, byte) in buffer.iter_mut().zip(bytes) {
            *slot = *byte;
        }
        let message = buffer.get(HEADER..HEADER + length).unwrap_or_default();
        let (src, dst) = (self.src.into(), self.dst.into());
        let sum = Sum::of(message).plus(Sum::pseudo_header(src, dst, ICMPV6, length));
        if let Some(field) = buffer.get_mut(HEADER + 2..HEADER + 4) {
            field.copy_from_slice(&sum.checksum().to_be_bytes());
        }
        HEADER + length
    }

    /// Reads an IPv6 packet of the station `from` by the rules of RFC 4861 section 7.1.
    ///
    /// # Errors
    ///
    /// It is malformed, was forwarded, or is neither solicitation nor advertisement.
    pub fn parse(from: Mac, packet: &[u8]) -> Result<Self, ParseError> {
        let (header, message) = ip::Header::parse(packet)?;
        let (std::net::IpAddr::V6(src), std::net::IpAddr::V6(dst)) = (header.src, header.dst)
        else {
            return Err(ParseError::NotNd);
        };
        if header.protocol != ICMPV6 {
            return Err(ParseError::NotNd);
        }
        let (fixed, options) = message
            .split_first_chunk::<SHORTEST>()
            .ok_or(ParseError::Truncated)?;
        let [kind, code, _, _, flags, _, _, _, target @ ..] = *fixed;
        let target = Ipv6Addr::from_octets(target);
        if header.ttl != ip::TTL {
            return Err(ParseError::Ttl);
        }
        let sum = Sum::pseudo_header(header.src, header.dst, ICMPV6, message.len());
        if Sum::of(message).plus(sum) != Sum::VALID {
            return Err(ParseError::Checksum);
        }
        let (kind, wanted) = match kind {
            SOLICITATION => (Kind::Solicitation, SOURCE_OPTION),
            ADVERTISEMENT_TYPE => {
                let kind = Kind::Advertisement {
                    router: flags & 0x80 != 0,
                    solicited: flags & 0x40 != 0,
                    overrides: flags & 0x20 != 0,
                };
                (kind, TARGET_OPTION)
            }
            _ => return Err(ParseError::NotNd),
        };
        if code != 0 || target.is_multicast() {
            return Err(ParseError::NotNd);
        }
        Ok(Self {
            src,
            dst,
            target,
            mac: link_layer_option(options, wanted)?.unwrap_or(from),
            kind,
        })
    }
}

/// The link-layer address among options (RFC 4861 section 4.6): type, length in units of 8 bytes,
/// value.
fn link_layer_option(mut options: &[u8], wanted: u8) -> Result<Option<Mac>, ParseError> {
    let mut found = None;
    while let Some((kind, length)) = options.first().zip(options.get(1)) {
        let length = usize::from(*length) * 8;
        let value = options.get(2..length).ok_or(ParseError::Truncated)?;
        if let (true, Ok(mac)) = (*kind == wanted, <[u8; 6]>::try_from(value)) {
            found.get_or_insert(Mac(mac));
        }
        options = options.get(length..).unwrap_or_default();
    }
    Ok(found)
}

/// The group on which the holders of `address` listen (RFC 4291 section 2.7.1).
const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::from_octets([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

const HEADER: usize = 40;
/// Type, code, checksum, flags and target.
const SHORTEST: usize = 24;
/// The same and one link-layer address option.
const ADVERTISEMENT: usize = 32;
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT_TYPE: u8 = 136;
const SOURCE_OPTION: u8 = 1;
const TARGET_OPTION: u8 = 2;
