//! Which clusters want an endpoint: by a LoadBalancer, by annotations on the infrastructure
//! cluster, or because one is being served and must not vanish under a living cluster.

use std::collections::{BTreeMap, BTreeSet};

use kedge_crd::{
    LoadBalancerSpec, ObjectMeta,
    balancer::{
        GATEWAY_ANNOTATION, MODE_ANNOTATION, ManagementAccess, Mode, POOL_ANNOTATION, PoolRef, Vip,
    },
    capi::CONTROL_PLANE_LABEL,
    meta::GatewayRef,
};
use serde_json::Value;

use super::{because::Because, lead};
use crate::{
    snapshot::{Infra, Snapshot},
    store::{Name, merge},
};

/// A cluster, and who asks for its endpoint.
#[derive(Clone, Debug)]
pub struct Case {
    /// The cluster.
    pub cluster: Name,
    /// Its infrastructure cluster.
    pub infra: Option<Infra>,
    /// Who asks, or why nobody can be served.
    pub asked: Result<Balancer, Because>,
}

/// A LoadBalancer as it is in force.
#[derive(Clone, Debug)]
pub struct Balancer {
    /// Its name.
    pub name: Name,
    /// Who asks for it.
    pub source: Source,
    /// What is asked for.
    pub given: LoadBalancerSpec,
    /// What was decided earlier.
    pub kept: LoadBalancerSpec,
    /// What is in force: the above together; plans decide what is missing.
    pub spec: LoadBalancerSpec,
    /// What is asked for but cannot change once the endpoint exists.
    pub fixed: Vec<&'static str>,
    /// The LoadBalancer of the same cluster that fills the endpoint instead of this one.
    pub beside: Option<Name>,
}

impl Balancer {
    /// Takes back what is asked for but was not granted: only what was decided earlier is served.
    pub fn restrain(&mut self) {
        let address = |spec: &LoadBalancerSpec| spec.vip.as_ref().and_then(|vip| vip.address);
        let kept = address(&self.kept);
        if let Some(vip) = &mut self.spec.vip {
            vip.address = kept;
        }
        let host = |spec: &LoadBalancerSpec| spec.host_address.as_ref()?.host.clone();
        let kept = host(&self.kept);
        if let Some(reserved) = &mut self.spec.host_address {
            reserved.host = kept;
        }
        self.spec.endpoint.clone_from(&self.kept.endpoint);
        self.spec.listeners.clone_from(&self.kept.listeners);
    }
}

/// Who asks for a LoadBalancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A LoadBalancer object.
    Object,
    /// Annotations on the infrastructure cluster.
    Annotations,
    /// Nobody any more, but the cluster lives and has the endpoint.
    Nobody,
}

/// Every cluster, and every LoadBalancer whose cluster is not there. In order of cluster and
/// LoadBalancer.
#[must_use]
pub fn cases(snapshot: &Snapshot) -> Vec<Case> {
    let mut balancers: BTreeMap<Name, Vec<Balancer>> = BTreeMap::new();
    let mut put = |balancer: Balancer| {
        let cluster = Name::new(&balancer.name.namespace, &balancer.spec.cluster_name);
        balancers.entry(cluster).or_default().push(balancer);
    };
    let mut known = BTreeSet::new();
    for (name, layers) in &snapshot.balancers {
        let Some(written) = &layers.written else {
            continue;
        };
        known.insert(name.clone());
        let leaves = layers.meta.deletion_timestamp.is_some();
        let source = if !leaves || !snapshot.environment.has_finalizers() {
            Source::Object
        } else if must_stay(snapshot, name, layers.kept.as_ref().unwrap_or(written)) {
            Source::Nobody
        } else {
            continue;
        };
        put(balancer(snapshot, name, source, written.clone()));
    }
    let written_for: BTreeSet<Name> = snapshot
        .balancers
        .iter()
        .filter_map(|(name, layers)| {
            let cluster = &layers.written.as_ref()?.cluster_name;
            Some(Name::new(&name.namespace, cluster))
        })
        .collect();
    let mut refused = BTreeMap::new();
    for (cluster, object) in &snapshot.clusters {
        // A class's template carries no annotations: its Cluster speaks for the part it makes.
        let infra = snapshot.infra(object);
        let of_infra = infra.as_ref().and_then(|infra| annotated(&infra.meta));
        let Some(asked) = of_infra.or_else(|| annotated(&object.metadata)) else {
            continue;
        };
        // An object replaces the annotations, unless they already led to an endpoint: then it
        // stands beside that.
        let name = free_name(snapshot, cluster);
        let led = snapshot.balancers.get(&name).is_some_and(|layers| {
            let kept = layers.kept.as_ref();
            kept.is_some_and(|kept| kept.endpoint.is_some() && kept.cluster_name == cluster.name)
        });
        let leaves = object.metadata.deletion_timestamp.is_some();
        if (written_for.contains(cluster) && !led)
            || (leaves && !snapshot.balancers.contains_key(&name))
        {
            continue;
        }
        match asked {
            Ok(mut given) => {
                given.cluster_name.clone_from(&cluster.name);
                known.insert(name.clone());
                put(balancer(snapshot, &name, Source::Annotations, given));
            }
            Err(because) => {
                refused.insert(cluster.clone(), because);
            }
        }
    }
    for (name, layers) in &snapshot.balancers {
        if let (false, Some(kept)) = (known.contains(name), &layers.kept)
            && must_stay(snapshot, name, kept)
        {
            let given = layers.given.clone().unwrap_or_default();
            put(balancer(snapshot, name, Source::Nobody, given));
        }
    }
    into_cases(snapshot, balancers, &refused)
}

