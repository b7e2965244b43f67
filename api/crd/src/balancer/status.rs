//! What became of a LoadBalancer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{condition::Condition, endpoint::Endpoint};

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
    /// How many targets there are.
    #[serde(default)]
    pub target_count: u32,
    /// Those that take traffic.
    #[serde(default)]
    pub active_targets: Vec<String>,
    /// How many take traffic.
    #[serde(default)]
    pub active_count: u32,
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
    /// BackendsHealthy, DataplaneProgrammed, DNSReady, DualStack, VIPWithdrawn, Degraded, Paused, Ready.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::conditions")]
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
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum TargetState {
    /// Known, not serving yet.
    #[default]
    Adding,
    /// Serving.
    Active,
    /// Being taken out by annotation.
    Disabling,
    /// Taken out by annotation.
    Disabled,
    /// Being deleted; traffic is taken away.
    Removing,
    /// Being deleted; no traffic reaches it any more.
    Removed,
}

impl TargetState {
    /// Every state, in the order in which a target goes through them.
    pub const ALL: [Self; 6] = [
        Self::Adding,
        Self::Active,
        Self::Disabling,
        Self::Disabled,
        Self::Removing,
        Self::Removed,
    ];

    /// The state as it is spelt, also in the annotation on the target.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Adding => "adding",
            Self::Active => "active",
            Self::Disabling => "disabling",
            Self::Disabled => "disabled",
            Self::Removing => "removing",
            Self::Removed => "removed",
        }
    }
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
    /// The claim it was got by.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub claim_ref: String,
    /// The host that holds it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub holder: String,
    /// The address of the other family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<SecondStatus>,
}

/// The address of the other family.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecondStatus {
    /// The address.
    pub address: String,
    /// The prefix length of its LAN, where the pool tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<u8>,
    /// The claim it was got by.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub claim_ref: String,
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
