//! A store with a manager on it, and what a person does to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    time::Duration,
};

use kedge_control::{
    identity::Role,
    local::{BoundTo, TokenRequest},
    token::Token,
};
use kedge_crd::kinds::KINDS;
use kedge_host::local::{MayChange, Serving, Socket, call};
use kedge_manager_controller::{
    Manager, ManagerOptions,
    store::{Name, ObjectKey},
};
use kedge_tests_kube::{bare::Bare, edge::Edge, foreign, manifests, objects::Kind};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::text_at;

/// A store with a manager on it.
pub struct Ground {
    manager: Manager,
    _serving: Serving,
    folder: TempDir,
    /// The API server, where it is one.
    bare: Option<Bare>,
}

impl Ground {
    /// A manager over a directory.
    pub async fn directory() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let objects = folder.path().join("objects");
        fs::create_dir(&objects).unwrap();
        let any = ([127, 0, 0, 1], 0).into();
        Self::over(folder, ManagerOptions::new(&objects, any), None).await
    }

    /// A manager over an API server.
    pub async fn kubernetes(bare: Bare) -> Self {
        let options = bare.options();
        Self::over(tempfile::tempdir().unwrap(), options, Some(bare)).await
    }

    async fn over(folder: TempDir, options: ManagerOptions, bare: Option<Bare>) -> Self {
        let manager = Manager::start(&options).await.unwrap();
        let socket = Socket::bind(&folder.path().join("manager.sock")).unwrap();
        let serving = socket.serve(manager.routes::<MayChange>());
        Self {
            manager,
            _serving: serving,
            folder,
            bare,
        }
    }

    /// What it is called.
    pub const fn name(&self) -> &'static str {
        match self.bare {
            Some(_) => "Kubernetes",
            None => "a directory",
        }
    }

    /// Whether an outcome is this store's alone, and why:
    ///
    /// - no core runs beside a directory, so the manager copies the endpoint to the Cluster itself;
    /// - a directory serves one IPAM provider, ours.
    pub fn differs(&self, what: &str) -> bool {
        self.bare.is_some() && what == "Cluster/c/endpoint"
    }

    /// A namespace with a tenant of its own, a gateway and a pool of two addresses.
    pub async fn tenant(&self, space: &str) {
        if let Some(bare) = &self.bare {
            bare.space(space).await;
        }
        let ours = |kind: &str, name: &str, spec: Value| {
            json!({"apiVersion": "kedge.dev/v1alpha1", "kind": kind,
                "metadata": {"name": name}, "spec": spec})
        };
        let tenant = json!({"namespace": space, "gatewayRef": {"name": "gw"},
            "enrollment": {"maxHosts": 9, "hostLabels": {"kedge.dev/site": space}}});
        self.write("", ours("Tenant", space, tenant)).await;
        let gateway = json!({
            "tunnel": {"publicEndpoints": [{"host": "203.0.113.7", "port": 51820}]},
            "envoy": {"drain": "2s"},
            "ports": {"range": {"from": 30000, "to": 30009}}});
        self.write("kedge-system", ours("EdgeGateway", "gw", gateway))
            .await;
        let pool = json!({"addresses": ["10.20.14.10-10.20.14.11"], "prefix": 24});
        self.write(space, ours("VIPPool", "lan", pool)).await;
    }

    /// A person writes a document.
    pub async fn write(&self, space: &str, document: Value) {
        self.try_write(space, document).await.unwrap();
    }

    /// A person writes a document, which may be refused at once.
    pub async fn try_write(&self, space: &str, mut document: Value) -> Result<(), String> {
        if !space.is_empty() {
            document["metadata"]["namespace"] = json!(space);
        }
        match &self.bare {
            None => {
                let file = self.file(space, &text_at(&document, "/kind"), &document);
                // As an editor does: whole or not at all.
                let fresh = file.with_extension("new");
                fs::write(&fresh, document.to_string()).unwrap();
                fs::rename(fresh, file).unwrap();
                Ok(())
            }
            Some(bare) => {
                own(bare, space, &mut document).await;
                manifests::try_apply(&bare.client, &document).await
            }
        }
    }

    /// A person removes an object.
    pub async fn remove(&self, space: &str, kind: Kind, name: &str) {
        match &self.bare {
            None => {
                let document = json!({"metadata": {"name": name}});
                fs::remove_file(self.file(space, kind.kind, &document)).unwrap();
            }
            Some(bare) if kind == foreign::CLUSTER => bare.remove(space, name).await,
            Some(bare) => {
                let api = kind.of(&bare.client, space);
                api.delete(name, &DeleteParams::default()).await.unwrap();
            }
        }
    }

    /// A host enrols and reports its address.
    pub async fn host(&self, space: &str, name: &str, address: &str) -> Edge {
        let token = self.token(space).await;
        let at = (self.manager.address.port(), Handle::current());
        Edge::enrol_at(at, token, space, name, address).await
    }

    /// What there is of what is expected: `Kind/name/endpoint`, `Kind/name/CONDITION` or
    /// `host/name/vips`, in words.
    pub async fn outcome(
        &self,
        space: &str,
        expected: &BTreeMap<String, String>,
        hosts: &[Edge],
    ) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for (what, wanted) in expected {
            let value = if self.differs(what) {
                wanted.clone()
            } else {
                self.look(space, what, hosts).await
            };
            found.insert(what.clone(), value);
        }
        found
    }

    /// What the manager says of a namespace, for a scenario that fails.
    pub async fn about(&self, space: &str) -> String {
        let state = self.manager.world.state().await;
        let here: Vec<_> = state
            .endpoints()
            .filter(|it| it.namespace == space)
            .collect();
        format!("{here:#?}\n{:#?}", state.problems())
    }

    /// Everything that is wrong, as the manager says it.
    pub async fn problems(&self) -> String {
        self.problems_of("").await
    }

    /// What is wrong with documents whose place has a word in it.
    pub async fn problems_of(&self, word: &str) -> String {
        let state = self.manager.world.state().await;
        let all = state.problems();
        let of_it = all
            .iter()
            .filter(|problem| format!("{problem:?}").contains(word));
        of_it.map(|problem| format!("{problem:?}\n")).collect()
    }

    /// A person removes a document of a directory, if it is there.
    pub fn forget(&self, space: &str, kind: &str, name: &str) {
        let document = json!({"metadata": {"name": name}});
        _ = fs::remove_file(self.file(space, kind, &document));
    }

    /// An object of ours, as everybody sees it; null where there is none.
    pub async fn read_any(&self, space: &str, kind: &str, name: &str) -> Value {
        match &self.bare {
            None => {
                let key = ObjectKey::new("kedge.dev", kind, Name::new(space, name));
                let objects = self.manager.world.store.objects();
                let layers = objects.get(&key);
                layers.map_or(Value::Null, |layers| layers.effective())
            }
            Some(bare) => {
                let kinds = KINDS.iter().find(|it| it.kind == kind).unwrap();
                let kind = Kind::new("kedge.dev", "v1alpha1", kinds.kind);
                let found = if kinds.namespaced {
                    kind.of(&bare.client, space).get_opt(name).await
                } else {
                    kind.everywhere(&bare.client).get_opt(name).await
                };
                let found = found.unwrap();
                found.map_or(Value::Null, |found| serde_json::to_value(found).unwrap())
            }
        }
    }

    /// Ends the manager.
    pub async fn end(self) {
        self.manager.stop().await;
    }

    async fn look(&self, space: &str, what: &str, hosts: &[Edge]) -> String {
        let mut parts = what.split('/');
        let mut part = || parts.next().unwrap_or_default();
        let (kind, name, aspect) = (part(), part(), part());
        if kind == "host" {
            let host = hosts.iter().find(|host| host.name == name).unwrap();
            let config = host.config().unwrap_or_default();
            let vips = config.vips.iter().map(|vip| {
                let addresses: Vec<_> = vip.addresses.iter().map(ToString::to_string).collect();
                format!("{} {}", addresses.join(","), vip.vrid)
            });
            return vips.collect::<Vec<_>>().join(" ");
        }
        let object = self.read(space, kind, name).await;
        match aspect {
            "endpoint" => {
                let at = match kind {
                    "LoadBalancer" => "/spec/endpoint",
                    _ => "/spec/controlPlaneEndpoint",
                };
                let host = text_at(&object, &format!("{at}/host"));
                let port = text_at(&object, &format!("{at}/port"));
                match host.as_str() {
                    "" | "none" => "none".to_owned(),
                    _ => format!("{host}:{port}"),
                }
            }
            "ports" => {
                let ports = object.pointer("/spec/ports").and_then(Value::as_array);
                let each = ports.into_iter().flatten();
                let each = each
                    .map(|it| format!("{}={}", text_at(it, "/name"), text_at(it, "/listenerPort")));
                // A list of named things has no order of its own.
                each.collect::<BTreeSet<_>>()
                    .into_iter()
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            "provisioned" => text_at(&object, "/status/ready"),
            "targets" => {
                let targets = object.pointer("/status/targets").and_then(Value::as_array);
                let each = targets.into_iter().flatten();
                let each =
                    each.map(|it| format!("{} {}", text_at(it, "/name"), text_at(it, "/state")));
                each.collect::<Vec<_>>().join(" ")
            }
            condition => {
                let all = object
                    .pointer("/status/conditions")
                    .and_then(Value::as_array);
                let mut all = all.into_iter().flatten();
                let found = all.find(|one| one["type"] == condition);
                found.map_or("none".to_owned(), |one| {
                    format!("{} {}", text_at(one, "/status"), text_at(one, "/reason"))
                })
            }
        }
    }

    /// An object as everybody sees it: what the server has, or what is in force of the files.
    async fn read(&self, space: &str, kind: &str, name: &str) -> Value {
        let kind = of(kind);
        match &self.bare {
            None => {
                let key = ObjectKey::new(kind.group, kind.kind, Name::new(space, name));
                let objects = self.manager.world.store.objects();
                let layers = objects.get(&key);
                layers.map_or(Value::Null, |layers| layers.effective())
            }
            Some(bare) => {
                let found = kind.of(&bare.client, space).get_opt(name).await.unwrap();
                found.map_or(Value::Null, |found| serde_json::to_value(found).unwrap())
            }
        }
    }

    fn file(&self, space: &str, kind: &str, document: &Value) -> PathBuf {
        let name = text_at(document, "/metadata/name");
        let file = format!("{space}-{kind}-{name}.yaml");
        self.folder.path().join("objects").join(file)
    }

    async fn token(&self, tenant: &str) -> Token {
        let request = TokenRequest {
            role: Role::Host,
            tenant: Some(tenant.to_owned()),
            gateway: None,
            host_ref: None,
            bound_to: BoundTo::default(),
            labels: BTreeMap::new(),
            approval: None,
            ttl_seconds: None,
            max_uses: None,
        };
        let body = serde_json::to_vec(&request).unwrap();
        let socket = self.folder.path().join("manager.sock");
        loop {
            let reply = call(&socket, http::Method::POST, "/v1/tokens", body.clone()).await;
            let answer: Value = reply.unwrap().json().unwrap();
            // It may not have heard of the tenant yet.
            if let Some(token) = answer["token"].as_str() {
                return token.parse().unwrap();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// What core would write: the Cluster is the owner of its infrastructure.
async fn own(bare: &Bare, space: &str, document: &mut Value) {
    if document["kind"] != "ElementalCluster"
        || document["metadata"]["ownerReferences"] == json!([])
    {
        return;
    }
    let name = text_at(document, "/metadata/name");
    let cluster = foreign::CLUSTER
        .of(&bare.client, space)
        .get_opt(&name)
        .await;
    if let Some(cluster) = cluster.unwrap() {
        document["metadata"]["ownerReferences"] = json!([{
            "apiVersion": foreign::CLUSTER.api_version(), "kind": "Cluster",
            "name": name, "uid": cluster.metadata.uid}]);
    }
}

fn of(kind: &str) -> Kind {
    match kind {
        "Cluster" => foreign::CLUSTER,
        "ElementalCluster" => kedge_tests_kube::elemental::kinds::CLUSTER,
        "LoadBalancer" => kedge_tests_kube::bare::BALANCER,
        "TCPLoadBalancer" => super::scenarios::TCP,
        "EdgeHost" => Kind::new("kedge.dev", "v1alpha1", "EdgeHost"),
        other => panic!("{other}"),
    }
}