fn into_cases(
    snapshot: &Snapshot,
    mut balancers: BTreeMap<Name, Vec<Balancer>>,
    refused: &BTreeMap<Name, Because>,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for (cluster, object) in &snapshot.clusters {
        let infra = snapshot.infra(object);
        let found = balancers.remove(cluster).unwrap_or_default();
        if found.is_empty() {
            let because = refused.get(cluster).cloned().unwrap_or(Because::NotAsked);
            cases.push(Case {
                cluster: cluster.clone(),
                infra: infra.clone(),
                asked: Err(because),
            });
        }
        cases.extend(found.into_iter().map(|balancer| Case {
            cluster: cluster.clone(),
            infra: infra.clone(),
            asked: Ok(balancer),
        }));
    }
    for (cluster, found) in balancers {
        cases.extend(found.into_iter().map(|balancer| Case {
            cluster: cluster.clone(),
            infra: None,
            asked: Ok(balancer),
        }));
    }
    cases
}

fn balancer(snapshot: &Snapshot, name: &Name, source: Source, given: LoadBalancerSpec) -> Balancer {
    let layers = snapshot.balancers.get(name);
    let kept = layers.and_then(|layers| layers.kept.clone());
    // What was decided for another cluster says nothing about this one.
    let same = |kept: &LoadBalancerSpec| {
        given.cluster_name.is_empty() || kept.cluster_name == given.cluster_name
    };
    let mut kept = kept.filter(same).unwrap_or_default();
    if kept.endpoint.is_none() {
        kept.endpoint = published(snapshot, name, &given.cluster_name);
    }
    let mut spec = together(&kept, &given);
    let mut fixed = Vec::new();
    if kept.endpoint.is_some() {
        if kept.mode.is_some() && spec.mode != kept.mode {
            spec.mode = kept.mode;
            fixed.push("spec.mode");
        }
        let address = |spec: &LoadBalancerSpec| spec.vip.as_ref().and_then(|vip| vip.address);
        if let (Some(old), Some(vip)) = (address(&kept), spec.vip.as_mut())
            && vip.address != Some(old)
        {
            vip.address = Some(old);
            fixed.push("spec.vip.address");
        }
    }
    Balancer {
        name: name.clone(),
        source,
        given,
        kept,
        spec,
        fixed,
        beside: None,
    }
}

/// The endpoint Kedge filled in: known even if the record of the LoadBalancer it came from is lost.
/// Of those that ask for the cluster the one that comes first ([`lead::order`]) takes it up.
fn published(snapshot: &Snapshot, name: &Name, cluster: &str) -> Option<kedge_crd::Endpoint> {
    let comes_first = |other: &Name| lead::order(other, cluster) < lead::order(name, cluster);
    let by_another = snapshot.balancers.iter().any(|(other, layers)| {
        let serves = |spec: &Option<LoadBalancerSpec>| {
            spec.as_ref()
                .is_some_and(|spec| spec.cluster_name == cluster)
        };
        other.namespace == name.namespace
            && other != name
            && (serves(&layers.kept) || (serves(&layers.written) && comes_first(other)))
    });
    if by_another {
        return None;
    }
    let cluster = Name::new(&name.namespace, cluster);
    let infra = snapshot.infra(snapshot.clusters.get(&cluster)?)?;
    // What a user wrote over it is no fill of ours any more.
    if infra.written.is_valid() {
        return None;
    }
    let fill = snapshot
        .objects
        .owned(&infra.key, crate::managers::ENDPOINT)?;
    let endpoint = fill.pointer("/spec/controlPlaneEndpoint")?;
    serde_json::from_value(endpoint.clone()).ok()
}

