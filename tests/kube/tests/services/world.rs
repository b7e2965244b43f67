//! A tenant's cluster on a real API server, and a manager over a directory with a gateway and hosts.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Service},
    events::v1::Event,
};
use kedge_control::{enrol::Facts, identity::Role, token::Token};
use kedge_host::{
    enrol::{Client, ManagerUrl, Settings},
    identity::{IdentityKey, TunnelKey},
    state::Store,
};
use kedge_manager_controller::{Manager, ManagerOptions, managers, token::Record};
use kedge_tests_kube::{eventually, manifests, server::Server};
use kube::{
    Api, Client as Kube,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;

pub const LIMIT: Duration = Duration::from_secs(30);
pub const TENANT: &str = "t";

pub struct World {
    server: Server,
    pub client: Kube,
    pub manager: Manager,
    pub token: Token,
    dir: TempDir,
}

/// Who holds the agents' Lease, and the epoch it speaks with.
#[derive(Debug)]
pub struct Held {
    pub holder: String,
    pub epoch: u64,
}

impl World {
    pub async fn start() -> Option<Self> {
        let server = Server::start().await?;
        let client = server.client().await;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../packaging/kubernetes/kustomize/services");
        for file in ["rbac.yaml", "policy.yaml", "ingressclass.yaml"] {
            manifests::apply(&client, &manifests::read(&folder.join(file))).await;
        }
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        manifests::apply(&client, &[space]).await;

        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("site.yaml"), SITE).unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = ManagerOptions::new(dir.path(), any);
        let manager = Manager::start(&options).await.unwrap();
        let expires = Timestamp::now() + SignedDuration::from_hours(1);
        let pin = manager.world.authority.pin();
        let (token, record) =
            Record::create(Role::Host, (TENANT, TENANT), None, (expires, 9), &pin).unwrap();
        manager
            .world
            .store
            .write(vec![record.write()])
            .await
            .unwrap();
        let world = Self {
            server,
            client,
            manager,
            token,
            dir,
        };
        for name in ["edge-a", "edge-b"] {
            world.enrol(name).await;
        }
        Some(world)
    }

    pub fn url(&self) -> ManagerUrl {
        format!("https://{}", self.manager.address).parse().unwrap()
    }

    /// The rights of the manifests, and no others.
    pub async fn kubeconfig(&self) -> PathBuf {
        let server = &self.server;
        server
            .kubeconfig_of_account("kedge-system", "kedge-agent")
            .await
    }

    /// A host of the site, by the real client.
    async fn enrol(&self, name: &str) {
        let state = self.dir.path().join(".hosts").join(name);
        let token = state.join("token");
        fs::create_dir_all(&state).unwrap();
        fs::write(&token, self.token.expose()).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&token, private).unwrap();
        let key = IdentityKey::load_or_create_in(&state).unwrap();
        let tunnel_key = TunnelKey::load_or_create_in(&state).unwrap();
        let settings = Settings {
            url: self.url(),
            token_file: Some(token),
            name: name.to_owned(),
            role: Role::Host,
            host_ref: None,
            facts: Facts::default(),
            tunnel_key: STANDARD.encode(tunnel_key.expose()),
        };
        let (client, _) = Client::open(settings, key, Store::new(&state));
        eventually(&format!("{name} is enrolled"), LIMIT, async || {
            client.ensure().await.is_ok()
        })
        .await;
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), "shop")
    }

    /// A Service of our class as somebody makes it; `changes` are merged into it.
    pub async fn service(&self, name: &str, changes: Value) {
        let mut whole = json!({"metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "loadBalancerClass": "kedge.dev/gateway",
                "selector": {"app": name}, "ports": [{"name": "http", "port": 80}]}});
        merge(&mut whole, changes);
        let service = serde_json::from_value(whole).unwrap();
        self.services()
            .create(&PostParams::default(), &service)
            .await
            .unwrap();
    }

    pub async fn patch(&self, name: &str, changes: Value) {
        let params = PatchParams::default();
        let patch = Patch::Merge(&changes);
        self.services().patch(name, &params, &patch).await.unwrap();
    }

    pub async fn delete(&self, name: &str) {
        let params = DeleteParams::default();
        self.services().delete(name, &params).await.unwrap();
    }

    pub async fn find(&self, name: &str) -> Option<Service> {
        self.services().get_opt(name).await.unwrap()
    }

    /// What the agent put beside a Service.
    pub async fn beside(&self, name: &str) -> Option<Service> {
        let of = ListParams::default().labels(&format!("kedge.dev/companion-of={name}"));
        let found = self.services().list(&of).await.unwrap();
        found.items.into_iter().next()
    }

    /// Waits until a Service shows something.
    pub async fn shown(&self, name: &str, what: &str, holds: impl Fn(&Service) -> bool) -> Service {
        let last = Mutex::new(None);
        // What it said instead, for whoever reads of the failure.
        let what = Said(what, &last);
        eventually(what.0, LIMIT, async || {
            let found = self.find(name).await;
            let is_so = found.as_ref().is_some_and(&holds);
            *last.lock().unwrap() = found;
            is_so
        })
        .await;
        last.lock().unwrap().take().unwrap()
    }

    /// The reasons of events about a Service.
    pub async fn events(&self, name: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "shop");
        let all = events.list(&ListParams::default()).await.unwrap();
        let about = all.items.into_iter().filter(|event| {
            let regarding = event.regarding.as_ref();
            regarding.is_some_and(|it| it.name.as_deref() == Some(name))
        });
        about.filter_map(|event| event.reason).collect()
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// A node that is ready, or not any more.
    pub async fn node(&self, name: &str, ready: bool) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        let params = PatchParams::apply("kubelet").force();
        self.nodes()
            .patch(name, &params, &Patch::Apply(&node))
            .await
            .unwrap();
        let now = Timestamp::now();
        let status = if ready { "True" } else { "Unknown" };
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": status,
            "reason": "Test", "message": "", "lastHeartbeatTime": now,
            "lastTransitionTime": now}]}});
        let params = PatchParams::default();
        self.nodes()
            .patch_status(name, &params, &Patch::Strategic(&patch))
            .await
            .unwrap();
    }

    pub async fn exclude(&self, name: &str) {
        let label = "node.kubernetes.io/exclude-from-external-load-balancers";
        let patch = json!({"metadata": {"labels": {label: ""}}});
        let params = PatchParams::default();
        self.nodes()
            .patch(name, &params, &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    pub async fn delete_node(&self, name: &str) {
        self.nodes()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// The endpoints of a Service, as its controller writes them.
    pub async fn slice(&self, service: &str, endpoints: &[(&str, bool)]) {
        let endpoints: Vec<Value> = endpoints
            .iter()
            .enumerate()
            .map(|(number, (node, ready))| {
                json!({"addresses": [format!("10.42.0.{}", number + 1)], "nodeName": node,
                    "conditions": {"ready": ready}})
            })
            .collect();
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": format!("{service}-1"), "namespace": "shop",
                "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8080}]});
        manifests::apply(&self.client, &[slice]).await;
    }

    /// The exposure of a Service, by its name at the manager.
    pub async fn exposure(&self, service: &str) -> Option<String> {
        let object = self.balancer(service).await?;
        Some(object["metadata"]["name"].as_str().unwrap().to_owned())
    }

    /// The TCPLoadBalancer of a Service, as the manager has it, if it is still asked for.
    pub async fn balancer(&self, service: &str) -> Option<Value> {
        let store = &self.manager.world.store;
        let all = store.of_kind("kedge.dev", "TCPLoadBalancer", Some(TENANT));
        let start = format!("{service}.shop.");
        let mut found = all.by_key.iter().filter(|(key, layers)| {
            let is_asked = layers.owned.contains_key(managers::EXPOSED);
            key.name.name.starts_with(&start) && is_asked
        });
        found.next().map(|(_, layers)| layers.effective())
    }

    /// How many hosts stand behind a Service.
    pub async fn members(&self, service: &str) -> u64 {
        let object = self.balancer(service).await.unwrap();
        let conditions = object["status"]["conditions"].as_array().unwrap();
        let backends = conditions.iter().find(|it| it["type"] == "BackendsHealthy");
        let message = backends.unwrap()["message"].as_str().unwrap();
        // No tunnel is up here: the sentence counts those that would serve.
        let count = message
            .split_whitespace()
            .find_map(|word| word.parse().ok());
        count.unwrap_or_else(|| panic!("{message}"))
    }

    /// The hosts of the tenant that speak for it.
    pub fn speakers(&self) -> Vec<String> {
        let store = &self.manager.world.store;
        let all = store.of_kind("kedge.dev", "EdgeHost", Some(TENANT));
        let names = all.by_key.keys().map(|key| key.name.name.clone());
        names.filter(|name| !name.starts_with("edge-")).collect()
    }

    pub async fn lease(&self) -> Held {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kedge-system");
        let lease = leases.get_opt("kedge-services").await.unwrap();
        let lease = lease.unwrap_or_default();
        let annotations = lease.metadata.annotations.unwrap_or_default();
        let epoch = annotations.get("kedge.dev/epoch");
        Held {
            holder: lease
                .spec
                .and_then(|spec| spec.holder_identity)
                .unwrap_or_default(),
            epoch: epoch
                .map(|epoch| epoch.parse().unwrap())
                .unwrap_or_default(),
        }
    }
}

/// `STATUS REASON` of a condition of ours.
pub fn condition(service: &Service, kind: &str) -> String {
    let status = service.status.clone().unwrap_or_default();
    let kind = format!("kedge.dev/{kind}");
    let mut all = status.conditions.into_iter().flatten();
    let found = all.find(|condition| condition.type_ == kind);
    found.map_or_else(String::new, |it| format!("{} {}", it.status, it.reason))
}

/// The addresses and ports in the status of a Service.
pub fn ports(service: &Service) -> Vec<(String, i32)> {
    let status = service.status.clone().unwrap_or_default();
    let ingress = status.load_balancer.and_then(|it| it.ingress);
    let each = ingress.into_iter().flatten().flat_map(|ingress| {
        let at = ingress.ip.or(ingress.hostname).unwrap_or_default();
        let ports = ingress.ports.unwrap_or_default().into_iter();
        ports.map(move |port| (at.clone(), port.port))
    });
    each.collect()
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

/// What is waited for, and the Service as it was seen last: told when it never comes.
struct Said<'a>(&'a str, &'a Mutex<Option<Service>>);

impl Drop for Said<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let last = self.1.lock().unwrap();
            println!("{}: {:#?}", self.0, last.as_ref().map(|it| &it.status));
        }
    }
}

/// A tenant and its gateway, and the agent's right to speak.
const SITE: &str = "\
apiVersion: kedge.dev/v1alpha1
kind: EdgeGateway
metadata: {name: gw, namespace: kedge-system}
spec:
  service: {addresses: [203.0.113.7]}
  tunnel: {publicEndpoints: [{host: 203.0.113.7, port: 51820}]}
  envoy: {drain: 1s}
  http: {port: 8088, tlsPort: 8448}
---
apiVersion: kedge.dev/v1alpha1
kind: Tenant
metadata: {name: t}
spec:
  namespace: t
  gatewayRef: {name: gw, namespace: kedge-system}
  dns: {domain: edge.example.org, allowedHostnames: ['*.example.net']}
---
apiVersion: kedge.dev/v1alpha1
kind: VIPPool
metadata: {name: public, namespace: t}
spec: {addresses: [198.51.100.10-198.51.100.11], prefix: 24}
---
apiVersion: kedge.dev/v1alpha1
kind: EdgeHost
metadata: {name: kedge-services, namespace: t}
spec: {exposures: true}
";
