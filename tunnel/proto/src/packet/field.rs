//! Fields of headers, big-endian, by their offset.

/// The 16 bits at `at`.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*bytes))
}

/// The 32 bits at `at`.
pub(super) fn double(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*bytes))
}

/// Writes 16 bits at `at`; nothing where there is no room.
pub(super) fn set_word(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>) {
        *field = value.to_be_bytes();
    }
}

/// Writes 32 bits at `at`; nothing where there is no room.
pub(super) fn set_double(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>) {
        *field = value.to_be_bytes();
    }
}

/// A length as a header's 16 bits; the largest where it does not fit.
pub(super) fn short(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}
