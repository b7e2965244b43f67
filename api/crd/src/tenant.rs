//! Tenant: one user cluster or site; who may enrol and what it may use.

use std::collections::BTreeMap;

use kedge_core::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    balancer::Drain,
    condition::Condition,
    meta::{GROUP, GatewayRef, Object, Resource, VERSION},
};

/// A user cluster or site.
pub type Tenant = Object<TenantSpec, TenantStatus>;

/// What a tenant may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.__namespace__) ? self.__namespace__ : '') == (has(oldSelf.__namespace__) ? oldSelf.__namespace__ : '')",
    "message": "namespace is immutable",
}]))]
pub struct TenantSpec {
    /// The namespace of its objects: that of its Clusters. `tenant-<name>` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// The rules of enrolment.
    #[serde(default)]
    pub enrollment: Enrollment,
    /// The gateway its hosts connect to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_ref: Option<GatewayRef>,
    /// The names its load balancers get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<TenantDns>,
    /// The pools its LoadBalancers may use; all of its namespace when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub allowed_pools: Vec<String>,
    /// How much it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<TenantLimits>,
    /// The issuers of cert-manager that certificates of its HTTPLoadBalancers may be asked of; none when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub issuers: Vec<Issuer>,
    /// How the machines of its load balancers' hosts leave, besides those of a LoadBalancer, which says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
}

/// The names a tenant's load balancers get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.provider) || self.provider == 'None' || has(self.domain)",
    "message": "domain is required where a provider makes records",
}, {
    "rule": "!has(self.allowedHostnames) || self.allowedHostnames.all(h, h == '*' || h.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",
    "message": "allowedHostnames must be DNS names in lower case, at most with one leading wildcard, or *",
}]))]
pub struct TenantDns {
    /// The domain below which names are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub domain: Option<String>,
    /// The names its HTTPLoadBalancers may ask for beside `<name>.<tenant>.<domain>`. One with a leading wildcard
    /// stands for every name below it, and for that wildcard. `*` stands for every name, and lets HTTPLoadBalancers
    /// without names have all that nobody else has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub allowed_hostnames: Vec<String>,
    /// Who makes the records; `None` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<DnsProvider>,
}

/// Who makes DNS records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DnsProvider {
    /// Nobody of ours.
    #[default]
    None,
    /// A controller that reads annotations, such as external-dns.
    Annotations,
    /// The manager, by dynamic updates (RFC 2136).
    #[serde(rename = "RFC2136")]
    Rfc2136,
    /// external-dns, from DNSEndpoint objects.
    #[serde(rename = "DNSEndpoint")]
    DnsEndpoint,
}

/// An issuer of cert-manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Issuer {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// `ClusterIssuer`, or `Issuer` of the tenant's namespace, or a kind of another group; `ClusterIssuer` when
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: Option<String>,
    /// The group of the kind; `cert-manager.io` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub group: Option<String>,
}

/// How much a tenant may have; unbounded where left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantLimits {
    /// Hosts, besides `enrollment.maxHosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// Load balancers of all three kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancers: Option<u32>,
    /// Ports of gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<u32>,
}

/// The rules of enrolment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Enrollment {
    /// How long a new token may be used when its maker does not say; 1 hour when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::span")]
    pub ttl: Option<Span>,
    /// How many hosts may be enrolled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hosts: Option<u32>,
    /// Labels every enrolled host gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host_labels: BTreeMap<String, String>,
    /// Whether a host waits for a person; `Auto` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Whether the key of an Elemental host is a proof, besides tokens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_elemental_keys: bool,
    /// Keys that are never enrolled again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 4096),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["keyHash"])
    )]
    pub denied: Vec<Denied>,
}

/// Whether a host waits for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// It does not.
    #[default]
    Auto,
    /// It does.
    Manual,
}

/// A key that is never enrolled again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Denied {
    /// SHA-256 of the public key's DER SubjectPublicKeyInfo (identity keys) or of its 32 bytes
    /// (WireGuard keys), base64url without padding.
    #[schemars(length(min = 43, max = 43))]
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
    /// What it has, of what its limits count and of what it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TenantUsage>,
    /// Ready, CredentialsReady, WithinLimits, Paused.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// What a tenant has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantUsage {
    /// Enrolled hosts.
    #[serde(default)]
    pub hosts: u32,
    /// Load balancers of all three kinds.
    #[serde(default)]
    pub load_balancers: u32,
    /// LoadBalancers among them: control planes.
    #[serde(default)]
    pub control_planes: u32,
    /// TCPLoadBalancers among them.
    #[serde(default)]
    pub tcp_load_balancers: u32,
    /// HTTPLoadBalancers among them.
    #[serde(default)]
    pub http_load_balancers: u32,
    /// Ports of gateways.
    #[serde(default)]
    pub ports: u32,
    /// Names at gateways.
    #[serde(default)]
    pub names: u32,
    /// Addresses of pools that are VIPs, or a TCPLoadBalancer's own.
    #[serde(default)]
    pub addresses: u32,
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
