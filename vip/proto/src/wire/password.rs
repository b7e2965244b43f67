//! The password of VRRP version 2 (RFC 2338 section 5.3.6.2), which travels in clear.

use std::fmt;

/// Eight bytes, zero-padded text: what keepalived calls `auth_type PASS`.
///
/// It keeps routers apart that share a VRID by mistake. It protects from nobody who can listen.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Password([u8; Password::LEN]);

/// A text that is no password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a VRRP password is 1 to 8 bytes without a zero byte")]
pub struct BadPassword;

impl Password {
    /// The length of the field.
    pub const LEN: usize = 8;

    /// The password `text`.
    ///
    /// # Errors
    ///
    /// It is empty, longer than eight bytes, or has a zero byte.
    pub fn new(text: &str) -> Result<Self, BadPassword> {
        let mut bytes = [0; Self::LEN];
        let slots = bytes.get_mut(..text.len()).ok_or(BadPassword)?;
        slots.copy_from_slice(text.as_bytes());
        if text.is_empty() || text.contains('\0') {
            return Err(BadPassword);
        }
        Ok(Self(bytes))
    }

    /// The bytes as they stand in an advert.
    #[must_use]
    pub const fn from_field(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes as they stand in an advert.
    #[must_use]
    pub const fn field(&self) -> [u8; Self::LEN] {
        self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_one_to_eight_bytes_and_never_shown() {
        let good = Password::new("secret").unwrap();
        assert_eq!(good.field(), *b"secret\0\0");
        assert_eq!(format!("{good:?}"), "Password(…)");
        assert!(Password::new("12345678").is_ok());
        for bad in ["", "123456789", "a\0b", "äöüßä"] {
            assert_eq!(Password::new(bad), Err(BadPassword), "{bad:?}");
        }
    }
}
