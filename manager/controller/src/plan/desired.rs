//! The documents a plan wants, and the writes that make them so.

use std::collections::{BTreeMap, BTreeSet};

use kedge_crd::{
    Cluster, EdgeGatewaySpec, EdgeHost, EdgeHostSpec, Endpoint, LoadBalancerSpec, Resource,
    TcpLoadBalancerSpec,
    balancer::{ReservedHost, SecondAddress, Vip},
    capi::{self, CLUSTER_NAME_LABEL},
    elemental::{GROUP, HOST_KIND},
};
use serde_json::{Map, Value, json};

use super::{
    Case, Decided, EndpointPlan, Service,
    follow::{followed, is_to_move},
    marks::{BALANCER_FINALIZER, Marks},
};
use crate::{
    managers,
    snapshot::{Snapshot, key},
    store::{Ground, Layer, Name, ObjectKey, Objects, Server, Write},
};

/// The layers a plan wants, all of them.
#[derive(Debug, Default)]
pub struct Desired {
    layers: BTreeMap<(ObjectKey, Layer), Value>,
    marks: BTreeMap<ObjectKey, Marks>,
    dropped: BTreeMap<ObjectKey, &'static str>,
    /// The layers that are as they should be.
    kept: BTreeSet<(ObjectKey, Layer)>,
}

impl Desired {
    /// Wants these fields of a spec to be owned by `manager`.
    pub fn own(&mut self, key: &ObjectKey, api_version: &str, manager: &str, spec: Value) {
        let content = document(key, api_version, "spec", spec);
        self.layers
            .insert((key.clone(), Layer::Owned(manager.to_owned())), content);
    }

    /// Wants a whole document of `manager`.
    pub fn document(&mut self, key: &ObjectKey, manager: &str, content: Value) {
        let layer = Layer::Owned(manager.to_owned());
        self.layers.insert((key.clone(), layer), content);
    }

    /// Makes the Cluster the owner of an object, so that it goes and moves with it. A Cluster that
    /// is gone stays the owner: that is how the object goes.
    fn owned_by(
        &mut self,
        objects: &Objects,
        key: &ObjectKey,
        manager: &str,
        cluster: Option<&Cluster>,
    ) {
        let owner = match cluster {
            Some(cluster) if cluster.metadata.uid.is_empty() => return,
            Some(cluster) => json!([{"apiVersion": cluster.api_version, "kind": "Cluster",
                "name": cluster.metadata.name, "uid": cluster.metadata.uid}]),
            None => {
                let layer = objects.owned(key, manager);
                let last = layer.and_then(|layer| layer.pointer("/metadata/ownerReferences"));
                let Some(last) = last else { return };
                last.clone()
            }
        };
        self.owners(key, manager, owner);
    }

    /// Makes Elemental's record the owner of the host it stands for: it goes after the machine was
    /// reset, and then what the host was enrolled with is gone as well.
    fn owned_by_record(&mut self, objects: &Objects, key: &ObjectKey, host: &EdgeHost) {
        let record = host.spec.host_ref.as_ref();
        let Some(record) = record.filter(|it| it.api_group == GROUP && it.kind == HOST_KIND) else {
            return;
        };
        let name = Name::new(&key.name.namespace, &record.name);
        let found = objects.get(&ObjectKey::new(GROUP, HOST_KIND, name));
        let there = found.and_then(|found| {
            let version = found.user.as_ref()?.value.get("apiVersion")?.as_str()?;
            let uid = &found.server.as_ref().filter(|it| !it.uid.is_empty())?.uid;
            Some(
                json!([{"apiVersion": version, "kind": HOST_KIND, "name": record.name,
                "uid": uid}]),
            )
        });
        let last = || {
            let layer = objects.owned(key, managers::CONFIG)?;
            layer.pointer("/metadata/ownerReferences").cloned()
        };
        // A record that is gone, or another one of its name, is not the one it was enrolled for.
        if let Some(owner) = last().or(there) {
            self.owners(key, managers::CONFIG, owner);
        }
    }

    /// Gives the object that `manager` has fields of these owners.
    pub fn owners(&mut self, key: &ObjectKey, manager: &str, owners: Value) {
        let layer = Layer::Owned(manager.to_owned());
        let content = self.layers.get_mut(&(key.clone(), layer));
        let meta = content.and_then(|content| content.get_mut("metadata")?.as_object_mut());
        if let Some(meta) = meta {
            meta.insert("ownerReferences".to_owned(), owners);
        }
    }

