//! WireGuard keys: base64 as text, zeroized when dropped, never printed.

mod hex;
mod overlap;

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use boringtun::x25519;
use kedge_core::{Code, Coded, Fix, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

pub use self::overlap::{Overlap, Using, overlap};

/// Bytes in a key.
pub const LENGTH: usize = 32;

/// A WireGuard private key. It prints as `***` and is wiped from memory when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct PrivateKey([u8; LENGTH]);

/// A key that both ends of a tunnel were given beside their pairs, mixed into each handshake. It prints
/// as `***` and is wiped from memory when dropped. Boxed, since most peers have none.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct PresharedKey(Box<[u8; LENGTH]>);

/// A WireGuard public key; text is base64, as `wg` prints it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey(#[schemars(with = "String", length(equal = 44))] [u8; LENGTH]);

/// A key of ours and one of the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Ours.
    pub local: PublicKey,
    /// The peer's.
    pub remote: PublicKey,
}

/// A text or bytes that are not a WireGuard key. Never holds what was refused: it may be secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not base64.
    #[error("a WireGuard key is base64 text such as `wg genkey` prints")]
    NotBase64,
    /// The key has the wrong length.
    #[error("a WireGuard key has 32 bytes, this one has {0}")]
    Length(usize),
    /// The text is not hexadecimal.
    #[error("a WireGuard key has 64 hexadecimal digits here")]
    NotHex,
    /// Every byte of the key is zero, which stands for "no key".
    #[error("a WireGuard key of zeros is no key")]
    Zero,
}

impl PrivateKey {
    /// A key made from 32 random bytes.
    ///
    /// The bytes are clamped as X25519 asks, so that the text of the key is the one `wg` prints.
    #[must_use]
    pub fn from_random(random: [u8; LENGTH]) -> Self {
        Self::clamped(random)
    }

    /// The key of 64 hexadecimal digits, clamped. Zeros are `None`: no key.
    ///
    /// # Errors
    ///
    /// The text is something else.
    pub fn from_hex(text: &[u8]) -> Result<Option<Self>, KeyError> {
        let bytes = hex::decode(text).ok_or(KeyError::NotHex)?;
        Ok((*bytes != [0; LENGTH]).then(|| Self::clamped(*bytes)))
    }

    /// Appends the key as hexadecimal text, for the interface's owner and nobody else.
    pub fn write_hex(&self, text: &mut String) {
        hex::encode(&self.0, text);
    }

    fn clamped(mut random: [u8; LENGTH]) -> Self {
        let [first, .., last] = &mut random;
        *first &= 0b1111_1000;
        *last = (*last & 0b0111_1111) | 0b0100_0000;
        let key = Self(random);
        random.zeroize();
        key
    }

    /// A key from its bytes.
    ///
    /// # Errors
    ///
    /// The bytes are all zero.
    pub fn from_bytes(bytes: [u8; LENGTH]) -> Result<Self, KeyError> {
        if bytes == [0; LENGTH] {
            Err(KeyError::Zero)
        } else {
            Ok(Self(bytes))
        }
    }

    /// The public key that belongs to it.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(x25519::PublicKey::from(&self.secret()).to_bytes())
    }

    /// The key as base64 text, for a file of mode 0600 and nothing else.
    #[must_use]
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.0))
    }

    /// The key, for whoever hands it to the kernel; do not log it.
    #[must_use]
    pub const fn expose(&self) -> &[u8; LENGTH] {
        &self.0
    }

    /// The bytes of the key.
    pub(crate) fn bytes(&self) -> Zeroizing<[u8; LENGTH]> {
        Zeroizing::new(self.0)
    }

    /// The key as boringtun takes it; clamping happens in its arithmetic.
    pub(crate) fn secret(&self) -> x25519::StaticSecret {
        x25519::StaticSecret::from(self.0)
    }
}

impl PresharedKey {
    /// A key from its bytes. Zeros are `None`: no key.
    #[must_use]
    pub fn from_bytes(bytes: [u8; LENGTH]) -> Option<Self> {
        (bytes != [0; LENGTH]).then(|| Self(Box::new(bytes)))
    }

    /// The key of 64 hexadecimal digits. Zeros are `None`: no key.
    ///
    /// # Errors
    ///
    /// The text is something else.
    pub fn from_hex(text: &[u8]) -> Result<Option<Self>, KeyError> {
        let bytes = hex::decode(text).ok_or(KeyError::NotHex)?;
        Ok(Self::from_bytes(*bytes))
    }

    /// Appends the key as hexadecimal text, for the interface's owner and nobody else.
    pub fn write_hex(&self, text: &mut String) {
        hex::encode(&self.0, text);
    }

