//! What it means that an object is not there any more.
//!
//! `clusterctl move` deletes the objects of a cluster here after it made them there, and empties
//! their finalizers; the hosts must not notice. So an object of a cluster counts as deleted only
//! when it was seen being deleted, on a Cluster that is not paused, and not for a move. What
//! vanishes otherwise stays as it was last seen ([`super::Server::vanished`]): the desired state
//! of hosts is frozen, and nothing is written to it.
//!
//! What belonged to another Cluster of the same name is deleted nevertheless, as after a store went
//! back in time: whoever made the Cluster anew means another one, and nobody brings that back.

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

    /// This Cluster was seen. What vanished earlier and was of another one of its name counts as
    /// deleted from now on; answers what that is.
    pub fn bury(&mut self, cluster: &ObjectKey) -> Vec<ObjectKey> {
        if !cluster.is_cluster() {
            return Vec::new();
        }
        let vanished = self.by_key.iter().filter(|(key, layers)| {
            let server = layers.server.as_ref();
            key.name.namespace == cluster.name.namespace && server.is_some_and(|it| it.vanished)
        });
        let buried = vanished.filter(|(key, layers)| {
            let meta = meta_of(&layers.effective());
            self.is_of_another(&key.name.namespace, &meta)
        });
        let buried: Vec<ObjectKey> = buried.map(|(key, _)| key.clone()).collect();
        for key in &buried {
            self.by_key.remove(key);
        }
        buried
    }

    fn is_deletion(&self, key: &ObjectKey, layers: &Layers) -> bool {
        let value = layers.effective();
        let meta = meta_of(&value);
        if self.is_of_another(&key.name.namespace, &meta) {
            return true;
        }
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

    /// Whether an object's Cluster is not the one that has its name by now.
    fn is_of_another(&self, space: &str, meta: &ObjectMeta) -> bool {
        let mut owners = meta.owner_references.iter();
        owners.any(|owner| {
            let name = Name::new(space, &owner.name);
            let cluster = self.get(&ObjectKey::new(capi::GROUP, "Cluster", name));
            let is_same = |cluster: &Layers| meta_of(&cluster.effective()).uid == owner.uid;
            let is_cluster = owner.kind == "Cluster" && !owner.uid.is_empty();
            is_cluster && cluster.is_some_and(|cluster| !is_same(cluster))
        })
    }
}

fn meta_of(value: &Value) -> ObjectMeta {
    let meta = value.get("metadata").cloned().unwrap_or(Value::Null);
    serde_json::from_value(meta).unwrap_or_default()
}

fn cluster_of<'a>(key: &'a ObjectKey, value: &'a Value, meta: &'a ObjectMeta) -> Option<&'a str> {
    if key.is_cluster() {
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
    fn what_was_of_another_cluster_of_that_name_is_gone() {
        let owned = json!({"spec": {"clusterName": "c"}, "metadata": {"name": "c",
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
                "name": "c", "uid": "old"}]}});
        let made = |objects: &mut Objects, uid: &str| {
            let cluster = json!({"metadata": {"name": "c"}, "spec": {}});
            let key = put(objects, capi::GROUP, "Cluster", cluster, false);
            let server = objects.by_key.get_mut(&key).unwrap().server.as_mut();
            uid.clone_into(&mut server.unwrap().uid);
            key
        };
        // It is known before the Cluster is made anew that the object is not there, or afterwards.
        let mut objects = Objects::default();
        let cluster = made(&mut objects, "old");
        let group = meta::GROUP;
        let balancer = put(&mut objects, group, "LoadBalancer", owned.clone(), false);
        assert!(!objects.vanish(&balancer));
        assert_eq!(objects.bury(&cluster), []);
        made(&mut objects, "new");
        assert_eq!(objects.bury(&cluster), std::slice::from_ref(&balancer));
        assert!(objects.get(&balancer).is_none());
        put(&mut objects, group, "LoadBalancer", owned, false);
        assert!(objects.vanish(&balancer));
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
