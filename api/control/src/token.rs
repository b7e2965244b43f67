//! Enrolment tokens: `kedge1.<id>.<secret>.<pin>`.

use std::{fmt, str::FromStr};

/// An enrolment token as the person who joins a host holds it.
///
/// * `id`: 10 characters `[a-z0-9]`, public, may be logged;
/// * `secret`: 32 bytes, base64url without padding (43 characters);
/// * `pin`: SHA-256 of the manager CA's DER SubjectPublicKeyInfo, base64url without padding.
///
/// `Debug` and errors never show the secret; [`Token::secret`] and [`Token::expose`] are the only
/// ways to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: String,
    secret: String,
    pin: String,
}

/// Why a text is no token. Never repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    /// It does not start with `kedge1.`.
    #[error("an enrolment token starts with `kedge1.`")]
    Prefix,
    /// It does not have four parts.
    #[error("an enrolment token has four parts separated by dots")]
    Parts,
    /// The id has another length or alphabet.
    #[error("the token's id must be 10 characters of a-z and 0-9")]
    Id,
    /// The secret has another length or alphabet.
    #[error("the token's secret must be 43 characters of base64url")]
    Secret,
    /// The pin has another length or alphabet.
    #[error("the token's pin must be 43 characters of base64url")]
    Pin,
}

impl Token {
    /// A token of its parts.
    ///
    /// # Errors
    ///
    /// A part has another length or alphabet.
    pub fn new(id: &str, secret: &str, pin: &str) -> Result<Self, BadToken> {
        let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if id.len() != 10 || !id.bytes().all(lower) {
            return Err(BadToken::Id);
        }
        if !is_base64url_of_32_bytes(secret) {
            return Err(BadToken::Secret);
        }
        if !is_base64url_of_32_bytes(pin) {
            return Err(BadToken::Pin);
        }
        Ok(Self {
            id: id.to_owned(),
            secret: secret.to_owned(),
            pin: pin.to_owned(),
        })
    }

    /// The public id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The secret as base64url; do not log it.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The CA pin as base64url.
    #[must_use]
    pub fn pin(&self) -> &str {
        &self.pin
    }

    /// The whole token, to be printed once to the person who asked for it.
    #[must_use]
    pub fn expose(&self) -> String {
        format!("kedge1.{}.{}.{}", self.id, self.secret, self.pin)
    }
}

fn is_base64url_of_32_bytes(text: &str) -> bool {
    // 43 characters hold 258 bits: the last character's two low bits must be zero, or two texts
    // would name the same bytes.
    let symbol = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    text.len() == 43
        && text.bytes().all(symbol)
        && text
            .bytes()
            .last()
            .is_some_and(|last| b"AEIMQUYcgkosw048".contains(&last))
}

impl FromStr for Token {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        let rest = text
            .trim()
            .strip_prefix("kedge1.")
            .ok_or(BadToken::Prefix)?;
        let mut parts = rest.split('.');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(id), Some(secret), Some(pin), None) => Self::new(id, secret, pin),
            _ => Err(BadToken::Parts),
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}, ***)", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    #[test]
    fn tokens_read_back_and_never_show_their_secret() {
        let pin = SECRET.replace('A', "Q");
        let text = format!("kedge1.abcdefgh01.{SECRET}.{pin}");
        let token: Token = text.parse().unwrap();
        assert_eq!(token.expose(), text);
        assert_eq!(format!("{token:?}"), "Token(abcdefgh01, ***)");
        assert_eq!(format!("{text}\n").parse::<Token>().unwrap(), token);
    }

    #[test]
    fn every_other_shape_is_refused_with_its_reason() {
        let parse = |text: &str| text.parse::<Token>().unwrap_err();
        assert_eq!(parse(""), BadToken::Prefix);
        assert_eq!(
            parse(&format!("kedge2.abcdefgh01.{SECRET}.{SECRET}")),
            BadToken::Prefix
        );
        assert_eq!(
            parse(&format!("kedge1.abcdefgh01.{SECRET}")),
            BadToken::Parts
        );
        assert_eq!(
            parse(&format!("kedge1.abcdefgh01.{SECRET}.{SECRET}.x")),
            BadToken::Parts
        );
        assert_eq!(
            parse(&format!("kedge1.Abcdefgh01.{SECRET}.{SECRET}")),
            BadToken::Id
        );
        assert_eq!(
            parse(&format!("kedge1.abcdefgh01.{SECRET}A.{SECRET}")),
            BadToken::Secret
        );
        let dangling = SECRET.replace("AAA", "AAB");
        assert_eq!(
            parse(&format!("kedge1.abcdefgh01.{SECRET}.{dangling}B")),
            BadToken::Pin
        );
        let low_bits = format!("{}B", &SECRET[..42]);
        assert_eq!(
            parse(&format!("kedge1.abcdefgh01.{SECRET}.{low_bits}")),
            BadToken::Pin
        );
    }
}
