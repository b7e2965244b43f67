//! Elemental's machines and hosts (`infrastructure.cluster.x-k8s.io/v1beta1`). Its cluster is read
//! like any other infrastructure cluster ([`crate::InfraCluster`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    capi::ObjectRef,
    meta::{Object, ObjectMeta},
    selector::LabelSelector,
};

/// The group of Elemental's kinds.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// The kind of Elemental's infrastructure cluster.
pub const CLUSTER_KIND: &str = "ElementalCluster";
/// The kind of a host's inventory record.
pub const HOST_KIND: &str = "ElementalHost";
/// The kind of a way to register.
pub const REGISTRATION_KIND: &str = "ElementalRegistration";
/// The kind of Elemental's infrastructure machine.
pub const MACHINE_KIND: &str = "ElementalMachine";

const LABELS: &str = "elementalhost.infrastructure.cluster.x-k8s.io";

/// A machine of a cluster, as Elemental sees it.
pub type ElementalMachine = Object<ElementalMachineSpec, serde_json::Value>;

/// What Kedge reads of an ElementalMachine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ElementalMachineSpec {
    /// Which hosts may become this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The host that became it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ref: Option<ObjectRef>,
}

/// A host in Elemental's inventory.
pub type ElementalHost = Object<ElementalHostSpec, ElementalHostStatus>;

/// What Kedge reads of an ElementalHost's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ElementalHostSpec {
    /// The machine the host became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_ref: Option<ObjectRef>,
    /// The host's public key, PEM.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pub_key: String,
}

/// What Kedge reads of an ElementalHost's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ElementalHostStatus {
    /// A word for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

/// Whether Elemental itself would take this host for a new machine: installed, not to be reset,
/// not taken.
#[must_use]
pub fn is_free(host: &ObjectMeta) -> bool {
    let label = |name: &str| host.labels.get(&format!("{LABELS}/{name}"));
    label("installed").is_some_and(|value| value == "true")
        && label("needs-reset").is_none()
        && label("machine-name").is_none()
        && host.deletion_timestamp.is_none()
}
