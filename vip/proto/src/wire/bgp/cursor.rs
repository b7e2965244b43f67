//! Bytes that are read from their beginning, and never past their end.

/// What is left to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) const fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `count` bytes; without so many nothing is taken.
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }
}

/// A whole field of `N` bytes, as numbers are.
pub(super) fn exactly<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// A field of one or more pieces of `N` bytes each.
pub(super) fn pieces<const N: usize, T>(
    bytes: &[u8],
    read: impl Fn([u8; N]) -> T,
) -> Option<Vec<T>> {
    let (pieces, rest) = bytes.as_chunks::<N>();
    (rest.is_empty() && !pieces.is_empty()).then(|| pieces.iter().copied().map(read).collect())
}
