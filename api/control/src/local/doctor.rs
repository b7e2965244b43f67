//! What a host is like for Kedge.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NetState;

/// What was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostCheck {
    /// Each thing.
    pub items: Vec<HostItem>,
}

/// One thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostItem {
    /// `machine`, `clock`, `shutdown`, or `link NAME`.
    pub name: String,
    /// How it is.
    pub state: NetState,
    /// What was found, as a sentence.
    pub because: String,
    /// What follows from it, where something does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub consequence: String,
    /// What to type, where something is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}
