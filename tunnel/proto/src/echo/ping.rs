//! The same question to whoever does not speak our echo: as the data of an ICMP echo (RFC 792, RFC 4443
//! section 4), which every host answers.

use std::net::IpAddr;

use super::{LENGTH, Message};
use crate::packet::checksum::Sum;

/// Whom is asked, and as whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// The source.
    pub from: IpAddr,
    /// The destination.
    pub to: IpAddr,
    /// The identifier: tells this prober's answers from those of others.
    pub identifier: u16,
}

/// Why an ICMP message is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PingError {
    /// The two addresses are not of one family.
    #[error("source and destination are of two families")]
    Families,
}

impl Ping {
    /// A whole packet with the question.
    ///
    /// # Errors
    ///
    /// The addresses are not of one family.
    pub fn request(&self, message: &Message) -> Result<Vec<u8>, PingError> {
        let (kind, pseudo) = match (self.from, self.to) {
            (IpAddr::V4(_), IpAddr::V4(_)) => (REQUEST_V4, Sum::default()),
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let addresses = [from.octets(), to.octets()].concat();
                (REQUEST_V6, Sum::pseudo(&addresses, ICMP_V6, ICMP_LENGTH))
            }
            _ => return Err(PingError::Families),
        };
        let [high, low] = self.identifier.to_be_bytes();
        let [.., first, last] = message.sequence.to_be_bytes();
        let data = message.emit();
        let head = |sum: u16| {
            let [a, b] = sum.to_be_bytes();
            [kind, 0, a, b, high, low, first, last]
        };
        let sum = Sum::of(&head(0)).plus(Sum::of(&data)).plus(pseudo);
        let mut packet = match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let [s0, s1, s2, s3] = from.octets();
                let [d0, d1, d2, d3] = to.octets();
                let [l0, l1] = LENGTH_V4.to_be_bytes();
                let header = |sum: u16| {
                    let [c0, c1] = sum.to_be_bytes();
                    [
                        0x45, 0, l0, l1, 0, 0, 0x40, 0, HOPS, ICMP_V4, c0, c1, //
                        s0, s1, s2, s3, d0, d1, d2, d3,
                    ]
                };
                header(Sum::of(&header(0)).checksum()).to_vec()
            }
            (from, to) => {
                let [l0, l1] = LENGTH_V6.to_be_bytes();
                let mut header = vec![0x60, 0, 0, 0, l0, l1, ICMP_V6, HOPS];
                for address in [from, to] {
                    if let IpAddr::V6(address) = address {
                        header.extend(address.octets());
                    }
                }
                header
            }
        };
        packet.extend(head(sum.checksum()));
        packet.extend(data);
        Ok(packet)
    }

    /// The answer in an ICMP message without its IP header, if it is one to this prober.
    #[must_use]
    pub fn answer(&self, icmp: &[u8]) -> Option<Message> {
        let (head, data) = icmp.split_first_chunk::<8>()?;
        let [kind, 0, _, _, high, low, _, _] = *head else {
            return None;
        };
        let expected = if self.to.is_ipv4() {
            REPLY_V4
        } else {
            REPLY_V6
        };
        if kind != expected || u16::from_be_bytes([high, low]) != self.identifier {
            return None;
        }
        // It comes back as it was sent.
        Message::parse(data).ok()?.answer()
    }
}

const REQUEST_V4: u8 = 8;
const REPLY_V4: u8 = 0;
const REQUEST_V6: u8 = 128;
const REPLY_V6: u8 = 129;
const ICMP_V4: u8 = 1;
const ICMP_V6: u8 = 58;
const HOPS: u8 = 64;
const ICMP_LENGTH: usize = 8 + LENGTH;
const LENGTH_V6: u16 = 8 + 24;
const LENGTH_V4: u16 = 20 + LENGTH_V6;
const _: () = assert!(LENGTH == 24);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::checksum::Sum;

    const QUESTION: Message = Message {
        is_answer: false,
        session: 0x0102_0304_0506_0708,
        sequence: 0x1_0203,
    };

    fn ping(from: &str, to: &str) -> Ping {
        Ping {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            identifier: 0xabcd,
        }
    }

    #[test]
    fn a_request_is_intact_and_its_reply_is_the_answer() {
        for (from, to, header, reply) in [
            ("198.18.0.10", "10.9.0.5", 20, REPLY_V4),
            ("fd6b::a", "fd09::5", 40, REPLY_V6),
        ] {
            let ping = ping(from, to);
            let packet = ping.request(&QUESTION).unwrap();
            assert_eq!(packet.len(), header + 32);
            let (ip, icmp) = packet.split_at(header);
            let pseudo = if header == 20 {
                assert!(Sum::of(ip).is_intact(), "the header's own");
                Sum::default()
            } else {
                Sum::pseudo(&ip[8..40], ICMP_V6, icmp.len())
            };
            assert!(Sum::of(icmp).plus(pseudo).is_intact(), "{from}");
            assert_eq!(
                crate::allowed::addresses(&packet),
                Some((ping.from, ping.to))
            );
            assert_eq!(icmp[6..8], [0x02, 0x03], "the sequence number's end");
            let mut answer = icmp.to_vec();
            assert_eq!(ping.answer(&answer), None, "a request is no reply");
            answer[0] = reply;
            assert_eq!(ping.answer(&answer), QUESTION.answer());
            for length in 0..answer.len() {
                assert_eq!(ping.answer(&answer[..length]), None, "{length}");
            }
            answer[5] ^= 1;
            assert_eq!(ping.answer(&answer), None, "somebody else's");
        }
        let mixed = ping("198.18.0.10", "fd09::5");
        assert_eq!(mixed.request(&QUESTION), Err(PingError::Families));
    }
}
