//! The question as an inner packet: UDP with zeros behind the message.

use std::net::{IpAddr, SocketAddr};

use crate::{
    echo::{LENGTH, Message},
    packet::checksum::Sum,
};

/// Who asks whom, over the addresses in the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The socket that waits for the answer.
    pub from: SocketAddr,
    /// Who answers.
    pub to: SocketAddr,
}

impl Question {
    /// The packet, exactly `size` bytes long, or as short as can be. `None` where the addresses are not
    /// of one family, or the message does not fit.
    #[must_use]
    pub fn packet(&self, message: &Message, size: Option<u16>) -> Option<Vec<u8>> {
        let (ip, pseudo) = match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                (HEADER_V4, [from.octets(), to.octets()].concat())
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                (HEADER_V6, [from.octets(), to.octets()].concat())
            }
            _ => return None,
        };
        let least = ip + HEADER_UDP + LENGTH;
        let size = size.map_or(least, usize::from);
        let datagram = size.checked_sub(ip).filter(|_| size >= least)?;
        let long = u16::try_from(datagram).ok()?.to_be_bytes();
        let mut udp = Vec::with_capacity(datagram);
        udp.extend(self.from.port().to_be_bytes());
        udp.extend(self.to.port().to_be_bytes());
        udp.extend(long);
        udp.extend([0, 0]);
        udp.extend(message.emit());
        udp.resize(datagram, 0);
        let sum = Sum::of(&udp).plus(Sum::pseudo(&pseudo, UDP, datagram));
        for (to, from) in udp.iter_mut().skip(6).zip(sum.udp_checksum().to_be_bytes()) {
            *to = from;
        }
        let mut packet = Vec::with_capacity(size);
        if ip == HEADER_V4 {
            let [l0, l1] = u16::try_from(size).ok()?.to_be_bytes();
            let header = |sum: u16| {
                let [c0, c1] = sum.to_be_bytes();
                let mut header = vec![0x45, 0, l0, l1, 0, 0, DONT_FRAGMENT, 0, HOPS, UDP, c0, c1];
                header.extend(&pseudo);
                header
            };
            packet.extend(header(Sum::of(&header(0)).checksum()));
        } else {
            let [l0, l1] = long;
            packet.extend([0x60, 0, 0, 0, l0, l1, UDP, HOPS]);
            packet.extend(&pseudo);
        }
        packet.extend(udp);
        Some(packet)
    }
}

const HEADER_V4: usize = 20;
const HEADER_V6: usize = 40;
const HEADER_UDP: usize = 8;
const UDP: u8 = 17;
const HOPS: u8 = 64;
const DONT_FRAGMENT: u8 = 0x40;

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: Message = Message {
        is_answer: false,
        session: 0x0102_0304_0506_0708,
        sequence: 9,
    };

    fn question(from: &str, to: &str) -> Question {
        Question {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
        }
    }

    #[test]
    fn it_is_intact_and_exactly_as_long_as_asked() {
        for (from, to, header) in [
            ("198.18.0.10:4000", "198.18.0.1:51821", 20),
            ("[fd6b::a]:4000", "[fd6b::1]:51821", 40),
        ] {
            let question = question(from, to);
            for size in [None, Some(1280), Some(1281), Some(9000)] {
                let packet = question.packet(&MESSAGE, size).unwrap();
                let length = size.map_or(header + 8 + LENGTH, usize::from);
                assert_eq!(packet.len(), length, "{from} {size:?}");
                let (ip, udp) = packet.split_at(header);
                let addresses = if header == 20 {
                    assert!(Sum::of(ip).is_intact(), "the header's own");
                    assert_eq!(ip[2..4], u16::try_from(length).unwrap().to_be_bytes());
                    &ip[12..20]
                } else {
                    assert_eq!(ip[4..6], u16::try_from(length - 40).unwrap().to_be_bytes());
                    &ip[8..40]
                };
                let sum = Sum::of(udp).plus(Sum::pseudo(addresses, UDP, udp.len()));
                assert!(sum.is_intact(), "{from} {size:?}");
                assert_eq!(udp[0..2], 4000_u16.to_be_bytes());
                assert_eq!(udp[2..4], 51821_u16.to_be_bytes());
                assert_eq!(Message::parse(&udp[8..]), Ok(MESSAGE));
                assert_eq!(
                    crate::allowed::addresses(&packet),
                    Some((question.from.ip(), question.to.ip()))
                );
            }
            let least = u16::try_from(header + 8 + LENGTH).unwrap();
            assert_eq!(question.packet(&MESSAGE, Some(least - 1)), None);
        }
        let mixed = question("198.18.0.10:1", "[fd6b::1]:2");
        assert_eq!(mixed.packet(&MESSAGE, None), None);
    }
}
