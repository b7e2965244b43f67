//! The load-balancing model: listeners and their members. The manager produces it, the gateway
//! consumes it.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One address and port on which a gateway accepts connections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// A stable name, such as `edge/edge-tunnel/6443`.
    pub name: String,
    /// The address to bind; the gateway's public address.
    pub address: IpAddr,
    /// The port to bind.
    pub port: u16,
    /// Where connections go.
    #[serde(default)]
    pub members: Vec<Member>,
}

/// One place a listener's connections go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// The EdgeHost, which is also the name of its tunnel peer.
    pub host: String,
    /// The host's overlay address.
    pub address: IpAddr,
    /// The port on the host.
    pub port: u16,
    /// Whether it is being left: its connections go on, and no new one comes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
}
