//! What a datagram claims to be, from its first bytes. WireGuard paper, section 5.4.
//!
//! ```text
//!  initiation 148   1 0 0 0 | sender u32   | …
//!  response    92   2 0 0 0 | sender u32   | receiver u32 | …
//!  cookie      64   3 0 0 0 | receiver u32 | …
//!  data       ≥32   4 0 0 0 | receiver u32 | counter u64  | …        little-endian
//! ```

use crate::drops::DropReason;

/// A message as far as it can be told without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Type 1: somebody wants a session.
    Initiation,
    /// Type 2: the answer to an initiation of ours.
    Response {
        /// Our index.
        receiver: u32,
    },
    /// Type 3: the peer is under load.
    CookieReply {
        /// Our index.
        receiver: u32,
    },
    /// Type 4: data or a keepalive.
    Data {
        /// Our index.
        receiver: u32,
        /// The packet's number in its session.
        counter: u64,
    },
}

/// Tells what `datagram` claims to be.
///
/// # Errors
///
/// It is no WireGuard message.
pub fn classify(datagram: &[u8]) -> Result<Kind, DropReason> {
    let malformed = DropReason::Malformed;
    let (kind, rest) = datagram.split_first_chunk::<4>().ok_or(malformed)?;
    let (first, rest) = rest.split_first_chunk::<4>().ok_or(malformed)?;
    match (u32::from_le_bytes(*kind), datagram.len()) {
        (1, INITIATION) => Ok(Kind::Initiation),
        (2, RESPONSE) => {
            let receiver = rest.first_chunk::<4>().ok_or(malformed)?;
            Ok(Kind::Response {
                receiver: u32::from_le_bytes(*receiver),
            })
        }
        (3, COOKIE_REPLY) => Ok(Kind::CookieReply {
            receiver: u32::from_le_bytes(*first),
        }),
        (4, DATA_OVERHEAD..) => {
            let counter = rest.first_chunk::<8>().ok_or(malformed)?;
            let (receiver, counter) = (u32::from_le_bytes(*first), u64::from_le_bytes(*counter));
            Ok(Kind::Data { receiver, counter })
        }
        _ => Err(malformed),
    }
}

/// How long the IP packet at the start of `padded` is by its own header.
pub(crate) fn inner_length(padded: &[u8]) -> Option<usize> {
    let length = match *padded {
        [first, _, a, b, ..] if first >> 4 == 4 => {
            Some(usize::from(u16::from_be_bytes([a, b]))).filter(|length| *length >= 20)?
        }
        [first, _, _, _, a, b, ..] if first >> 4 == 6 => {
            40 + usize::from(u16::from_be_bytes([a, b]))
        }
        _ => return None,
    };
    (length <= padded.len()).then_some(length)
}

/// Bytes in an initiation.
pub const INITIATION: usize = 148;
/// Bytes in a response.
pub const RESPONSE: usize = 92;
/// Bytes in a cookie reply.
pub const COOKIE_REPLY: usize = 64;
/// Bytes a data message is longer than the padded packet in it.
pub const DATA_OVERHEAD: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(kind: u8, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length)
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect();
        bytes[..4].copy_from_slice(&[kind, 0, 0, 0]);
        bytes
    }

    #[test]
    fn each_type_has_its_length_and_fields() {
        assert_eq!(classify(&message(1, 148)), Ok(Kind::Initiation));
        let receiver = 0x0b0a_0908;
        assert_eq!(classify(&message(2, 92)), Ok(Kind::Response { receiver }));
        let receiver = 0x0706_0504;
        assert_eq!(
            classify(&message(3, 64)),
            Ok(Kind::CookieReply { receiver })
        );
        let counter = 0x0f0e_0d0c_0b0a_0908;
        assert_eq!(
            classify(&message(4, 32)),
            Ok(Kind::Data { receiver, counter })
        );
        assert_eq!(
            classify(&message(4, 1500)),
            Ok(Kind::Data { receiver, counter })
        );
    }

    #[test]
    fn another_length_type_or_reserved_byte_is_malformed() {
        for (kind, right) in [(1, 148), (2, 92), (3, 64)] {
            for length in 4..200 {
                let verdict = classify(&message(kind, length));
                assert_eq!(
                    verdict.is_ok(),
                    length == right,
                    "type {kind}, {length} bytes"
                );
            }
        }
        for length in 4..32 {
            assert!(classify(&message(4, length)).is_err());
        }
        for (at, byte) in [(0, 0), (0, 5), (1, 1), (2, 1), (3, 1)] {
            let mut bytes = message(4, 64);
            bytes[at] = byte;
            assert_eq!(classify(&bytes), Err(DropReason::Malformed));
        }
    }

    #[test]
    fn the_length_of_a_packet_is_what_its_header_says_if_that_can_be() {
        for (version, said, padded, length) in [
            (4, 20, 32, Some(20)),
            (4, 32, 32, Some(32)),
            (4, 33, 32, None),
            (4, 19, 32, None),
            (4, 20, 19, None),
            (6, 0, 48, Some(40)),
            (6, 8, 48, Some(48)),
            (6, 9, 48, None),
            (6, 0, 39, None),
            (5, 20, 32, None),
        ] {
            let mut packet = vec![0; padded];
            packet[0] = version << 4;
            let at = if version == 4 { 2 } else { 4 };
            packet[at..at + 2].copy_from_slice(&u16::to_be_bytes(said));
            assert_eq!(
                inner_length(&packet),
                length,
                "v{version} {said} in {padded}"
            );
        }
        for length in 0..6 {
            assert_eq!(inner_length(&vec![0x60; length]), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_malformed(bytes: Vec<u8>) {
            let _ = classify(&bytes);
        }
    }
}
