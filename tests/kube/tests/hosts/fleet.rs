//! An API server with our kinds and Elemental's, and managers on it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    ops::Deref,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    time::Duration,
};

use http::Method;
use jiff::{SignedDuration, Timestamp};
use kedge_agent_lab::kube::kinds::open;
use kedge_control::{enrol::HostRef, identity::Role, token::Token};
use kedge_crd::{
    kinds::{KINDS, Kind},
    testing::elemental_crds,
};
use kedge_host::{
    Root,
    local::{MayChange, Serving, Socket, call},
};
use kedge_manager_controller::{
    Manager, ManagerOptions, Place,
    store::{Leadership, kubernetes::lease::Terms},
    token::Record,
};
use kedge_tests_kube::{eventually, manifests, server::Server};
use kube::{
    Api, Client as Kube, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

pub const NS: &str = "edge";
pub const LIMIT: Duration = Duration::from_secs(60);
/// As `/proc/net/tcp` writes it.
const ESTABLISHED: &str = "01";
pub const INFRA: &str = "infrastructure.cluster.x-k8s.io";
const CAPI: &str = "cluster.x-k8s.io";

pub struct Fleet {
    server: Server,
    pub client: Kube,
}

impl Fleet {
    pub async fn start() -> Option<Self> {
        let server = Server::start().await?;
        let client = server.client().await;
        let mut definitions: Vec<Value> = KINDS.iter().map(Kind::crd).collect();
        definitions.extend(elemental_crds());
        let theirs = [("Cluster", "clusters"), ("Machine", "machines")];
        definitions.extend(theirs.map(|(kind, plural)| open(CAPI, "v1beta2", kind, plural)));
        manifests::apply_definitions(&client, &definitions).await;
        for space in [NS, "kedge-system"] {
            let space =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}});
            manifests::apply(&client, &[space]).await;
        }
        let fleet = Self { server, client };
        fleet.tenant(json!({"namespace": NS})).await;
        Some(fleet)
    }

    /// One more manager. Its lease outlasts the moments a busy machine stands still.
    pub async fn manager(&self, name: &str) -> Running {
        self.start_manager(
            name,
            Terms {
                duration: Duration::from_secs(30),
                renew_deadline: Duration::from_secs(20),
                retry: Duration::from_millis(500),
            },
        )
        .await
    }

    /// One more manager, with a lease that does not last long: for whoever waits until it runs out.
    pub async fn impatient_manager(&self, name: &str) -> Running {
        self.start_manager(
            name,
            Terms {
                duration: Duration::from_secs(6),
                renew_deadline: Duration::from_secs(4),
                retry: Duration::from_millis(500),
            },
        )
        .await
    }

    async fn start_manager(&self, name: &str, lease: Terms) -> Running {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut options = ManagerOptions::new(Path::new("/nonexistent"), any);
        options.place = Place::Kubeconfig(self.server.kubeconfig("admin"));
        options.lease = lease;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let started = runtime.spawn(async move { Manager::start(&options).await });
        let started = started.await.unwrap();
        let manager = started.unwrap_or_else(|problem| panic!("{name}: {problem:?}"));
        Running {
            manager: Some(manager),
            runtime: Some(runtime),
        }
    }

    /// Tells the API server to stand still, or to go on.
    pub fn signal(&self, signal: Signal) {
        self.server.api().signal(signal);
    }

    pub async fn leads(&self, manager: &Manager) {
        let store = &manager.world.store;
        eventually("it leads", LIMIT, async || {
            store.leadership() == Leadership::Me
        })
        .await;
    }

    pub async fn knows_the_leader(&self, manager: &Manager) {
        let store = &manager.world.store;
        eventually("it knows who leads", LIMIT, async || {
            matches!(store.leadership(), Leadership::Other(Some(_)))
        })
        .await;
    }

    /// A token for one host, bound to an ElementalHost or to none.
    pub async fn token_for(&self, leader: &Manager, bound: Option<&str>) -> Token {
        let bound = bound.map(|name| HostRef {
            api_group: INFRA.to_owned(),
            kind: "ElementalHost".to_owned(),
            name: name.to_owned(),
        });
        self.made(leader, bound, 1).await
    }

    /// A token of the tenant `t`, made at the leader.
    pub async fn token(&self, leader: &Manager, uses: u32) -> Token {
        self.made(leader, None, uses).await
    }

    async fn made(&self, leader: &Manager, bound: Option<HostRef>, uses: u32) -> Token {
        let (token, record) = self.record(leader, bound, uses);
        let store = &leader.world.store;
        store.write(vec![record.write()]).await.unwrap();
        token
    }

    /// A token of the tenant `t` that nobody has heard of yet.
    pub fn record(&self, manager: &Manager, bound: Option<HostRef>, uses: u32) -> (Token, Record) {
        let expires = Timestamp::now() + SignedDuration::from_hours(1);
        let pin = manager.world.authority.pin();
        Record::create(Role::Host, (NS, "t"), bound, (expires, uses), &pin).unwrap()
    }

    /// A manager's control socket.
    pub fn console(&self, manager: &Manager) -> Console {
        let folder = tempfile::tempdir().unwrap();
        let path = Root::new(folder.path()).socket(kedge_host::Role::Manager);
        let serving = Socket::bind(&path)
            .unwrap()
            .serve(manager.routes::<MayChange>());
        Console {
            path,
            _serving: serving,
            folder,
        }
    }

    /// A gateway `gw` for the tenant's hosts. An object that gives a port of it back is kept for a second.
    pub async fn gateway(&self) {
        let gateway = json!({"apiVersion": "kedge.dev/v1alpha1", "kind": "EdgeGateway",
            "metadata": {"name": "gw", "namespace": "kedge-system"},
            "spec": {"tunnel": {"publicEndpoints": [{"host": "203.0.113.7", "port": 51820}]},
                "ports": {"range": {"from": 30000, "to": 30099}},
                "envoy": {"drain": "1s"}}});
        manifests::apply(&self.client, &[gateway]).await;
        self.tenant(
            json!({"namespace": NS, "gatewayRef": {"name": "gw", "namespace": "kedge-system"}}),
        )
        .await;
    }

    /// The tenant as it is.
    pub async fn the_tenant(&self) -> Value {
        let resource =
            ApiResource::from_gvk(&GroupVersionKind::gvk("kedge.dev", "v1alpha1", "Tenant"));
        let tenants: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        serde_json::to_value(tenants.get("t").await.unwrap()).unwrap()
    }

    pub async fn uses(&self, token: &Token) -> usize {
        let secrets =
            Api::<k8s_openapi::api::core::v1::Secret>::namespaced(self.client.clone(), NS);
        let secret = secrets
            .get(&format!("kedge-token-{}", token.id()))
            .await
            .unwrap();
        let record = secret.data.unwrap()["record"].0.clone();
        let record: Value = serde_json::from_slice(&record).unwrap();
        record["usedBy"].as_array().unwrap().len()
    }

    pub async fn tenant(&self, spec: Value) {
        let resource =
            ApiResource::from_gvk(&GroupVersionKind::gvk("kedge.dev", "v1alpha1", "Tenant"));
        let tenants: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let tenant = json!({"apiVersion": "kedge.dev/v1alpha1", "kind": "Tenant",
            "metadata": {"name": "t"}, "spec": spec});
        let params = PatchParams::apply("admin").force();
        tenants
            .patch("t", &params, &Patch::Apply(&tenant))
            .await
            .unwrap();
    }

    /// A tenant with a namespace of its own.
    pub async fn new_tenant(&self, name: &str) {
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        manifests::apply(&self.client, &[space]).await;
        let tenant = json!({"apiVersion": "kedge.dev/v1alpha1", "kind": "Tenant",
            "metadata": {"name": name}, "spec": {"namespace": name}});
        manifests::apply(&self.client, &[tenant]).await;
    }

    /// How many connections there are to the API server.
    pub fn connections(&self) -> usize {
        let port = format!(":{:04X}", self.server.address().port());
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let is_to_it = |line: &&str| {
            let mut fields = line.split_whitespace().skip(2);
            let to_it = fields.next().is_some_and(|remote| remote.ends_with(&port));
            to_it && fields.next() == Some(ESTABLISHED)
        };
        table.lines().filter(is_to_it).count()
    }

    /// How often a Secret was asked for by its name, of the API server, by anybody.
    pub async fn reads_of_secrets(&self) -> u64 {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let text = self.client.request_text(request).await.unwrap();
        let of_secrets = text.lines().filter(|line| {
            line.starts_with("apiserver_request_total{")
                && [r#"resource="secrets""#, r#"verb="GET""#]
                    .iter()
                    .all(|label| line.contains(label))
        });
        let count = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count"
        )]
        let sum = of_secrets.filter_map(count).sum::<f64>() as u64;
        sum
    }

    /// The exposures there are: the name of each, and the host that said it.
    pub async fn exposures(&self) -> Vec<(String, String)> {
        let all = self.api("kedge.dev", "v1alpha1", "TCPLoadBalancer");
        let all = all.list(&Default::default()).await.unwrap();
        let named = all.items.into_iter().map(|it| {
            let said = it.annotations().get("kedge.dev/exposed-by").cloned();
            (it.name_any(), said.unwrap_or_default())
        });
        named.collect()
    }

    /// An object of the tenant's namespace as somebody makes it who never looks at it again.
    pub async fn create(&self, manager: &str, object: Value) -> Value {
        let params = PostParams {
            field_manager: Some(manager.to_owned()),
            ..PostParams::default()
        };
        let object = serde_json::from_value(object).unwrap();
        let made = self.hosts().create(&params, &object).await.unwrap();
        serde_json::to_value(made).unwrap()
    }

    pub async fn apply(&self, manager: &str, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let api = self.api(INFRA, "v1beta1", "ElementalHost");
        let params = PatchParams::apply(manager).force();
        api.patch(&name, &params, &Patch::Apply(&object))
            .await
            .unwrap();
    }

    pub async fn delete_elemental(&self, name: &str) {
        let api = self.api(INFRA, "v1beta1", "ElementalHost");
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn host(&self, name: &str) -> Value {
        serde_json::to_value(self.hosts().get(name).await.unwrap()).unwrap()
    }

    pub async fn patch_host(&self, name: &str, patch: Value) {
        let params = PatchParams::default();
        self.hosts()
            .patch(name, &params, &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    pub async fn delete_host(&self, name: &str) {
        self.hosts()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Every enrolled host and its identity.
    pub async fn identities(&self) -> Vec<(String, String)> {
        let all = self.hosts().list(&Default::default()).await.unwrap();
        let identity = |host: DynamicObject| {
            let uid = host
                .data
                .pointer("/spec/identity/uid")?
                .as_str()?
                .to_owned();
            Some((host.metadata.name?, uid))
        };
        all.items.into_iter().filter_map(identity).collect()
    }

    fn hosts(&self) -> Api<DynamicObject> {
        self.api("kedge.dev", "v1alpha1", "EdgeHost")
    }

    pub fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(group, version, kind);
        Api::namespaced_with(self.client.clone(), NS, &ApiResource::from_gvk(&kind))
    }
}

/// A manager on threads of its own, so that it can die at any moment.
pub struct Running {
    manager: Option<Manager>,
    runtime: Option<Runtime>,
}

impl Running {
    /// It leaves in order.
    pub async fn stop(mut self) {
        self.manager.take().unwrap().stop().await;
    }
}

impl Deref for Running {
    type Target = Manager;

    fn deref(&self) -> &Manager {
        self.manager.as_ref().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

/// A manager's control socket.
pub struct Console {
    path: PathBuf,
    _serving: Serving,
    folder: TempDir,
}

impl Console {
    /// Asks for something to be done.
    pub async fn ask(&self, path: &str, body: Value) -> (u16, Value) {
        let body = serde_json::to_vec(&body).unwrap();
        let reply = call(&self.path, Method::POST, path, body).await.unwrap();
        (reply.status.as_u16(), reply.json().unwrap())
    }

    /// The program, as a person calls it beside the manager: its status, and what it says on which
    /// stream.
    pub fn kedge(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kedge-on-kubernetes"));
        command.arg("--root").arg(self.folder.path()).args(args);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        (code, text(output.stdout), text(output.stderr))
    }

    /// A token, once what it is for is known.
    pub async fn token(&self, request: Value) -> Token {
        let made = Mutex::new(Value::Null);
        eventually("a token is made", LIMIT, async || {
            let (status, answer) = self.ask("/v1/tokens", request.clone()).await;
            *made.lock().unwrap() = answer;
            status == 201
        })
        .await;
        let made = made.into_inner().unwrap();
        made["token"].as_str().unwrap().parse().unwrap()
    }
}
