//! What must hold before anything is done about a cluster's endpoint.

use kedge_crd::{
    Cluster, LoadBalancerSpec, ObjectMeta,
    capi::{self, MANAGED_BY_ANNOTATION, PAUSED_ANNOTATION},
};

use super::{because::Because, endpoint::EndpointPlan};
use crate::{
    snapshot::{Infra, Snapshot, key},
    store::{Name, ObjectKey},
};

/// The value of `cluster.x-k8s.io/managed-by` by which Kedge is the external manager.
pub const MANAGED_BY_KEDGE: &str = "kedge";

/// The Cluster and its infrastructure cluster, if both may be worked on.
///
/// # Errors
///
/// The plan that ends here, with its reason.
pub fn open<'a>(
    snapshot: &'a Snapshot,
    name: &Name,
    infra: Option<&'a Infra>,
) -> Result<(&'a Cluster, &'a Infra), EndpointPlan> {
    let wait = |because| EndpointPlan::Wait { because };
    let cluster = snapshot.clusters.get(name).ok_or_else(|| {
        let cluster = name.to_string();
        wait(Because::ClusterMissing { cluster })
    })?;
    if let Some(because) = at_rest(cluster, infra) {
        return Err(EndpointPlan::Rest { because });
    }
    let infra = infra.ok_or_else(|| wait(infra_missing(snapshot, name, cluster)))?;
    if let Some(by) = managed_by(infra).filter(|by| *by != MANAGED_BY_KEDGE) {
        let by = by.escape_debug().to_string();
        let because = Because::ManagedElsewhere { by };
        return Err(EndpointPlan::Ignore { because });
    }
    if snapshot.environment.has_core() && !is_owned(&infra.meta, cluster) {
        return Err(wait(Because::NotOwned {
            infra: infra.key.clone(),
            cluster: name.to_string(),
        }));
    }
    Ok((cluster, infra))
}

/// Why nothing is changed: somebody paused the cluster, or deletes it.
#[must_use]
pub fn at_rest(cluster: &Cluster, infra: Option<&Infra>) -> Option<Because> {
    let by = format!("Cluster {}", cluster.metadata.name);
    if cluster.spec.paused || cluster.metadata.has_annotation(PAUSED_ANNOTATION) {
        return Some(Because::Paused { by });
    }
    let infra_paused = infra.filter(|infra| infra.meta.has_annotation(PAUSED_ANNOTATION));
    if let Some(infra) = infra_paused {
        let by = infra.key.to_string();
        return Some(Because::Paused { by });
    }
    if cluster.metadata.deletion_timestamp.is_some() {
        return Some(Because::Deleting { what: by });
    }
    let deleted = infra.filter(|infra| infra.meta.deletion_timestamp.is_some());
    deleted.map(|infra| Because::Deleting {
        what: infra.key.to_string(),
    })
}

/// Why nothing is changed: the LoadBalancer is not there any more without having been deleted, so
/// nothing that is chosen for it can be written down.
#[must_use]
pub fn vanished(snapshot: &Snapshot, balancer: &Name) -> Option<Because> {
    let layers = snapshot.objects.get(&key::<LoadBalancerSpec>(balancer))?;
    let vanished = layers.server.as_ref()?.vanished;
    vanished.then(|| Because::Vanished {
        balancer: balancer.clone(),
    })
}

/// Who manages the infrastructure cluster in the place of its provider.
#[must_use]
pub fn managed_by(infra: &Infra) -> Option<&str> {
    let by = infra.meta.annotations.get(MANAGED_BY_ANNOTATION);
    by.map(String::as_str)
}

/// Whether core has made the Cluster the owner of its infrastructure cluster.
fn is_owned(infra: &ObjectMeta, cluster: &Cluster) -> bool {
    infra.owner_references.iter().any(|owner| {
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        let is_that = owner.uid.is_empty() || owner.uid == cluster.metadata.uid;
        group == Some(capi::GROUP)
            && owner.kind == "Cluster"
            && owner.name == cluster.metadata.name
            && is_that
    })
}

fn infra_missing(snapshot: &Snapshot, name: &Name, cluster: &Cluster) -> Because {
    let key = ObjectKey::new(capi::GROUP, "Cluster", name.clone());
    let document = snapshot.objects.get(&key).and_then(|of| of.user.as_ref());
    let class = document.and_then(|document| {
        let topology = document.value.pointer("/spec/topology")?;
        let class = topology.pointer("/classRef/name").or(topology.get("class"));
        Some(class.and_then(|class| class.as_str()).unwrap_or_default())
    });
    let infra = cluster.spec.infrastructure_ref.as_ref().map(|reference| {
        let namespace = reference.namespace.as_deref();
        let namespace = namespace.unwrap_or_else(|| cluster.metadata.namespace());
        let name = Name::new(namespace, &reference.name);
        ObjectKey::new(reference.group(), &reference.kind, name)
    });
    match (class, infra) {
        (Some(class), infra) => Because::TopologyStuck {
            class: class.escape_debug().to_string(),
            infra,
        },
        (None, Some(infra)) => Because::InfraMissing { infra },
        (None, None) => Because::NoInfrastructureRef,
    }
}
