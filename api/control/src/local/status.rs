//! The status of a role.

use std::net::IpAddr;

use kedge_core::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AnycastVip, BfdSession, BgpNeighbor, HandshakeGuard, Tunnel, Vip};
use crate::report::ReportedAddress;

/// What every role says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleInfo {
    /// Kedge's version.
    pub version: String,
    /// The host's name.
    pub hostname: String,
    /// When the role started, RFC 3339.
    pub started: String,
    /// How long it has been running.
    pub uptime_seconds: f64,
    /// The process id.
    pub pid: u32,
    /// How often the configuration was loaded; 1 is the start.
    pub config_generation: u64,
    /// Whether a newer configuration was refused and the last good one is in force.
    #[serde(default)]
    pub config_stale: bool,
}

/// The agent at one glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// The role.
    #[serde(flatten)]
    pub role: RoleInfo,
    /// Since when the host is drained, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained_since: Option<String>,
    /// Whether a shutdown or a suspend waits until the VIPs are handed over; absent where there is nobody
    /// to ask or nothing to hand over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inhibitor: Option<Inhibitor>,
    /// The VIPs, by name.
    pub vips: Vec<Vip>,
    /// The VIPs that every healthy host has, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anycast: Vec<AnycastVip>,
    /// The health gates, by VIP name.
    pub health: Vec<HealthStatus>,
    /// The BFD sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bfd: Vec<BfdSession>,
    /// The BGP neighbours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bgp: Vec<BgpNeighbor>,
    /// The tunnel's peers.
    pub tunnels: Vec<Tunnel>,
    /// How the door to this end's handshakes stands; absent while the device is not open, and where the kernel has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<HandshakeGuard>,
    /// Endpoints at a gateway that this host answers for while no gateway is reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortcuts: Vec<ShortcutStatus>,
    /// Links to the other hosts of the VIPs, where they are configured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peer_links: Vec<PeerLink>,
    /// The link to the manager, absent when none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerLink>,
    /// The addresses this host reports.
    pub addresses: Vec<ReportedAddress>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// An endpoint at a gateway that this host answers for while no gateway is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShortcutStatus {
    /// The LoadBalancer, as `NAMESPACE/NAME`.
    pub name: String,
    /// The endpoint's addresses with their ports.
    pub endpoints: Vec<String>,
    /// Who answers for it.
    pub state: ShortcutState,
    /// Since when, RFC 3339.
    pub since: String,
    /// Why, as a sentence.
    pub because: String,
    /// The hosts of the site that serve it, as `HOST ADDRESS`.
    pub targets: Vec<String>,
    /// Those among them that answered last; nobody is asked while the tunnel is up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answering: Vec<String>,
    /// Connections that run over it.
    #[serde(default)]
    pub open: usize,
    /// How often it was taken since the agent began.
    #[serde(default)]
    pub taken: u64,
}

/// Who answers for an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ShortcutState {
    /// The gateway.
    #[default]
    Gateway,
    /// The gateway, though it is not reached.
    Doubted,
    /// This host.
    Standing,
    /// This host, until the gateway has answered for a while.
    Returning,
    /// The gateway: this host must not.
    Refused,
}

/// A lock of logind's, by which a shutdown or a suspend waits for the VIPs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Inhibitor {
    /// Whether logind waits.
    pub held: bool,
    /// In words, such as `none (no polkit)`.
    pub because: String,
    /// What has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

/// What a host is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// It goes down.
    Shutdown,
    /// It sleeps.
    Sleep,
}

/// A link to another host of this host's VIPs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerLink {
    /// The other host's name, once it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its address.
    pub address: IpAddr,
    /// Whether this host called, because the other is Active.
    pub called: bool,
    /// Whether it is up.
    pub up: bool,
    /// Since when, RFC 3339.
    pub since: String,
    /// Why not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub because: String,
}

/// A VIP's health gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthStatus {
    /// The VIP.
    pub vip: String,
    /// What is asked, such as `https://127.0.0.1:6443/readyz`.
    pub probe: String,
    /// `unproven`, `healthy` or `failing`.
    pub verdict: String,
    /// Why, as a sentence.
    pub because: String,
    /// How long the last answer took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_seconds: Option<f64>,
}

/// The agent's link to its manager.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagerLink {
    /// The manager's URL.
    pub url: String,
    /// Whether the host holds an identity.
    pub enrolled: bool,
    /// The host's record, such as `tenants/t/hosts/edge-a`.
    #[serde(default)]
    pub record: String,
    /// Whether the last request was answered.
    pub connected: bool,
    /// Since when, RFC 3339.
    #[serde(default)]
    pub since: String,
    /// Why not, or what was last exchanged.
    #[serde(default)]
    pub because: String,
    /// The generation of the desired state in force.
    pub applied_generation: u64,
    /// When the certificate ends, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_expires: Option<String>,
}

/// The gateway at one glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayStatus {
    /// The role.
    #[serde(flatten)]
    pub role: RoleInfo,
    /// The tunnel's peers.
    pub tunnels: Vec<Tunnel>,
    /// How the door to this end's handshakes stands; absent while the device is not open, and where the kernel has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<HandshakeGuard>,
    /// Tenants that are kept apart, each in a network namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantStatus>,
    /// What the data plane serves.
    pub listeners: Vec<ListenerStatus>,
    /// The link to the manager, absent when none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerLink>,
    /// Present while hosts are sent to other gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<GatewayDrain>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// A tenant that is kept apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantStatus {
    /// The tenant.
    pub tenant: String,
    /// The network namespace of its hosts, as a path.
    pub namespace: String,
    /// How many hosts it has here.
    pub hosts: usize,
    /// Whether its hosts are answered there.
    pub ready: bool,
}

/// How far hosts are sent to other gateways.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayDrain {
    /// Whether they are.
    pub draining: bool,
    /// Since when, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Hosts that speak BFD with this gateway.
    pub hosts: usize,
    /// Those that have not heard it yet.
    pub waiting: usize,
}

/// A listener of the data plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    /// The listener's name.
    pub name: String,
    /// The bound address.
    pub address: IpAddr,
    /// The bound port.
    pub port: u16,
    /// Whether it is bound.
    pub bound: bool,
    /// Connections accepted since it was bound.
    pub accepted: u64,
    /// Connections open right now.
    pub open: u64,
    /// Connections closed because no member could be reached.
    pub refused: u64,
    /// Its members.
    pub members: Vec<MemberStatus>,
}

/// A member of a listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// The EdgeHost.
    pub host: String,
    /// Its overlay address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Whether it takes new connections.
    pub alive: bool,
    /// Why, as a sentence.
    pub because: String,
}
