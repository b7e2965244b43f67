//! What a bench through the tunnel told.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RoundTrips;

/// What the way to a peer carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TunnelBench {
    /// The peer.
    pub peer: String,
    /// This end's address in the tunnel.
    pub from: IpAddr,
    /// The peer's.
    pub to: IpAddr,
    /// Round trips while nothing else was sent; none without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_rtt: Option<RoundTrips>,
    /// Each direction.
    pub items: Vec<BenchItem>,
}

/// Which way the data went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BenchDirection {
    /// To the peer.
    Up,
    /// From the peer.
    Down,
}

/// One direction: a TCP stream as fast as it was allowed, and questions beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BenchItem {
    /// Which way.
    pub direction: BenchDirection,
    /// Bytes that arrived, as the end has counted that received them.
    pub bytes: u64,
    /// In how many seconds.
    pub duration_seconds: f64,
    /// Bits a second, without the headers of TCP and IP.
    pub bits_per_second: f64,
    /// What the peer allowed, in Mbit/s.
    pub limit_mbps: u32,
    /// Questions sent meanwhile.
    pub sent: u32,
    /// Answers received.
    pub received: u32,
    /// The share that was lost, in percent.
    pub loss_percent: f64,
    /// Their round trips; none without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<RoundTrips>,
}
