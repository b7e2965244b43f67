//! Elemental's records of hosts: their addresses, and who may become the first machine.
//!
//! The endpoint of a cluster in mode `HostAddress` is the address of a host that is chosen before
//! any machine exists, and Elemental takes any free host for a machine. So until the control plane
//! is initialized every free host that fits is reserved out, and the chosen one is handed to the
//! first control-plane machine by the link Elemental looks for first.

use std::collections::BTreeMap;

use kedge_crd::{
    Cluster, EdgeHost, LabelSelector,
    balancer::Mode,
    capi::CONTROL_PLANE_LABEL,
    elemental::{self, HOST_KIND, MACHINE_KIND},
};
use serde_json::{Value, json};

use super::{
    Service,
    desired::Desired,
    endpoint::targets_edge_hosts,
    marks::{ADDRESSES, ELEMENTAL_INFRA_MACHINE, ELEMENTAL_MACHINE, ENDPOINT_FOR, RESERVED},
};
use crate::{
    snapshot::Snapshot,
    store::{Layer, Name, ObjectKey},
};

/// Wants the marks on the records of hosts.
pub fn records(snapshot: &Snapshot, services: &[Service], wanted: &mut Desired) {
    let hosts = by_record(snapshot);
    for (record, (_, host)) in &hosts {
        // What it told last stands until it tells again, also where its status was lost.
        let told = || {
            let marks = snapshot.objects.content(&key(record), &Layer::Marks)?;
            let annotations = marks.pointer("/metadata/annotations")?;
            annotations.get(ADDRESSES)?.as_str().map(str::to_owned)
        };
        if let Some(addresses) = addresses(host).or_else(told) {
            wanted.marks(&key(record)).annotate(ADDRESSES, addresses);
        }
    }
    for service in services.iter().filter(|service| reserves(service)) {
        if service.at_rest {
            retain(snapshot, &service.balancer.name.namespace, wanted);
        } else {
            reserve(snapshot, service, &hosts, wanted);
        }
    }
}

/// Whether a host's record fits the machines of the cluster's control plane.
#[must_use]
pub fn fits(snapshot: &Snapshot, cluster: &Name, record: &kedge_crd::ElementalHost) -> bool {
    let selector = control_plane_selector(snapshot, cluster);
    selector.is_none_or(|selector| selector.matches(&record.metadata.labels))
}

fn reserves(service: &Service) -> bool {
    let spec = &service.balancer.spec;
    spec.mode == Some(Mode::HostAddress) && !targets_edge_hosts(spec)
}

fn reserve(
    snapshot: &Snapshot,
    service: &Service,
    hosts: &BTreeMap<Name, (&Name, &EdgeHost)>,
    wanted: &mut Desired,
) {
    let chosen = service.balancer.spec.host_address.as_ref();
    let Some(chosen) = chosen.and_then(|address| address.host.as_ref()) else {
        return;
    };
    let namespace = &service.balancer.name.namespace;
    let machine = first_machine(snapshot, &service.cluster);
    let open = !snapshot
        .clusters
        .get(&service.cluster)
        .is_some_and(|cluster| is_initialized(snapshot, &service.cluster, cluster));
    for (record, object) in &snapshot.elemental_hosts {
        if record.namespace != *namespace {
            continue;
        }
        let is_chosen = hosts
            .get(record)
            .is_some_and(|(host, _)| host.name == *chosen);
        let free = elemental::is_free(&object.metadata) && fits(snapshot, &service.cluster, object);
        let marks = wanted.marks(&key(record));
        if is_chosen {
            marks.label(ENDPOINT_FOR, service.cluster.name.clone());
            if let Some(machine) = &machine {
                marks.label(ELEMENTAL_INFRA_MACHINE, machine.clone());
                continue;
            }
        }
        if free && open {
            marks.label(ELEMENTAL_MACHINE, RESERVED);
        }
    }
}

fn retain(snapshot: &Snapshot, namespace: &str, wanted: &mut Desired) {
    for record in snapshot.elemental_hosts.keys() {
        if record.namespace == namespace {
            wanted.retain(&snapshot.objects, &key(record), &Layer::Marks);
        }
    }
}