    /// The key, for whoever hands it to the kernel; do not log it.
    #[must_use]
    pub fn expose(&self) -> &[u8; LENGTH] {
        &self.0
    }

    /// The bytes of the key.
    pub(crate) fn bytes(&self) -> Zeroizing<[u8; LENGTH]> {
        Zeroizing::new(*self.0)
    }
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl FromStr for PrivateKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let mut bytes = decode(text)?;
        let key = Self::from_bytes(bytes);
        bytes.zeroize();
        key
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl PublicKey {
    /// A key from its bytes.
    ///
    /// # Errors
    ///
    /// The bytes are all zero.
    pub fn from_bytes(bytes: [u8; LENGTH]) -> Result<Self, KeyError> {
        if bytes == [0; LENGTH] {
            Err(KeyError::Zero)
        } else {
            Ok(Self(bytes))
        }
    }

    /// The bytes of the key.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }

    /// The key of 64 hexadecimal digits.
    ///
    /// # Errors
    ///
    /// The text is something else, or zeros.
    pub fn from_hex(text: &[u8]) -> Result<Self, KeyError> {
        Self::from_bytes(*hex::decode(text).ok_or(KeyError::NotHex)?)
    }

    /// Appends the key as hexadecimal text.
    pub fn write_hex(&self, text: &mut String) {
        hex::encode(&self.0, text);
    }

    /// The key as boringtun takes it.
    pub(crate) fn point(&self) -> x25519::PublicKey {
        x25519::PublicKey::from(self.0)
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::from_bytes(decode(text)?)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for PublicKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl Coded for KeyError {
    fn problem(&self) -> Problem {
        Problem::new(Code::TunKey, "a WireGuard key cannot be used")
            .evidence(self.to_string())
            .consequence("the tunnel that needs the key stays down")
            .fix(
                Fix::text("put the 44 characters that `wg genkey` or `wg pubkey` print, unchanged")
                    .command("wg genkey"),
            )
    }
}

fn decode(text: &str) -> Result<[u8; LENGTH], KeyError> {
    let bytes = STANDARD
        .decode(text.trim())
        .map_err(|_| KeyError::NotBase64)?;
    let bytes = Zeroizing::new(bytes);
    bytes
        .as_slice()
        .try_into()
        .map_err(|_| KeyError::Length(bytes.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // RFC 7748 section 6.1, Alice.
    const PRIVATE: &str = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
    const PUBLIC: &str = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";

    #[test]
    fn the_public_key_of_rfc_7748_comes_out() {
        let key: PrivateKey = PRIVATE.parse().unwrap();
        assert_eq!(key.public().to_string(), PUBLIC);
        assert_eq!(key.to_base64().as_str(), PRIVATE);
    }

    #[test]
    fn a_private_key_never_prints() {
        let key: PrivateKey = PRIVATE.parse().unwrap();
        assert_eq!(format!("{key:?}"), "***");
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        let zeros = STANDARD.encode([0; 32]);
        for (text, error) in [
            ("", KeyError::Length(0)),
            ("not base64", KeyError::NotBase64),
            ("AAAA", KeyError::Length(3)),
            (&STANDARD.encode([1; 33]), KeyError::Length(33)),
            (&zeros, KeyError::Zero),
            (&PUBLIC[..43], KeyError::NotBase64),
        ] {
            assert_eq!(text.parse::<PublicKey>().unwrap_err(), error, "{text:?}");
            assert_eq!(
                text.parse::<PrivateKey>().map(|_| ()).unwrap_err(),
                error,
                "{text:?}"
            );
        }
        assert_eq!(KeyError::Zero.problem().code, Code::TunKey);
    }

    #[test]
    fn white_space_around_a_key_is_no_part_of_it() {
        assert_eq!(
            format!(" {PUBLIC}\n")
                .parse::<PublicKey>()
                .unwrap()
                .to_string(),
            PUBLIC
        );
    }

    proptest! {
        #[test]
        fn a_key_from_random_bytes_is_clamped_and_reads_back(random: [u8; 32]) {
            let key = PrivateKey::from_random(random);
            prop_assert_eq!(key.0[0] & 7, 0);
            prop_assert_eq!(key.0[31] >> 6, 1);
            let again: PrivateKey = key.to_base64().parse().unwrap();
            prop_assert_eq!(again.public(), key.public());
            prop_assert_eq!(key.public().to_string().parse::<PublicKey>().unwrap(), key.public());
        }

        #[test]
        fn any_text_is_a_key_or_an_error(text: String) {
            let _ = text.parse::<PublicKey>();
        }
    }
}
