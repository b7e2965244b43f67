//! Netlink attributes: length, kind, value, all aligned to four bytes, in the machine's byte order.

use zeroize::Zeroizing;

use super::ParseError;

/// The attributes in `bytes`, by kind, without the bits that say how they are made.
pub(super) fn attributes(
    bytes: &[u8],
) -> impl Iterator<Item = Result<(u16, &[u8]), ParseError>> + '_ {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let one = first(rest);
        rest = match one {
            Ok((_, value)) => rest
                .get((HEADER + value.len()).next_multiple_of(ALIGNMENT)..)
                .unwrap_or_default(),
            Err(_) => &[],
        };
        Some(one)
    })
}

fn first(bytes: &[u8]) -> Result<(u16, &[u8]), ParseError> {
    let [a, b, c, d] = *bytes.first_chunk::<HEADER>().ok_or(ParseError::Truncated)?;
    let length = usize::from(u16::from_ne_bytes([a, b]));
    let value = bytes.get(HEADER..length).ok_or(ParseError::Truncated)?;
    Ok((u16::from_ne_bytes([c, d]) & KIND, value))
}

/// A message under way. It never grows beyond what it was made for, so that no key stays behind in
/// memory that was moved from.
pub(super) struct Writer {
    bytes: Zeroizing<Vec<u8>>,
    limit: usize,
}

/// A nested attribute that is not closed yet: where it begins.
#[must_use]
pub(super) struct Open(usize);

impl Writer {
    /// A message of at most `limit` bytes that begins with `head`.
    pub(super) fn new(limit: usize, head: &[u8]) -> Self {
        let mut bytes = Zeroizing::new(Vec::with_capacity(limit));
        bytes.extend_from_slice(head);
        Self { bytes, limit }
    }

    /// Whether `more` bytes fit.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.bytes.len() + more <= self.limit
    }

    pub(super) fn put(&mut self, kind: u16, value: &[u8]) {
        let length = HEADER + value.len();
        debug_assert!(self.has_room(length.next_multiple_of(ALIGNMENT)));
        let length = u16::try_from(length).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
    }

    pub(super) fn open(&mut self, kind: u16) -> Open {
        let at = self.bytes.len();
        self.put(kind | NESTED, &[]);
        Open(at)
    }

    pub(super) fn close(&mut self, Open(at): Open) {
        // Bounded by the message, which is far shorter than an attribute may be.
        let length = u16::try_from(self.bytes.len() - at).unwrap_or(u16::MAX);
        if let Some(field) = self.bytes.get_mut(at..at + 2) {
            field.copy_from_slice(&length.to_ne_bytes());
        }
    }

    pub(super) fn finish(self) -> Zeroizing<Vec<u8>> {
        self.bytes
    }

    fn pad(&mut self) {
        while !self.bytes.len().is_multiple_of(ALIGNMENT) {
            self.bytes.push(0);
        }
    }
}

const HEADER: usize = 4;
const ALIGNMENT: usize = 4;
/// `NLA_F_NESTED`.
const NESTED: u16 = 1 << 15;
/// `NLA_TYPE_MASK`.
const KIND: u16 = 0x3fff;
