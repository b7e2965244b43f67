//! What stands before each packet on a TUN device with `IFF_VNET_HDR`: `struct virtio_net_hdr`
//! (virtio 1.2 section 5.1.6), the form of ten bytes, in the machine's byte order.
//!
//! ```text
//!   0        1           2         4          6            8
//!   | flags  | gso_type  | hdr_len | gso_size | csum_start | csum_offset |
//! ```

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
    /// Fewer than ten bytes.
    #[error("no whole virtio_net_hdr")]
    Truncated,
    /// A kind of segmentation that was not asked for.
    #[error("an unknown kind of segmentation")]
    UnknownGso,
}

impl Header {
    /// Bytes in a header.
    pub const LEN: usize = 10;

    /// Reads the header before `bytes`; the packet is the rest.
    ///
    /// # Errors
    ///
    /// Too short, or a kind of segmentation that was never asked for.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let header = bytes.first_chunk::<10>().ok_or(ParseError::Truncated)?;
        let [flags, kind, a, b, c, d, e, f, g, h] = *header;
        let gso = match kind {
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
        })
    }

    /// The header as bytes.
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
        [flags, kind, a, b, c, d, e, f, g, h]
    }
}

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn every_field_of_a_header_is_read_from_its_place() {
        let bytes = [
            0x01, 0x01, 0x42, 0x00, 0x58, 0x05, 0x14, 0x00, 0x10, 0x00, 0x45,
        ];
        let header = Header {
            gso: Gso::TcpV4,
            header_length: 66,
            segment: 1_368,
            partial: Some(Partial {
                start: 20,
                offset: 16,
            }),
        };
        assert_eq!(Header::parse(&bytes), Ok(header));
        assert_eq!(header.emit(), bytes[..10]);
        assert_eq!(Header::parse(&bytes[..9]), Err(ParseError::Truncated));
        assert_eq!(Header::default().emit(), [0; 10]);
    }

    #[test]
    fn a_kind_of_segmentation_nobody_asked_for_is_refused() {
        for kind in 0..=255 {
            let known = [0, 1, 4, 5].contains(&kind);
            let parsed = Header::parse(&[0, kind, 0, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(parsed.is_ok(), known, "{kind}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_as_it_was_read(bytes: [u8; 10]) {
            let Ok(header) = Header::parse(&bytes) else { return Ok(()) };
            prop_assert_eq!(Header::parse(&header.emit()), Ok(header));
        }
    }
}
