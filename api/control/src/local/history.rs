//! What happened to VIPs on a host.

use kedge_core::vip::RouterState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happened, oldest first; kept over restarts of the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The host.
    pub host: String,
    /// The records.
    pub items: Vec<HistoryItem>,
}

/// One change of state, or an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryItem {
    /// The VIP; empty for what is about the whole host.
    pub vip: String,
    /// When, RFC 3339 with microseconds.
    pub at: String,
    /// When, on the host's monotonic clock (CLOCK_BOOTTIME), in microseconds; of the boot it was
    /// written in.
    pub boottime_micros: u64,
    /// Whether that was in the boot that still runs.
    pub this_boot: bool,
    /// The state before; absent when it is an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<RouterState>,
    /// The state after; absent when it is an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<RouterState>,
    /// Why, or what was ordered.
    pub because: String,
}
