//! Names of what is tracked.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

checked_text! {
    /// The name of a process: that of its program, without a directory.
    ProcessName(String),
    |text| process(text),
    |value| value.clone(),
    { "type": "string", "minLength": 1, "maxLength": 255, "examples": ["haproxy"] }
}

impl ProcessName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

checked_text! {
    /// The name or number of a user.
    UserName(String),
    |text| user(text),
    |value| value.clone(),
    { "type": "string", "minLength": 1, "maxLength": 32, "examples": ["nobody"] }
}

impl UserName {
    /// Who may do the least.
    #[must_use]
    pub fn nobody() -> Self {
        Self("nobody".to_owned())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn process(text: &str) -> Result<String, String> {
    let fits = (1..=255).contains(&text.len());
    if fits && !text.contains('/') && !text.chars().any(char::is_control) {
        return Ok(text.to_owned());
    }
    let shown: String = text.escape_debug().take(80).collect();
    Err(format!(
        "`{shown}` is not the name of a process, such as haproxy: without a directory"
    ))
}

fn user(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if (1..=32).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    let shown: String = text.escape_debug().take(80).collect();
    Err(format!("`{shown}` is not the name of a user"))
}
