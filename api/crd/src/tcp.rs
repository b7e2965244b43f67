//! TCPLoadBalancer: ports of a tenant's Service, offered at the gateway.

use std::{net::IpAddr, num::NonZeroU16};

use ipnet::IpNet;
use kedge_core::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    host::Family,
    meta::{GROUP, Object, Resource, VERSION},
    selector::LabelSelector,
    traffic::{Ingress, Source, Transport},
};

/// Ports of a tenant's Service, offered at the gateway.
pub type TcpLoadBalancer = Object<TcpLoadBalancerSpec, TcpLoadBalancerStatus>;

/// What the tenant's cluster asks for; the manager writes it for the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.ports) || self.ports.all(p, !has(p.port) || self.ports.exists_one(q, has(q.port) && q.port == p.port && (has(q.protocol) ? q.protocol : 'TCP') == (has(p.protocol) ? p.protocol : 'TCP')))",
    "message": "ports must be unique by number and protocol",
}, {
    "rule": "!has(oldSelf.source) || (has(self.source) && self.source == oldSelf.source)",
    "message": "source is immutable",
}]))]
pub struct TcpLoadBalancerSpec {
    /// The object it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The ports. A list of named things: what the manager chooses of one is its own field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub ports: Vec<TcpPort>,
    /// What serves them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub endpoints: Vec<Backend>,
    /// Who may reach it; `External` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposure: Option<Exposure>,
    /// The addresses that clients may have, at most 64 prefixes; any when left out. Nobody else is served at its
    /// ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::clients")]
    pub source_ranges: Vec<IpNet>,
    /// Which hosts take traffic; `Cluster` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<TrafficPolicy>,
    /// Whether a client stays with a backend; `None` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_affinity: Option<SessionAffinity>,
    /// Whether backends are told the client's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// How backends are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// How a backend is chosen; `RoundRobin` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<BalancePolicy>,
    /// An address of its own, taken from a pool: what the annotation `kedge.dev/vip-pool` asks for as well. When left
    /// out its ports are at the gateway's addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<TcpAddress>,
}

/// An address from a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TcpAddress {
    /// The VIPPool of the same namespace that it is from.
    #[schemars(length(min = 1, max = 253))]
    pub pool: String,
    /// Which of the pool's addresses it is to be; the lowest free one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 45))]
    pub ip: Option<IpAddr>,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.port) || has(self.listenerPort)", "message": "port is required",
}]))]
pub struct TcpPort {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The port clients ask for. A port that its user took away is without it until the manager has
    /// taken `listenerPort` away as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZeroU16>,
    /// The protocol; TCP when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Transport>,
    /// What it speaks, where an HTTPLoadBalancer leads to it; `HTTP` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<AppProtocol>,
    /// The gateway's port, chosen once by the manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener_port: Option<NonZeroU16>,
}

/// What a port speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AppProtocol {
    /// HTTP/1.1, and WebSocket over it.
    #[default]
    #[serde(rename = "HTTP")]
    Http,
    /// HTTP/2 without TLS, as gRPC does (`kubernetes.io/h2c`).
    #[serde(rename = "H2C")]
    H2c,
}

/// A set of backends: hosts by label, or addresses of machines without an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.hostSelector) != has(self.addresses)",
    "message": "set hostSelector or addresses, one of the two",
}]))]
pub struct Backend {
    /// EdgeHosts of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_selector: Option<LabelSelector>,
    /// By which of their addresses in the tunnel the selected hosts are reached; by the first one when
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_family: Option<Family>,
    /// Addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub addresses: Vec<IpAddr>,
    /// The selected hosts that are being left, by name: their connections go on, and new ones go elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 253)))]
    pub draining_hosts: Vec<String>,
    /// Their ports, by the name of the load balancer's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub ports: Vec<BackendPort>,
}

/// Where a backend serves a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackendPort {
    /// The name of the load balancer's port.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The backend's port.
    pub port: NonZeroU16,
}

/// Who may reach a load balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Exposure {
    /// Whoever reaches the gateway's public addresses.
    #[default]
    External,
    /// The tenant's hosts alone.
    Internal,
    /// Nobody by a port of its own: HTTPLoadBalancers of its namespace lead to it.
    Routed,
}

/// Which hosts take traffic, in the words of a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrafficPolicy {
    /// All.
    #[default]
    Cluster,
    /// Those with a ready endpoint.
    Local,
}

/// Whether a client stays with a backend, in the words of a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SessionAffinity {
    /// No.
    #[default]
    None,
    /// By its address.
    ClientIP,
}

/// The version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProxyProtocol {
    /// Version 1, text.
    V1,
    /// Version 2, binary.
    V2,
}

/// How backends are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HealthCheck {
    /// Between two checks; `5s` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::span")]
    pub interval: Option<Span>,
    /// For one check; `2s` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::span")]
    pub timeout: Option<Span>,
    /// Failures after which a backend is out; 3 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub fall: Option<u8>,
    /// Successes after which it is back; 2 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub rise: Option<u8>,
}

/// How a backend is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BalancePolicy {
    /// In turn.
    #[default]
    RoundRobin,
    /// The one with the fewest connections.
    LeastConnections,
    /// By a hash of the connection that moves few of them when backends change.
    Maglev,
}

/// Asks, where it is on a TCPLoadBalancer with the value [`HASHED`], for ports of the gateway's range
/// in the place of the ports themselves.
pub const LISTENER_PORTS_ANNOTATION: &str = "kedge.dev/listener-ports";
/// The value that asks for it.
pub const HASHED: &str = "Hashed";

/// What is offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpLoadBalancerStatus {
    /// The addresses clients use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub ingress: Vec<Ingress>,
    /// How many backends take traffic.
    #[serde(default)]
    pub active_endpoints: u32,
    /// Accepted, Programmed, BackendsHealthy, Paused, Ready.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl Resource for TcpLoadBalancerSpec {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "TCPLoadBalancer";
    const NAMESPACED: bool = true;
    type Status = TcpLoadBalancerStatus;
}
