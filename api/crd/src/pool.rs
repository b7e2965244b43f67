//! VIPPool: addresses our own provider gives to LoadBalancers.

use std::net::IpAddr;

use kedge_core::vip::Vrid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    meta::{GROUP, Object, Resource, VERSION},
};

/// A pool of addresses on one LAN.
pub type VipPool = Object<VipPoolSpec, VipPoolStatus>;

/// The addresses of a pool; the fields are those of Cluster API's InClusterIPPool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.addresses.all(a, a.contains(':')) || !self.addresses.exists(a, a.contains(':'))",
    "message": "addresses must be of one family",
}, {
    "rule": "!has(self.gateway) || self.addresses.all(a, a.contains(':') == self.gateway.contains(':'))",
    "message": "gateway must be of the addresses' family",
}, {
    "rule": "self.prefix <= 32 || self.addresses.all(a, a.contains(':'))",
    "message": "prefix is at most 32 for IPv4",
}]))]
pub struct VipPoolSpec {
    /// Single addresses, ranges `a-b`, and prefixes.
    #[schemars(length(min = 1, max = 256), inner(length(min = 1, max = 100)))]
    pub addresses: Vec<String>,
    /// The prefix length of the LAN.
    #[schemars(range(min = 1, max = 128))]
    pub prefix: u8,
    /// The LAN's router. Never given away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// Addresses, ranges and prefixes that are never given away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 100)))]
    pub excluded_addresses: Vec<String>,
    /// Whether the LAN's first and last address may be given away.
    #[serde(
        default,
        rename = "allocateReservedIPAddresses",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub allocate_reserved: bool,
    /// How long an address rests before it is given away again; not at all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 31_536_000))]
    pub address_reuse_grace_period_seconds: Option<u32>,
    /// The LAN, as its hosts know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<PoolNetwork>,
    /// The VRIDs that are free on this LAN; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrid: Option<VridRange>,
    /// How hosts tell the network that they hold an address; `ARP` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertise: Option<Advertise>,
}

/// The LAN of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolNetwork {
    /// The interface on the hosts: a name, or one with a trailing `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub interface_selector: Option<String>,
    /// Its VLAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094))]
    pub vlan: Option<u16>,
}

/// How hosts tell the network that they hold an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Advertise {
    /// By ARP or neighbour discovery on the LAN.
    #[default]
    #[serde(rename = "ARP")]
    Arp,
    /// By BGP to the routers.
    #[serde(rename = "BGP")]
    Bgp,
}

/// A range of virtual router identifiers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.from <= self.to", "message": "from must not be above to",
}]))]
pub struct VridRange {
    /// The first.
    pub from: Vrid,
    /// The last.
    pub to: Vrid,
}

/// How full a pool is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipPoolStatus {
    /// The counts.
    #[serde(rename = "ipAddresses", default)]
    pub ip_addresses: AddressCounts,
    /// Ready, Exhausted, AddressesInRange, Paused.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Counts of a pool's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddressCounts {
    /// Those that may be given away.
    pub total: u64,
    /// Those that are not given away.
    pub free: u64,
    /// Those that are.
    pub used: u64,
    /// Those given away that the pool does not hold.
    pub out_of_range: u64,
}

impl Resource for VipPoolSpec {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "VIPPool";
    const NAMESPACED: bool = true;
    type Status = VipPoolStatus;
}
