//! Identities: our own certificate authority, what it signs, and what it makes of what is shown.

pub mod authority;
pub mod peer;
pub mod request;
pub mod server;
pub mod trust;
pub mod verdict;

use std::fmt::Write as _;

use aws_lc_rs::{digest, rand};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

pub use authority::Authority;
pub use peer::Peer;
pub use request::SigningRequest;
pub use verdict::{Presented, Verdict};

/// The system gives no randomness.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandomness;

/// Random bytes.
///
/// # Errors
///
/// The system gives none.
pub fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// A random UUID (RFC 9562 version 4).
///
/// # Errors
///
/// The system gives no randomness.
pub fn uuid() -> Result<String, NoRandomness> {
    let mut bytes = random::<16>()?;
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
    *version = *version & 0x0f | 0x40;
    *variant = *variant & 0x3f | 0x80;
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&index) {
            text.push('-');
        }
        let _: std::fmt::Result = write!(text, "{byte:02x}");
    }
    Ok(text)
}

/// SHA-256 as it stands in pins and hashes: base64url without padding.
#[must_use]
pub fn hash(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(sha256(bytes))
}

/// SHA-256.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, bytes);
    let mut sum = [0; 32];
    for (to, from) in sum.iter_mut().zip(digest.as_ref()) {
        *to = *from;
    }
    sum
}

/// A serial: the generation, then 64 random bits, so that the certificate itself proves its
/// generation. Hexadecimal, 32 digits.
///
/// # Errors
///
/// The system gives no randomness.
pub fn serial(generation: u64) -> Result<String, NoRandomness> {
    let random = u64::from_be_bytes(random()?);
    Ok(format!("{generation:016x}{random:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_and_serials_have_their_shape() {
        let uuid = uuid().unwrap();
        assert_eq!(uuid.len(), 36);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&uuid.as_bytes()[19]));
        assert_eq!(&serial(0x1f).unwrap()[..16], "000000000000001f");
        assert_ne!(serial(1).unwrap(), serial(1).unwrap());
    }
}
