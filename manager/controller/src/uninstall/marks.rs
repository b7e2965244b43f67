//! What of a manager is on an object, and the patch that takes it back.

use std::collections::BTreeMap;

use kedge_crd::{
    ipam::{PROTECT_FINALIZER, RELEASE_FINALIZER},
    meta,
};
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};

use crate::plan::marks::{
    ADDRESSES, ELEMENTAL_INFRA_MACHINE, ELEMENTAL_MACHINE, ENDPOINT_FOR, PRE_DRAIN_HOOK,
    PRE_TERMINATE_HOOK, RESERVED, TARGET_NAME, TARGET_STATUS,
};

/// What is left on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// In words.
    pub what: Vec<String>,
    /// The merge patch that takes it away.
    pub patch: Value,
}

/// What is left on an object; nothing where it is clean.
#[must_use]
pub fn left(object: &DynamicObject) -> Option<Left> {
    let none = BTreeMap::new();
    let meta = &object.metadata;
    let annotations = meta.annotations.as_ref().unwrap_or(&none);
    let labels = meta.labels.as_ref().unwrap_or(&none);
    let mut what = Vec::new();
    let mut metadata = Map::new();

    // A name without a state is a user's choice of a LoadBalancer.
    let notes = [PRE_DRAIN_HOOK, PRE_TERMINATE_HOOK, TARGET_STATUS, ADDRESSES];
    let mut notes: Vec<&str> = notes.to_vec();
    if annotations.contains_key(TARGET_STATUS) {
        notes.push(TARGET_NAME);
    }
    take(&mut metadata, &mut what, "annotation", annotations, &notes);

    // A reserved host is free again; one that a machine has keeps what links it.
    let mut tags = vec![ENDPOINT_FOR];
    if labels
        .get(ELEMENTAL_MACHINE)
        .is_some_and(|by| by == RESERVED)
    {
        tags.extend([ELEMENTAL_MACHINE, ELEMENTAL_INFRA_MACHINE]);
    }
    take(&mut metadata, &mut what, "label", labels, &tags);

    let held = meta.finalizers.as_deref().unwrap_or_default();
    let is_ours = |finalizer: &str| {
        let own = format!("{}/", meta::GROUP);
        let of_pool = [RELEASE_FINALIZER, PROTECT_FINALIZER].contains(&finalizer);
        finalizer.starts_with(&own) || (of_pool && is_of_our_pool(object))
    };
    let (ours, others): (Vec<&String>, Vec<&String>) =
        held.iter().partition(|finalizer| is_ours(finalizer));
    if !ours.is_empty() {
        what.extend(
            ours.iter()
                .map(|finalizer| format!("finalizer {finalizer}")),
        );
        metadata.insert("finalizers".to_owned(), json!(others));
        // The list is replaced whole: nobody may have added to it meanwhile.
        metadata.insert(
            "resourceVersion".to_owned(),
            json!(object.metadata.resource_version),
        );
    }
    (!what.is_empty()).then(|| Left {
        what,
        patch: json!({ "metadata": metadata }),
    })
}

fn take(
    metadata: &mut Map<String, Value>,
    what: &mut Vec<String>,
    word: &str,
    there: &BTreeMap<String, String>,
    ours: &[&str],
) {
    let found: Vec<&str> = ours
        .iter()
        .copied()
        .filter(|key| there.contains_key(*key))
        .collect();
    if found.is_empty() {
        return;
    }
    what.extend(found.iter().map(|key| format!("{word} {key}")));
    let gone: Map<String, Value> = found
        .into_iter()
        .map(|key| (key.to_owned(), Value::Null))
        .collect();
    metadata.insert(format!("{word}s"), Value::Object(gone));
}

/// Whether a claim or an address is of a pool that only our own provider serves.
fn is_of_our_pool(object: &DynamicObject) -> bool {
    let group = object.data.pointer("/spec/poolRef/apiGroup");
    group.and_then(Value::as_str) == Some(meta::GROUP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(metadata: Value, spec: Value) -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "K",
            "metadata": metadata, "spec": spec}))
        .unwrap()
    }

    #[test]
    fn a_clean_object_is_left_alone() {
        let users = json!({"name": "a", "finalizers": ["cluster.x-k8s.io/machine"],
            "annotations": {TARGET_NAME: "chosen", "kedge.dev/endpoint-mode": "VIP"},
            "labels": {ELEMENTAL_MACHINE: "m-1", ELEMENTAL_INFRA_MACHINE: "m-1"}});
        assert_eq!(left(&object(users, json!({}))), None);
    }

    #[test]
    fn ours_goes_and_theirs_stays() {
        let machine = object(
            json!({"name": "a", "resourceVersion": "7",
                "finalizers": ["cluster.x-k8s.io/machine", "kedge.dev/loadbalancer"],
                "annotations": {PRE_DRAIN_HOOK: "kedge-manager", TARGET_NAME: "lb",
                    TARGET_STATUS: "active", "user": "x"}}),
            json!({}),
        );
        let found = left(&machine).unwrap();
        assert_eq!(
            found.patch,
            json!({"metadata": {"resourceVersion": "7", "finalizers": ["cluster.x-k8s.io/machine"],
                "annotations": {PRE_DRAIN_HOOK: null, TARGET_NAME: null, TARGET_STATUS: null}}})
        );
        assert_eq!(found.what.len(), 4);
        let reserved = object(
            json!({"name": "h", "labels": {ENDPOINT_FOR: "c", ELEMENTAL_MACHINE: RESERVED}}),
            json!({}),
        );
        assert_eq!(
            left(&reserved).unwrap().patch,
            json!({"metadata": {"labels": {ENDPOINT_FOR: null, ELEMENTAL_MACHINE: null}}})
        );
    }

    #[test]
    fn finalizers_of_a_provider_go_only_where_the_provider_is_ours() {
        let claim = |group: &str| {
            object(
                json!({"name": "c", "finalizers": [RELEASE_FINALIZER]}),
                json!({"poolRef": {"apiGroup": group, "kind": "P", "name": "p"}}),
            )
        };
        assert_eq!(left(&claim("ipam.cluster.x-k8s.io")), None);
        assert!(left(&claim("kedge.dev")).is_some());
    }
}
