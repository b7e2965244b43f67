//! A cluster and a manager that do what a plan says, and nothing else.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{Node, Service},
    networking::v1::IngressClass,
};
use kedge_crd::{
    HttpLoadBalancerSpec, Status, TcpLoadBalancerSpec, TcpLoadBalancerStatus, condition,
};
use serde_json::{Value, json};

use crate::{
    names::{CLASS, CONTROLLER, DEFAULT_CLASS, FIELD_MANAGER, FINALIZER},
    plan::{Plan, Show, Target, companion::Companions, owner::Owner, plan},
    snapshot::{Ingresses, Key, Offer, Offered, Slice, Snapshot},
};

pub const NOW: &str = "2026-01-02T03:04:05Z";

/// A Service of our class; `changes` are merged into it.
pub fn service(name: &str, changes: Value) -> Service {
    let mut whole = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("{name}0000-1111")},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": CLASS,
            "externalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080}]},
    });
    merge(&mut whole, changes);
    serde_json::from_value(whole).unwrap()
}

/// An IngressClass.
pub fn class(name: &str, controller: &str, default: bool) -> (String, IngressClass) {
    let class = serde_json::from_value(json!({"metadata": {"name": name,
            "annotations": {DEFAULT_CLASS: default.to_string()}},
        "spec": {"controller": controller}}))
    .unwrap();
    (name.to_owned(), class)
}

pub fn node(name: &str, ready: bool) -> Node {
    let status = if ready { "True" } else { "Unknown" };
    serde_json::from_value(json!({"metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": status}]}}))
    .unwrap()
}

/// As a merge patch does it (RFC 7386).
pub fn merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, value) in changes {
                if value.is_null() {
                    into.remove(&key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, changes) => *into = changes,
    }
}

pub struct World {
    pub snapshot: Snapshot,
    /// What the manager makes of a spec.
    pub says: fn(&TcpLoadBalancerSpec) -> Option<Value>,
    /// The same of HTTPLoadBalancers.
    pub serves: fn(&HttpLoadBalancerSpec) -> Option<Value>,
}

impl World {
    pub fn new() -> Self {
        let nodes = ["a", "b"].map(|name| (name.to_owned(), node(name, true)));
        Self {
            snapshot: Snapshot {
                nodes: nodes.into(),
                offered: Some(Offered {
                    epoch: 1,
                    items: BTreeMap::new(),
                    http: BTreeMap::new(),
                    addresses: vec!["203.0.113.7".to_owned()],
                }),
                ingresses: Some(Ingresses {
                    all: BTreeMap::new(),
                    classes: [class("kedge", CONTROLLER, false)].into(),
                }),
                now: NOW.to_owned(),
                ..Snapshot::default()
            },
            says: served,
            serves: super::ingresses::served,
        }
    }

    pub fn with(services: impl IntoIterator<Item = Service>) -> Self {
        let mut world = Self::new();
        for service in services {
            world.put(service);
        }
        world
    }

    pub fn put(&mut self, service: Service) {
        self.snapshot.services.insert(Key::of(&service), service);
    }

    pub fn node(&mut self, node: Node) {
        let name = node.metadata.name.clone().unwrap();
        self.snapshot.nodes.insert(name, node);
    }

    pub fn slice(&mut self, name: &str, service: &str, nodes: &[&str]) {
        let slice = Slice {
            service: Key::new("shop", service),
            family: "IPv4".to_owned(),
            nodes: nodes.iter().map(|&name| name.to_owned()).collect(),
            written: None,
        };
        self.snapshot.slices.insert(Key::new("shop", name), slice);
    }

    /// Changes a Service as its user does.
    pub fn patch(&mut self, name: &str, changes: Value) {
        let service = self.service(name);
        let mut whole = serde_json::to_value(service).unwrap();
        merge(&mut whole, changes);
        self.put(serde_json::from_value(whole).unwrap());
    }

    pub fn delete(&mut self, name: &str) {
        let is_held = self.service(name).metadata.finalizers.is_some();
        if is_held {
            self.patch(name, json!({"metadata": {"deletionTimestamp": NOW}}));
        } else {
            self.snapshot.services.remove(&Key::new("shop", name));
        }
    }

    pub fn service(&self, name: &str) -> &Service {
        &self.snapshot.services[&Key::new("shop", name)]
    }

    pub fn is_there(&self, name: &str) -> bool {
        let key = Key::new("shop", name);
        self.snapshot.services.contains_key(&key)
    }

    pub fn offered(&self) -> Vec<String> {
        let offered = self.snapshot.offered.as_ref().unwrap();
        offered.items.keys().cloned().collect()
    }

    /// The spec that is offered of a Service.
    pub fn spec(&self, name: &str) -> TcpLoadBalancerSpec {
        let name = Owner::from(self.service(name)).exposure();
        let offered = self.snapshot.offered.as_ref().unwrap();
        offered.items[&name].spec.clone().unwrap()
    }

    /// `STATUS REASON MESSAGE` of a condition of a Service.
    pub fn said(&self, name: &str, kind: &str) -> String {
        let shown = super::super::standing(self.service(name));
        let found = condition::find(&shown.conditions, &format!("kedge.dev/{kind}"));
        found.map_or_else(String::new, |it| {
            format!("{} {} {}", it.status.as_str(), it.reason, it.message)
        })
    }

