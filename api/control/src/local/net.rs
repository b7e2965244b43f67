//! What the network between this host and its gateways lets through.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every gateway, and the manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetCheck {
    /// What was asked.
    pub items: Vec<NetTarget>,
}

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetTarget {
    /// Its name; `manager` is the manager.
    pub name: String,
    /// Where it is, as configured.
    pub endpoint: String,
    /// The worst of it.
    pub state: NetState,
    /// What that means, as a sentence.
    pub because: String,
    /// What to do, where something is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// What was tried, in order.
    pub steps: Vec<NetStep>,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetStep {
    /// `name`, `route`, `udp`, `mtu` or `tcp`.
    pub step: String,
    /// How it went.
    pub state: NetState,
    /// What was seen, as a sentence.
    pub because: String,
}

/// How something went.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum NetState {
    /// It was not tried.
    #[default]
    Skipped,
    /// As it should be.
    Ok,
    /// Somebody should look.
    Warning,
    /// It does not work.
    Failed,
}
