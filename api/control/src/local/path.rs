//! Which way packets take, and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every path of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathList {
    /// What the NAT in front of this host does: `open` (there is none), `cone`, `symmetric` or `unknown`;
    /// empty where nobody asks.
    #[serde(default)]
    pub nat: String,
    /// The paths, by name.
    pub items: Vec<TunnelPath>,
}

/// The path to a gateway or to another host of the mesh.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TunnelPath {
    /// The peer's name.
    pub name: String,
    /// To a host `direct` or `gateway`; to a gateway `udp`, `udp/443` by another port than
    /// the usual one, or `tls` where UDP does not pass.
    pub path: String,
    /// The gateway that it leads through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// Where the other end of the path is, `address:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The round trip of the direct path, the best of the last answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_rtt_seconds: Option<f64>,
    /// The round trip to the gateway, or through it to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_rtt_seconds: Option<f64>,
    /// What the NAT in front of the host does, by its own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat: Option<String>,
    /// Why it is that path, as a word.
    pub reason: String,
    /// The same as a sentence.
    pub because: String,
    /// Since when, RFC 3339.
    #[serde(default)]
    pub since: String,
    /// Where the gateway sees this host, `address:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<String>,
    /// The places where the host may be called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// The fallback, while it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<super::Fallback>,
}
