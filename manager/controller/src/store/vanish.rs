//! What it means that an object is not there any more.
//!
//! `clusterctl move` deletes the objects of a cluster here after it made them there, and empties
//! their finalizers; the hosts must not notice. So an object of a cluster counts as deleted only
//! when it was seen being deleted, on a Cluster that is not paused, and not for a move. What
//! vanishes otherwise stays as it was last seen ([`super::Server::vanished`]): the desired state
//! of hosts is frozen, and nothing is written to it.

use kedge_crd::{
    ObjectMeta,
    capi::{self, CLUSTER_NAME_LABEL, PAUSED_ANNOTATION},
    meta,
};
use serde_json::Value;

use super::{Layers, Name, ObjectKey, Objects};

/// What `clusterctl move` marks an object with before it deletes it here.
pub const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

impl Objects {
    /// The object is not there any more, say a watch or a list. Answers whether it counts as
    /// deleted.
    pub fn vanish(&mut self, key: &ObjectKey) -> bool {
        let Some(layers) = self.by_key.get(key) else {
            return true;
        };
        if self.is_deletion(key, layers) {
            self.by_key.remove(key);
            return true;
        }
        if let Some(layers) = self.by_key.get_mut(key) {
            layers.server.get_or_insert_default().vanished = true;
        }
        false
    }

    fn is_deletion(&self, key: &ObjectKey, layers: &Layers) -> bool {
        let value = layers.effective();
        let meta = value.get("metadata").cloned().unwrap_or(Value::Null);
        let meta: ObjectMeta = serde_json::from_value(meta).unwrap_or_default();
        if meta.has_annotation(DELETE_FOR_MOVE_ANNOTATION) {
            return false;
        }
        let Some(cluster) = cluster_of(key, &value, &meta) else {
            // Whoever deletes a host, a pool or a tenant wants it to be gone.
            return true;
        };
        let cluster = Name::new(&key.name.namespace, cluster);
        let cluster = self.get(&ObjectKey::new(capi::GROUP, "Cluster", cluster));
        meta.deletion_timestamp.is_some() && !cluster.is_some_and(is_paused)
    }
}

fn cluster_of<'a>(key: &'a ObjectKey, value: &'a Value, meta: &'a ObjectMeta) -> Option<&'a str> {
    if key.group == capi::GROUP && key.kind == "Cluster" {
        return Some(&key.name.name);
    }
    let in_spec = value
        .pointer("/spec/clusterName")
        .and_then(Value::as_str)
        .filter(|_| key.group == capi::GROUP || key.group == meta::GROUP);
    let in_label = || meta.labels.get(CLUSTER_NAME_LABEL).map(String::as_str);
    let by_owner = || {
        let mut owners = meta.owner_references.iter();
        let owner = owners.find(|owner| owner.kind == "Cluster");
        owner.map(|owner| owner.name.as_str())
    };
    in_spec.or_else(in_label).or_else(by_owner)
}

fn is_paused(layers: &Layers) -> bool {
    let value = layers.effective();
    let annotated = value.pointer("/metadata/annotations");
    value.pointer("/spec/paused") == Some(&Value::Bool(true))
        || annotated.is_some_and(|annotations| annotations.get(PAUSED_ANNOTATION).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Server, UserDocument};

    fn put(
        objects: &mut Objects,
        group: &str,
        kind: &str,
        value: Value,
        deleted: bool,
    ) -> ObjectKey {
        let name = value["metadata"]["name"].as_str().unwrap();
        let key = ObjectKey::new(group, kind, Name::new("ns", name));
        let layers = objects.by_key.entry(key.clone()).or_default();
        layers.server = Some(Server {
            deletion_timestamp: deleted.then(|| "2026-01-01T00:00:00Z".to_owned()),
            ..Server::default()
        });
        let origin = String::new();
        layers.user = Some(UserDocument { value, origin });
        key
    }

    #[test]
    fn only_a_deletion_that_was_seen_on_an_unpaused_cluster_counts() {
        let table = [
            // paused, being deleted, for a move, counts
            (false, true, false, true),
            (false, false, false, false),
            (true, true, false, false),
            (false, true, true, false),
        ];
        for (paused, deleted, moved, counts) in table {
            let annotations = if moved {
                json!({ DELETE_FOR_MOVE_ANNOTATION: "" })
            } else {
                json!({})
            };
            let mut objects = Objects::default();
            let cluster = json!({"metadata": {"name": "c"}, "spec": {"paused": paused}});
            put(&mut objects, capi::GROUP, "Cluster", cluster, false);
            for (group, kind, spec, labels) in [
                (
                    meta::GROUP,
                    "LoadBalancer",
                    json!({"clusterName": "c"}),
                    json!({}),
                ),
                (
                    capi::GROUP,
                    "Machine",
                    json!({"clusterName": "c"}),
                    json!({}),
                ),
                ("x", "Other", json!({}), json!({CLUSTER_NAME_LABEL: "c"})),
            ] {
                let value = json!({"spec": spec, "metadata": {"name": "o", "labels": labels,
                    "annotations": annotations}});
                let key = put(&mut objects, group, kind, value, deleted);
                let case = format!("{kind}: {paused} {deleted} {moved}");
                assert_eq!(objects.vanish(&key), counts, "{case}");
                let left = objects.get(&key);
                assert_eq!(left.is_none(), counts, "{case}");
                let frozen = left.and_then(|left| left.server.as_ref());
                assert_eq!(
                    frozen.is_some_and(|server| server.vanished),
                    !counts,
                    "{case}"
                );
            }
        }
    }

    #[test]
    fn a_host_that_is_evicted_is_gone_and_one_that_moves_is_not() {
        let mut objects = Objects::default();
        let value = json!({"metadata": {"name": "h"}, "spec": {}});
        let host = put(&mut objects, meta::GROUP, "EdgeHost", value, false);
        assert!(objects.vanish(&host));
        let value = json!({"metadata": {"name": "h", "annotations":
            {DELETE_FOR_MOVE_ANNOTATION: ""}}, "spec": {}});
        let host = put(&mut objects, meta::GROUP, "EdgeHost", value, true);
        assert!(!objects.vanish(&host));
    }
}
