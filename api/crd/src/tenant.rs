//! Tenant: one user cluster or site; who may enrol and what it may use.

use std::collections::BTreeMap;

use kedge_core::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    meta::{GROUP, GatewayRef, Object, Resource, VERSION},
};

/// A user cluster or site.
pub type Tenant = Object<TenantSpec, TenantStatus>;

/// What a tenant may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantSpec {
    /// The namespace of its objects: that of its Clusters. `tenant-<name>` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The rules of enrolment.
    #[serde(default)]
    pub enrollment: Enrollment,
    /// The gateway its hosts connect to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_ref: Option<GatewayRef>,
    /// The pools its LoadBalancers may use; all of its namespace when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_pools: Vec<String>,
}

/// The rules of enrolment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Enrollment {
    /// How long a new token may be used when its maker does not say; 1 hour when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
    /// How many hosts may be enrolled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hosts: Option<u32>,
    /// Labels every enrolled host gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host_labels: BTreeMap<String, String>,
    /// Keys that are never enrolled again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<Denied>,
}

/// A key that is never enrolled again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Denied {
    /// SHA-256 of the public key's DER SubjectPublicKeyInfo (identity keys) or of its 32 bytes
    /// (WireGuard keys), base64url without padding.
    pub key_hash: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// Since when, RFC 3339.
    #[serde(default)]
    pub since: String,
}

/// What a tenant has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantStatus {
    /// The namespace in use.
    #[serde(default)]
    pub namespace: String,
    /// Hosts enrolled.
    #[serde(default)]
    pub hosts: u32,
    /// LoadBalancers in its namespace.
    #[serde(default)]
    pub load_balancers: u32,
    /// Ready, WithinLimits.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

impl Resource for TenantSpec {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "Tenant";
    const NAMESPACED: bool = false;
    type Status = TenantStatus;
}

/// The namespace of a tenant's objects.
#[must_use]
pub fn namespace(tenant: &Tenant) -> String {
    tenant
        .spec
        .namespace
        .clone()
        .unwrap_or_else(|| format!("tenant-{}", tenant.metadata.name))
}
