//! BLAKE2s, the key derivation of Noise, and the AEADs of handshake messages.
//!
//! What is sealed once per handshake is sealed by RustCrypto, which wipes its keys; packets have
//! their own AEAD in `session`.

use blake2::{
    Blake2s256, Blake2sMac,
    digest::{Digest as _, FixedOutput as _, Mac, consts::U16},
};
use chacha20poly1305::{
    AeadInPlace as _, ChaCha20Poly1305, KeyInit as _, Tag, XChaCha20Poly1305, XNonce,
};
use hmac::SimpleHmac;
use zeroize::Zeroizing;

use crate::drops::DropReason;

/// A secret of 32 bytes.
pub(super) type Secret = Zeroizing<[u8; 32]>;

/// HASH of the parts, one after the other.
pub(super) fn hash<const N: usize>(parts: [&[u8]; N]) -> [u8; 32] {
    let mut hash = Blake2s256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

/// MAC: keyed BLAKE2s of 16 bytes. A key has 16 or 32 bytes.
#[expect(
    clippy::expect_used,
    reason = "keyed BLAKE2s takes any key of at most 32 bytes"
)]
pub(super) fn mac<const K: usize, const N: usize>(key: &[u8; K], parts: [&[u8]; N]) -> [u8; 16] {
    const { assert!(K <= 32) };
    let mut mac = <Blake2sMac<U16> as Mac>::new_from_slice(key).expect("the key is short enough");
    for part in parts {
        mac.update(part);
    }
    mac.finalize_fixed().into()
}

/// KDF1: the next chaining key.
pub(super) fn kdf1(chain: &Secret, input: &[u8]) -> Secret {
    let extracted = hmac(chain, [input]);
    hmac(&extracted, [&[1]])
}

/// KDF2: the next chaining key, and a key.
pub(super) fn kdf2(chain: &Secret, input: &[u8]) -> (Secret, Secret) {
    let extracted = hmac(chain, [input]);
    let first = hmac(&extracted, [&[1]]);
    let second = hmac(&extracted, [&*first, &[2]]);
    (first, second)
}

/// KDF3: the next chaining key, what goes into the hash, and a key.
pub(super) fn kdf3(chain: &Secret, input: &[u8]) -> (Secret, Secret, Secret) {
    let extracted = hmac(chain, [input]);
    let first = hmac(&extracted, [&[1]]);
    let second = hmac(&extracted, [&*first, &[2]]);
    let third = hmac(&extracted, [&*second, &[3]]);
    (first, second, third)
}

/// AEAD with counter 0, in place; the tag follows what was sealed.
pub(super) fn seal(
    key: &Secret,
    hash: &[u8; 32],
    buffer: &mut [u8],
) -> Result<[u8; 16], DropReason> {
    let cipher = ChaCha20Poly1305::new((&**key).into());
    let tag = cipher.encrypt_in_place_detached(&[0; 12].into(), hash, buffer);
    tag.map(Into::into).map_err(|_| DropReason::Oversized)
}

/// Opens what [`seal`] sealed, in place.
pub(super) fn open(
    key: &Secret,
    hash: &[u8; 32],
    buffer: &mut [u8],
    tag: &[u8; 16],
) -> Result<(), DropReason> {
    let cipher = ChaCha20Poly1305::new((&**key).into());
    let opened = cipher.decrypt_in_place_detached(&[0; 12].into(), hash, buffer, &Tag::from(*tag));
    opened.map_err(|_| DropReason::Forged)
}

/// XAEAD with a random nonce, in place: for cookies alone.
pub(super) fn seal_cookie(
    key: &[u8; 32],
    nonce: &[u8; 24],
    mac1: &[u8; 16],
    cookie: &mut [u8; 16],
) -> Result<[u8; 16], DropReason> {
    let cipher = XChaCha20Poly1305::new(key.into());
    let tag = cipher.encrypt_in_place_detached(&XNonce::from(*nonce), mac1, cookie);
    tag.map(Into::into).map_err(|_| DropReason::Oversized)
}

/// Opens what [`seal_cookie`] sealed, in place.
pub(super) fn open_cookie(
    key: &[u8; 32],
    nonce: &[u8; 24],
    mac1: &[u8; 16],
    cookie: &mut [u8; 16],
    tag: &[u8; 16],
) -> Result<(), DropReason> {
    let cipher = XChaCha20Poly1305::new(key.into());
    cipher
        .decrypt_in_place_detached(&XNonce::from(*nonce), mac1, cookie, &Tag::from(*tag))
        .map_err(|_| DropReason::Forged)
}

#[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
fn hmac<const N: usize>(key: &Secret, parts: [&[u8]; N]) -> Secret {
    let mut hmac = <SimpleHmac<Blake2s256> as Mac>::new_from_slice(&**key)
        .expect("HMAC takes a key of any length");
    for part in parts {
        hmac.update(part);
    }
    Zeroizing::new(hmac.finalize_fixed().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_and_mac_are_those_of_rfc_7693_and_the_paper() {
        // RFC 7693 appendix B: BLAKE2s-256 of "abc".
        let expected = "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982";
        let hex: String = hash([b"a", b"bc"])
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, expected);
        // A key that is cut off is another key, and parts are one message.
        assert_ne!(mac(&[1; 16], [b"x"]), mac(&[1; 32], [b"x"]));
        assert_eq!(mac(&[1; 16], [b"x", b"y"]), mac(&[1; 16], [b"xy"]));
    }

    #[test]
    fn a_sealed_cookie_opens_with_its_key_nonce_and_mac1_alone() {
        let (key, nonce, mac1, cookie) = ([1; 32], [2; 24], [3; 16], [4; 16]);
        let mut sealed = cookie;
        let tag = seal_cookie(&key, &nonce, &mac1, &mut sealed).unwrap();
        assert_ne!(sealed, cookie);
        let mut opened = sealed;
        assert_eq!(open_cookie(&key, &nonce, &mac1, &mut opened, &tag), Ok(()));
        assert_eq!(opened, cookie);
        for (key, nonce, mac1) in [
            ([9; 32], nonce, mac1),
            (key, [9; 24], mac1),
            (key, nonce, [9; 16]),
        ] {
            let mut again = sealed;
            assert!(open_cookie(&key, &nonce, &mac1, &mut again, &tag).is_err());
        }
    }
}
