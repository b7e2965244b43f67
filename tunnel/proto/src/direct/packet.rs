//! A question on a path, and its answer, as whole inner packets: which way they go is not left to the
//! routes.
//!
//! ```text
//!  IP, UDP from and to the meeting port, then
//!  "KDGP" version 1, kind, reserved 0, session u64, sequence u64
//! ```
//! Kinds: 1 a question on the direct path, 2 its answer, 3 a question through the gateway, 4 its answer.
//! An answer goes the way of its question. Big-endian.

use std::net::IpAddr;

use super::{MEETING_PORT, Path};
use crate::{echo::Message, packet::checksum::Sum};

/// A question or an answer on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The path.
    pub path: Path,
    /// What is asked or answered.
    pub message: Message,
}

/// Why there is no packet with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The two addresses are not of one family.
    #[error("source and destination are of two families")]
    Families,
}

impl Probe {
    /// The answer to a question; an answer has none.
    #[must_use]
    pub fn answer(self) -> Option<Self> {
        let message = self.message.answer()?;
        Some(Self { message, ..self })
    }

    /// Reads the data of the UDP datagram; `None` where it is no probe.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let (session, rest) = rest.split_first_chunk::<8>()?;
        let (sequence, _) = rest.split_first_chunk::<8>()?;
        let [b'K', b'D', b'G', b'P', 1, kind @ 1..=4, 0, 0] = *head else {
            return None;
        };
        Some(Self {
            path: if kind <= 2 {
                Path::Direct
            } else {
                Path::Gateway
            },
            message: Message {
                is_answer: kind.is_multiple_of(2),
                session: u64::from_be_bytes(*session),
                sequence: u64::from_be_bytes(*sequence),
            },
        })
    }

    /// The whole packet from one overlay address to another.
    ///
    /// # Errors
    ///
    /// The addresses are not of one family.
    pub fn packet(&self, from: IpAddr, to: IpAddr) -> Result<Vec<u8>, ProbeError> {
        let (addresses, mut packet) = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let addresses = [from.octets(), to.octets()].concat();
                let header = |sum: u16| {
                    let mut header = vec![0x45, 0];
                    header.extend(short(20 + UDP));
                    header.extend([0, 0, 0x40, 0, HOPS, PROTOCOL]);
                    header.extend(sum.to_be_bytes());
                    header.extend(&addresses);
                    header
                };
                let sum = Sum::of(&header(0)).checksum();
                (addresses.clone(), header(sum))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let addresses = [from.octets(), to.octets()].concat();
                let mut header = vec![0x60, 0, 0, 0];
                header.extend(short(UDP));
                header.extend([PROTOCOL, HOPS]);
                header.extend(&addresses);
                (addresses, header)
            }
            _ => return Err(ProbeError::Families),
        };
        let data = self.emit();
        let head = |sum: u16| {
            let ports = [MEETING_PORT.to_be_bytes(), MEETING_PORT.to_be_bytes()];
            [
                ports.concat(),
                short(UDP).to_vec(),
                sum.to_be_bytes().to_vec(),
            ]
            .concat()
        };
        let sum = Sum::of(&head(0))
            .plus(Sum::of(&data))
            .plus(Sum::pseudo(&addresses, PROTOCOL, UDP));
        // Zero would say that there is no checksum (RFC 768).
        let sum = match sum.checksum() {
            0 => u16::MAX,
            sum => sum,
        };
        packet.extend(head(sum));
        packet.extend(data);
        Ok(packet)
    }

    fn emit(&self) -> Vec<u8> {
        let kind = match (self.path, self.message.is_answer) {
            (Path::Direct, false) => 1,
            (Path::Direct, true) => 2,
            (Path::Gateway, false) => 3,
            (Path::Gateway, true) => 4,
        };
        let mut bytes = b"KDGP\x01".to_vec();
        bytes.extend([kind, 0, 0]);
        bytes.extend(self.message.session.to_be_bytes());
        bytes.extend(self.message.sequence.to_be_bytes());
        bytes
    }
}

fn short(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or_default().to_be_bytes()
}

const PROTOCOL: u8 = 17;
const HOPS: u8 = 64;
/// Header and data.
const UDP: usize = 8 + 24;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn probe(path: Path, is_answer: bool, session: u64, sequence: u64) -> Probe {
        let message = Message {
            is_answer,
            session,
            sequence,
        };
        Probe { path, message }
    }

    proptest! {
        #[test]
        fn probes_read_back_from_packets_with_right_sums(
            direct: bool, is_answer: bool, session: u64, sequence: u64, cut in 0_usize..24,
        ) {
            let path = if direct { Path::Direct } else { Path::Gateway };
            let probe = probe(path, is_answer, session, sequence);
            for (from, to, header) in [
                ("198.18.0.10", "198.18.0.11", 20),
                ("fd6b::a", "fd6b::b", 40),
            ] {
                let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
                let packet = probe.packet(from, to).unwrap();
                let ends = crate::allowed::addresses(&packet);
                prop_assert_eq!(ends, Some((from, to)));
                let (ip, udp) = packet.split_at(header);
                if from.is_ipv4() {
                    prop_assert_eq!(Sum::of(ip).checksum(), 0);
                }
                let addresses = &ip[if from.is_ipv4() { 12 } else { 8 }..];
                let sum = Sum::of(udp).plus(Sum::pseudo(addresses, PROTOCOL, udp.len()));
                prop_assert_eq!(sum.checksum(), 0);
                prop_assert_eq!(Probe::parse(&udp[8..]), Some(probe));
                prop_assert_eq!(Probe::parse(&udp[8..8 + cut]), None);
            }
        }

        #[test]
        fn any_bytes_are_a_probe_or_none(bytes: Vec<u8>) {
            let _ = Probe::parse(&bytes);
        }
    }

    #[test]
    fn an_answer_goes_the_way_of_its_question_and_has_none() {
        for path in [Path::Direct, Path::Gateway] {
            let answer = probe(path, false, 1, 2).answer().unwrap();
            assert_eq!(answer, probe(path, true, 1, 2));
            assert_eq!(answer.answer(), None);
        }
        let (v4, v6) = ("198.18.0.1".parse().unwrap(), "fd6b::1".parse().unwrap());
        let probe = probe(Path::Direct, false, 1, 2);
        assert_eq!(probe.packet(v4, v6), Err(ProbeError::Families));
    }
}
