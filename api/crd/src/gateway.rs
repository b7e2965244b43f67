//! EdgeGateway: the tunnel hub of the load-balancer side, a group of instances.

mod carried;

use std::{collections::BTreeMap, net::IpAddr, num::NonZeroU16};

use ipnet::IpNet;
use kedge_core::{Span, vip::OutOfRange};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    host::{ConfigMark, Identity},
    meta::{GROUP, Object, Resource, VERSION},
};

pub use carried::{DrainingBackend, UnservedFrontend};

/// The WireGuard port of an endpoint that names none.
pub const DEFAULT_PORT: NonZeroU16 = port(51820);
/// The tunnel's MTU when none is set: 1500 less WireGuard over IPv6.
pub const DEFAULT_MTU: Mtu = Mtu(1420);
/// Seconds between keepalives when none are set: below the 30 s of the strictest common NAT.
pub const DEFAULT_KEEPALIVE_SECONDS: u16 = 25;
/// The ports given to listeners when none are set.
pub const DEFAULT_PORTS: PortRange = PortRange {
    from: port(30000),
    to: port(30999),
};

/// The port of plain HTTP that HTTPLoadBalancers share when none is set.
pub const HTTP_PORT: NonZeroU16 = port(80);
/// The port of HTTP over TLS that they share when none is set.
pub const HTTPS_PORT: NonZeroU16 = port(443);

const fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::MIN.saturating_add(number - 1)
}

/// A tunnel hub.
pub type EdgeGateway = Object<EdgeGatewaySpec, EdgeGatewayStatus>;

/// What a gateway offers. An admin writes all but `instances`, which are the manager's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EdgeGatewaySpec {
    /// The tunnel.
    #[serde(default)]
    pub tunnel: GatewayTunnel,
    /// The proxies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envoy: Option<EnvoyFleet>,
    /// Where clients reach the listeners.
    #[serde(default)]
    pub service: GatewayService,
    /// The ports of the listeners.
    #[serde(default)]
    pub ports: GatewayPorts,
    /// The ports that HTTPLoadBalancers share at its addresses; it serves none when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<GatewayHttp>,
    /// The load balancers before it, which say by the PROXY protocol who the client is; clients come by
    /// themselves when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// The enrolled instances, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub instances: Vec<Instance>,
}

/// Load balancers before a gateway. Every TCP connection to its listeners must come from one of them and begin
/// with a header of the PROXY protocol, version 1 or 2; all others are closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("required" = ["from"]))]
pub struct ProxyProtocol {
    /// The addresses that they connect from, 1 to 64 prefixes. Whoever has one of them may say to be any client.
    #[schemars(schema_with = "crate::schema::sources")]
    pub from: Vec<IpNet>,
}

/// The ports that HTTPLoadBalancers share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayHttp {
    /// Plain HTTP; 80 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZeroU16>,
    /// HTTP over TLS, and TLS that is passed through; 443 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_port: Option<NonZeroU16>,
}

impl GatewayHttp {
    /// The port of plain HTTP.
    #[must_use]
    pub fn http_port(&self) -> NonZeroU16 {
        self.port.unwrap_or(HTTP_PORT)
    }

    /// The port of HTTP over TLS.
    #[must_use]
    pub fn https_port(&self) -> NonZeroU16 {
        self.tls_port.unwrap_or(HTTPS_PORT)
    }
}

/// The tunnel of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayTunnel {
    /// The WireGuard ports an instance listens on; the ports of its endpoints when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub listen_ports: Vec<NonZeroU16>,
    /// Where hosts reach the instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub public_endpoints: Vec<PublicEndpoint>,
    /// Another UDP port of the instances, for hosts whose UDP passes to that one alone, such as 443; they have
    /// none when left out. Instances listen with `tunnel.other_port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_port: Option<NonZeroU16>,
    /// The TCP port where hosts whose UDP does not pass reach the instances over TLS, each at the host of its
    /// public endpoint; they are not when left out. Instances listen with `tunnel.tls_port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_port: Option<NonZeroU16>,
    /// The overlay's prefixes; `fd6b:6564:6765::/48` and `198.18.0.0/16` when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::prefixes")]
    pub cidrs: Vec<IpNet>,
    /// Among whom a host's overlay addresses are unique; `Unique` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addressing: Option<Addressing>,
    /// The device's MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Mtu>,
    /// Seconds between keepalives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive_seconds: Option<u16>,
    /// What moves the packets; `Userspace` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<TunnelMode>,
}

/// Among whom a host's overlay addresses are unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Addressing {
    /// All hosts and gateways.
    #[default]
    Unique,
    /// The hosts of its tenant, and all gateways. Instances must keep tenants apart (`tenants.isolation: namespace`):
    /// one that does not leaves out whoever has another's address.
    PerTenant,
}

/// What moves a tunnel's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TunnelMode {
    /// Kedge itself.
    #[default]
    Userspace,
    /// The kernel's WireGuard.
    Kernel,
}

/// The proxies of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnvoyFleet {
    /// How many; one for each instance when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 64))]
    pub replicas: Option<u16>,
    /// What each may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// How long connections may go on when a proxy leaves; `60s` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::span")]
    pub drain: Option<Span>,
}

/// What a container asks for and may use, in the quantities of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    /// What it asks for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub requests: BTreeMap<String, String>,
    /// What it may use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub limits: BTreeMap<String, String>,
}