    /// Labels the object that `manager` has fields of.
    pub fn label(&mut self, key: &ObjectKey, manager: &str, label: &str, value: &str) {
        let layer = Layer::Owned(manager.to_owned());
        let content = self.layers.get_mut(&(key.clone(), layer));
        let meta = content.and_then(|content| content.get_mut("metadata")?.as_object_mut());
        if let Some(meta) = meta {
            meta.insert("labels".to_owned(), json!({ label: value }));
        }
    }

    /// Wants an address our provider gave to be gone.
    pub fn drop_address(&mut self, key: &ObjectKey) {
        self.withdraw(key, managers::IPAM);
    }

    /// Wants what another than a plan wrote to be gone.
    pub fn withdraw(&mut self, key: &ObjectKey, manager: &'static str) {
        self.dropped.insert(key.clone(), manager);
    }

    /// Wants this status.
    pub fn status<S: Resource>(&mut self, name: &Name, status: Value) {
        let key = key::<S>(name);
        let content = document(&key, &S::api_version(), "status", status);
        self.layers.insert((key, Layer::Status), content);
    }

    /// Wants a layer that is as it should be: its content need not be made to be compared.
    pub fn keep(&mut self, key: ObjectKey, layer: Layer) {
        self.kept.insert((key, layer));
    }

    /// Wants these fields of the status of an object of somebody else.
    pub fn status_of(&mut self, key: &ObjectKey, api_version: &str, status: Value) {
        let content = document(key, api_version, "status", status);
        self.layers.insert((key.clone(), Layer::Status), content);
    }

    /// Whether something is wanted of a layer.
    #[must_use]
    pub fn has(&self, key: &ObjectKey, layer: &Layer) -> bool {
        let of = (key.clone(), layer.clone());
        self.layers.contains_key(&of) || self.kept.contains(&of)
    }

    /// The marks wanted on an object.
    pub fn marks(&mut self, key: &ObjectKey) -> &mut Marks {
        self.marks.entry(key.clone()).or_default()
    }

    /// Wants a layer to stay as it is, unless something else is wanted of it.
    pub fn retain(&mut self, objects: &Objects, key: &ObjectKey, layer: &Layer) {
        if let Some(content) = objects.content(key, layer) {
            self.layers
                .entry((key.clone(), layer.clone()))
                .or_insert_with(|| content.clone());
        }
    }

    /// The writes that make it so. What was chosen is written before what is published from it,
    /// status after both, and nothing is removed while a document is unreadable.
    #[must_use]
    pub fn writes(mut self, objects: &Objects, incomplete: bool) -> Vec<Write> {
        for (key, marks) in std::mem::take(&mut self.marks) {
            if let Some(content) = marks.content() {
                // What stays as it is because its cluster is paused is not changed by another.
                let layer = (key, Layer::Marks);
                self.layers.entry(layer).or_insert(content);
            }
        }
        let mut writes: Vec<Write> = Vec::new();
        if !incomplete {
            for (key, layers) in &objects.by_key {
                let owned = layers
                    .owned
                    .keys()
                    .filter(|manager| managers::PLANNED.contains(&manager.as_str()));
                let owned = owned.map(|manager| Layer::Owned(manager.clone()));
                let status = layers.status.is_some().then_some(Layer::Status);
                let leaves = layers.server.as_ref().is_some_and(Server::is_deleted);
                // What is being deleted needs nothing but to be let go.
                let (owned, status) = match leaves {
                    true => (None, None),
                    false => (Some(owned), status),
                };
                let owned = owned.into_iter().flatten();
                let marks = layers.marks.is_some().then_some(Layer::Marks);
                let dropped = self.dropped.get(key).filter(|_| !leaves);
                let dropped = dropped.map(|manager| Layer::Owned((*manager).to_owned()));
                for layer in owned.chain(status).chain(marks).chain(dropped) {
                    let of = (key.clone(), layer.clone());
                    if !self.layers.contains_key(&of) && !self.kept.contains(&of) {
                        let key = key.clone();
                        writes.push(Write {
                            key,
                            layer,
                            content: None,
                        });
                    }
                }
            }
        }
        for ((key, layer), content) in self.layers {
            if objects.content(&key, &layer) != Some(&content) {
                let content = Some(content);
                writes.push(Write {
                    key,
                    layer,
                    content,
                });
            }
        }
        writes.retain(|write| is_there(objects, write));
        writes.sort_by_key(rank);
        writes
    }
}

