//! An agent that takes the place of itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A restart in place: the agent's executable, as it is now, goes on where the running one stops.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Restart {
    /// Whether it was begun; not on a dry run.
    pub given: bool,
    /// The executable that goes on.
    pub executable: String,
    /// Whether the VIPs stay on this host meanwhile. Without a guardian they are handed over.
    pub keeps_vips: bool,
    /// What it does, as sentences.
    pub plan: Vec<String>,
    /// When the agent that was asked started, RFC 3339: the next one has another time.
    pub started: String,
    /// What came of it, as far as that was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RestartOutcome>,
}

/// The agent that went on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestartOutcome {
    /// Its version.
    pub version: String,
    /// Seconds from the order until it answered.
    pub took_seconds: f64,
}
