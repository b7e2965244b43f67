//! What stands before each packet on a TUN device with `IFF_VNET_HDR`: `struct virtio_net_hdr`
//! (virtio 1.2 section 5.1.6) in the machine's byte order, in the form of 24 bytes that has room for
//! packets inside others (virtio 1.4, `VIRTIO_NET_F_GUEST_UDP_TUNNEL_GSO`).
//!
//! ```text
//!   0        1           2         4          6            8             10       20         22
//!   | flags  | gso_type  | hdr_len | gso_size | csum_start | csum_offset | unused | outer_th | inner_nh |
//! ```
//! Where nothing of that kind was asked for the kernel leaves what is behind the tenth byte as it was.

/// One such header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// How the packet is to be segmented.
    pub gso: Gso,
    /// How many bytes of headers each segment repeats, as the writer says: not to be trusted.
    pub header_length: u16,
    /// The most payload a segment has.
    pub segment: u16,
    /// The checksum that is still to be computed.
    pub partial: Option<Partial>,
    /// What it is inside of, and all segments are.
    pub tunnel: Option<Tunnel>,
}

/// A packet inside a UDP datagram, such as VXLAN's: where things stand, from the outer IP header on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The outer UDP header.
    pub outer_transport: u16,
    /// The inner IP header.
    pub inner_network: u16,
}

/// A checksum that the sender left to the device; the field holds the pseudo-header's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Where what it covers begins.
    pub start: u16,
    /// Where its field is, behind `start`.
    pub offset: u16,
}

/// What kind of super packet it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gso {
    /// None: one packet.
    #[default]
    None,
    /// TCP in IPv4.
    TcpV4,
    /// TCP in IPv6.
    TcpV6,
    /// UDP datagrams of one size (USO).
    Udp,
}

/// The bytes are no header we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Fewer bytes than that.
    #[error("no whole virtio_net_hdr")]
    Truncated,
    /// A kind of segmentation that was not asked for.
    #[error("an unknown kind of segmentation")]
    UnknownGso,
}

impl Header {
    /// Bytes in a header.
    pub const LEN: usize = 24;

    /// Reads the header before `bytes`; the packet is the rest.
    ///
    /// # Errors
    ///
    /// Too short, or a kind of segmentation that was never asked for.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let header = bytes.first_chunk::<{ Self::LEN }>();
        let header = header.ok_or(ParseError::Truncated)?;
        let [flags, kind, a, b, c, d, e, f, g, h, .., i, j, k, l] = *header;
        let tunnel = match kind & (TUNNEL_V4 | TUNNEL_V6) {
            0 => None,
            TUNNEL_V4 | TUNNEL_V6 => Some(Tunnel {
                // These two are little-endian on every machine.
                outer_transport: u16::from_le_bytes([i, j]),
                inner_network: u16::from_le_bytes([k, l]),
            }),
            _ => return Err(ParseError::UnknownGso),
        };
        let gso = match kind & !(TUNNEL_V4 | TUNNEL_V6) {
            GSO_NONE if tunnel.is_some() => return Err(ParseError::UnknownGso),
            GSO_NONE => Gso::None,
            GSO_TCPV4 => Gso::TcpV4,
            GSO_TCPV6 => Gso::TcpV6,
            GSO_UDP_L4 => Gso::Udp,
            _ => return Err(ParseError::UnknownGso),
        };
        let partial = (flags & NEEDS_CSUM != 0).then_some(Partial {
            start: u16::from_ne_bytes([e, f]),
            offset: u16::from_ne_bytes([g, h]),
        });
        Ok(Self {
            gso,
            header_length: u16::from_ne_bytes([a, b]),
            segment: u16::from_ne_bytes([c, d]),
            partial,
            tunnel,
        })
    }

    /// The header as bytes, of a packet that is inside of none.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LEN] {
        let kind = match self.gso {
            Gso::None => GSO_NONE,
            Gso::TcpV4 => GSO_TCPV4,
            Gso::TcpV6 => GSO_TCPV6,
            Gso::Udp => GSO_UDP_L4,
        };
        let (flags, Partial { start, offset }) = match self.partial {
            Some(partial) => (NEEDS_CSUM, partial),
            None => (
                0,
                Partial {
                    start: 0,
                    offset: 0,
                },
            ),
        };
        let [a, b] = self.header_length.to_ne_bytes();
        let [c, d] = self.segment.to_ne_bytes();
        let [e, f] = start.to_ne_bytes();
        let [g, h] = offset.to_ne_bytes();
        let mut bytes = [0; Self::LEN];
        let fields = [flags, kind, a, b, c, d, e, f, g, h];
        for (byte, value) in bytes.iter_mut().zip(fields) {
            *byte = value;
        }
        bytes
    }
}

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// The outer IP of what is inside another packet.
const TUNNEL_V4: u8 = 0x20;
const TUNNEL_V6: u8 = 0x40;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn every_field_of_a_header_is_read_from_its_place() {
        let fields = [0x01, 0x01, 0x42, 0x00, 0x58, 0x05, 0x14, 0x00, 0x10, 0x00];
        let mut bytes = [0; Header::LEN + 1];
        bytes[..10].copy_from_slice(&fields);
        let header = Header {
            gso: Gso::TcpV4,
            header_length: 66,
            segment: 1_368,
            partial: Some(Partial {
                start: 20,
                offset: 16,
            }),
            tunnel: None,
        };
        assert_eq!(Header::parse(&bytes), Ok(header));
        assert_eq!(header.emit(), bytes[..Header::LEN]);
        assert_eq!(
            Header::parse(&bytes[..Header::LEN - 1]),
            Err(ParseError::Truncated)
        );
        assert_eq!(Header::default().emit(), [0; Header::LEN]);
        // What is left from the packet before means nothing.
        bytes[10..24].fill(0xee);
        assert_eq!(Header::parse(&bytes), Ok(header));
        bytes[1] |= 0x20;
        bytes[20..24].copy_from_slice(&[20, 0, 50, 1]);
        let tunnel = Tunnel {
            outer_transport: 20,
            inner_network: 306,
        };
        let tunnel = Some(tunnel);
        assert_eq!(Header::parse(&bytes), Ok(Header { tunnel, ..header }));
    }

    #[test]
    fn a_kind_of_segmentation_nobody_asked_for_is_refused() {
        let known = [0, 1, 4, 5, 0x21, 0x24, 0x25, 0x41, 0x44, 0x45];
        for kind in 0..=255 {
            let mut bytes = [0; Header::LEN];
            bytes[1] = kind;
            let parsed = Header::parse(&bytes);
            assert_eq!(parsed.is_ok(), known.contains(&kind), "{kind}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_as_it_was_read(bytes: [u8; Header::LEN]) {
            let Ok(header) = Header::parse(&bytes) else { return Ok(()) };
            let bare = Header { tunnel: None, ..header };
            prop_assert_eq!(Header::parse(&header.emit()), Ok(bare));
        }
    }
}
