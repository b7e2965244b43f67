//! EdgeGateway: the tunnel hub of the load-balancer side, a group of instances.

use std::{net::IpAddr, num::NonZeroU16};

use ipnet::IpNet;
use kedge_core::vip::OutOfRange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    host::{ConfigMark, Identity},
    meta::{GROUP, Object, Resource, VERSION},
};

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
    pub mtu: Option<Mtu>,
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
    pub from: NonZeroU16,
    /// The last.
    pub to: NonZeroU16,
}

/// One process of a gateway: its identity, its key, its overlay addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Instance {
    /// Its name.
    pub name: String,
    /// The identity it enrolled with.
    #[serde(default)]
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
