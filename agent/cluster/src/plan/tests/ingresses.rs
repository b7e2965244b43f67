//! Ingresses: whose they are, what is asked for them, and what is told.

mod asked;
mod claims;
mod flow;

use k8s_openapi::api::networking::v1::Ingress;
use kedge_control::exposure::ExposedCertificate;
use kedge_crd::{HttpLoadBalancerSpec, Status};
use serde_json::{Value, json};

use super::world::{NOW, World, merge, service, written_by};
use crate::{
    apply::Kind,
    certificates::Certificate,
    names::{FIELD_MANAGER, INGRESS_FINALIZER, NOBODY},
    plan::{Target, http::Routes},
    snapshot::{HttpOffer, Key, Offered, Snapshot},
};

/// An Ingress of our class with one rule; `changes` are merged into it.
pub fn ingress(name: &str, changes: Value) -> Ingress {
    let mut whole = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("{name}9999-1111")},
        "spec": {"ingressClassName": "kedge", "rules": [rule("shop.example.net", "/", "web")]},
    });
    merge(&mut whole, changes);
    serde_json::from_value(whole).unwrap()
}

/// A rule with one prefix.
pub fn rule(host: &str, path: &str, service: &str) -> Value {
    let backend = json!({"service": {"name": service, "port": {"number": 80}}});
    json!({"host": host, "http": {"paths": [
        {"path": path, "pathType": "Prefix", "backend": backend}]}})
}

/// A Service with a node port that is nobody's load balancer.
pub fn backend(name: &str, changes: Value) -> k8s_openapi::api::core::v1::Service {
    let mut whole = json!({"spec": {"type": "NodePort", "loadBalancerClass": null}});
    merge(&mut whole, changes);
    service(name, whole)
}

/// What is known of a Secret that is fit.
pub fn certificate(name: &str) -> Certificate {
    Certificate::There(ExposedCertificate {
        name: format!("tls-{name}.shop.00000000"),
        chain: "-----BEGIN CERTIFICATE-----".to_owned(),
        key: "-----BEGIN PRIVATE KEY-----".to_owned(),
    })
}

impl World {
    /// Services `web` and `api`, and these Ingresses.
    pub fn with_ingresses(all: impl IntoIterator<Item = Ingress>) -> Self {
        let mut world = Self::with([backend("web", json!({})), backend("api", json!({}))]);
        for ingress in all {
            world.put_ingress(ingress);
        }
        world
    }

    pub fn put_ingress(&mut self, ingress: Ingress) {
        let ingresses = self.snapshot.ingresses.as_mut().unwrap();
        ingresses.all.insert(Key::of(&ingress), ingress);
    }

    pub fn ingress(&self, name: &str) -> &Ingress {
        let ingresses = self.snapshot.ingresses.as_ref().unwrap();
        &ingresses.all[&Key::new("shop", name)]
    }

    pub fn has_ingress(&self, name: &str) -> bool {
        let ingresses = self.snapshot.ingresses.as_ref().unwrap();
        ingresses.all.contains_key(&Key::new("shop", name))
    }

    pub fn patch_ingress(&mut self, name: &str, changes: Value) {
        let mut whole = serde_json::to_value(self.ingress(name)).unwrap();
        merge(&mut whole, changes);
        self.put_ingress(serde_json::from_value(whole).unwrap());
    }

    pub fn delete_ingress(&mut self, name: &str) {
        if self.ingress(name).metadata.finalizers.is_some() {
            self.patch_ingress(name, json!({"metadata": {"deletionTimestamp": NOW}}));
        } else {
            let ingresses = self.snapshot.ingresses.as_mut().unwrap();
            ingresses.all.remove(&Key::new("shop", name));
        }
    }

    pub fn secret(&mut self, name: &str, known: Certificate) {
        let key = Key::new("shop", name);
        self.snapshot.certificates.insert(key, known);
    }

    /// The names of HTTPLoadBalancers that are offered.
    pub fn routed(&self) -> Vec<String> {
        let offered = self.snapshot.offered.as_ref().unwrap();
        offered.http.keys().cloned().collect()
    }

    /// The spec that is offered of an Ingress.
    pub fn route(&self, name: &str) -> Value {
        let offered = self.snapshot.offered.as_ref().unwrap();
        let start = format!("{name}.shop.");
        let mut all = offered.http.iter();
        let found = all.find(|(name, _)| name.starts_with(&start));
        let (_, offer) =
            found.unwrap_or_else(|| panic!("{name} is not offered: {:?}", self.told(name)));
        serde_json::to_value(&offer.spec).unwrap()
    }

