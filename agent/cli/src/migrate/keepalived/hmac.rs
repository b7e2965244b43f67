//! `auth_hmac` becomes `auth`: the same keys, the same bytes on the wire.

use kedge_core::Name;
use serde_json::{Map, Value, json};

use super::tree::Statement;

/// Signed advertisements in the agent's words.
pub(super) struct Signed {
    /// The value of `auth`.
    pub(super) auth: Value,
    /// Files that somebody must write, because their keys stood in the configuration.
    pub(super) unwritten: Vec<String>,
    /// Whether sequences alone decided, and no clock.
    pub(super) is_monotonic: bool,
}

/// Reads the block. A key that stands in it is never shown: only where it belongs.
pub(super) fn read(block: &Statement, vip: &Name) -> Signed {
    let mut keys = Map::new();
    let mut unwritten = Vec::new();
    let lines = || block.block.iter();
    for line in lines().filter(|line| line.keyword() == "key") {
        let id = line.shown(1).to_owned();
        let file = line.word(2).strip_prefix("file:").map(str::to_owned);
        let file = file.unwrap_or_else(|| {
            let file = format!("/etc/kedge/{vip}-{id}.key");
            unwritten.push(file.clone());
            file
        });
        keys.insert(id, json!(file));
    }
    let last = |keyword: &str| lines().rfind(|line| line.keyword() == keyword);
    let active = last("active_key").map(|line| line.shown(1));
    // keepalived signs with the first key unless it is told with which.
    let active = active.or_else(|| keys.keys().next().map(String::as_str));
    let mut auth = Map::new();
    auth.insert("active_key".to_owned(), json!(active.unwrap_or_default()));
    let mode = match last("mode").map(|line| line.word(1)) {
        Some("receive-only") => Some("receive_only"),
        Some("permissive") => Some("permissive"),
        Some(_) | None => None,
    };
    auth.extend(mode.map(|mode| ("mode".to_owned(), json!(mode))));
    let window = last("time_window").map(|line| format!("{}s", line.shown(1)));
    auth.extend(window.map(|window| ("time_window".to_owned(), json!(window))));
    auth.insert("keys".to_owned(), Value::Object(keys));
    Signed {
        auth: Value::Object(auth),
        unwritten,
        is_monotonic: last("anti_replay").is_some_and(|line| line.word(1) == "monotonic"),
    }
}
