//! The one shape in which errors reach people and programs.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::Code;

/// How bad a [`Problem`] is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Works, but somebody should look.
    Warning,
    /// Does not work.
    Error,
}

/// What to type, and why it is the cure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fix {
    /// The cure in words.
    pub text: String,
    /// The cure as a command, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Fix {
    /// A cure in words.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            command: None,
        }
    }

    /// Adds the command to type.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }
}

/// What happened, the evidence, the consequence, what to do: the same text on a terminal, in
/// JSON, in the journal and in conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The stable code.
    #[schemars(with = "String")]
    #[serde(deserialize_with = "code_of_any_version")]
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about, such as `vips/api`; empty when it is about the whole command.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// What happened, as one sentence without a period.
    pub what: String,
    /// What was seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// What follows from it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub consequence: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

impl Problem {
    /// An error: what happened, in one sentence without a period.
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            object: String::new(),
            what: what.into(),
            evidence: Vec::new(),
            consequence: String::new(),
            fix: None,
        }
    }

    /// A warning.
    pub fn warning(code: Code, what: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::new(code, what)
        }
    }

    /// Says what the problem is about.
    #[must_use]
    pub fn object(mut self, object: impl Into<String>) -> Self {
        self.object = object.into();
        self
    }

    /// Adds a piece of evidence.
    #[must_use]
    pub fn evidence(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// Adds an error and its causes as evidence.
    #[must_use]
    pub fn caused_by(mut self, error: &dyn std::error::Error) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            self.evidence.push(error.to_string());
            next = error.source();
        }
        self
    }

    /// Says what follows.
    #[must_use]
    pub fn consequence(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = consequence.into();
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn fix(mut self, fix: Fix) -> Self {
        self.fix = Some(fix);
        self
    }
}

/// A code as another version writes it. One that this version does not know must not hide what is
/// said, nor refuse the report it stands in.
fn code_of_any_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Code, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.parse() {
        Ok(code) => Ok(code),
        Err(_) if text.starts_with("KEDGE-") => Ok(Code::SysVersionSkew),
        Err(unknown) => Err(D::Error::custom(unknown)),
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.code)
    }
}

impl std::error::Error for Problem {}

/// An error that knows its code and can be told as a [`Problem`].
pub trait Coded {
    /// The error in the shape in which people see it.
    fn problem(&self) -> Problem;
}

impl Coded for Problem {
    fn problem(&self) -> Problem {
        self.clone()
    }
}

/// An error and its causes in one line.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde::de::value::{Error as Refused, MapDeserializer};

    use super::*;

    #[test]
    fn a_code_of_a_newer_version_hides_nothing_of_what_is_said() {
        let said = |code: &str| {
            let fields = [
                ("code", code),
                ("severity", "error"),
                ("what", "it is late"),
            ];
            Problem::deserialize(MapDeserializer::<_, Refused>::new(fields.into_iter()))
        };
        let known = said("KEDGE-VIP-0007").unwrap();
        assert_eq!(known.code, Code::VipVridInUse);
        let newer = said("KEDGE-NEW-0001").unwrap();
        assert_eq!(newer.code, Code::SysVersionSkew);
        assert_eq!(newer.what, "it is late");
        for other in ["", "404", "E_LATE", "kedge"] {
            assert!(said(other).is_err(), "{other} is no problem of ours");
        }
    }
}
