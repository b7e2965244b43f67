//! LoadBalancer: how the API of one cluster is reached.

use std::{collections::BTreeMap, net::IpAddr, num::NonZeroU16, time::Duration};

use kedge_core::vip::{AdvertInterval, OutOfRange, Vrid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    endpoint::Endpoint,
    host::AddressKind,
    meta::{GROUP, GatewayRef, Object, Resource, VERSION},
    selector::LabelSelector,
};

/// The port of a Kubernetes API server.
pub const API_PORT: u16 = 6443;
/// The annotation on an infrastructure cluster that asks for an endpoint.
pub const MODE_ANNOTATION: &str = "kedge.dev/endpoint-mode";
/// The annotation that names the pool of a VIP.
pub const POOL_ANNOTATION: &str = "kedge.dev/vip-pool";
/// The annotation that names the gateway.
pub const GATEWAY_ANNOTATION: &str = "kedge.dev/gateway";
/// The annotation that takes a target out of a LoadBalancer.
pub const DISABLED_ANNOTATION: &str = "loadbalancer.cluster.x-k8s.io/disabled";
/// Kedge's alias of [`DISABLED_ANNOTATION`].
pub const DISABLED_ALIAS: &str = "kedge.dev/lb-disabled";

/// How the API of one cluster is reached.
pub type LoadBalancer = Object<LoadBalancerSpec, LoadBalancerStatus>;

/// What is wanted, and what was chosen for it: addresses, ports and slots are kept here because
/// they must survive a move, which status does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadBalancerSpec {
    /// The cluster, in the same namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster_name: String,
    /// The endpoint: a user's wish, otherwise written once by the manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,
    /// How the endpoint is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// What the targets are; Machines when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_kind: Option<TargetKind>,
    /// Which objects are targets; the cluster's control-plane machines when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The ports; 6443 when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Port>,
    /// The VIP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip: Option<Vip>,
    /// The gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_ref: Option<GatewayRef>,
    /// The reserved host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_address: Option<ReservedHost>,
    /// How the management side reaches the API; `Endpoint` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub management_access: Option<ManagementAccess>,
    /// The gateway's port of each port by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub listeners: BTreeMap<String, NonZeroU16>,
}

/// How an endpoint is made.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Mode {
    /// A floating address on the hosts' LAN.
    #[serde(rename = "VIP")]
    Vip,
    /// A port of a gateway, through the tunnel.
    Tunnel,
    /// The address of a reserved host.
    HostAddress,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Vip, Self::Tunnel, Self::HostAddress];

    /// The mode as it is spelt.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vip => "VIP",
            Self::Tunnel => "Tunnel",
            Self::HostAddress => "HostAddress",
        }
    }
}

/// A kind of target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetKind {
    /// The API group.
    #[serde(default)]
    pub api_group: String,
    /// `Machine` or `EdgeHost`.
    pub kind: TargetKindName,
}

/// The kinds that can be targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TargetKindName {
    /// Cluster API's Machine.
    #[default]
    Machine,
    /// Kedge's EdgeHost.
    EdgeHost,
}

impl TargetKindName {
    /// The kind as it is spelt.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Machine => "Machine",
            Self::EdgeHost => "EdgeHost",
        }
    }
}

/// One port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The port at the endpoint.
    pub port: NonZeroU16,
    /// The port on the hosts; the same when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_port: Option<NonZeroU16>,
}

/// The VIP of a LoadBalancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Vip {
    /// The pool it is taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_ref: Option<PoolRef>,
    /// The address: a user's, otherwise chosen once from the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The interface on the hosts; chosen by on-link prefix when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The virtual router identifier: a user's, otherwise chosen once, unique in the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrid: Option<Vrid>,
    /// The advertisement interval in steps of 0.01; 0.1 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advert_interval_seconds: Option<AdvertSeconds>,
    /// What decides whether a host is fit; `auto` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// The place of each host in the order of priorities.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slots: BTreeMap<String, u8>,
}

/// An advertisement interval as a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct AdvertSeconds(AdvertInterval);

impl AdvertSeconds {
    /// The interval.
    #[must_use]
    pub const fn interval(self) -> AdvertInterval {
        self.0
    }
}

