//! Labels, annotations and finalizers on objects, whoever's they are: which keys are Kedge's, and
//! which of them a plan wants.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Whose an object is: tenants may share a namespace.
pub const TENANT_LABEL: &str = "kedge.dev/tenant";
/// The LoadBalancer a target belongs to: an annotation of ours, or the label of whoever chooses.
pub const TARGET_NAME: &str = "loadbalancer.cluster.x-k8s.io/name";
/// How far a target is.
pub const TARGET_STATUS: &str = "loadbalancer.cluster.x-k8s.io/status";
/// Holds the deletion of a Machine before its node is drained.
pub const PRE_DRAIN_HOOK: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/kedge-lb";
/// Holds the deletion of a Machine before its infrastructure goes.
pub const PRE_TERMINATE_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kedge-lb";
/// Until when the deletion of a Machine waits at most for what is open to its host, RFC 3339.
pub const DRAINING_UNTIL: &str = "kedge.dev/draining-until";
/// The value of a hook: who set it.
pub const HOOK_OWNER: &str = "kedge-manager";
/// Holds a LoadBalancer while a living cluster has its endpoint.
pub const BALANCER_FINALIZER: &str = "kedge.dev/loadbalancer";
/// Holds an IPAddress while hosts have it.
pub const ADDRESS_FINALIZER: &str = "kedge.dev/vip";
/// Holds a pool while addresses of it are in use.
pub const POOL_FINALIZER: &str = "kedge.dev/pool";
/// The address a claim was given: it is given that one again, whatever becomes of the object.
pub const ADDRESS: &str = "kedge.dev/address";
/// A host's addresses, as JSON, on the record of its inventory.
pub const ADDRESSES: &str = "kedge.dev/addresses";
/// The cluster whose endpoint a reserved host's address is.
pub const ENDPOINT_FOR: &str = "kedge.dev/endpoint-for";
/// What Elemental's search for free hosts skips a host for.
pub const ELEMENTAL_MACHINE: &str = "elementalhost.infrastructure.cluster.x-k8s.io/machine-name";
/// The machine Elemental's search takes a host for first.
pub const ELEMENTAL_INFRA_MACHINE: &str =
    "elementalhost.infrastructure.cluster.x-k8s.io/elemental-machine-name";
/// The value by which a host is reserved.
pub const RESERVED: &str = "kedge-reserved";

/// The marks wanted on one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Finalizers.
    pub finalizers: BTreeSet<String>,
}

impl Marks {
    /// The content of the layer; none where there is no mark.
    #[must_use]
    pub fn content(&self) -> Option<Value> {
        let mut meta = Map::new();
        if !self.labels.is_empty() {
            meta.insert("labels".to_owned(), json!(self.labels));
        }
        if !self.annotations.is_empty() {
            meta.insert("annotations".to_owned(), json!(self.annotations));
        }
        if !self.finalizers.is_empty() {
            meta.insert("finalizers".to_owned(), json!(self.finalizers));
        }
        (!meta.is_empty()).then(|| json!({ "metadata": meta }))
    }

    /// Adds an annotation.
    pub fn annotate(&mut self, key: &str, value: impl Into<String>) {
        self.annotations.insert(key.to_owned(), value.into());
    }

    /// Adds a label.
    pub fn label(&mut self, key: &str, value: impl Into<String>) {
        self.labels.insert(key.to_owned(), value.into());
    }
}
