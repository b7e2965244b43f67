//! Which hosts serve a LoadBalancer.

use std::collections::BTreeMap;

use kedge_crd::{
    EdgeHostSpec, LabelSelector, Machine, ObjectMeta,
    balancer::{DISABLED_ALIAS, DISABLED_ANNOTATION, Mode, TargetState},
    capi::{self, CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL},
    host::HostRef,
    selector::{Operator, Requirement},
};

use super::{
    balancer::Balancer, endpoint::targets_edge_hosts, marks::TARGET_NAME, selected::selects,
};
use crate::{
    snapshot::{Snapshot, key},
    store::{Name, ObjectKey},
};

/// A Machine or EdgeHost that a LoadBalancer selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// The enrolled host behind it.
    pub host: Option<Name>,
    /// Taken out by annotation.
    pub disabled: bool,
    /// Since when its deletion waits for the traffic to go, RFC 3339, if it is being deleted.
    pub leaving: Option<String>,
    /// Its object.
    pub key: ObjectKey,
    /// Whether its host takes part.
    pub serves: bool,
    /// Whether it is being left: its connections go on, and are waited for.
    pub draining: bool,
    /// Whether nothing is waited for any more.
    pub released: bool,
    /// How far it is.
    pub state: TargetState,
}

impl Target {
    /// The host that takes part.
    #[must_use]
    pub fn serving(&self) -> Option<&Name> {
        self.host.as_ref().filter(|_| self.serves)
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

/// The targets of a LoadBalancer, by name. Machines that are deleted with their cluster serve to
/// the last.
#[must_use]
pub fn targets(
    snapshot: &Snapshot,
    index: &HostIndex,
    balancer: &Balancer,
    is_going: bool,
) -> Vec<Target> {
    let selector = selector(balancer);
    if targets_edge_hosts(&balancer.spec) {
        edge_hosts(snapshot, balancer, &selector)
    } else {
        machines(snapshot, index, balancer, &selector, is_going)
    }
}

/// The selector in force. When none is set: the cluster's control-plane machines, and for a
/// LoadBalancer beside another one those that carry its name.
#[must_use]
pub fn selector(balancer: &Balancer) -> LabelSelector {
    let spec = &balancer.spec;
    spec.selector.clone().unwrap_or_else(|| {
        if balancer.beside.is_some() {
            return LabelSelector {
                match_labels: BTreeMap::from([
                    (CLUSTER_NAME_LABEL.to_owned(), spec.cluster_name.clone()),
                    (TARGET_NAME.to_owned(), balancer.name.name.clone()),
                ]),
                match_expressions: Vec::new(),
            };
        }
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
    is_going: bool,
) -> Vec<Target> {
    let namespace = &balancer.name.namespace;
    let selected = snapshot.machines.iter().filter(|(name, machine)| {
        name.namespace == *namespace && selector.matches(&machine.metadata.labels)
    });
    selected
        .map(|(name, machine)| {
            let key = ObjectKey::new(capi::GROUP, "Machine", name.clone());
            let leaving = leaving_since(snapshot, &key, &machine.metadata);
            let disabled = is_disabled(&machine.metadata);
            Target {
                name: name.name.clone(),
                host: host_of(snapshot, index, name, machine),
                // A cluster that goes as a whole is served to its last machine.
                serves: !disabled && (leaving.is_none() || is_going),
                disabled,
                leaving,
                key,
                draining: false,
                released: false,
                state: TargetState::default(),
            }
        })
        .collect()
}

/// The host behind a Machine: the one its infrastructure's part took from an inventory, or that
/// part itself, or the Machine, whatever a host is bound to. A host is trusted in its tenant's
/// namespace only, whatever references say.
#[must_use]
pub fn host_of(
    snapshot: &Snapshot,
    index: &HostIndex,
    name: &Name,
    machine: &Machine,
) -> Option<Name> {
    let namespace = &name.namespace;
    let bound = |group: &str, kind: &str, name: &str| {
        let reference = HostRef {
            api_group: group.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        index.0.get(&(namespace.clone(), reference)).cloned()
    };
    let infra = machine.spec.infrastructure_ref.as_ref();
    let from_inventory = || {
        let part = Name::new(namespace, &infra?.name);
        let part = snapshot.elemental_machines.get(&part)?;
        let record = part.spec.host_ref.as_ref()?;
        bound(record.group(), &record.kind, &record.name)
    };
    let of_part = || infra.and_then(|infra| bound(infra.group(), &infra.kind, &infra.name));
    from_inventory()
        .or_else(of_part)
        .or_else(|| bound(capi::GROUP, "Machine", &name.name))
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
            _ => selects(selector, name, host),
        };
        here && served && fits
    });
    selected
        .map(|(name, host)| {
            let disabled = is_disabled(&host.metadata);
            Target {
                name: name.name.clone(),
                host: Some(name.clone()),
                serves: !disabled,
                disabled,
                leaving: None,
                key: key::<EdgeHostSpec>(name),
                draining: false,
                released: false,
                state: TargetState::default(),
            }
        })
        .collect()
}

/// Since when the deletion of a Machine waits for us, as the Machine tells: that outlives a
/// restart of the manager.
#[must_use]
pub fn leaving_since(snapshot: &Snapshot, key: &ObjectKey, meta: &ObjectMeta) -> Option<String> {
    let deleted = meta.deletion_timestamp.clone()?;
    let document = snapshot.objects.get(key)?.user.as_ref()?;
    let since = document
        .value
        .pointer("/status/deletion/waitForPreDrainHookStartTime");
    let since = since.and_then(|since| since.as_str()).map(str::to_owned);
    Some(since.unwrap_or(deleted))
}

fn is_disabled(meta: &ObjectMeta) -> bool {
    meta.has_annotation(DISABLED_ANNOTATION) || meta.has_annotation(DISABLED_ALIAS)
}
