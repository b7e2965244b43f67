//! HTTPLoadBalancer: names and paths of a tenant's Ingress or route, offered at the gateway.

use std::{collections::BTreeMap, num::NonZeroU16};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::{Condition, Status},
    meta::{GROUP, Object, Resource, VERSION},
    traffic::{Ingress, Source},
};

/// Names and paths of a tenant's Ingress or route, offered at the gateway.
pub type HttpLoadBalancer = Object<HttpLoadBalancerSpec, HttpLoadBalancerStatus>;

/// What the tenant's cluster asks for; the manager writes it for the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.hostnames) || self.hostnames.all(h, h.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",
    "message": "hostnames must be DNS names in lower case, at most with one leading wildcard",
}, {
    "rule": "!has(oldSelf.source) || (has(self.source) && self.source == oldSelf.source)",
    "message": "source is immutable",
}]))]
pub struct HttpLoadBalancerSpec {
    /// The object it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The names it wants beside the generated one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    pub hostnames: Vec<String>,
    /// Which request goes where; the first that fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub rules: Vec<HttpRule>,
    /// The certificates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub tls: Vec<Tls>,
}

/// Requests that are served alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpRule {
    /// The names asked for; all of the load balancer's when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    pub hosts: Vec<String>,
    /// The paths; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub paths: Vec<HttpPath>,
    /// Headers that must have these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub headers: BTreeMap<String, String>,
    /// What serves them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub backends: Vec<HttpBackend>,
}

/// A path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.path.startsWith('/')", "message": "path must begin with /",
}]))]
pub struct HttpPath {
    /// The path.
    #[schemars(length(min = 1, max = 1024))]
    pub path: String,
    /// How it is compared; `Prefix` when left out.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<PathKind>,
}

/// How a path is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PathKind {
    /// By its elements from the left.
    #[default]
    Prefix,
    /// As a whole.
    Exact,
}

/// A TCPLoadBalancer of the same namespace that serves requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpBackend {
    /// The TCPLoadBalancer's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its port.
    pub port: NonZeroU16,
    /// Its share among the rule's backends; 1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub weight: Option<u16>,
}

/// A certificate: from a Secret or from an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.secretRef) != has(self.issuer)",
    "message": "set secretRef or issuer, one of the two",
}]))]
pub struct Tls {
    /// The names it is for; all of the load balancer's when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253)))]
    pub hosts: Vec<String>,
    /// The Secret that holds it, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_ref: Option<String>,
    /// The issuer that makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub issuer: Option<String>,
}

/// What is offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpLoadBalancerStatus {
    /// `INGRESS.CLUSTER.<domain>`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub generated_hostname: String,
    /// The addresses clients use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub ingress: Vec<Ingress>,
    /// What became of each name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub hostnames: Vec<HostnameStatus>,
    /// Accepted, Programmed, DNSReady, CertificateReady, Paused, Ready.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// What became of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostnameStatus {
    /// The name.
    #[schemars(length(max = 253))]
    pub hostname: String,
    /// Whether its record is there.
    #[serde(default)]
    pub dns: Status,
    /// Whether its certificate is there.
    #[serde(default)]
    pub tls: Status,
}

impl Resource for HttpLoadBalancerSpec {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "HTTPLoadBalancer";
    const NAMESPACED: bool = true;
    type Status = HttpLoadBalancerStatus;
}
