//! EdgeHost: a machine that runs `kedge agent`.

use std::net::IpAddr;

use ipnet::IpNet;
use kedge_core::vip::{Priority, RouterState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    meta::{GROUP, GatewayRef, Object, Resource, VERSION},
};

/// A machine that runs `kedge agent`.
pub type EdgeHost = Object<EdgeHostSpec, EdgeHostStatus>;

/// Who a host is and what it may do. The manager writes all but `access`, `approved`, `exposures`,
/// `maintenance`, `vrrp` and `gatewayRef`, `topology` and `directPath` of `tunnel`, which are an admin's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(oldSelf.tenant) || (has(self.tenant) && self.tenant == oldSelf.tenant)",
    "message": "tenant is immutable",
}, {
    "rule": "!has(oldSelf.hostRef) || (has(self.hostRef) && self.hostRef == oldSelf.hostRef)",
    "message": "hostRef is bound once and immutable",
}, {
    "rule": "!has(oldSelf.identity) || !has(oldSelf.identity.uid) || (has(self.identity) && has(self.identity.uid) && self.identity.uid == oldSelf.identity.uid)",
    "message": "identity.uid is immutable; delete the EdgeHost to void the identity",
}]))]
pub struct EdgeHostSpec {
    /// The tenant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub tenant: String,
    /// The identity the host enrolled with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The object that stands for the same machine. Bound once, by what the token says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ref: Option<HostRef>,
    /// The host's end of the tunnel.
    #[serde(default, skip_serializing_if = "HostTunnel::is_empty")]
    pub tunnel: HostTunnel,
    /// Whether the host is served at all; `Active` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Whether the host may speak for its cluster's Services and Ingresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposures: Option<bool>,
    /// Wishes for its virtual routers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrrp: Option<HostVrrp>,
    /// Whether work is done on the host: it gives its VIPs away and takes no traffic.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub maintenance: bool,
    /// The desired state handed to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigMark>,
    /// A wish to be enrolled that waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<EnrolmentRequest>,
    /// The key a person approved, by the `keyHash` of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 43, max = 43))]
    pub approved: Option<String>,
}

impl EdgeHostSpec {
    /// Whether the host is served.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.access.unwrap_or_default() == Access::Active
    }
}

/// A wish to be enrolled that waits for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnrolmentRequest {
    /// SHA-256 of the DER SubjectPublicKeyInfo of the host's key, base64url without padding. The
    /// host shows the same.
    #[schemars(length(min = 43, max = 43))]
    pub key_hash: String,
    /// Since when it waits, RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub since: String,
}

/// What a certificate stands for, and the last one that was issued.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Identity {
    /// A UUID made at enrolment; it stands in the certificate's SAN.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub uid: String,
    /// The Ed25519 public key, PEM.
    #[serde(default)]
    pub public_key: String,
    /// The serial of the last certificate, hexadecimal.
    #[serde(default)]
    pub serial: String,
    /// Its generation.
    #[serde(default)]
    pub generation: u64,
    /// What the client called the renewal that led to it; empty after enrolment.
    #[serde(
        default,
        rename = "renewalID",
        skip_serializing_if = "String::is_empty"
    )]
    pub renewal_id: String,
    /// When the last certificate was issued, RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub issued: String,
    /// When an expired identity was last recovered, RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recovered: String,
    /// The hash of the Elemental key the host enrolled with; empty for one with a token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 43))]
    pub elemental_key: String,
    /// How often it was recovered with another generation than the stored one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recovery_mismatches: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// Another object that stands for the same machine, in the same namespace.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostRef {
    /// The object's API group.
    #[schemars(length(max = 253))]
    pub api_group: String,
    /// Its kind.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// The label that every EdgeHost is taken to have when hosts are selected: its own name. Nobody writes
/// it, so that nobody can take another host's.
pub const HOST_LABEL: &str = "kedge.dev/host";

/// A host's end of the tunnel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostTunnel {
    /// WireGuard public keys, base64; the first is in use, the second the one it goes over to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), inner(length(max = 44)))]
    pub public_keys: Vec<String>,
    /// The host's overlay addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::prefixes")]
    pub addresses: Vec<IpNet>,
    /// The gateway it connects to; the tenant's when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_ref: Option<GatewayRef>,
    /// Whom it exchanges packets with through the tunnel; `Hub` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Whether packets for other hosts may go without a gateway between; `Auto` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_path: Option<DirectPath>,
    /// Prefixes of the site it may speak for in the tunnel, besides its own addresses.
    #[serde(
        default,
        rename = "allowedCIDRs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(schema_with = "crate::schema::prefixes")]
    pub allowed_cidrs: Vec<IpNet>,
}