/// Whether there is something to write to: no object of somebody else is made, and nothing is
/// written to what vanished.
fn is_there(objects: &Objects, write: &Write) -> bool {
    let layers = objects.get(&write.key);
    let vanished = layers
        .and_then(|layers| layers.server.as_ref())
        .is_some_and(|server| server.vanished);
    let theirs = write.key.ground() == Ground::Theirs;
    let missing = theirs && layers.is_none_or(|layers| layers.user.is_none());
    !vanished && (write.content.is_none() || !missing)
}

/// Endpoints: what was chosen for each LoadBalancer, and the fill.
pub fn endpoints(
    snapshot: &Snapshot,
    cases: &[Case],
    decided: &[Decided],
    services: &[Service],
    wanted: &mut Desired,
) {
    for service in services {
        let balancer = &service.balancer;
        let key = key::<LoadBalancerSpec>(&balancer.name);
        let api_version = LoadBalancerSpec::api_version();
        let holds = snapshot.environment.has_finalizers();
        let made = snapshot
            .balancers
            .get(&balancer.name)
            .is_none_or(|layers| layers.written.is_none());
        let cluster = snapshot.clusters.get(&service.cluster);
        // Where an object that is being deleted can be seen, it tells itself what was asked for.
        if made || !holds {
            // The mode in force: an annotation that changes later changes nothing published.
            let given = LoadBalancerSpec {
                mode: balancer.given.mode.and(balancer.spec.mode),
                ..balancer.given.clone()
            };
            wanted.own(&key, &api_version, managers::GIVEN, value(&given));
            wanted.owned_by(&snapshot.objects, &key, managers::GIVEN, cluster);
        }
        if let Some(kept) = kept(service) {
            wanted.own(&key, &api_version, managers::ENDPOINT, value(&kept));
            if !made {
                wanted.owned_by(&snapshot.objects, &key, managers::ENDPOINT, cluster);
            }
        }
        if holds {
            let marks = wanted.marks(&key);
            marks.finalizers.insert(BALANCER_FINALIZER.to_owned());
        }
    }
    for (case, decided) in cases.iter().zip(decided) {
        fill(snapshot, case, &decided.plan, wanted);
    }
    for case in cases {
        // Nobody else has a word in it any more: given up, it would be no endpoint.
        let followed = Layer::Owned(managers::FOLLOW.to_owned());
        wanted.retain(&snapshot.objects, &cluster_key(&case.cluster), &followed);
        let Some(infra) = &case.infra else { continue };
        if infra.written.host.is_empty() {
            let layer = Layer::Owned(managers::ENDPOINT.to_owned());
            let cluster = cluster_key(&case.cluster);
            wanted.retain(&snapshot.objects, &infra.key, &layer);
            wanted.retain(&snapshot.objects, &cluster, &layer);
        }
    }
}

/// Overlay addresses and the marks of desired states.
pub fn records(snapshot: &Snapshot, wanted: &mut Desired) {
    for (name, host) in &snapshot.hosts {
        if host.spec.identity.is_none() {
            continue;
        }
        let key = key::<EdgeHostSpec>(name);
        let api_version = EdgeHostSpec::api_version();
        if !host.spec.tunnel.addresses.is_empty() {
            let spec = json!({"tunnel": {"addresses": host.spec.tunnel.addresses}});
            wanted.own(&key, &api_version, managers::OVERLAY, spec);
        }
        wanted.own(
            &key,
            &api_version,
            managers::CONFIG,
            json!({"config": host.spec.config}),
        );
        if snapshot.environment.has_core() {
            wanted.owned_by_record(&snapshot.objects, &key, host);
        }
    }
    for (name, gateway) in &snapshot.gateways {
        let enrolled = gateway.spec.instances.iter();
        let enrolled: Vec<_> = enrolled
            .filter(|instance| !instance.identity.uid.is_empty())
            .collect();
        if enrolled.is_empty() {
            continue;
        }
        let key = key::<EdgeGatewaySpec>(name);
        let api_version = EdgeGatewaySpec::api_version();
        let addresses: Vec<Value> = enrolled
            .iter()
            .map(|instance| json!({"name": instance.name, "addresses": instance.addresses}))
            .collect();
        let marks: Vec<Value> = enrolled
            .iter()
            .map(|instance| json!({"name": instance.name, "config": instance.config}))
            .collect();
        wanted.own(
            &key,
            &api_version,
            managers::OVERLAY,
            json!({"instances": addresses}),
        );
        wanted.own(
            &key,
            &api_version,
            managers::CONFIG,
            json!({"instances": marks}),
        );
    }
}

