//! Names of configured things.

use std::{borrow::Borrow, fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of a VIP, a peer, a track …: `[a-z][a-z0-9-]*`, at most 63 characters.
///
/// Names are addressed on the command line as `vips.api.vrid`, so they hold neither dots nor
/// brackets.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct Name(
    #[schemars(regex(pattern = r"^[a-z][a-z0-9-]*$"), length(min = 1, max = 63))] String,
);

/// A text that is not a [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name: 1 to 63 characters, a lower-case letter first, then a-z, 0-9 and -")]
pub struct BadName(String);

impl Name {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let mut bytes = text.bytes();
        let starts_well = bytes.next().is_some_and(|first| first.is_ascii_lowercase());
        let goes_on_well =
            bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if starts_well && goes_on_well && text.len() <= 63 {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName(text.escape_debug().take(80).collect()))
        }
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_and_start_with_a_letter() {
        for good in ["api", "a", "gw-0", &"a".repeat(63)] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "0a",
            "Api",
            "a.b",
            "a[0]",
            "a_b",
            "ä",
            &"a".repeat(64),
            "a\n",
        ] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
    }
}
