//! What an operator orders of VIPs, at the agent's socket.

use kedge_core::vip::RouterState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Order {
    /// Give the VIP to another host.
    #[default]
    Release,
    /// Bring the VIP here.
    Move,
    /// Let nothing but a fault move it.
    Freeze,
    /// End that.
    Thaw,
    /// Give every VIP away, and hold them only while nobody else does.
    Drain,
    /// End that.
    Undrain,
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Release => "release",
            Self::Move => "move",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::Drain => "drain",
            Self::Undrain => "undrain",
        })
    }
}

/// How an order is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrderRequest {
    /// Whether only to say what would be done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// For how long a freeze holds, 1 second to 24 hours; an hour when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_seconds: Option<u64>,
    /// The host a move is to, by its name or an address: this one, or one that is linked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// An order to one VIP, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipOrder {
    /// The VIP.
    pub vip: String,
    /// The order.
    pub order: Order,
    /// Whether it was given; not on a dry run, nor when there was nothing to do.
    pub given: bool,
    /// What it does, as sentences.
    pub plan: Vec<String>,
    /// What this host's router was doing when it came.
    pub state: RouterState,
    /// When, RFC 3339 with microseconds.
    pub at: String,
    /// When, on the host's monotonic clock (CLOCK_BOOTTIME), in microseconds.
    pub boottime_micros: u64,
    /// The address of the other host it is to, when it is to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<std::net::IpAddr>,
    /// What came of it, as far as that was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OrderOutcome>,
}

/// What came of an order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderOutcome {
    /// Whether the VIP is where the order wants it.
    pub moved: bool,
    /// Who holds it now: an address, or `this host`; empty when nobody is heard.
    pub holder: String,
    /// What happened, as a sentence.
    pub because: String,
    /// Seconds from the order until then.
    pub took_seconds: f64,
}

/// An order to the whole host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainOrder {
    /// The order: drain or undrain.
    pub order: Order,
    /// Whether it was given; not on a dry run, nor when there was nothing to do.
    pub given: bool,
    /// What it does, as sentences.
    pub plan: Vec<String>,
    /// What it means for each VIP.
    pub items: Vec<VipOrder>,
}
