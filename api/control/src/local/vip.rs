//! VIPs as the agent sees them.

use std::net::IpAddr;

use kedge_core::{Problem, vip::RouterState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AnycastVip;

/// Every VIP of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipList {
    /// By name.
    pub items: Vec<Vip>,
    /// Those that every healthy host has, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anycast: Vec<AnycastVip>,
}

/// One VIP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Vip {
    /// Its name.
    pub name: String,
    /// Its addresses, with the prefix length of the link they are on.
    pub addresses: Vec<String>,
    /// `local` (this host's configuration) or `manager`.
    pub source: String,
    /// What this host's router is doing.
    pub state: RouterState,
    /// Since when, RFC 3339 with microseconds.
    pub since: String,
    /// Seconds in this state.
    pub state_seconds: f64,
    /// Why it is in this state, as a sentence.
    pub because: String,
    /// The interface, absent while none fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Why that interface, as a sentence.
    #[serde(default)]
    pub interface_because: String,
    /// The group of VIPs it moves together with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_group: Option<String>,
    /// The VIP of that group whose election counts, when it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// The virtual router id.
    pub vrid: u8,
    /// Where the VRID comes from, as a sentence.
    pub vrid_because: String,
    /// The priority that is advertised.
    pub priority: u8,
    /// The configured priority.
    pub base_priority: u8,
    /// Why the two differ, or where the priority comes from.
    pub priority_because: String,
    /// The advertisement interval in force.
    pub advert_interval_seconds: f64,
    /// After how much silence a Backup takes over.
    pub active_down_seconds: f64,
    /// The Active router as this host hears it, when it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<ActivePeer>,
    /// What it tracks on this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tracks: Vec<TrackStatus>,
    /// Since and until when nothing but a fault moves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Frozen>,
    /// Other hosts seen claiming the address, as sentences with MAC and time.
    #[serde(default)]
    pub duplicates: Vec<String>,
    /// What is wrong with it.
    #[serde(default)]
    pub problems: Vec<Problem>,
    /// How long after its last advertisement the kernel stops this host from answering for it;
    /// absent where no fence stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence_seconds: Option<f64>,
}

/// Something a VIP tracks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrackStatus {
    /// Its name.
    pub name: String,
    /// What is tracked, such as `interface eth1`.
    pub what: String,
    /// Whether all is well with it.
    pub good: bool,
    /// Why, as a sentence.
    pub because: String,
    /// What its failure does to the priority: -1 to -253, absent where it is critical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i16>,
    /// Whether this host does not hold the VIP while it fails.
    #[serde(default)]
    pub critical: bool,
}

/// A freeze.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Frozen {
    /// Since when, RFC 3339.
    pub since: String,
    /// Until when, RFC 3339.
    pub until: String,
}

/// The Active router of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivePeer {
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// The priority it advertises.
    pub priority: u8,
    /// Seconds since its last advertisement.
    pub last_heard_seconds: f64,
}

/// Why a VIP is where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipExplanation {
    /// The VIP.
    pub vip: Vip,
    /// The conclusion, such as `10.20.14.10 is on edge-a`.
    pub conclusion: String,
    /// The reasons, most important first.
    pub because: Vec<String>,
    /// What would move it.
    pub would_move_if: Vec<String>,
    /// Interfaces that were not chosen, and why.
    pub rejected_interfaces: Vec<RejectedInterface>,
    /// The last changes of state, newest last.
    pub transitions: Vec<Transition>,
    /// Packet counters by name, such as `adverts_received` or `reject_ttl`.
    pub counters: std::collections::BTreeMap<String, u64>,
}

/// An interface a VIP is not on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RejectedInterface {
    /// The interface.
    pub interface: String,
    /// Why not.
    pub because: String,
}

/// A change of state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transition {
    /// When, RFC 3339 with microseconds.
    pub at: String,
    /// When, on the host's monotonic clock (CLOCK_BOOTTIME), in microseconds.
    pub boottime_micros: u64,
    /// From.
    pub from: RouterState,
    /// To.
    pub to: RouterState,
    /// Why.
    pub because: String,
}
