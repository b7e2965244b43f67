//! LoadBalancer: how the API of one cluster is reached.

mod status;
mod vip;

use std::{collections::BTreeMap, num::NonZeroU16};

use kedge_core::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    status::{
        GatewayStatus, LoadBalancerStatus, Refill, SecondStatus, Target, TargetState, VipStatus,
    },
    vip::{AdvertSeconds, Health, PoolRef, SecondAddress, Vip, VipCheck, VipProtocol},
};
use crate::{
    endpoint::Endpoint,
    host::{AddressKind, Family, HostRef},
    meta::{GROUP, GatewayRef, Object, Resource, VERSION},
    selector::LabelSelector,
};

/// The port of a Kubernetes API server.
pub const API_PORT: u16 = 6443;
/// The annotation on an infrastructure cluster that asks for an endpoint.
pub const MODE_ANNOTATION: &str = "kedge.dev/endpoint-mode";
/// The annotation that names the pool of a VIP.
pub const POOL_ANNOTATION: &str = "kedge.dev/vip-pool";
/// The annotation that names the gateway.
pub const GATEWAY_ANNOTATION: &str = "kedge.dev/gateway";
/// The annotation that takes a target out of a LoadBalancer.
pub const DISABLED_ANNOTATION: &str = "loadbalancer.cluster.x-k8s.io/disabled";
/// Kedge's alias of [`DISABLED_ANNOTATION`].
pub const DISABLED_ALIAS: &str = "kedge.dev/lb-disabled";

/// How the API of one cluster is reached.
pub type LoadBalancer = Object<LoadBalancerSpec, LoadBalancerStatus>;

/// What is wanted, and what was chosen for it: addresses, ports and slots are kept here because
/// they must survive a move, which status does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("required" = ["clusterName"], "x-kubernetes-validations" = [{
    "rule": "self.clusterName == oldSelf.clusterName",
    "message": "clusterName is immutable",
}, {
    "rule": "!has(oldSelf.endpoint) || !has(oldSelf.endpoint.host) || oldSelf.endpoint.host == '' || !has(oldSelf.endpoint.port) || oldSelf.endpoint.port == 0 || (has(self.endpointPolicy) && self.endpointPolicy == 'FollowTarget') || (has(self.endpoint) && self.endpoint == oldSelf.endpoint)",
    "message": "endpoint is immutable once it is set, unless endpointPolicy is FollowTarget",
}, {
    "rule": "!has(oldSelf.mode) || !has(oldSelf.endpoint) || (has(self.mode) && self.mode == oldSelf.mode)",
    "message": "mode is immutable once an endpoint is set",
}, {
    "rule": "!has(self.vip) || !has(self.vip.poolRef) || !has(self.vip.address) || has(self.endpoint) || has(self.vip.vrid)",
    "message": "set vip.poolRef or vip.address, not both",
}, {
    "rule": "has(self.gatewayRef) || ((!has(self.mode) || self.mode != 'Tunnel') && (!has(self.managementAccess) || self.managementAccess != 'Gateway'))",
    "message": "gatewayRef is required for mode Tunnel and for managementAccess Gateway",
}, {
    "rule": "!has(self.shortcut) || self.shortcut == 'None' || (has(self.mode) && self.mode == 'Tunnel')",
    "message": "shortcut is for mode Tunnel",
}, {
    "rule": "!has(self.ports) || self.ports.all(p, self.ports.exists_one(q, q.name == p.name))",
    "message": "ports must be unique by name",
}, {
    "rule": "!has(self.ports) || self.ports.all(p, self.ports.exists_one(q, q.port == p.port))",
    "message": "ports must be unique by port",
}]))]
pub struct LoadBalancerSpec {
    /// The cluster, in the same namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,
    /// The endpoint: a user's wish, otherwise written once by the manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,
    /// Whether a set endpoint may change; `Keep` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_policy: Option<EndpointPolicy>,
    /// How the endpoint is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// What the targets are; Machines when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_kind: Option<TargetKind>,
    /// Which objects are targets; the cluster's control-plane machines when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Ports a distribution needs beside those listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// The ports; 6443 when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub ports: Vec<Port>,
    /// The VIP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip: Option<Vip>,
    /// The gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_ref: Option<GatewayRef>,
    /// The reserved host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_address: Option<ReservedHost>,
    /// The names of the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<EndpointDns>,
    /// How a target leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// How the management side reaches the API; `Endpoint` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management_access: Option<ManagementAccess>,
    /// Whether the cluster's hosts answer for the endpoint themselves while they do not reach the gateway;
    /// `None` when left out. For mode Tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortcut: Option<Shortcut>,
    /// A load balancer of somebody else that does the work, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<HostRef>,
    /// The gateway's port of each port by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub listeners: BTreeMap<String, NonZeroU16>,
}