impl From<AdvertInterval> for AdvertSeconds {
    fn from(interval: AdvertInterval) -> Self {
        Self(interval)
    }
}

impl TryFrom<f64> for AdvertSeconds {
    type Error = OutOfRange;

    fn try_from(seconds: f64) -> Result<Self, OutOfRange> {
        // A tenth of a second has no exact binary form: round to the microsecond first.
        let duration = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let micros = (duration.as_nanos() + 500) / 1000;
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        AdvertInterval::try_from(Duration::from_micros(micros)).map(Self)
    }
}

impl From<AdvertSeconds> for f64 {
    fn from(seconds: AdvertSeconds) -> Self {
        Self::from(seconds.0.centis()) / 100.0
    }
}

impl JsonSchema for AdvertSeconds {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AdvertSeconds".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "number", "minimum": 0.01, "maximum": 40.95, "multipleOf": 0.01
        })
    }
}

/// What decides whether a host is fit for a VIP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// The API server on the host.
    #[default]
    Auto,
    /// Nothing.
    None,
}

/// A pool of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolRef {
    /// The API group; `kedge.dev` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// The kind; `VIPPool` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name, in the same namespace.
    pub name: String,
}

/// Which host's address becomes the endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReservedHost {
    /// The types of address that will do; InternalIP, then ExternalIP, when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<AddressKind>,
    /// The interface the address must be on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The EdgeHost: a user's wish, otherwise chosen once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// How the management side reaches the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ManagementAccess {
    /// By the endpoint itself.
    #[default]
    Endpoint,
    /// Through a port of the gateway.
    Gateway,
}

/// What is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerStatus {
    /// The published endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,
    /// The kind of the targets.
    #[serde(default)]
    pub target_kind: String,
    /// How targets are selected.
    #[serde(default)]
    pub target_selector: String,
    /// The targets, by name.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// Those that take traffic.
    #[serde(default)]
    pub active_targets: Vec<String>,
    /// The VIP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip: Option<VipStatus>,
    /// The gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayStatus>,
    /// How often somebody undid the fill of the endpoint lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refill: Option<Refill>,
    /// Exists, EndpointPublished, IsReachable, MatchesConfig, ControlPlaneUnblocked,
    /// DataplaneProgrammed, Paused, Ready.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// A filled endpoint that was blanked and filled again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refill {
    /// How often since it was last quiet.
    pub count: u32,
    /// When last, RFC 3339.
    pub at: String,
    /// Who blanked it, by field manager.
    #[serde(default)]
    pub by: String,
}

/// One target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The Machine or EdgeHost.
    pub name: String,
    /// The EdgeHost behind it, empty while none is known.
    #[serde(default)]
    pub host: String,
    /// Its address in the overlay, or on its LAN.
    #[serde(default)]
    pub address: String,
    /// How far it is.
    pub state: TargetState,
}

/// How far a target is, in the words of the LoadBalancer proposal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TargetState {
    /// Known, not serving yet.
    #[default]
    Adding,
    /// Serving.
    Active,
    /// Taken out by annotation.
    Disabled,
    /// Being deleted.
    Removing,
}

/// The VIP in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipStatus {
    /// Its address.
    pub address: String,
    /// The prefix length of its LAN, where the pool tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<u8>,
    /// The host that holds it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub holder: String,
}

/// The gateway in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayStatus {
    /// Its address.
    pub address: String,
    /// Its ports, by name.
    #[serde(default)]
    pub ports: BTreeMap<String, u16>,
}

impl Resource for LoadBalancerSpec {
    const GROUP: &'static str = GROUP;
    const VERSION: &'static str = VERSION;
    const KIND: &'static str = "LoadBalancer";
    const NAMESPACED: bool = true;
    type Status = LoadBalancerStatus;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_as_seconds_in_steps_of_ten_milliseconds() {
        let read = |text: &str| serde_json::from_str::<AdvertSeconds>(text).ok();
        assert_eq!(read("0.1").unwrap().interval(), AdvertInterval::DEFAULT);
        assert_eq!(read("40.95").unwrap().interval().centis(), 4095);
        assert_eq!(
            serde_json::to_string(&read("0.07").unwrap()).unwrap(),
            "0.07"
        );
        for bad in ["0", "-1", "0.005", "41", "1e300", "0.105"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