/// The hosts by the record that stands for the same machine; the first of two that claim one.
fn by_record(snapshot: &Snapshot) -> BTreeMap<Name, (&Name, &EdgeHost)> {
    let mut hosts = BTreeMap::new();
    for (name, host) in &snapshot.hosts {
        let Some(reference) = &host.spec.host_ref else {
            continue;
        };
        let record = Name::new(&name.namespace, &reference.name);
        let known = reference.api_group == elemental::GROUP
            && reference.kind == HOST_KIND
            && snapshot.elemental_hosts.contains_key(&record);
        if known && host.spec.identity.is_some() {
            hosts.entry(record).or_insert((name, &**host));
        }
    }
    hosts
}

fn addresses(host: &EdgeHost) -> Option<String> {
    let addresses = host.status.addresses.iter();
    let addresses: Vec<Value> = addresses
        .map(|address| json!({"type": address.kind, "address": address.address}))
        .collect();
    (!addresses.is_empty()).then(|| Value::from(addresses).to_string())
}

/// The ElementalMachine of the cluster's first control-plane machine.
fn first_machine(snapshot: &Snapshot, cluster: &Name) -> Option<String> {
    let mut machines = snapshot.machines.iter().filter(|(name, machine)| {
        name.namespace == cluster.namespace
            && machine.spec.cluster_name == cluster.name
            && machine.metadata.labels.contains_key(CONTROL_PLANE_LABEL)
    });
    let reference = machines.find_map(|(_, machine)| {
        let reference = machine.spec.infrastructure_ref.as_ref()?;
        (reference.kind == MACHINE_KIND).then_some(reference)
    })?;
    let name = Name::new(&cluster.namespace, &reference.name);
    let there = snapshot.elemental_machines.contains_key(&name);
    there.then_some(name.name)
}

/// Whether the first API server of a cluster answers, in the words of either contract.
fn is_initialized(snapshot: &Snapshot, name: &Name, cluster: &Cluster) -> bool {
    let key = ObjectKey::new(kedge_crd::capi::GROUP, &cluster.kind, name.clone());
    let document = snapshot
        .objects
        .get(&key)
        .and_then(|layers| layers.user.as_ref());
    let Some(status) = document.and_then(|document| document.value.get("status")) else {
        return false;
    };
    let conditions = status.get("conditions").and_then(Value::as_array);
    let by_condition = conditions.into_iter().flatten().any(|condition| {
        condition.get("type") == Some(&Value::from("ControlPlaneInitialized"))
            && condition.get("status") == Some(&Value::from("True"))
    });
    by_condition || status.pointer("/initialization/controlPlaneInitialized") == Some(&json!(true))
}

/// The selector of the machine template of the cluster's control plane.
fn control_plane_selector(snapshot: &Snapshot, cluster: &Name) -> Option<LabelSelector> {
    let document = |group: &str, kind: &str, name: &str| {
        let key = ObjectKey::new(group, kind, Name::new(&cluster.namespace, name));
        let layers = snapshot.objects.get(&key)?;
        layers.user.as_ref().map(|user| &user.value)
    };
    let object = snapshot.clusters.get(cluster)?;
    let plane = object.spec.control_plane_ref.as_ref()?;
    let plane = document(plane.group(), &plane.kind, &plane.name)?;
    let reference = TEMPLATE_PATHS
        .iter()
        .find_map(|path| plane.pointer(path))?
        .clone();
    let reference: kedge_crd::capi::ObjectRef = serde_json::from_value(reference).ok()?;
    let template = document(reference.group(), &reference.kind, &reference.name)?;
    let selector = template.pointer("/spec/template/spec/selector")?.clone();
    serde_json::from_value(selector).ok()
}

fn key(record: &Name) -> ObjectKey {
    ObjectKey::new(elemental::GROUP, HOST_KIND, record.clone())
}

/// Where control-plane kinds of either contract name the template of their machines.
pub const TEMPLATE_PATHS: [&str; 2] = [
    "/spec/machineTemplate/spec/infrastructureRef",
    "/spec/machineTemplate/infrastructureRef",
];
