//! What a fleet's gateways offer of its tenants' clusters, as the manager sees it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FleetCondition;

/// Every TCPLoadBalancer and HTTPLoadBalancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetLoadBalancerList {
    /// By namespace and name.
    pub items: Vec<FleetLoadBalancer>,
}

/// A TCPLoadBalancer or HTTPLoadBalancer: where clients come, who serves them, and why or why not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetLoadBalancer {
    /// What it is; `TCPLoadBalancer` when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The tenant; empty where nobody has the namespace.
    #[serde(default)]
    pub tenant: String,
    /// What it stands for in the tenant's cluster, such as `Service shop/web`.
    #[serde(default)]
    pub source: String,
    /// The gateway that serves it, `NAMESPACE/NAME`.
    #[serde(default)]
    pub gateway: String,
    /// Where clients come: addresses and names.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// The names whose requests it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<String>,
    /// Its ports.
    #[serde(default)]
    pub ports: Vec<FleetPort>,
    /// The hosts behind it.
    #[serde(default)]
    pub hosts: Vec<FleetBackend>,
    /// Since when it is ready, or is not; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Its conditions.
    #[serde(default)]
    pub conditions: Vec<FleetCondition>,
}

/// A port of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetPort {
    /// Its name.
    pub name: String,
    /// `TCP` or `UDP`.
    pub protocol: String,
    /// The port that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The gateway's port that clients use; absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener_port: Option<u16>,
}

/// A host behind a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetBackend {
    /// The host.
    pub host: String,
    /// Its overlay address.
    pub address: String,
    /// Whether its tunnel is up: new connections go nowhere else.
    pub up: bool,
}
