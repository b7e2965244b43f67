//! Cluster API's address claims and addresses (`ipam.cluster.x-k8s.io`, v1beta1 and v1beta2), and
//! the pools of the in-cluster provider. Read with tolerance for what we do not know.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    meta::{Object, Resource},
    pool::AddressCounts,
};

/// The group of claims and addresses, and of the in-cluster provider's pools.
pub const GROUP: &str = "ipam.cluster.x-k8s.io";
/// The version Kedge writes; v1beta1 has the same JSON but for conditions.
pub const VERSION: &str = "v1beta2";
/// What keeps a claim until its address is released.
pub const RELEASE_FINALIZER: &str = "ipam.cluster.x-k8s.io/ReleaseAddress";
/// What keeps an address until its claim is gone.
pub const PROTECT_FINALIZER: &str = "ipam.cluster.x-k8s.io/ProtectAddress";

/// A wish for one address of a pool.
pub type IpAddressClaim = Object<IpAddressClaimSpec, IpAddressClaimStatus>;

/// What a claim asks for. Immutable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressClaimSpec {
    /// The cluster it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// The pool.
    pub pool_ref: IpPoolRef,
}

/// A pool, in the namespace of the claim or of the whole cluster.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct IpPoolRef {
    /// Its API group.
    #[serde(default)]
    pub api_group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// What became of a claim. A claim on an exhausted pool may have no status at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressClaimStatus {
    /// The address it got. Wait for this, not for Ready: providers need not set conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_ref: Option<NameRef>,
    /// Ready, with the reasons AllocationFailed, PoolNotReady, PoolExhausted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ForeignCondition>,
}

/// A name in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NameRef {
    /// The name.
    #[serde(default)]
    pub name: String,
}

/// A condition in either form of Cluster API: what both have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForeignCondition {
    /// The aspect.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
    /// A CamelCase word; v1beta1 leaves it out where all is well.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it last changed, RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_transition_time: String,
    /// `Error`, `Warning`, `Info`: v1beta1 alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub severity: String,
}

/// An address that was given to a claim. It has no status.
pub type IpAddress = Object<IpAddressSpec, serde_json::Value>;

/// An address and what it was taken from. Immutable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressSpec {
    /// The claim.
    pub claim_ref: NameRef,
    /// The pool.
    pub pool_ref: IpPoolRef,
    /// The address.
    pub address: String,
    /// The prefix length of its network.
    #[serde(default)]
    pub prefix: i32,
    /// The network's router.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gateway: String,
}

impl IpAddressSpec {
    /// The address, if it is one.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.address.parse().ok()
    }
}

/// InClusterIPPool and GlobalInClusterIPPool: the same fields, in a namespace or without one.
pub type InClusterPool = Object<InClusterPoolSpec, InClusterPoolStatus>;

/// What Kedge reads of an in-cluster pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InClusterPoolSpec {
    /// Single addresses, ranges `a-b`, and prefixes.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// The prefix length of the network.
    #[serde(default)]
    pub prefix: i32,
    /// Its router.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub gateway: String,
}

/// How full an in-cluster pool is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InClusterPoolStatus {
    /// The counts. `free: 0` is how an exhausted pool is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_addresses: Option<AddressCounts>,
}

impl Resource for IpAddressClaimSpec {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "IPAddressClaim";
    const NAMESPACED: bool = true;
    type Status = IpAddressClaimStatus;
}

impl Resource for IpAddressSpec {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "IPAddress";
    const NAMESPACED: bool = true;
    type Status = serde_json::Value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_read_in_both_versions() {
        let old: IpAddressClaim = serde_saphyr::from_str(
            "apiVersion: ipam.cluster.x-k8s.io/v1beta1\nkind: IPAddressClaim\nmetadata: {name: a}\n\
             spec: {poolRef: {apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool, name: p}}\n\
             status:\n  addressRef: {name: a}\n  conditions: [{type: Ready, status: 'False', \
             severity: Error, reason: PoolExhausted, lastTransitionTime: '2026-01-01T00:00:00Z'}]\n  \
             v1beta2: {conditions: []}\n",
        )
        .unwrap();
        assert_eq!(old.status.address_ref.unwrap().name, "a");
        assert_eq!(old.status.conditions[0].severity, "Error");
        let new: IpAddressClaim = serde_saphyr::from_str(
            "apiVersion: ipam.cluster.x-k8s.io/v1beta2\nkind: IPAddressClaim\nmetadata: {name: a}\n\
             spec: {clusterName: c, poolRef: {apiGroup: kedge.dev, kind: VIPPool, name: p}}\n\
             status:\n  conditions: [{type: Ready, status: 'True', reason: Ready, message: '', \
             observedGeneration: 1, lastTransitionTime: '2026-01-01T00:00:00Z'}]\n  deprecated: {}\n",
        )
        .unwrap();
        assert_eq!(new.spec.pool_ref.kind, "VIPPool");
        assert_eq!(new.status.address_ref, None);
    }

    #[test]
    fn an_address_and_an_exhausted_pool_are_read() {
        let address: IpAddress = serde_saphyr::from_str(
            "metadata: {name: a}\nspec: {claimRef: {name: a}, poolRef: {kind: InClusterIPPool, \
             name: p}, address: 10.0.0.9, prefix: 24}\n",
        )
        .unwrap();
        assert_eq!(address.spec.ip(), Some("10.0.0.9".parse().unwrap()));
        let pool: InClusterPool = serde_saphyr::from_str(
            "metadata: {name: p}\nspec: {addresses: [10.0.0.9], prefix: 24, excludedAddresses: []}\n\
             status: {ipAddresses: {total: 1, used: 1, free: 0, outOfRange: 0}}\n",
        )
        .unwrap();
        assert_eq!(pool.status.ip_addresses.unwrap().free, 0);
    }
}