    /// What was told of an Ingress: `REASON TEXT`.
    pub fn told(&self, name: &str) -> Vec<String> {
        let uid = self.ingress(name).metadata.uid.clone().unwrap();
        let told = self.snapshot.told.get(&uid).into_iter().flatten();
        told.map(|note| format!("{} {}", note.reason, note.text))
            .collect()
    }

    /// The addresses in the status of an Ingress.
    pub fn shown(&self, name: &str) -> Value {
        let status = self.ingress(name).status.clone().unwrap_or_default();
        let ingress = status.load_balancer.unwrap_or_default().ingress;
        serde_json::to_value(ingress.unwrap_or_default()).unwrap()
    }
}

/// As the manager does it.
pub fn tell(
    offered: &mut Offered,
    routes: &Routes,
    serves: fn(&HttpLoadBalancerSpec) -> Option<Value>,
) {
    for name in routes.withdraw.iter().chain(&routes.orphans) {
        assert!(offered.http.remove(name).is_some(), "{name}");
    }
    for name in &routes.put {
        let spec = routes.exposures[name].clone();
        for backend in spec.rules.iter().flat_map(|rule| &rule.backends) {
            let is_there = offered.items.contains_key(&backend.name);
            assert!(
                is_there || backend.name == NOBODY,
                "{} leads nowhere",
                backend.name
            );
        }
        for secret in spec.tls.iter().filter_map(|tls| tls.secret_ref.as_ref()) {
            assert!(routes.certificates.contains_key(secret), "{secret}");
        }
        let status = serves(&spec).map(|status| serde_json::from_value(status).unwrap());
        let spec = Some(spec);
        offered
            .http
            .insert(name.clone(), HttpOffer { spec, status });
    }
}

/// As the cluster does it.
pub fn carry_out(snapshot: &mut Snapshot, routes: &Routes) {
    for tell in &routes.tell {
        let told = snapshot
            .told
            .insert(tell.target.uid.clone(), tell.all.clone());
        assert_ne!(told.as_ref(), Some(&tell.all), "it is told once");
    }
    super::routes::carry_out(snapshot, routes);
    let ingresses = snapshot.ingresses.as_mut().unwrap();
    let mut change = |target: &Target, changes: Value| {
        let ingress = ingresses.all.get_mut(&target.key).unwrap();
        assert_eq!(ingress.metadata.uid.as_ref(), Some(&target.uid));
        let mut whole = serde_json::to_value(&*ingress).unwrap();
        merge(&mut whole, changes);
        *ingress = serde_json::from_value(whole).unwrap();
        if ingress.metadata.finalizers.is_none() && ingress.metadata.deletion_timestamp.is_some() {
            ingresses.all.remove(&target.key);
        }
    };
    let ours = |(kind, _): &&(Kind, Target)| *kind == Kind::Ingress;
    for (_, target) in routes.guard.iter().filter(ours) {
        change(
            target,
            json!({"metadata": {"finalizers": [INGRESS_FINALIZER]}}),
        );
    }
    for show in &routes.show {
        let document = crate::apply::show_ingress(show);
        let balancer = document["status"]["loadBalancer"].clone();
        change(
            &show.target,
            json!({"status": {"loadBalancer": balancer},
            "metadata": {"managedFields": [written_by(FIELD_MANAGER)]}}),
        );
    }
    for (_, target) in routes.release.iter().filter(ours) {
        change(target, json!({"metadata": {"finalizers": null}}));
    }
}

/// A manager whose gateway serves every name.
pub fn served(spec: &HttpLoadBalancerSpec) -> Option<Value> {
    let mut ports = vec![json!({"port": 80})];
    if !spec.tls.is_empty() {
        ports.push(json!({"port": 443}));
    }
    let said = |kind: &str, message: &str| {
        json!({"type": kind, "status": Status::True, "reason": kind, "message": message,
            "lastTransitionTime": NOW})
    };
    Some(json!({"generatedHostname": "shop.t.example.com",
        "ingress": [{"ip": "203.0.113.7", "ports": ports}],
        "conditions": [said("Accepted", ""), said("Programmed", ""), said("Ready", "it is served")]}))
}