impl HostTunnel {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whom a host exchanges packets with through the tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Topology {
    /// Gateways, and what lies behind them.
    #[default]
    Hub,
    /// Also the other hosts of its namespace with this topology and the same gateway.
    Mesh,
}

/// Whether packets for other hosts may go without a gateway between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DirectPath {
    /// Where such a path is proven and no slower.
    #[default]
    Auto,
    /// They never do.
    Never,
}

/// Whether a host is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Access {
    /// It is.
    #[default]
    Active,
    /// Requests are refused and its peers are removed; its identity is kept.
    Suspended,
    /// As suspended; its keys are never enrolled again.
    Banned,
}

impl Access {
    /// The state as it is spelt.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Suspended => "Suspended",
            Self::Banned => "Banned",
        }
    }
}

/// Wishes for a host's virtual routers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostVrrp {
    /// The priority on every VIP, instead of the one the manager chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
}

/// Which desired state was handed out: the generation grows when the digest changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigMark {
    /// The generation.
    pub generation: u64,
    /// SHA-256 of the desired state without its generation, base64url.
    pub digest: String,
}

/// What a host reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeHostStatus {
    /// Its addresses, best first.
    #[serde(default)]
    pub addresses: Vec<HostAddress>,
    /// The Machine it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine_ref: String,
    /// The node of its workload cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<HostNode>,
    /// The agent.
    #[serde(default)]
    pub agent: AgentInfo,
    /// The tunnel.
    #[serde(default)]
    pub tunnel: TunnelInfo,
    /// Its VIPs.
    #[serde(default)]
    pub vips: Vec<HostVip>,
    /// Units of Kubernetes on it, as its systemd says: kubelet, k3s, RKE2, the container runtimes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<HostUnit>,
    /// Enrolled, IdentityUnique, CertificateValid, AddressesReported, ConfigApplied, TunnelReady,
    /// VIPHealthy, AgentAlive, Paused, Ready.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// The node a host became.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostNode {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Whether its cluster says it is ready.
    #[serde(default)]
    pub ready: bool,
}

/// A family of addresses.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Family {
    /// IPv4.
    IPv4,
    /// IPv6.
    IPv6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::IPv4,
            IpAddr::V6(_) => Self::IPv6,
        }
    }
}

/// Cluster API's address types.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum AddressKind {
    /// A host name.
    Hostname,
    /// An address reachable from elsewhere.
    ExternalIP,
    /// An address of the site's network.
    #[default]
    InternalIP,
    /// A name reachable from elsewhere.
    ExternalDNS,
    /// A name of the site's network.
    InternalDNS,
}

/// One address of a host, and why it is reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostAddress {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: AddressKind,
    /// The address or name.
    pub address: String,
    /// The interface that carries it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Its family; absent for names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<Family>,
    /// Whether it is the one to use.
    #[serde(default)]
    pub primary: bool,
    /// Why it was chosen.
    #[serde(default)]
    pub because: String,
}

/// The agent of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentInfo {
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// The kernel's boot id.
    #[serde(default, rename = "bootID")]
    pub boot_id: String,
    /// `/etc/machine-id`.
    #[serde(default, rename = "machineID")]
    pub machine_id: String,
    /// The generation of the desired state it applied.
    #[serde(default)]
    pub config_generation: u64,
}

/// The tunnel of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TunnelInfo {
    /// The gateway instance that answers it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Since when, RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_transition: String,
}

/// One unit of a host, in systemd's own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostUnit {
    /// Its name, such as `kubelet.service`.
    pub name: String,
    /// `active`, `activating`, `failed`.
    #[serde(default)]
    pub active: String,
    /// More of it, such as `running` or `auto-restart`.
    #[serde(default)]
    pub sub: String,
}

/// One VIP of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostVip {
    /// The VIP's name on the host.
    pub lb: String,
    /// Its address.
    pub address: String,
    /// What the host's router is doing.
    pub state: RouterState,
    /// Since when, RFC 3339.
    #[serde(default)]
    pub since: String,
    /// Why.
    #[serde(default)]
    pub because: String,
    /// Whether the host's own server behind the VIP answers its health probe; absent without a
    /// probe, and until one has answered since the host booted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<bool>,
}

impl Resource for EdgeHostSpec {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "EdgeHost";
    const NAMESPACED: bool = true;
    type Status = EdgeHostStatus;
}
