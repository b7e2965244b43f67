//! The echo datagram.
//!
//! ```text
//!  0      4         5      6          8            16           24
//!  "KDGE" version 1 kind   reserved 0 session u64  sequence u64
//! ```
//! Big-endian. Longer datagrams are accepted and the rest ignored, so that a later version can
//! add to the end.

/// Bytes in a message.
pub const LENGTH: usize = 24;

/// A probe or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whether this is the answer.
    pub is_answer: bool,
    /// Chosen at random by the prober, so that answers to an earlier process do not count.
    pub session: u64,
    /// Counts probes.
    pub sequence: u64,
}

/// Why bytes are no echo message; also the label of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Shorter than a message.
    #[error("truncated")]
    Truncated,
    /// Not ours.
    #[error("foreign")]
    Foreign,
    /// A kind this version does not know.
    #[error("unknown kind")]
    Kind,
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// The bytes are no echo message.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (head, rest) = bytes
            .split_first_chunk::<8>()
            .ok_or(ParseError::Truncated)?;
        let (session, rest) = rest.split_first_chunk::<8>().ok_or(ParseError::Truncated)?;
        let (sequence, _) = rest.split_first_chunk::<8>().ok_or(ParseError::Truncated)?;
        let is_answer = match *head {
            [b'K', b'D', b'G', b'E', 1, PROBE, 0, 0] => false,
            [b'K', b'D', b'G', b'E', 1, ANSWER, 0, 0] => true,
            [b'K', b'D', b'G', b'E', 1, ..] => return Err(ParseError::Kind),
            _ => return Err(ParseError::Foreign),
        };
        let (session, sequence) = (u64::from_be_bytes(*session), u64::from_be_bytes(*sequence));
        Ok(Self {
            is_answer,
            session,
            sequence,
        })
    }

    /// The message as bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; LENGTH] {
        let kind = if self.is_answer { ANSWER } else { PROBE };
        let [s0, s1, s2, s3, s4, s5, s6, s7] = self.session.to_be_bytes();
        let [n0, n1, n2, n3, n4, n5, n6, n7] = self.sequence.to_be_bytes();
        [
            b'K', b'D', b'G', b'E', 1, kind, 0, 0, //
            s0, s1, s2, s3, s4, s5, s6, s7, //
            n0, n1, n2, n3, n4, n5, n6, n7,
        ]
    }

    /// The answer to a probe; an answer has none, so that two responders cannot keep each other
    /// busy.
    #[must_use]
    pub fn answer(self) -> Option<Self> {
        (!self.is_answer).then_some(Self {
            is_answer: true,
            ..self
        })
    }
}

const PROBE: u8 = 1;
const ANSWER: u8 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_emitted_reads_back(is_answer: bool, session: u64, sequence: u64) {
            let message = Message { is_answer, session, sequence };
            prop_assert_eq!(Message::parse(&message.emit()), Ok(message));
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes: Vec<u8>) {
            let _ = Message::parse(&bytes);
        }
    }

    #[test]
    fn every_truncation_is_refused_and_a_longer_datagram_is_read() {
        let message = Message {
            is_answer: false,
            session: 7,
            sequence: 9,
        };
        let mut bytes = message.emit().to_vec();
        for length in 0..LENGTH {
            assert_eq!(
                Message::parse(&bytes[..length]),
                Err(ParseError::Truncated),
                "{length}"
            );
        }
        bytes.push(1);
        assert_eq!(Message::parse(&bytes), Ok(message));
    }

    #[test]
    fn every_bit_of_the_head_matters() {
        let message = Message {
            is_answer: false,
            session: 7,
            sequence: 9,
        };
        for bit in 0..64 {
            let mut bytes = message.emit();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Message::parse(&bytes), Ok(message), "bit {bit}");
        }
    }

    #[test]
    fn only_probes_are_answered() {
        let probe = Message {
            is_answer: false,
            session: 1,
            sequence: 2,
        };
        let answer = probe.answer().unwrap();
        assert!(answer.is_answer);
        assert_eq!(answer.answer(), None);
    }
}
