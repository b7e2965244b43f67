//! What `kedge k8s services`, `ingresses`, `routes` and `status` show of a tenant's own cluster.

use kedge_core::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The Services of a cluster that are offered, or should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferedServiceList {
    /// By namespace and name.
    pub items: Vec<OfferedService>,
}

/// A Service that is offered, or should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferedService {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its type, such as `LoadBalancer`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where clients come.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Its ports, such as `80/TCP`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// The ports among them that are not served, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unserved: Vec<String>,
    /// Whether clients are served.
    pub ready: bool,
    /// Why, as a word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, as a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether it is being deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
}

/// The Ingresses of a cluster that are offered, or should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferedIngressList {
    /// By namespace and name.
    pub items: Vec<OfferedIngress>,
}

/// An Ingress that is offered, or should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferedIngress {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its class; left out where it is the cluster's default one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// The names its rules are for; `*` for the one that is generated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Where clients come.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The ports there, such as `443/TCP`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// What of it is not served, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unserved: Vec<String>,
    /// Whether it is told to clients where it is.
    pub ready: bool,
    /// Why not, as a word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why not, as a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether it is being deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
}

/// The routes of a cluster that are offered, or should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferedRouteList {
    /// By namespace and name; a route is there as often as it is at a Gateway.
    pub items: Vec<OfferedRoute>,
}

/// A route at a Gateway that is offered, or should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OfferedRoute {
    /// `HTTPRoute`, `GRPCRoute` or `TLSRoute`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its names; `*` where it has those of its listeners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The Gateway, `NAMESPACE/NAME`.
    pub gateway: String,
    /// The listener it names there, or its port; left out where it names none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub listener: String,
    /// Where clients come.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// What of it is not served, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unserved: Vec<String>,
    /// Whether it is accepted.
    pub ready: bool,
    /// Why not, as a word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why not, as a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether it is being deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
}

/// Who offers the Services, Ingresses and routes of a cluster, and how they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAgent {
    /// The Lease, `NAMESPACE/NAME`.
    pub lease: String,
    /// The agent that holds it; left out where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Since when it holds it, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// When it was last renewed, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewed: Option<String>,
    /// The manager's epoch it speaks with; left out until it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// How many Services are ours.
    pub services: u32,
    /// How many of them are served.
    pub ready: u32,
    /// How many Ingresses are ours.
    #[serde(default)]
    pub ingresses: u32,
    /// How many of them are served.
    #[serde(default)]
    pub ingresses_ready: u32,
    /// How many routes are at Gateways of ours, each as often as it is at one.
    #[serde(default)]
    pub routes: u32,
    /// How many of them are served.
    #[serde(default)]
    pub routes_ready: u32,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}