/// How an endpoint is made.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Mode {
    /// A floating address on the hosts' LAN.
    #[serde(rename = "VIP")]
    Vip,
    /// A port of a gateway, through the tunnel.
    Tunnel,
    /// The address of a reserved host.
    HostAddress,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Vip, Self::Tunnel, Self::HostAddress];

    /// The mode as it is spelt.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vip => "VIP",
            Self::Tunnel => "Tunnel",
            Self::HostAddress => "HostAddress",
        }
    }
}

/// Whether a set endpoint may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EndpointPolicy {
    /// It never does.
    #[default]
    Keep,
    /// It follows the target; whoever dials the old one has to be told.
    FollowTarget,
}

/// Ports a distribution needs beside those listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// RKE2: 9345, where nodes join.
    Rke2,
}

/// The names of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointDns {
    /// The name clients use instead of the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub hostname: Option<String>,
    /// How long its record may be remembered; `60s` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::span")]
    pub ttl: Option<Span>,
}

/// How a target leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.timeout) || (!self.timeout.endsWith('d') && duration(self.timeout) <= duration('24h'))",
    "message": "timeout is at most 24h",
}]))]
pub struct Drain {
    /// How long the deletion of its Machine waits at most for open connections; `60s` when left out, at most `24h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::span")]
    pub timeout: Option<Span>,
    /// Where in the deletion it waits; `PreDrain` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<DrainHook>,
}

/// Where in the deletion of a Machine its traffic is taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DrainHook {
    /// Before its node is drained.
    #[default]
    PreDrain,
    /// Before its infrastructure goes.
    PreTerminate,
    /// The deletion does not wait.
    None,
}

/// A kind of target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetKind {
    /// The API group.
    #[serde(default)]
    pub api_group: String,
    /// `Machine` or `EdgeHost`.
    pub kind: TargetKindName,
}

/// The kinds that can be targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TargetKindName {
    /// Cluster API's Machine.
    #[default]
    Machine,
    /// Kedge's EdgeHost.
    EdgeHost,
}

impl TargetKindName {
    /// The kind as it is spelt.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Machine => "Machine",
            Self::EdgeHost => "EdgeHost",
        }
    }
}

/// One port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Port {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The port at the endpoint.
    pub port: NonZeroU16,
    /// The port on the hosts; the same when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_port: Option<NonZeroU16>,
}

/// Which host's address becomes the endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReservedHost {
    /// The types of address that will do; InternalIP, then ExternalIP, when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    pub types: Vec<AddressKind>,
    /// The family the address must be of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// The interface the address must be on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub interface: Option<String>,
    /// The EdgeHost: a user's wish, otherwise chosen once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// How the management side reaches the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ManagementAccess {
    /// By the endpoint itself.
    #[default]
    Endpoint,
    /// Through a port of the gateway.
    Gateway,
}

/// Whether hosts answer for an endpoint at a gateway themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Shortcut {
    /// They never do.
    #[default]
    None,
    /// While they do not reach the gateway, towards control planes of their site.
    #[serde(rename = "LAN")]
    Lan,
}

impl Resource for LoadBalancerSpec {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "LoadBalancer";
    const NAMESPACED: bool = true;
    type Status = LoadBalancerStatus;
}
