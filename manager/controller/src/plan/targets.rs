//! Which hosts serve a LoadBalancer.

use std::collections::BTreeMap;

use kedge_crd::{
    LabelSelector, LoadBalancerSpec, ObjectMeta,
    balancer::{DISABLED_ALIAS, DISABLED_ANNOTATION, Mode},
    capi::{CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL},
    host::HostRef,
    selector::{Operator, Requirement},
};

use super::{balancer::Balancer, endpoint::targets_edge_hosts};
use crate::{snapshot::Snapshot, store::Name};

/// A Machine or EdgeHost that a LoadBalancer selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// The enrolled host behind it.
    pub host: Option<Name>,
    /// Taken out by annotation.
    pub disabled: bool,
    /// Being deleted.
    pub removing: bool,
}

impl Target {
    /// The host that takes part.
    #[must_use]
    pub fn serving(&self) -> Option<&Name> {
        self.host
            .as_ref()
            .filter(|_| !self.disabled && !self.removing)
    }
}

/// The hosts by the object that stands for the same machine.
#[derive(Debug, Default)]
pub struct HostIndex(BTreeMap<(String, HostRef), Name>);

impl HostIndex {
    /// Looks up every enrolled host that is served.
    #[must_use]
    pub fn new(snapshot: &Snapshot) -> Self {
        let bound = snapshot.hosts.iter().filter_map(|(name, host)| {
            let reference = host.spec.host_ref.clone()?;
            let served = host.spec.identity.is_some() && host.spec.is_active();
            served.then(|| ((name.namespace.clone(), reference), name.clone()))
        });
        // Of two hosts that claim one machine the first by name counts: iteration is in order
        // and later entries must not replace earlier ones.
        let mut index = BTreeMap::new();
        for (reference, name) in bound {
            index.entry(reference).or_insert(name);
        }
        Self(index)
    }
}

/// The targets of a LoadBalancer, by name.
#[must_use]
pub fn targets(snapshot: &Snapshot, index: &HostIndex, balancer: &Balancer) -> Vec<Target> {
    let selector = selector(&balancer.spec);
    if targets_edge_hosts(&balancer.spec) {
        edge_hosts(snapshot, balancer, &selector)
    } else {
        machines(snapshot, index, balancer, &selector)
    }
}

/// The selector in force: the cluster's control-plane machines when none is set.
#[must_use]
pub fn selector(spec: &LoadBalancerSpec) -> LabelSelector {
    spec.selector.clone().unwrap_or_else(|| {
        let cluster = (CLUSTER_NAME_LABEL.to_owned(), spec.cluster_name.clone());
        let control_plane = Requirement {
            key: CONTROL_PLANE_LABEL.to_owned(),
            operator: Operator::Exists,
            values: Vec::new(),
        };
        LabelSelector {
            match_labels: BTreeMap::from([cluster]),
            match_expressions: if targets_edge_hosts(spec) {
                Vec::new()
            } else {
                vec![control_plane]
            },
        }
    })
}

fn machines(
    snapshot: &Snapshot,
    index: &HostIndex,
    balancer: &Balancer,
    selector: &LabelSelector,
) -> Vec<Target> {
    let namespace = &balancer.name.namespace;
    let selected = snapshot.machines.iter().filter(|(name, machine)| {
        name.namespace == *namespace && selector.matches(&machine.metadata.labels)
    });
    selected
        .map(|(name, machine)| {
            let host = || {
                let infra = machine.spec.infrastructure_ref.as_ref()?;
                let infra = Name::new(namespace, &infra.name);
                let reference = snapshot
                    .elemental_machines
                    .get(&infra)?
                    .spec
                    .host_ref
                    .as_ref()?;
                // A host is trusted in its tenant's namespace only, whatever the reference says.
                let reference = HostRef {
                    api_group: reference.group().to_owned(),
                    kind: reference.kind.clone(),
                    name: reference.name.clone(),
                };
                index.0.get(&(namespace.clone(), reference)).cloned()
            };
            Target {
                name: name.name.clone(),
                host: host(),
                disabled: is_disabled(&machine.metadata),
                removing: machine.metadata.deletion_timestamp.is_some(),
            }
        })
        .collect()
}

fn edge_hosts(snapshot: &Snapshot, balancer: &Balancer, selector: &LabelSelector) -> Vec<Target> {
    let reserved = balancer
        .spec
        .host_address
        .as_ref()
        .and_then(|reserved| reserved.host.as_ref());
    let selected = snapshot.hosts.iter().filter(|(name, host)| {
        let here = name.namespace == balancer.name.namespace;
        let served = host.spec.identity.is_some() && host.spec.is_active();
        let fits = match balancer.spec.mode {
            Some(Mode::HostAddress) => reserved == Some(&name.name),
            _ => selector.matches(&host.metadata.labels),
        };
        here && served && fits
    });
    selected
        .map(|(name, host)| Target {
            name: name.name.clone(),
            host: Some(name.clone()),
            disabled: is_disabled(&host.metadata),
            removing: false,
        })
        .collect()
}

fn is_disabled(meta: &ObjectMeta) -> bool {
    meta.has_annotation(DISABLED_ANNOTATION) || meta.has_annotation(DISABLED_ALIAS)
}
