//! Tunnel peers as an agent or a gateway sees them.

use std::collections::BTreeMap;

use kedge_core::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TunnelList {
    /// The device, such as `kedge0`.
    pub device: String,
    /// This end's public key, base64.
    pub public_key: String,
    /// How far this end is with another key, while it goes over to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_change: Option<TunnelKey>,
    /// This end's overlay addresses.
    pub addresses: Vec<String>,
    /// The UDP port.
    pub listen_port: u16,
    /// The device's MTU in bytes.
    pub mtu: u16,
    /// Who moves the packets, and why; nobody while no tunnel is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_plane: Option<DataPlane>,
    /// What is left to the kernel, part by part; empty while the device is not open.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub offload: BTreeMap<String, OffloadPart>,
    /// How many threads move the packets; absent while the device is not open, and where the kernel does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<Workers>,
    /// How the door to this end's handshakes stands; absent while the device is not open, and where the kernel has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<HandshakeGuard>,
    /// The peers, by name.
    pub items: Vec<Tunnel>,
    /// What is wrong with the device itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

/// The key of this end, and the one it goes over to while both are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TunnelKey {
    /// The public key, base64.
    pub public_key: String,
    /// Since when it is there, RFC 3339.
    pub since: String,
    /// The one that follows it, base64; absent where no change is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_public_key: Option<String>,
    /// Since when that is there, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_since: Option<String>,
    /// Until when the one of before is accepted at most, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The peers whose packets go by the next key.
    #[serde(default)]
    pub moved: Vec<String>,
    /// The peers that the key of before is kept for.
    #[serde(default)]
    pub waiting: Vec<String>,
    /// How far it is, as a sentence.
    pub because: String,
}

/// How many threads move the tunnel's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workers {
    /// How many.
    pub count: u8,
    /// Why so many.
    pub because: String,
}

/// What stands between strangers and this end's handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandshakeGuard {
    /// Handshakes are asked for that would take more than half of a processor: strangers have to prove where
    /// they are.
    pub under_load: bool,
    /// How often that began.
    #[serde(default)]
    pub times: u64,
    /// Cookies that were sent.
    #[serde(default)]
    pub cookies_sent: u64,
    /// Initiations that came with a cookie that holds.
    #[serde(default)]
    pub cookies_proven: u64,
}

/// Who moves the tunnel's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataPlane {
    /// `userspace`, Kedge's own engine, or `kernel`, the kernel's WireGuard.
    pub mode: String,
    /// Why it is that one.
    pub because: String,
    /// How often something of the device was repaired that somebody else had changed.
    #[serde(default)]
    pub repairs: u64,
}

/// One part of what is left to the kernel: `tun` (super packets of this host), `udp_gso` and
/// `udp_gro` (datagrams sent and received in runs), `coalesce_tcp` and `coalesce_udp` (packets given to
/// this host in one piece).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OffloadPart {
    /// `tun+usotnl`, `tun+uso`, `tun+tso` or `plain` of `tun`, otherwise `on` or `off`.
    pub state: String,
    /// Why it is not all it could be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// What can be said of a peer. `Up` means an answered probe or authenticated data within the
/// liveness bound, never an old handshake alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TunnelState {
    /// Never connected, or trying.
    #[default]
    Connecting,
    /// Answers.
    Up,
    /// Connected once, silent since.
    Down,
}

/// One peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tunnel {
    /// The peer's name.
    pub name: String,
    /// `local` (this host's configuration) or `manager`.
    pub source: String,
    /// The state.
    pub state: TunnelState,
    /// Why, as a sentence.
    pub because: String,
    /// Since when, RFC 3339.
    #[serde(default)]
    pub since: String,
    /// The path: `udp`, `udp/443` by another port than the usual one, or `tls` where UDP does not pass.
    pub path: String,
    /// The peer's public key, base64.
    pub public_key: String,
    /// Where the peer is, `address:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Where the peer may be reached over TLS, `host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_endpoint: Option<String>,
    /// The prefixes that belong to the peer.
    #[serde(rename = "allowedIPs")]
    pub allowed_ips: Vec<String>,
    /// The last completed handshake, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handshake: Option<String>,
    /// Seconds since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_age_seconds: Option<f64>,
    /// Bytes received, whole WireGuard messages.
    pub rx_bytes: u64,
    /// Bytes sent, whole WireGuard messages.
    pub tx_bytes: u64,
    /// Packets dropped, by reason.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// What is left to the kernel, part by part: of the device, so it is told where one peer is asked
    /// for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub offload: BTreeMap<String, OffloadPart>,
    /// The in-tunnel probe, where this end probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo: Option<EchoStatus>,
    /// Whether packets go through it, where several gateways lead to the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayUse>,
    /// What the way there carries in one piece, where that is looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<PathMtu>,
    /// The fallback, while it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
}

/// A fallback that is in force: another UDP port, or TLS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fallback {
    /// The path: `tls`, or `udp/443` by another port than the usual one.
    #[serde(default = "tls")]
    pub path: String,
    /// Where the datagrams or the connection lead, `host:port`.
    pub endpoint: String,
    /// Where the usual port is, `host:port`.
    #[serde(default)]
    pub udp_endpoint: String,
    /// Why the usual port is not used, as a sentence.
    pub because: String,
    /// Since when, RFC 3339.
    pub since: String,
    /// For how many seconds the usual port has been silent; 0 where this end does not ask.
    pub udp_silent_seconds: f64,
    /// The code of the problem.
    pub code: String,
}

fn tls() -> String {
    "tls".to_owned()
}

/// What the way to a peer carries in one piece.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathMtu {
    /// The largest packet that is sent to the peer inside the tunnel, in bytes.
    pub mtu: u16,
    /// `probed`, `route` (what the route allows, unproven), or `floor`.
    pub source: String,
    /// Why, as a sentence.
    pub because: String,
    /// The largest that the first link on the way takes, in bytes.
    pub most: u16,
}

/// One of several gateways to the same prefixes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayUse {
    /// Whether packets go through it.
    pub active: bool,
    /// Why, or why not, as a sentence.
    pub because: String,
    /// Seconds since it is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_seconds: Option<f64>,
    /// Whether nothing behind any gateway answers: then that says nothing of the gateways.
    #[serde(default)]
    pub targets_unreachable: bool,
}

/// The in-tunnel probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EchoStatus {
    /// The round-trip time of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_seconds: Option<f64>,
    /// Probes sent.
    pub sent: u64,
    /// Probes unanswered.
    pub lost: u64,
    /// Probes unanswered in a row, right now.
    pub missed_in_a_row: u32,
    /// Handshakes forced because three probes in a row went unanswered.
    pub forced_handshakes: u64,
}