impl GatewayTunnel {
    /// The overlay's prefixes.
    #[must_use]
    pub fn overlay(&self) -> Vec<IpNet> {
        if self.cidrs.is_empty() {
            // Not 100.64/10: sites behind carrier-grade NAT own addresses there.
            ["fd6b:6564:6765::/48", "198.18.0.0/16"]
                .iter()
                .filter_map(|cidr| cidr.parse().ok())
                .collect()
        } else {
            self.cidrs.clone()
        }
    }
}

/// The MTU of a tunnel: 1280 (the least IPv6 works with) to 9000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "u16")]
pub struct Mtu(u16);

impl Mtu {
    /// The MTU in bytes.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<i64> for Mtu {
    type Error = OutOfRange;

    fn try_from(value: i64) -> Result<Self, OutOfRange> {
        let fits = |mtu: &u16| (1280..=9000).contains(mtu);
        let mtu = u16::try_from(value).ok().filter(fits);
        mtu.map(Self).ok_or(OutOfRange {
            what: "mtu",
            allowed: "1280 to 9000",
            value,
        })
    }
}

impl From<Mtu> for u16 {
    fn from(mtu: Mtu) -> Self {
        mtu.0
    }
}

impl JsonSchema for Mtu {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Mtu".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "minimum": 1280, "maximum": 9000 })
    }
}

/// Where hosts reach one instance, or any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PublicEndpoint {
    /// The instance; every instance that has no endpoint of its own when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// An address or a name.
    pub host: String,
    /// The WireGuard port; what the instance reports, else 51820, when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZeroU16>,
    /// The address the instance listens on, where it is behind a translation; `host` if that is
    /// an address, every address otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<IpAddr>,
}

/// Where clients reach the listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayService {
    /// The Service made for the listeners; none when left out.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ServiceKind>,
    /// Its load balancer class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub class: Option<String>,
    /// Its annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
    /// The addresses; the host of the first public endpoint when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
}

/// The type of a gateway's Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceKind {
    /// An address from the cluster's provider.
    LoadBalancer,
    /// A port of every node.
    NodePort,
    /// An address inside the cluster.
    ClusterIP,
}

/// The ports of the listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayPorts {
    /// The range ports are taken from; 30000 to 30999 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<PortRange>,
}

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.from <= self.to", "message": "from must not be above to",
}]))]
pub struct PortRange {
    /// The first.
    pub from: NonZeroU16,
    /// The last.
    pub to: NonZeroU16,
}

/// One process of a gateway: its identity, its key, its overlay addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Instance {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The identity it enrolled with.
    #[serde(default)]
    pub identity: Identity,
    /// WireGuard public keys, base64; the first is in use, the second the one it goes over to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub public_keys: Vec<String>,
    /// Its overlay addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::prefixes")]
    pub addresses: Vec<IpNet>,
    /// The desired state handed to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigMark>,
}

/// What the instances reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EdgeGatewayStatus {
    /// The instances, by name.
    #[serde(default)]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub instances: Vec<InstanceStatus>,
    /// The hosts that any instance hears.
    #[serde(default)]
    pub peers: u32,
    /// The version of the proxies' configuration that is handed out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub xds_version: String,
    /// The proxies, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub envoys: Vec<EnvoyStatus>,
    /// How many proxies run the version that is handed out.
    #[serde(default)]
    pub envoys_ready: u32,
    /// Programmed, XDSConnected, KeysReady, Paused, Ready.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// What one instance reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// Its name.
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// The kernel's boot id.
    #[serde(default, rename = "bootID")]
    pub boot_id: String,
    /// Its WireGuard port.
    #[serde(default)]
    pub listen_port: u16,
    /// The generation of the desired state it applied.
    #[serde(default)]
    pub config_generation: u64,
    /// The hosts it hears, by name.
    #[serde(default)]
    #[schemars(length(max = 16_384))]
    pub peers_alive: Vec<String>,
    /// Its WireGuard keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    pub public_keys: Vec<InstanceKey>,
    /// Where hosts reach it, `host:port`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub endpoints: Vec<String>,
    /// What moves its packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_plane: Option<TunnelMode>,
    /// Whether it serves what TCPLoadBalancers ask for, and tells what of that it does not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub serves_frontends: bool,
    /// What of that it does not serve, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096))]
    pub unserved: Vec<UnservedFrontend>,
    /// Whether it can leave a backend: send nothing new there, and tell what is open to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drains: bool,
    /// Whether it tells clients apart by their addresses where a TCPLoadBalancer names some.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tells_clients_apart: bool,
    /// The backends that it is leaving.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096))]
    pub draining: Vec<DrainingBackend>,
}

/// A WireGuard key of an instance, and when it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceKey {
    /// The public key, base64.
    #[schemars(length(max = 44))]
    pub key: String,
    /// From when on, RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub not_before: String,
    /// Until when, RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub not_after: String,
}

/// What one proxy runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvoyStatus {
    /// Its node id.
    #[schemars(length(max = 253))]
    pub id: String,
    /// The version it acknowledged.
    #[serde(default)]
    pub acked_version: String,
    /// How many versions it refused since then.
    #[serde(default)]
    pub nacks: u32,
}

impl Resource for EdgeGatewaySpec {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "EdgeGateway";
    const NAMESPACED: bool = true;
    type Status = EdgeGatewayStatus;
}
