//! An API server with our kinds and Elemental's, managers on it, and hosts with the real client.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    ops::Deref,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use kedge_control::{
    agent::HostConfig,
    enrol::Facts,
    identity::Role,
    report::{AddressType, HostReport, ReportAnswer, ReportedAddress, ReportedTunnel},
    token::Token,
};
use kedge_crd::{
    kinds::{KINDS, Kind},
    testing::elemental_crds,
};
use kedge_host::{
    Root,
    enrol::{ByElemental, Client, ClientError, Settings},
    identity::IdentityKey,
    link::{Link, Patience},
    state::Store,
};
use kedge_manager_controller::{
    Manager, ManagerOptions, Place,
    store::{Leadership, kubernetes::lease::Terms},
    token::Record,
};
use kedge_tests_kube::{eventually, manifests, server::Server};
use kube::{
    Api, Client as Kube,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use rcgen::{KeyPair, PKCS_ED25519};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

pub const NS: &str = "edge";
pub const LIMIT: Duration = Duration::from_secs(60);
const INFRA: &str = "infrastructure.cluster.x-k8s.io";
const CAPI: &str = "cluster.x-k8s.io";

pub struct Fleet {
    server: Server,
    client: Kube,
}

impl Fleet {
    pub async fn start() -> Option<Self> {
        let server = Server::start().await?;
        let client = server.client().await;
        let mut definitions: Vec<Value> = KINDS.iter().map(Kind::crd).collect();
        definitions.extend(elemental_crds());
        definitions.extend([open("Cluster", "clusters"), open("Machine", "machines")]);
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

    /// One more manager, with a lease that does not last long.
    pub async fn manager(&self, name: &str) -> Running {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut options = ManagerOptions::new(Path::new("/nonexistent"), any);
        options.place = Place::Kubeconfig(self.server.kubeconfig("admin"));
        options.lease = Terms {
            duration: Duration::from_secs(6),
            renew_deadline: Duration::from_secs(4),
            retry: Duration::from_millis(500),
        };
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

    /// A token of the tenant `t`, made at the leader.
    pub async fn token(&self, leader: &Manager, uses: u32) -> Token {
        let store = &leader.world.store;
        let expires = Timestamp::now() + SignedDuration::from_hours(1);
        let pin = leader.world.authority.pin();
        let made = Record::create(Role::Host, (NS, "t"), None, (expires, uses), pin);
        let (token, record) = made.unwrap();
        store.write(vec![record.write()]).await.unwrap();
        token
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

    fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
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

/// A host on this machine.
pub struct Host {
    pub client: Client,
    pub elemental: KeyPair,
    folder: TempDir,
    tunnel_key: String,
}

impl Host {
    pub fn with_token(manager: &Manager, name: &str, token: &Token) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, token.expose()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        Self::open(
            manager,
            name,
            folder,
            KeyPair::generate_for(&PKCS_ED25519).unwrap(),
            false,
        )
    }

    /// A host with the files of Elemental's agent, and no token.
    pub fn with_elemental_key(manager: &Manager, name: &str, namespace: &str) -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        Self::registered(manager, name, namespace, key)
    }

    /// The same at Elemental, another one for us.
    pub fn with_another_identity(&self, manager: &Manager, name: &str) -> Self {
        let key = KeyPair::from_pem(&self.elemental.serialize_pem()).unwrap();
        Self::registered(manager, name, NS, key)
    }

    fn registered(manager: &Manager, name: &str, namespace: &str, key: KeyPair) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let agent = folder.path().join("oem/elemental/agent");
        fs::create_dir_all(&agent).unwrap();
        let uri = format!("https://m/elemental/v1/namespaces/{namespace}/registrations/r");
        let config = format!(
            "registration: {{uri: '{uri}', token: x}}\nagent: {{workDir: /oem/elemental/agent}}\n"
        );
        fs::write(agent.join("config.yaml"), config).unwrap();
        let path = agent.join("private.key");
        fs::write(&path, key.serialize_pem()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        Self::open(manager, name, folder, key, true)
    }

    fn open(manager: &Manager, name: &str, folder: TempDir, elemental: KeyPair, by: bool) -> Self {
        let root = Root::new(folder.path());
        let own = kedge_host::Role::Agent;
        let key = IdentityKey::load_or_create(&root, own).unwrap();
        let tunnel_key = wireguard_key();
        let settings = Settings {
            url: format!("https://{}", manager.address).parse().unwrap(),
            token_file: Some(folder.path().join("token")),
            name: name.to_owned(),
            role: Role::Host,
            host_ref: None,
            facts: Facts {
                hostname: name.to_owned(),
                ..Facts::default()
            },
            tunnel_key: tunnel_key.clone(),
        };
        let by = by.then(|| ByElemental {
            root: root.clone(),
            ca_pin: manager.world.authority.pin().to_owned(),
        });
        let store = Store::new(root.state_dir(own));
        let (client, problems) = Client::open_with(settings, by, key, store);
        assert_eq!(problems, []);
        Self {
            client,
            elemental,
            folder,
            tunnel_key,
        }
    }

    /// The link a real agent keeps.
    pub fn link(&self) -> Link<HostReport, HostConfig> {
        let store = Store::new(self.folder.path().join("link"));
        let patience = Patience {
            retry: Duration::from_secs(2),
            ..Patience::default()
        };
        Link::start(self.client.clone(), &store, patience)
    }

    pub async fn report(&self, address: &str) -> Result<ReportAnswer, ClientError> {
        self.reports(address, 0).await
    }

    pub async fn reports(&self, address: &str, applied: u64) -> Result<ReportAnswer, ClientError> {
        self.say(address, applied, &self.tunnel_key).await
    }

    /// Reports another tunnel key each time.
    pub async fn rotates(&self, address: &str) -> Result<ReportAnswer, ClientError> {
        self.say(address, 0, &wireguard_key()).await
    }

    async fn say(
        &self,
        address: &str,
        applied: u64,
        key: &str,
    ) -> Result<ReportAnswer, ClientError> {
        let report = HostReport {
            boot_id: "boot".to_owned(),
            machine_id: "machine".to_owned(),
            version: "0.1.0".to_owned(),
            applied_generation: applied,
            addresses: vec![ReportedAddress {
                kind: AddressType::InternalIP,
                address: address.to_owned(),
                interface: Some("eth0".to_owned()),
                primary: true,
                because: "default route".to_owned(),
            }],
            tunnel: Some(ReportedTunnel {
                public_key: key.to_owned(),
                ..ReportedTunnel::default()
            }),
            ..HostReport::default()
        };
        self.client.report(&report).await
    }
}

/// A record of Elemental's; `registered` as one that a registration made.
pub fn elemental_host(name: &str, key: &KeyPair, registered: bool) -> Value {
    let mut record = json!({"apiVersion": format!("{INFRA}/v1beta1"), "kind": "ElementalHost",
        "metadata": {"name": name, "namespace": NS,
            "labels": {"cluster.x-k8s.io/cluster-name": "a-lie"}},
        "spec": {"pubKey": key.public_key_pem()}});
    if registered {
        record["metadata"]["ownerReferences"] = json!([{"apiVersion": format!("{INFRA}/v1beta1"),
            "kind": "ElementalRegistration", "name": "r", "controller": true,
            "uid": "6f1b1a52-1f0c-4b0c-8a8a-1c1f5d3f0a11"}]);
    }
    record
}

fn wireguard_key() -> String {
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    STANDARD.encode(key.public_key_raw())
}

/// A kind of Cluster API's whose schema says nothing.
fn open(kind: &str, plural: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{CAPI}")},
        "spec": {"group": CAPI, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1beta2", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}]}})
}
