//! EdgeGateway: the tunnel hub of the load-balancer side, a group of instances.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    host::{ConfigMark, Identity},
    meta::{GROUP, Object, Resource, VERSION},
};

/// The WireGuard port of an endpoint that names none.
pub const DEFAULT_PORT: u16 = 51820;
/// The tunnel's MTU when none is set: 1500 less WireGuard over IPv6.
pub const DEFAULT_MTU: u16 = 1420;
/// Seconds between keepalives when none are set: below the 30 s of the strictest common NAT.
pub const DEFAULT_KEEPALIVE_SECONDS: u16 = 25;
/// The ports given to listeners when none are set.
pub const DEFAULT_PORTS: PortRange = PortRange {
    from: 30000,
    to: 30999,
};

/// A tunnel hub.
pub type EdgeGateway = Object<EdgeGatewaySpec, EdgeGatewayStatus>;

/// What a gateway offers. An admin writes all but `instances`, which are the manager's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EdgeGatewaySpec {
    /// The tunnel.
    #[serde(default)]
    pub tunnel: GatewayTunnel,
    /// Where clients reach the listeners.
    #[serde(default)]
    pub service: GatewayService,
    /// The ports of the listeners.
    #[serde(default)]
    pub ports: GatewayPorts,
    /// The enrolled instances, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<Instance>,
}

/// The tunnel of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayTunnel {
    /// Where hosts reach the instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub public_endpoints: Vec<PublicEndpoint>,
    /// The overlay's prefixes; `fd6b:6564:6765::/48` and `198.18.0.0/16` when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub cidrs: Vec<IpNet>,
    /// The device's MTU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1280, max = 9000))]
    pub mtu: Option<u16>,
    /// Seconds between keepalives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive_seconds: Option<u16>,
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
    pub port: Option<u16>,
}

/// Where clients reach the listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayService {
    /// The addresses; the host of the first public endpoint when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
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
pub struct PortRange {
    /// The first.
    #[schemars(range(min = 1))]
    pub from: u16,
    /// The last.
    pub to: u16,
}

/// One process of a gateway: its identity, its key, its overlay addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Instance {
    /// Its name.
    pub name: String,
    /// The identity it enrolled with.
    pub identity: Identity,
    /// WireGuard public keys, base64; the first is in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub public_keys: Vec<String>,
    /// Its overlay addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
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
    pub instances: Vec<InstanceStatus>,
    /// Programmed, KeysReady, Ready.
    #[serde(default)]
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
    pub peers_alive: Vec<String>,
}

impl Resource for EdgeGatewaySpec {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "EdgeGateway";
    const NAMESPACED: bool = true;
    type Status = EdgeGatewayStatus;
}
