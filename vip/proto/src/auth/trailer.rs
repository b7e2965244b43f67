//! The 28 bytes behind a signed advert.
//!
//! ```text
//! type(8)=1 key_id(8) reserved(16)=0 | seconds(32) | fraction(16) counter(16) | tag(128)
//! ```

use super::Stamp;

/// The trailer of a signed advert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The number of the key as it stands there: 0, which no key has, is answered like any other
    /// number without a key.
    pub key_id: u8,
    /// The sender's sequence.
    pub stamp: Stamp,
    /// The first half of the HMAC-SHA256.
    pub tag: [u8; Trailer::TAG_LEN],
}

/// The trailer is of another type than 1, or its reserved bits are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trailer's type is not 1, or its reserved bits are not zero")]
pub struct Malformed;

impl Trailer {
    /// The length of a trailer in bytes.
    pub const LEN: usize = 28;
    /// The length of the tag in bytes.
    pub const TAG_LEN: usize = 16;
    /// The length of what stands before the tag, and is signed.
    pub(super) const HEAD_LEN: usize = Self::LEN - Self::TAG_LEN;

    /// Splits the payload of an IP packet into an advert of `pdu_len` bytes, which its own fields
    /// tell, and its trailer.
    ///
    /// Length alone decides: exactly 28 bytes more than the advert are a trailer. Ethernet pads by
    /// at most 18, so anything else is a bare advert, with or without padding.
    #[must_use]
    pub fn split(payload: &[u8], pdu_len: usize) -> Option<(&[u8], &[u8; Self::LEN])> {
        let (pdu, rest) = payload.split_at_checked(pdu_len)?;
        Some((pdu, rest.try_into().ok()?))
    }

    /// Reads a trailer.
    ///
    /// # Errors
    ///
    /// See [`Malformed`].
    pub fn parse(bytes: &[u8; Self::LEN]) -> Result<Self, Malformed> {
        let [
            ext_type,
            key_id,
            r0,
            r1,
            s0,
            s1,
            s2,
            s3,
            s4,
            s5,
            s6,
            s7,
            tag @ ..,
        ] = *bytes;
        if ext_type != HMAC_SHA256_128 || [r0, r1] != [0; 2] {
            return Err(Malformed);
        }
        Ok(Self {
            key_id,
            stamp: Stamp::from_bits(u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7])),
            tag,
        })
    }

    /// The bytes of the trailer.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let (head, tag) = bytes.split_at_mut(Self::HEAD_LEN);
        head.copy_from_slice(&self.head());
        tag.copy_from_slice(&self.tag);
        bytes
    }

    /// What stands before the tag.
    pub(super) fn head(&self) -> [u8; Self::HEAD_LEN] {
        let [s0, s1, s2, s3, s4, s5, s6, s7] = self.stamp.bits().to_be_bytes();
        let key_id = self.key_id;
        [
            HMAC_SHA256_128,
            key_id,
            0,
            0,
            s0,
            s1,
            s2,
            s3,
            s4,
            s5,
            s6,
            s7,
        ]
    }
}

/// HMAC-SHA256, of which the first 128 bits are sent.
const HMAC_SHA256_128: u8 = 1;