/// What was decided, with what is asked for above it.
fn together(kept: &LoadBalancerSpec, given: &LoadBalancerSpec) -> LoadBalancerSpec {
    let value = |spec: &LoadBalancerSpec| serde_json::to_value(spec).unwrap_or(Value::Null);
    let mut together = value(kept);
    merge::over(&mut together, &value(given));
    serde_json::from_value(together).unwrap_or_else(|_| given.clone())
}

/// What the annotations of an infrastructure cluster, or of its Cluster, ask for.
fn annotated(meta: &ObjectMeta) -> Option<Result<LoadBalancerSpec, Because>> {
    let annotation = |key: &str| meta.annotations.get(key);
    let text = annotation(MODE_ANNOTATION)?;
    let Some(mode) = Mode::ALL.into_iter().find(|mode| mode.as_str() == text) else {
        let text = text.escape_debug().take(40).collect();
        return Some(Err(Because::ModeUnknown { text }));
    };
    let pool = annotation(POOL_ANNOTATION).filter(|_| mode == Mode::Vip);
    let gateway = annotation(GATEWAY_ANNOTATION);
    Some(Ok(LoadBalancerSpec {
        mode: Some(mode),
        vip: pool.map(|pool| Vip {
            pool_ref: Some(PoolRef {
                name: pool.clone(),
                ..PoolRef::default()
            }),
            ..Vip::default()
        }),
        gateway_ref: gateway.map(|gateway| GatewayRef::parse(gateway)),
        // Beside a VIP a gateway has only this use.
        management_access: (gateway.is_some() && mode != Mode::Tunnel)
            .then_some(ManagementAccess::Gateway),
        ..LoadBalancerSpec::default()
    }))
}

/// The cluster's own name, unless a user's LoadBalancer of that name serves another cluster.
fn free_name(snapshot: &Snapshot, cluster: &Name) -> Name {
    let taken = snapshot
        .balancers
        .get(cluster)
        .is_some_and(|layers| layers.written.is_some());
    if taken {
        Name::new(
            &cluster.namespace,
            format!("{}-control-plane", cluster.name),
        )
    } else {
        cluster.clone()
    }
}

/// Whether a LoadBalancer nobody asks for must go on: its cluster lives with our endpoint, or goes
/// but still has control-plane machines, or cannot be seen because a document is unreadable.
fn must_stay(snapshot: &Snapshot, name: &Name, kept: &LoadBalancerSpec) -> bool {
    let cluster = Name::new(&name.namespace, &kept.cluster_name);
    let object = snapshot.clusters.get(&cluster);
    let by_object = snapshot
        .balancers
        .get(name)
        .is_some_and(|layers| layers.meta.has_annotation(FORCE_RELEASE));
    let by_cluster = object.is_some_and(|object| object.metadata.has_annotation(FORCE_RELEASE));
    if by_object || by_cluster {
        return false;
    }
    match object.filter(|object| object.metadata.deletion_timestamp.is_none()) {
        Some(object) => {
            let other = |written: &kedge_crd::Endpoint| {
                written.is_valid() && kept.endpoint.as_ref() != Some(written)
            };
            let in_cluster = object.spec.control_plane_endpoint.as_ref();
            let in_infra = snapshot.infra(object).map(|infra| infra.written);
            kept.endpoint.is_some()
                && !in_cluster.is_some_and(other)
                && !in_infra.as_ref().is_some_and(other)
        }
        None => {
            snapshot.incomplete()
                || snapshot.machines.iter().any(|(machine, object)| {
                    machine.namespace == name.namespace
                        && object.spec.cluster_name == kept.cluster_name
                        && object.metadata.labels.contains_key(CONTROL_PLANE_LABEL)
                })
        }
    }
}

/// Lets a LoadBalancer go although a living cluster has its endpoint; on it or on its Cluster.
pub const FORCE_RELEASE: &str = "kedge.dev/force-release";
