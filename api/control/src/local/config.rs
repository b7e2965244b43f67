//! The configuration in force.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The merged configuration of a running role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigInForce {
    /// How often the configuration was loaded; 1 is the start.
    pub generation: u64,
    /// The files that were read, lowest layer first.
    pub files: Vec<String>,
    /// The values, defaults filled in.
    pub values: serde_json::Value,
    /// Who set what.
    #[serde(default)]
    pub origins: Vec<Origin>,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The key, such as `vips.api.vrid`.
    pub key: String,
    /// Its value.
    pub value: serde_json::Value,
    /// `file:line:column`, `environment KEDGE_SET_…`, `flag …` or `default`.
    pub origin: String,
}

/// The answer to a reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reloaded {
    /// The generation in force.
    pub generation: u64,
    /// What changed, as sentences; empty when nothing did.
    pub changes: Vec<String>,
}
