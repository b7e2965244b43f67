//! A namespace of a test: a tenant with a pool and a gateway, beside our manager.

use std::{sync::Arc, time::Duration};

use kedge_tests_kube::{
    at_rest,
    clusters::endpoint,
    edge::Edge,
    elemental::{self, kinds},
    eventually,
    objects::{Kind, condition, text},
    ours::Ours,
};
use kube::{
    Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// Long: the machine may stand still for a while.
pub const LIMIT: Duration = Duration::from_secs(60);

pub const BALANCER: Kind = Kind::new("kedge.dev", "v1alpha1", "LoadBalancer");
pub const HOST: Kind = Kind::new("kedge.dev", "v1alpha1", "EdgeHost");
pub const GATEWAY: Kind = Kind::new("kedge.dev", "v1alpha1", "EdgeGateway");
pub const TCP: Kind = Kind::new("kedge.dev", "v1alpha1", "TCPLoadBalancer");
pub const POOL: Kind = Kind::new("kedge.dev", "v1alpha1", "VIPPool");
pub const TENANT: Kind = Kind::new("kedge.dev", "v1alpha1", "Tenant");
/// Where clients reach the gateway.
pub const GATEWAY_ADDRESS: &str = "203.0.113.7";

pub struct Site {
    pub ours: Arc<Ours>,
    pub client: Client,
    pub space: String,
}

impl Site {
    pub async fn new() -> Option<Self> {
        let ours = Ours::shared().await?;
        let (client, space) = ours.stack().space().await;
        let site = Self {
            ours,
            client,
            space,
        };
        let tenant = json!({"spec": {"namespace": site.space, "enrollment": {
            "maxHosts": 9, "hostLabels": {"kedge.dev/site": site.space},
        }}});
        let tenants = TENANT.everywhere(&site.client);
        let tenant = TENANT.object(&site.space, tenant);
        tenants
            .create(&PostParams::default(), &tenant)
            .await
            .unwrap();
        let addresses = json!({"spec": {
            "addresses": ["10.20.14.10-10.20.14.29"], "prefix": 24,
        }});
        site.create(POOL, "lan", addresses).await;
        let gateway = json!({"spec": {
            "tunnel": {"publicEndpoints": [{"host": GATEWAY_ADDRESS, "port": 51820}]},
            "ports": {"range": {"from": 30000, "to": 30019}},
        }});
        site.create(GATEWAY, "gw", gateway).await;
        Some(site)
    }

    /// Changes what the tenant of its namespace may and has.
    pub async fn tenant(&self, spec: Value) {
        let all = TENANT.everywhere(&self.client);
        let patch = Patch::Merge(json!({ "spec": spec }));
        let how = PatchParams::default();
        all.patch(&self.space, &how, &patch).await.unwrap();
    }

    /// Annotations on an infrastructure cluster that ask for a mode.
    pub fn asks(&self, mode: &str) -> Value {
        match mode {
            "VIP" => json!({"kedge.dev/endpoint-mode": mode, "kedge.dev/vip-pool": "lan"}),
            "Tunnel" => json!({
                "kedge.dev/endpoint-mode": mode,
                "kedge.dev/gateway": format!("{}/gw", self.space),
            }),
            _ => json!({"kedge.dev/endpoint-mode": mode}),
        }
    }

    pub async fn create(&self, kind: Kind, name: &str, rest: Value) -> DynamicObject {
        let all = kind.of(&self.client, &self.space);
        let object = kind.object(name, rest);
        let made = all.create(&PostParams::default(), &object).await;
        made.unwrap_or_else(|err| panic!("{} {name}: {err}", kind.kind))
    }

    pub async fn get(&self, kind: Kind, name: &str) -> Option<DynamicObject> {
        let all = kind.of(&self.client, &self.space);
        all.get_opt(name).await.unwrap()
    }

    pub async fn merge(&self, kind: Kind, name: &str, patch: Value) {
        let all = kind.of(&self.client, &self.space);
        let how = PatchParams::default();
        let merged = all.patch(name, &how, &Patch::Merge(patch)).await;
        merged.unwrap_or_else(|err| panic!("{} {name}: {err}", kind.kind));
    }

    pub async fn annotate(&self, kind: Kind, name: &str, annotations: Value) {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.merge(kind, name, patch).await;
    }

    pub async fn delete(&self, kind: Kind, name: &str) {
        let all = kind.of(&self.client, &self.space);
        all.delete(name, &Default::default()).await.unwrap();
    }

    /// Waits until an object is gone.
    pub async fn gone(&self, kind: Kind, name: &str) {
        self.until(&format!("{} {name} is gone", kind.kind), async || {
            self.get(kind, name).await.is_none()
        })
        .await;
    }

    /// Waits; when it is in vain, tells what our manager says.
    pub async fn until<F: Future<Output = bool>>(&self, what: &str, mut holds: impl FnMut() -> F) {
        let begun = std::time::Instant::now();
        while !holds().await {
            if begun.elapsed() > LIMIT {
                let balancers = BALANCER.of(&self.client, &self.space);
                let all = balancers.list(&ListParams::default()).await.unwrap();
                for one in all {
                    println!("{}", serde_json::to_string_pretty(&one).unwrap());
                }
                let problems = self.ours.problems().await;
                panic!("{what}: not within {LIMIT:?}; {problems:#?}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!("{what}: {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    }

    /// A host registered with Elemental and installed, and enrolled with us.
    pub async fn host(&self, name: &str, address: &str) -> Edge {
        self.install(name).await;
        Edge::of_elemental(&self.ours, &self.space, name, address).await
    }

    /// A host registered and installed, as Elemental's registration server would write it.
    pub async fn install(&self, name: &str) {
        let host = json!({"metadata": {"labels": {elemental::INSTALLED: "true"}}, "spec": {}});
        self.create(kinds::HOST, name, host).await;
    }

    /// The status, reason and message of a condition of a LoadBalancer.
    pub async fn said(&self, balancer: &str, kind: &str) -> String {
        let Some(object) = self.get(BALANCER, balancer).await else {
            return String::new();
        };
        let said = condition(&object, kind);
        let word = |field: &str| said[field].as_str().unwrap_or_default().to_owned();
        format!("{}/{}: {}", word("status"), word("reason"), word("message"))
    }

    /// Waits until a condition of a LoadBalancer begins so.
    pub async fn says(&self, balancer: &str, kind: &str, begin: &str) -> String {
        self.until(&format!("{balancer} {kind} {begin}"), async || {
            self.said(balancer, kind).await.starts_with(begin)
        })
        .await;
        self.said(balancer, kind).await
    }

    /// The versions of the objects of these kinds.
    pub async fn versions(&self, kinds: &[Kind]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for kind in kinds {
            let all = kind.of(&self.client, &self.space);
            for object in all.list(&ListParams::default()).await.unwrap() {
                let meta = object.metadata;
                let name = format!("{} {}", kind.kind, meta.name.unwrap());
                found.push((name, meta.resource_version.unwrap()));
            }
        }
        found
    }

    /// Waits until nothing has changed for a while; answers with what there is.
    pub async fn at_rest(&self, kinds: &[Kind]) -> Vec<(String, String)> {
        let look = async || self.versions(kinds).await;
        at_rest("the site", QUIET, LIMIT, look).await
    }
}

/// What our field manager of endpoints has in an object.
pub fn ours_in(object: &DynamicObject) -> Option<Value> {
    let all = object.metadata.managed_fields.iter().flatten();
    let mut of_us = all.filter(|entry| entry.manager.as_deref() == Some("kedge-endpoint"));
    of_us.next().map(|entry| json!(entry))
}

/// Host and port, as one word.
pub fn address(object: &DynamicObject) -> String {
    endpoint(object).map_or_else(String::new, |(host, port)| format!("{host}:{port}"))
}

/// Waits until a host of Elemental is taken by a machine.
pub async fn taken(site: &Site, host: &str) {
    eventually(&format!("{host} is taken"), LIMIT, async || {
        let host = site.get(kinds::HOST, host).await.unwrap();
        !text(&host, "/spec/machineRef/name").is_empty()
    })
    .await;
}

/// Whether a condition of core's is true.
pub fn is_true(object: &DynamicObject, kind: &str) -> bool {
    condition(object, kind)["status"] == "True"
}

/// The state of a target, as its annotation says.
pub fn state(object: &DynamicObject) -> String {
    annotation(object, "loadbalancer.cluster.x-k8s.io/status")
}

pub fn annotation(object: &DynamicObject, key: &str) -> String {
    let annotations = object.metadata.annotations.as_ref();
    let value = annotations.and_then(|annotations| annotations.get(key));
    value.cloned().unwrap_or_default()
}

const QUIET: Duration = Duration::from_secs(2);
