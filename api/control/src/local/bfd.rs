//! BFD sessions as an agent or a gateway sees them.

use std::{collections::BTreeMap, net::IpAddr};

use kedge_core::{
    Problem,
    bfd::{Liveness, SessionState},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every BFD session of the host, or of a gateway with its hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BfdSessionList {
    /// By name.
    pub items: Vec<BfdSession>,
}

/// One BFD session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BfdSession {
    /// Its name; at a gateway that of the host.
    pub name: String,
    /// Whom it watches.
    pub peer: IpAddr,
    /// The interface it is on, where that is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The source of its packets, where that is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Whether there are routers in between.
    pub multihop: bool,
    /// Its state.
    pub state: SessionState,
    /// What it says about the path; only `Lost` is a failure.
    pub liveness: Liveness,
    /// Why it is in that state, as a sentence.
    pub because: String,
    /// Since when, RFC 3339 with microseconds.
    pub since: String,
    /// Seconds in this state.
    pub state_seconds: f64,
    /// At what interval this host sends at most.
    pub transmit_interval_seconds: f64,
    /// After how much silence the peer is lost; absent while it is not heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detection_seconds: Option<f64>,
    /// How many of this host's packets may be missing before the peer calls it lost.
    pub detect_multiplier: u8,
    /// This host's number of the session.
    pub local_discriminator: u32,
    /// Why this host changed its state last, as the peer is told (RFC 5880 section 4.1).
    pub diagnostic: String,
    /// What the peer says; absent while it is not heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<BfdRemote>,
    /// How often it came up.
    pub ups: u64,
    /// How often it lost its peer.
    pub losses: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets accepted.
    pub packets_received: u64,
    /// Packets refused, by reason.
    #[serde(default)]
    pub packets_refused: BTreeMap<String, u64>,
    /// What is wrong with it.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

/// What the peer of a BFD session says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BfdRemote {
    /// Its number of the session.
    pub discriminator: u32,
    /// Its state.
    pub state: SessionState,
    /// Why it changed its state last.
    pub diagnostic: String,
    /// The shortest interval at which it wants to send.
    pub desired_min_tx_seconds: f64,
    /// The shortest interval at which it takes packets.
    pub required_min_rx_seconds: f64,
    /// How many of its packets may be missing.
    pub detect_multiplier: u8,
    /// Seconds since it was heard.
    pub last_heard_seconds: f64,
}
