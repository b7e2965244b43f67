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
pub struct VipPoolSpec {
    /// Single addresses, ranges `a-b`, and prefixes.
    pub addresses: Vec<String>,
    /// The prefix length of the LAN.
    pub prefix: u8,
    /// The LAN's router. Never given away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// Addresses, ranges and prefixes that are never given away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded_addresses: Vec<String>,
    /// Whether the LAN's first and last address may be given away.
    #[serde(
        default,
        rename = "allocateReservedIPAddresses",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub allocate_reserved: bool,
    /// The VRIDs that are free on this LAN; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrid: Option<VridRange>,
}

/// A range of virtual router identifiers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
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
    /// Ready, Exhausted.
    #[serde(default)]
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
