//! An API server with our kinds and nothing of Cluster API but its schemas: tests write what its
//! managers would.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use kedge_agent_lab::kube::{kinds::open, witness};
use kedge_crd::{
    kinds::{KINDS, Kind as OurKind},
    testing::elemental_crds,
};
use kedge_manager_controller::{Manager, ManagerOptions, Place};
use kube::{
    Client,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};

use crate::{
    clusters,
    elemental::kinds,
    finalizers, foreign, manifests,
    objects::{Kind, merge},
    server::Server,
};

/// An API server on which clusters are documents.
pub struct Bare {
    /// The server.
    pub server: Server,
    /// A client of the admin.
    pub client: Client,
}

impl Bare {
    /// Starts a server with the definitions and an empty namespace [`SPACE`].
    pub async fn start() -> Option<Self> {
        let bare = Self::with_ours_alone().await?;
        bare.install_core("v1beta2").await;
        bare.install_elemental().await;
        Some(bare)
    }

    /// The same with no kinds but ours.
    pub async fn with_ours_alone() -> Option<Self> {
        let bare = Self::empty(Server::start().await?).await;
        let definitions: Vec<Value> = KINDS.iter().map(OurKind::crd).collect();
        manifests::apply_definitions(&bare.client, &definitions).await;
        Some(bare)
    }

    /// A server with the kinds of others alone: ours come with the chart.
    pub async fn without_ours(server: Server) -> Self {
        let bare = Self::empty(server).await;
        bare.install_core("v1beta2").await;
        bare.install_elemental().await;
        bare
    }

    async fn empty(server: Server) -> Self {
        let client = server.client().await;
        let bare = Self { server, client };
        for space in [SPACE, "kedge-system"] {
            bare.space(space).await;
        }
        bare
    }

    /// Installs Cluster API's kinds, those of addresses in that version alone.
    pub async fn install_core(&self, ipam: &str) {
        let definitions = CAPI_KINDS.map(|(group, kind, plural)| {
            let is_ipam = group == foreign::CLAIM.group;
            let version = if is_ipam { ipam } else { "v1beta2" };
            open(group, version, kind, plural)
        });
        manifests::apply_definitions(&self.client, &definitions).await;
    }

    /// Installs Elemental's kinds.
    pub async fn install_elemental(&self) {
        manifests::apply_definitions(&self.client, &elemental_crds()).await;
    }

    /// Makes a namespace.
    pub async fn space(&self, name: &str) {
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        manifests::apply(&self.client, &[space]).await;
    }

    /// A pool `lan` of that many addresses from 10.20.14.10.
    pub async fn pool(&self, space: &str, size: u8) {
        let last = 9 + size;
        let pool = json!({"apiVersion": "kedge.dev/v1alpha1", "kind": "VIPPool",
            "metadata": {"name": "lan", "namespace": space},
            "spec": {"addresses": [format!("10.20.14.10-10.20.14.{last}")], "prefix": 24}});
        manifests::apply(&self.client, &[pool]).await;
    }

    /// A Cluster whose ElementalCluster is blank and asks for a VIP of the pool `lan`.
    pub async fn ask(&self, space: &str, name: &str) {
        self.cluster(space, name).await;
        self.infrastructure(space, name).await;
    }

    /// A Cluster that refers to an ElementalCluster of its name.
    pub async fn cluster(&self, space: &str, name: &str) {
        let cluster = json!({"apiVersion": foreign::CLUSTER.api_version(), "kind": "Cluster",
            "metadata": {"name": name, "namespace": space, "finalizers": [CORE]},
            "spec": {"infrastructureRef": {
                "apiGroup": kinds::GROUP, "kind": "ElementalCluster", "name": name}}});
        manifests::apply(&self.client, &[cluster]).await;
    }

    /// The blank ElementalCluster of a Cluster.
    ///
    /// # Panics
    ///
    /// When there is no such Cluster.
    pub async fn infrastructure(&self, space: &str, name: &str) {
        let annotations = json!({"kedge.dev/endpoint-mode": "VIP", "kedge.dev/vip-pool": "lan"});
        let clusters = foreign::CLUSTER.of(&self.client, space);
        let owner = clusters.get(name).await.unwrap().metadata.uid;
        let infra = json!({"apiVersion": kinds::CLUSTER.api_version(), "kind": "ElementalCluster",
            "metadata": {"name": name, "namespace": space, "annotations": annotations,
                "ownerReferences": [{"apiVersion": foreign::CLUSTER.api_version(),
                    "kind": "Cluster", "name": name, "uid": owner}]}});
        manifests::apply(&self.client, &[infra]).await;
    }

