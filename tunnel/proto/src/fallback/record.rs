//! Datagrams in a stream: each stands behind its length.
//!
//! ```text
//!  length u16 | datagram | length u16 | datagram | …        big-endian
//! ```
//! A record of no bytes carries nothing: it says that its sender is there.

/// Puts a datagram at the end of `out`.
///
/// # Errors
///
/// It is longer than [`LONGEST`], or empty; nothing is written.
pub fn emit(datagram: &[u8], out: &mut Vec<u8>) -> Result<(), BadLength> {
    let length = length(datagram).ok_or(BadLength(datagram.len()))?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(datagram);
    Ok(())
}

/// Puts a record of no bytes at the end of `out`.
pub fn emit_nothing(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; HEAD]);
}

/// How long a datagram is that can be a record.
pub(super) fn length(datagram: &[u8]) -> Option<u16> {
    let length = u16::try_from(datagram.len()).ok()?;
    (1..=LONGEST)
        .contains(&usize::from(length))
        .then_some(length)
}

/// A datagram that cannot be a record, or a record that no datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of {0} bytes")]
pub struct BadLength(pub usize);

/// The records of a stream, however it was cut into pieces.
#[derive(Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
    /// What stands before it was taken already.
    at: usize,
}

impl Records {
    /// Where the next piece of the stream is put: at the end, and nowhere else.
    pub fn room(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.at);
        self.at = 0;
        &mut self.bytes
    }

    /// The next datagram, as far as the stream has come; `None` until more of it is there.
    ///
    /// # Errors
    ///
    /// A record is longer than [`LONGEST`]. There is no way on from there: where the next one begins,
    /// nobody knows.
    pub fn take(&mut self) -> Result<Option<&[u8]>, BadLength> {
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let Some((head, rest)) = rest.split_first_chunk::<HEAD>() else {
                return Ok(None);
            };
            let length = usize::from(u16::from_be_bytes(*head));
            if length > LONGEST {
                return Err(BadLength(length));
            }
            if rest.len() < length {
                return Ok(None);
            }
            let begin = self.at + HEAD;
            self.at = begin + length;
            if length > 0 {
                return Ok(self.bytes.get(begin..self.at));
            }
        }
    }

    /// Whether the stream may end here: it does not in the middle of a record.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.at >= self.bytes.len()
    }
}

/// Bytes before each datagram.
pub const HEAD: usize = 2;

/// The longest datagram: a packet of 9000 bytes with all that stands around it has room.
pub const LONGEST: usize = 9_216;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(records: &mut Records) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(datagram) = records.take().unwrap() {
            all.push(datagram.to_vec());
        }
        all
    }

    proptest! {
        #[test]
        fn a_stream_that_is_cut_anyhow_has_the_same_datagrams(
            sent in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..20),
            cuts in prop::collection::vec(1_usize..200, 1..50),
        ) {
            let mut stream = Vec::new();
            for datagram in &sent {
                emit(datagram, &mut stream).unwrap();
                emit_nothing(&mut stream);
            }
            let (mut records, mut seen, mut rest) = (Records::default(), Vec::new(), &stream[..]);
            for cut in cuts.iter().cycle() {
                let (piece, left) = rest.split_at(rest.len().min(*cut));
                records.room().extend_from_slice(piece);
                seen.extend(all(&mut records));
                rest = left;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(seen, sent);
            prop_assert!(records.is_between());
        }

        #[test]
        fn any_bytes_are_records_or_an_error_and_no_more_than_came_is_kept(
            bytes in prop::collection::vec(any::<u8>(), 0..4_000),
        ) {
            let mut records = Records::default();
            records.room().extend_from_slice(&bytes);
            let mut carried = 0;
            while let Ok(Some(datagram)) = records.take() {
                prop_assert!((1..=LONGEST).contains(&datagram.len()));
                carried += HEAD + datagram.len();
            }
            prop_assert!(carried <= bytes.len());
            prop_assert!(records.room().len() <= bytes.len() - carried);
        }
    }

    #[test]
    fn lengths_that_no_datagram_has_are_refused_at_both_ends() {
        let mut out = Vec::new();
        for length in [0, LONGEST + 1, 70_000] {
            assert_eq!(emit(&vec![1; length], &mut out), Err(BadLength(length)));
            assert!(out.is_empty());
        }
        let mut records = Records::default();
        let length = u16::try_from(LONGEST + 1).unwrap();
        records.room().extend_from_slice(&length.to_be_bytes());
        assert_eq!(records.take(), Err(BadLength(LONGEST + 1)));
        assert_eq!(records.take(), Err(BadLength(LONGEST + 1)), "it stays so");
        emit(&vec![7; LONGEST], &mut out).unwrap();
        let mut records = Records::default();
        records.room().extend_from_slice(&out);
        assert_eq!(records.take().unwrap().unwrap().len(), LONGEST);
    }

    #[test]
    fn a_record_that_is_cut_off_waits_and_is_seen_to_be_cut_off() {
        let mut records = Records::default();
        for piece in [&[0][..], &[3], &[1, 2]] {
            records.room().extend_from_slice(piece);
            assert_eq!(records.take(), Ok(None));
            assert!(!records.is_between());
        }
        records.room().push(3);
        assert_eq!(records.take(), Ok(Some(&[1, 2, 3][..])));
        assert!(records.is_between());
    }
}