    /// Carries plans out until nothing is left to do; says how many it took.
    pub fn settle(&mut self) -> usize {
        for round in 0..ROUNDS {
            let plan = plan(&self.snapshot);
            if plan.is_empty() {
                return round;
            }
            self.carry_out(&plan);
        }
        panic!("nothing settles: {:?}", plan(&self.snapshot));
    }

    pub fn carry_out(&mut self, plan: &Plan) {
        if plan.companions.is_first() {
            self.put_beside(&plan.companions);
            return;
        }
        for target in &plan.guard {
            self.finalizers(target, &[FINALIZER]);
        }
        if let Some(offered) = &mut self.snapshot.offered {
            for name in &plan.put {
                let spec = plan.exposures[name].clone();
                let status = (self.says)(&spec);
                let status = status.map(|status| serde_json::from_value(status).unwrap());
                let spec = Some(spec);
                offered.items.insert(name.clone(), Offer { spec, status });
            }
            if let Some(routes) = &plan.routes {
                super::ingresses::tell(offered, routes, self.serves);
            }
            for name in plan.withdraw.iter().chain(&plan.orphans) {
                assert!(offered.items.remove(name).is_some(), "{name}");
            }
        }
        if let Some(routes) = &plan.routes {
            super::ingresses::carry_out(&mut self.snapshot, routes);
        }
        for show in &plan.show {
            self.show(show);
        }
        for target in &plan.release {
            self.finalizers(target, &[]);
            let service = &self.snapshot.services[&target.key];
            if service.metadata.deletion_timestamp.is_some() {
                self.snapshot.services.remove(&target.key);
            }
        }
        for target in &plan.companions.forget {
            self.snapshot.slices.remove(&target.key);
        }
        for target in &plan.companions.remove {
            self.snapshot.services.remove(&target.key);
            // What a Service owns goes with it.
            let slices = &mut self.snapshot.slices;
            slices.retain(|_, slice| slice.service != target.key);
        }
    }

    /// As an API server does it: ports get node ports, and keep them.
    fn put_beside(&mut self, companions: &Companions) {
        for (_, companion) in &companions.put {
            let mut companion = companion.clone();
            let name = companion.metadata.name.clone().unwrap();
            companion.metadata.uid = Some(format!("{name}-uid"));
            let ports = companion.spec.as_mut().unwrap().ports.as_mut();
            for port in ports.into_iter().flatten() {
                port.node_port = Some(31000 + port.port);
            }
            self.put(companion);
        }
        for (_, copy) in &companions.copy {
            self.snapshot
                .slices
                .insert(Key::of(copy), Slice::of(copy).unwrap());
        }
    }

    fn finalizers(&mut self, target: &Target, all: &[&str]) {
        let service = self.snapshot.services.get_mut(&target.key).unwrap();
        assert_eq!(service.metadata.uid.as_ref(), Some(&target.uid));
        let all: Vec<String> = all.iter().map(|&name| name.to_owned()).collect();
        service.metadata.finalizers = (!all.is_empty()).then_some(all);
    }

    /// As server-side apply does it: what another owns stays.
    fn show(&mut self, show: &Show) {
        let shown = crate::apply::status(&show.shown, show.with_addresses);
        let service = self.snapshot.services.get_mut(&show.target.key).unwrap();
        let mut whole = serde_json::to_value(&*service).unwrap();
        let mut status = whole["status"].take();
        let theirs = status["conditions"].as_array().cloned();
        let theirs = theirs.into_iter().flatten();
        let theirs = theirs.filter(|it| !it["type"].as_str().unwrap().starts_with("kedge.dev/"));
        let ours = shown["conditions"].as_array().cloned().unwrap_or_default();
        let conditions: Vec<Value> = theirs.chain(ours).collect();
        merge(&mut status, json!({"conditions": conditions}));
        if show.with_addresses {
            merge(&mut status, json!({"loadBalancer": null}));
            if let Some(balancer) = shown.get("loadBalancer") {
                merge(&mut status, json!({"loadBalancer": balancer}));
            }
            whole["metadata"]["managedFields"] = json!([written_by(FIELD_MANAGER)]);
        }
        whole["status"] = status;
        *service = serde_json::from_value(whole).unwrap();
    }
}

/// A record of who wrote the addresses of a status.
pub fn written_by(manager: &str) -> Value {
    json!({"manager": manager, "operation": "Apply", "subresource": "status",
        "fieldsV1": {"f:status": {"f:loadBalancer": {"f:ingress": {}}}}})
}

/// A manager whose gateway serves every port.
pub fn served(spec: &TcpLoadBalancerSpec) -> Option<Value> {
    let ports = spec
        .ports
        .iter()
        .map(|port| json!({"port": port.port, "protocol": port.protocol.unwrap_or_default()}));
    let ports: Vec<Value> = ports.collect();
    let said = |kind: &str| {
        json!({"type": kind, "status": Status::True, "reason": kind, "message": "",
            "lastTransitionTime": NOW})
    };
    Some(
        json!({"ingress": [{"ip": "203.0.113.7", "ports": ports}], "activeEndpoints": 2,
        "conditions": [said("Accepted"), said("BackendsHealthy"), said("Programmed"), said("Ready")]}),
    )
}

/// What a status looks like for the manager.
pub fn status(value: Value) -> TcpLoadBalancerStatus {
    serde_json::from_value(value).unwrap()
}

/// More than any way through takes.
const ROUNDS: usize = 8;