/// The decisions about a LoadBalancer that must survive, if there are any.
fn kept(service: &Service) -> Option<LoadBalancerSpec> {
    let spec = &service.balancer.spec;
    let vip = spec
        .vip
        .as_ref()
        .filter(|vip| vip.address.is_some())
        .map(|vip| Vip {
            address: vip.address,
            vrid: vip.vrid,
            slots: vip.slots.clone(),
            second: vip.second.as_ref().and_then(|second| {
                let address = Some(second.address?);
                Some(SecondAddress {
                    address,
                    pool_ref: None,
                })
            }),
            ..Vip::default()
        });
    let host = spec
        .host_address
        .as_ref()
        .and_then(|reserved| reserved.host.clone());
    let endpoint = match &service.decided.plan {
        EndpointPlan::Set { endpoint, .. }
        | EndpointPlan::Keep { endpoint, .. }
        | EndpointPlan::Beside { endpoint, .. } => Some(endpoint),
        _ => service.balancer.kept.endpoint.as_ref(),
    };
    let decided =
        endpoint.is_some() || vip.is_some() || host.is_some() || !spec.listeners.is_empty();
    decided.then(|| LoadBalancerSpec {
        cluster_name: spec.cluster_name.clone(),
        mode: spec.mode,
        endpoint: endpoint.cloned(),
        vip,
        gateway_ref: spec.gateway_ref.clone(),
        host_address: host.map(|host| ReservedHost {
            host: Some(host),
            ..ReservedHost::default()
        }),
        listeners: spec.listeners.clone(),
        ..LoadBalancerSpec::default()
    })
}

fn fill(snapshot: &Snapshot, case: &Case, plan: &EndpointPlan, wanted: &mut Desired) {
    if case.asked.is_err() || matches!(plan, EndpointPlan::Beside { .. }) {
        return;
    }
    let endpoint = |endpoint: &Endpoint| json!({"controlPlaneEndpoint": endpoint});
    if let (
        EndpointPlan::Set { endpoint: set, .. } | EndpointPlan::Keep { endpoint: set, .. },
        Some(infra),
    ) = (plan, &case.infra)
    {
        wanted.own(
            &infra.key,
            &infra.api_version,
            managers::ENDPOINT,
            endpoint(set),
        );
    }
    let (Some(set), Some(cluster)) = (plan.endpoint(), snapshot.clusters.get(&case.cluster)) else {
        return;
    };
    let in_cluster = followed(snapshot, &case.cluster)
        .or_else(|| cluster.spec.control_plane_endpoint.clone())
        .filter(Endpoint::is_valid);
    let balancer = case.asked.as_ref().ok();
    let moves = balancer.is_some_and(|balancer| is_to_move(snapshot, &case.cluster, balancer, set));
    let manager = match snapshot.environment.has_core() {
        // Core copies it once only.
        true if moves => managers::FOLLOW,
        false if moves || in_cluster.is_none() => managers::ENDPOINT,
        _ => return,
    };
    let key = cluster_key(&case.cluster);
    wanted.own(&key, &cluster.api_version, manager, endpoint(set));
}

fn cluster_key(name: &Name) -> ObjectKey {
    ObjectKey::new(capi::GROUP, "Cluster", name.clone())
}

fn document(key: &ObjectKey, api_version: &str, part: &str, content: Value) -> Value {
    let mut meta = Map::new();
    meta.insert("name".to_owned(), Value::from(key.name.name.clone()));
    if !key.name.namespace.is_empty() {
        meta.insert(
            "namespace".to_owned(),
            Value::from(key.name.namespace.clone()),
        );
    }
    let cluster = content.get("clusterName").filter(|_| part == "spec");
    if let Some(cluster) = cluster {
        meta.insert("labels".to_owned(), json!({CLUSTER_NAME_LABEL: cluster}));
    }
    let mut document = Map::new();
    document.insert("apiVersion".to_owned(), Value::from(api_version));
    document.insert("kind".to_owned(), Value::from(key.kind.clone()));
    document.insert("metadata".to_owned(), Value::Object(meta));
    document.insert(part.to_owned(), content);
    Value::Object(document)
}

fn rank(write: &Write) -> u8 {
    let kinds = [LoadBalancerSpec::KIND, TcpLoadBalancerSpec::KIND];
    match (&write.layer, kinds.contains(&write.key.kind.as_str())) {
        (Layer::Owned(_), true) => 0,
        // A host is reserved before its address is published.
        (Layer::Marks, _) => 1,
        // An address is there before it is held.
        (Layer::Owned(_), false) if write.key.is_address() => 1,
        (Layer::Owned(_), false) => 2,
        (Layer::Status, _) => 3,
    }
}

fn value(spec: &LoadBalancerSpec) -> Value {
    serde_json::to_value(spec).unwrap_or(Value::Null)
}
