//! Where things stand in a packet of TCP or UDP.

use super::field;

/// A whole, unfragmented packet of TCP or UDP without IP options or extension headers: the only
/// kind that is ever put together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Which IP.
    pub version: Version,
    /// What it carries.
    pub transport: Transport,
    /// Where the TCP or UDP header begins.
    pub transport_at: usize,
    /// Where its payload begins, at most `length`.
    pub payload_at: usize,
    /// How long the packet is.
    pub length: usize,
}

/// An IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Version {
    /// The version that the first bits of a packet say.
    #[must_use]
    pub const fn of(packet: &[u8]) -> Option<Self> {
        match packet {
            [0x40..=0x4f, ..] => Some(Self::V4),
            [0x60..=0x6f, ..] => Some(Self::V6),
            _ => None,
        }
    }

    /// Where source and destination stand in the IP header.
    #[must_use]
    pub fn addresses(self, packet: &[u8]) -> Option<&[u8]> {
        match self {
            Self::V4 => packet.get(12..20),
            Self::V6 => packet.get(8..40),
        }
    }
}

impl Transport {
    /// Its number in an IP header.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }

    const fn of(number: u8) -> Option<Self> {
        match number {
            6 => Some(Self::Tcp),
            17 => Some(Self::Udp),
            _ => None,
        }
    }
}

impl View {
    /// Looks at a packet; `None` for anything that must travel as it is.
    #[must_use]
    pub fn of(packet: &[u8]) -> Option<Self> {
        let length = packet.len();
        let version = Version::of(packet)?;
        let (transport, transport_at) = match version {
            Version::V4 => {
                let header = packet.first_chunk::<20>()?;
                let [ihl, _, _, _, _, _, fragment, offset, _, protocol, ..] = *header;
                // More fragments, or not the first.
                if ihl != 0x45 || fragment & 0xbf != 0 || offset != 0 {
                    return None;
                }
                if usize::from(field::word(packet, 2)?) != length {
                    return None;
                }
                (Transport::of(protocol)?, 20)
            }
            Version::V6 => {
                let header = packet.first_chunk::<40>()?;
                let [_, _, _, _, _, _, next, ..] = *header;
                if usize::from(field::word(packet, 4)?) + 40 != length {
                    return None;
                }
                (Transport::of(next)?, 40)
            }
        };
        let payload_at = transport_at
            + match transport {
                Transport::Tcp => tcp_header(packet.get(transport_at..)?)?,
                Transport::Udp => {
                    if usize::from(field::word(packet, transport_at + 4)?) + transport_at != length
                    {
                        return None;
                    }
                    8
                }
            };
        (payload_at <= length).then_some(Self {
            version,
            transport,
            transport_at,
            payload_at,
            length,
        })
    }

    /// How many bytes of payload there are.
    #[must_use]
    pub const fn payload(&self) -> usize {
        self.length - self.payload_at
    }
}

/// The length of a TCP header with its options, which may be longer than the packet.
pub(super) fn tcp_header(header: &[u8]) -> Option<usize> {
    let fixed = header.first_chunk::<20>()?;
    let [_, _, _, _, _, _, _, _, _, _, _, _, offset, ..] = *fixed;
    let length = usize::from(offset >> 4) * 4;
    (length >= 20).then_some(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::model::{Flow, tcp, udp};

    #[test]
    fn whole_packets_of_both_families_are_seen() {
        for version in [Version::V4, Version::V6] {
            let flow = Flow::new(version, 1);
            let packet = tcp(&flow, 1_000, &[7; 100], 0x10, 12);
            let view = View::of(&packet).unwrap();
            let ip = if version == Version::V4 { 20 } else { 40 };
            assert_eq!((view.transport, view.transport_at), (Transport::Tcp, ip));
            assert_eq!((view.payload_at, view.payload()), (ip + 32, 100));
            let packet = udp(&flow, &[7; 100], true);
            let view = View::of(&packet).unwrap();
            assert_eq!((view.transport, view.payload_at), (Transport::Udp, ip + 8));
        }
    }

    #[test]
    fn fragments_options_and_wrong_lengths_travel_as_they_are() {
        let packet = udp(&Flow::new(Version::V4, 1), &[7; 100], true);
        for (at, value) in [
            (0, 0x46),
            (6, 0x20),
            (7, 1),
            (9, 1),
            (3, 127),
            (25, 107),
            (0, 0x55),
        ] {
            let mut other = packet.clone();
            other[at] = value;
            assert_eq!(View::of(&other), None, "byte {at}");
        }
        let mut dont_fragment = packet.clone();
        dont_fragment[6] = 0x40;
        assert!(View::of(&dont_fragment).is_some());
        for length in 0..packet.len() {
            assert_eq!(View::of(&packet[..length]), None, "cut to {length}");
        }
        let mut short_header = tcp(&Flow::new(Version::V6, 1), 1, &[], 0x10, 0);
        short_header[52] = 0x40;
        assert_eq!(View::of(&short_header), None);
        short_header[52] = 0x60;
        assert_eq!(View::of(&short_header), None, "longer than the packet");
    }

    proptest! {
        #[test]
        fn any_bytes_are_seen_or_not(bytes: Vec<u8>) {
            if let Some(view) = View::of(&bytes) {
                prop_assert!(view.transport_at < view.payload_at);
                prop_assert!(view.payload_at <= view.length && view.length == bytes.len());
            }
        }
    }
}
