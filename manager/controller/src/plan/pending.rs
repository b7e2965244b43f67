//! Endpoints that are decided and not written yet: nobody is told of one before it is there.

use std::collections::{BTreeMap, BTreeSet};

use kedge_control::local::FleetEndpoint;
use kedge_crd::{LoadBalancerSpec, capi};
use serde_json::Value;

use super::Case;
use crate::{
    snapshot::key,
    store::{Name, ObjectKey, Objects, Write},
};

/// What must be written before an endpoint is there, by cluster and LoadBalancer.
pub type Pending = BTreeMap<(Name, String), BTreeSet<ObjectKey>>;

/// The endpoints that these writes set or change.
#[must_use]
pub fn pending(objects: &Objects, cases: &[Case], writes: &[Write]) -> Pending {
    let changes: BTreeSet<&ObjectKey> = writes
        .iter()
        .filter(|write| {
            let there = objects.content(&write.key, &write.layer);
            let wanted = write.content.as_ref().and_then(endpoint);
            wanted.is_some() && wanted != there.and_then(endpoint)
        })
        .map(|write| &write.key)
        .collect();
    let mut pending = Pending::new();
    for case in cases {
        let Ok(balancer) = &case.asked else { continue };
        let infra = case.infra.as_ref().map(|infra| infra.key.clone());
        let cluster = ObjectKey::new(capi::GROUP, "Cluster", case.cluster.clone());
        let all = [
            Some(key::<LoadBalancerSpec>(&balancer.name)),
            infra,
            Some(cluster),
        ];
        let written: BTreeSet<ObjectKey> = all
            .into_iter()
            .flatten()
            .filter(|key| changes.contains(key))
            .collect();
        if !written.is_empty() {
            let name = balancer.name.name.clone();
            pending.insert((case.cluster.clone(), name), written);
        }
    }
    pending
}

/// What must be written before this endpoint is there.
#[must_use]
pub fn waits_for<'a>(
    pending: &'a Pending,
    item: &FleetEndpoint,
) -> Option<&'a BTreeSet<ObjectKey>> {
    // Nearly always there is none, and nothing to make a key for.
    if pending.is_empty() {
        return None;
    }
    let cluster = Name::new(&item.namespace, &item.cluster);
    pending.get(&(cluster, item.load_balancer.clone()))
}

fn endpoint(content: &Value) -> Option<&Value> {
    let spec = content.get("spec")?;
    spec.get("controlPlaneEndpoint")
        .or_else(|| spec.get("endpoint"))
}
