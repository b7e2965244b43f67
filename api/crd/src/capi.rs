//! Cluster API's Cluster and Machine, in the v1beta1 and the v1beta2 form.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{endpoint::Endpoint, meta::Object};

/// Cluster API's group.
pub const GROUP: &str = "cluster.x-k8s.io";
/// The label that names an object's cluster.
pub const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// The label of control-plane machines.
pub const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";
/// The annotation that pauses an object.
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// The annotation that hands an infrastructure cluster to an external manager.
pub const MANAGED_BY_ANNOTATION: &str = "cluster.x-k8s.io/managed-by";

/// A workload cluster.
pub type Cluster = Object<ClusterSpec, ClusterStatus>;

/// What Kedge reads of a Cluster's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Whether controllers keep their hands off.
    #[serde(default)]
    pub paused: bool,
    /// The endpoint everybody reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<Endpoint>,
    /// The infrastructure cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ObjectRef>,
    /// The control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_ref: Option<ObjectRef>,
}

/// What Kedge reads of a Cluster's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// A word for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
}

/// A reference to another object: `apiVersion` (v1beta1 contract) or `apiGroup` (v1beta2).
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// `group/version`, in the v1beta1 contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The group alone, in the v1beta2 contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace, in the v1beta1 contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl ObjectRef {
    /// The group, from either form.
    #[must_use]
    pub fn group(&self) -> &str {
        let from_version = || {
            let version = self.api_version.as_deref()?;
            version.split_once('/').map(|(group, _)| group)
        };
        self.api_group
            .as_deref()
            .or_else(from_version)
            .unwrap_or("")
    }
}

/// One machine of a cluster.
pub type Machine = Object<MachineSpec, MachineStatus>;

/// What Kedge reads of a Machine's spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// The cluster.
    #[serde(default)]
    pub cluster_name: String,
    /// The infrastructure machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ObjectRef>,
}

/// What Kedge reads of a Machine's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// A word for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// The node of the workload cluster, once core found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<NodeRef>,
    /// What core found, in the words of either contract.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MachineCondition>,
}

/// A node of a workload cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeRef {
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// What Kedge reads of a Machine's condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineCondition {
    /// Its type.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_contract_forms_of_a_reference_name_the_same_group() {
        let read = |text: &str| serde_saphyr::from_str::<Cluster>(text).unwrap();
        let old = read(
            "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: a}\nspec:\n  \
             clusterNetwork: {pods: {cidrBlocks: [10.0.0.0/8]}}\n  infrastructureRef: {apiVersion: \
             infrastructure.cluster.x-k8s.io/v1beta1, kind: ElementalCluster, name: a, namespace: n}\n",
        );
        let new = read(
            "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a}\nspec:\n  \
             infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: \
             ElementalCluster, name: a}\nstatus: {phase: Provisioned, v1beta2: {conditions: []}}\n",
        );
        let group = |cluster: &Cluster| {
            let reference = cluster.spec.infrastructure_ref.as_ref().unwrap();
            reference.group().to_owned()
        };
        assert_eq!(group(&old), "infrastructure.cluster.x-k8s.io");
        assert_eq!(group(&old), group(&new));
        assert_eq!(new.status.phase, "Provisioned");
    }
}