    /// Removes a cluster, as core and the garbage collector would.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub async fn remove(&self, space: &str, name: &str) {
        let now = DeleteParams::default();
        let clusters = foreign::CLUSTER.of(&self.client, space);
        clusters.delete(name, &now).await.unwrap();
        kinds::CLUSTER
            .of(&self.client, space)
            .delete(name, &now)
            .await
            .unwrap();
        self.let_go(space, name).await;
        _ = BALANCER.of(&self.client, space).delete(name, &now).await;
    }

    /// What core does with a Cluster that is being deleted, once nothing of it is left.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub async fn let_go(&self, space: &str, name: &str) {
        let clusters = foreign::CLUSTER.of(&self.client, space);
        if let Some(cluster) = clusters.get_opt(name).await.unwrap()
            && cluster.metadata.deletion_timestamp.is_some()
            && let Some(patch) = finalizers::remove(&cluster, CORE)
        {
            merge(&clusters, name, patch).await.unwrap();
        }
    }

    /// The endpoint a cluster has; none as well when the server does not answer.
    pub async fn endpoint(&self, space: &str, name: &str) -> Option<String> {
        let infra = kinds::CLUSTER.of(&self.client, space).get(name).await;
        let (host, port) = clusters::endpoint(&infra.ok()?)?;
        Some(format!("{host}:{port}"))
    }

    /// Says something of a cluster that no manager of ours cares about.
    ///
    /// # Errors
    ///
    /// Why the server refuses.
    pub async fn label(&self, space: &str, name: &str, value: &str) -> kube::Result<()> {
        let patch = json!({"metadata": {"labels": {"somebody": value}}});
        for kind in [kinds::CLUSTER, foreign::CLUSTER] {
            merge(&kind.of(&self.client, space), name, patch.clone()).await?;
        }
        Ok(())
    }

    /// The version of every object there is, by kind and name.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub async fn versions(&self) -> BTreeMap<String, String> {
        let ours = KINDS.iter().map(|kind| ("kedge.dev", kind.kind));
        let ours = ours.map(|(group, kind)| Kind::new(group, "v1alpha1", kind));
        let theirs = [kinds::CLUSTER, kinds::HOST, kinds::MACHINE];
        let core = [
            foreign::CLUSTER,
            foreign::MACHINE,
            foreign::CLAIM,
            foreign::ADDRESS,
        ];
        let mut found = BTreeMap::new();
        for kind in ours.chain(theirs).chain(core) {
            let all = kind.everywhere(&self.client);
            let all = all.list(&ListParams::default()).await;
            for object in all.unwrap_or_else(|err| panic!("{}: {err}", kind.kind)) {
                let meta = object.metadata;
                let space = meta.namespace.unwrap_or_default();
                let name = format!("{} {space}/{}", kind.kind, meta.name.unwrap());
                found.insert(name, meta.resource_version.unwrap());
            }
        }
        found
    }

    /// How many requests that write the server answered, leases left out.
    ///
    /// # Panics
    ///
    /// When it does not answer.
    pub async fn writes(&self) -> u64 {
        let metrics = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let text = self.client.request_text(metrics).await.unwrap();
        witness::writes(&text, |line| {
            ["kedge.dev", "x-k8s.io", "secrets", "events"]
                .iter()
                .any(|part| line.contains(part))
        })
    }

    /// What a manager in this process runs with.
    #[must_use]
    pub fn options(&self) -> ManagerOptions {
        Self::options_by(self.server.kubeconfig("admin"))
    }

    /// The same by another kubeconfig.
    #[must_use]
    pub fn options_by(kubeconfig: PathBuf) -> ManagerOptions {
        let any = ([127, 0, 0, 1], 0).into();
        let mut options = ManagerOptions::new(Path::new("/nonexistent"), any);
        options.place = Place::Kubeconfig(kubeconfig);
        options
    }

    /// A manager in this process.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn manager(&self) -> Manager {
        Manager::start(&self.options()).await.unwrap()
    }

    /// A kubeconfig file like the admin's that says something else in one place.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    #[must_use]
    pub fn kubeconfig_with(&self, name: &str, pointer: &str, value: Value) -> PathBuf {
        let text = std::fs::read_to_string(self.server.kubeconfig("admin")).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        let (object, field) = pointer.rsplit_once('/').unwrap();
        config.pointer_mut(object).unwrap()[field] = value;
        let path = self.server.folder().join(format!("{name}.kubeconfig"));
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }
}

/// Core's finalizer.
const CORE: &str = "cluster.cluster.x-k8s.io";
/// The namespace that is there from the start.
pub const SPACE: &str = "edge";
/// A load balancer.
pub const BALANCER: Kind = Kind::new("kedge.dev", "v1alpha1", "LoadBalancer");

const CAPI_KINDS: [(&str, &str, &str); 4] = [
    ("cluster.x-k8s.io", "Cluster", "clusters"),
    ("cluster.x-k8s.io", "Machine", "machines"),
    ("ipam.cluster.x-k8s.io", "IPAddressClaim", "ipaddressclaims"),
    ("ipam.cluster.x-k8s.io", "IPAddress", "ipaddresses"),
];
