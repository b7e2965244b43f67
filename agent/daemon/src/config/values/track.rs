//! Names of what is tracked, and of domains.

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
    /// The name of a unit of systemd; without a suffix it is a service.
    UnitName(String),
    |text| unit(text),
    |value| value.clone(),
    { "type": "string", "minLength": 1, "maxLength": 255, "examples": ["k3s.service"] }
}

impl UnitName {
    /// The name as text, with its suffix.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

checked_text! {
    /// The name of a domain.
    DomainName(String),
    |text| domain(text),
    |value| value.clone(),
    { "type": "string", "minLength": 1, "maxLength": 253, "examples": ["lb.example.com"] }
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

/// As RFC 1123 has it, without a dot at its end.
fn domain(text: &str) -> Result<String, String> {
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let inside = !label.starts_with('-') && !label.ends_with('-');
        (1..=63).contains(&label.len()) && label.bytes().all(plain) && inside
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.len() <= 253 && name.split('.').all(label) {
        return Ok(name.to_ascii_lowercase());
    }
    let shown: String = text.escape_debug().take(80).collect();
    Err(format!("`{shown}` is not the name of a domain"))
}

/// As systemd.unit(5) has it.
fn unit(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
    let name = match text.rsplit_once('.') {
        Some((name, suffix)) if SUFFIXES.contains(&suffix) && !name.is_empty() => text.to_owned(),
        _ => format!("{text}.service"),
    };
    if !text.is_empty() && name.len() <= 255 && text.bytes().all(plain) {
        return Ok(name);
    }
    let shown: String = text.escape_debug().take(80).collect();
    Err(format!(
        "`{shown}` is not the name of a unit of systemd, such as k3s.service"
    ))
}

const SUFFIXES: [&str; 9] = [
    "service", "socket", "target", "mount", "timer", "path", "slice", "scope", "device",
];

fn user(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if (1..=32).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    let shown: String = text.escape_debug().take(80).collect();
    Err(format!("`{shown}` is not the name of a user"))
}
