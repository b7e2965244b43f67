//! The fleet as the manager sees it.

use kedge_core::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RoleInfo;

/// The manager at one glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagerStatus {
    /// The role.
    #[serde(flatten)]
    pub role: RoleInfo,
    /// The store, such as `directory /srv/kedge`.
    pub store: String,
    /// The address of the agent API.
    pub agent_api: String,
    /// The pin of the CA, as it stands in tokens.
    pub ca_pin: String,
    /// Clusters seen, and how many of them have an endpoint.
    pub clusters: u32,
    /// Clusters with an endpoint.
    pub endpoints: u32,
    /// Hosts enrolled.
    pub hosts: u32,
    /// Hosts that are heard of.
    pub hosts_alive: u32,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// Every cluster's endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetEndpointList {
    /// By namespace and cluster.
    pub items: Vec<FleetEndpoint>,
}

/// A cluster's endpoint and why it is what it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetEndpoint {
    /// The cluster's namespace.
    pub namespace: String,
    /// The cluster.
    pub cluster: String,
    /// The LoadBalancer that asks for it; absent where nobody does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub load_balancer: String,
    /// `host:port`, absent while blank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// `VIP`, `Tunnel` or `HostAddress`; `User` where a person set it.
    pub mode: String,
    /// Where the address comes from, such as `pool edge-lan`.
    pub from: String,
    /// How the management side reaches it, such as `gw-0 203.0.113.7:30001`.
    #[serde(default)]
    pub reached_via: String,
    /// The host that answers right now: the VIP's owner, or the active targets.
    #[serde(default)]
    pub owner: String,
    /// When it was filled, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Why, as a sentence.
    pub because: String,
    /// Its LoadBalancer's conditions.
    #[serde(default)]
    pub conditions: Vec<FleetCondition>,
    /// What is wrong.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

/// A condition, as in `metav1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A CamelCase word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// Every enrolled host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetHostList {
    /// By namespace and name.
    pub items: Vec<FleetHost>,
}

/// An enrolled host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetHost {
    /// The record's namespace.
    pub namespace: String,
    /// The record's name.
    pub name: String,
    /// The tenant.
    pub tenant: String,
    /// The object that stands for the same machine, such as `ElementalHost/edge-a`.
    #[serde(default)]
    pub host_ref: String,
    /// The cluster it works for.
    #[serde(default)]
    pub cluster: String,
    /// Its primary address.
    #[serde(default)]
    pub address: String,
    /// Its overlay addresses.
    #[serde(default)]
    pub overlay: Vec<String>,
    /// Whether it is heard of.
    pub alive: bool,
    /// Its VIPs, such as `api Active`.
    #[serde(default)]
    pub vips: Vec<String>,
    /// The gateway that answers it.
    #[serde(default)]
    pub gateway: String,
    /// The generation it applied, and the one it should.
    pub applied_generation: u64,
    /// The generation it should have applied.
    pub generation: u64,
    /// Its version of Kedge.
    #[serde(default)]
    pub version: String,
    /// Its conditions.
    #[serde(default)]
    pub conditions: Vec<FleetCondition>,
}
