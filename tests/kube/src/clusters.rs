//! Clusters of the tests: of one infrastructure provider, with kubeadm's control plane.

use kube::{
    Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    edgetest, elemental, foreign,
    objects::{Kind, at, text},
};

/// The kinds of an infrastructure provider.
#[derive(Clone, Copy, Debug)]
pub struct Provider {
    /// The cluster's part.
    pub cluster: Kind,
    /// What topologies make it from.
    pub cluster_template: Kind,
    /// What machines' parts are made from.
    pub machine_template: Kind,
}

/// Elemental: the v1beta1 contract.
pub const ELEMENTAL: Provider = Provider {
    cluster: elemental::kinds::CLUSTER,
    cluster_template: elemental::kinds::CLUSTER_TEMPLATE,
    machine_template: elemental::kinds::MACHINE_TEMPLATE,
};

/// The tests' own provider: the v1beta2 contract.
pub const EDGE_TEST: Provider = Provider {
    cluster: edgetest::CLUSTER,
    cluster_template: edgetest::CLUSTER_TEMPLATE,
    machine_template: edgetest::MACHINE_TEMPLATE,
};

/// A cluster of a test.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    space: String,
    name: String,
    provider: Provider,
}

impl Cluster {
    /// Creates a cluster with one control-plane machine to be, its endpoint left out.
    ///
    /// # Panics
    ///
    /// When the server refuses a part of it.
    pub async fn blank(client: &Client, space: &str, name: &str, provider: Provider) -> Self {
        let infra = json!({"spec": {}});
        Self::with(client, space, name, provider, infra, json!({})).await
    }

    /// Creates a cluster with one control-plane machine to be: what its infrastructure's part says,
    /// and what kubeadm's configuration says beside its format.
    ///
    /// # Panics
    ///
    /// When the server refuses a part of it.
    pub async fn with(
        client: &Client,
        space: &str,
        name: &str,
        provider: Provider,
        infra: Value,
        kubeadm: Value,
    ) -> Self {
        let cluster = Self::named(client, space, name, provider);
        let template = json!({"spec": {"template": {"spec": {}}}});
        cluster.create(provider.machine_template, template).await;
        let mut kubeadm = kubeadm;
        kubeadm["format"] = json!("cloud-config");
        let control_plane = json!({"spec": {
            "replicas": 1,
            "version": VERSION,
            "kubeadmConfigSpec": kubeadm,
            "machineTemplate": {"spec": {
                "infrastructureRef": reference(provider.machine_template, name),
            }},
        }});
        cluster.create(foreign::CONTROL_PLANE, control_plane).await;
        cluster.create(provider.cluster, infra).await;
        let whole = json!({"spec": {
            "controlPlaneRef": reference(foreign::CONTROL_PLANE, name),
            "infrastructureRef": reference(provider.cluster, name),
        }});
        cluster.create(foreign::CLUSTER, whole).await;
        cluster
    }

    /// Creates a cluster whose machines are made by hand: what its infrastructure's part and its
    /// own say.
    ///
    /// # Panics
    ///
    /// When the server refuses a part of it.
    pub async fn bare(
        client: &Client,
        space: &str,
        name: &str,
        provider: Provider,
        infra: Value,
        own: Value,
    ) -> Self {
        let cluster = Self::named(client, space, name, provider);
        cluster.create(provider.cluster, infra).await;
        let mut whole = own;
        whole["spec"]["infrastructureRef"] = reference(provider.cluster, name);
        cluster.create(foreign::CLUSTER, whole).await;
        cluster
    }

    fn named(client: &Client, space: &str, name: &str, provider: Provider) -> Self {
        Self {
            client: client.clone(),
            space: space.to_owned(),
            name: name.to_owned(),
            provider,
        }
    }

    /// Creates a class whose template says something of the endpoint, and a cluster of it.
    ///
    /// # Panics
    ///
    /// When the server refuses a part of it.
    pub async fn of_class(
        client: &Client,
        space: &str,
        name: &str,
        provider: Provider,
        spec: Value,
    ) -> Self {
        let cluster = Self::named(client, space, name, provider);
        let template = json!({"spec": {"template": {"spec": spec}}});
        cluster.create(provider.cluster_template, template).await;
        let template = json!({"spec": {"template": {"spec": {}}}});
        cluster.create(provider.machine_template, template).await;
        let template = json!({"spec": {"template": {"spec": {"kubeadmConfigSpec": {"format": "cloud-config"}}}}});
        cluster
            .create(foreign::CONTROL_PLANE_TEMPLATE, template)
            .await;
        let class = json!({"spec": {
            "infrastructure": {"templateRef": versioned(provider.cluster_template, name)},
            "controlPlane": {
                "templateRef": versioned(foreign::CONTROL_PLANE_TEMPLATE, name),
                "machineInfrastructure": {
                    "templateRef": versioned(provider.machine_template, name),
                },
            },
        }});
        cluster.create(foreign::CLUSTER_CLASS, class).await;
        let whole = json!({"spec": {"topology": {
            "classRef": {"name": name},
            "version": VERSION,
            "controlPlane": {"replicas": 1},
        }}});
        cluster.create(foreign::CLUSTER, whole).await;
        cluster
    }

    /// The Cluster itself.
    ///
    /// # Panics
    ///
    /// When it is not there.
    pub async fn cluster(&self) -> DynamicObject {
        let all = foreign::CLUSTER.of(&self.client, &self.space);
        all.get(&self.name).await.unwrap()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is provisioned with an endpoint: core has copied it.
    ///
    /// # Panics
    ///
    /// When it is not there.
    pub async fn is_provisioned(&self) -> bool {
        let cluster = self.cluster().await;
        let provisioned = "/status/initialization/infrastructureProvisioned";
        at(&cluster, provisioned) == &json!(true)
            && text(&cluster, "/status/phase") == "Provisioned"
            && endpoint(&cluster).is_some()
    }

    /// Merges something into the infrastructure's part.
    ///
    /// # Panics
    ///
    /// When the server refuses.
    pub async fn merge_infrastructure(&self, patch: Value) {
        let all = self.provider.cluster.of(&self.client, &self.space);
        all.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// The infrastructure's part, once there is one.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub async fn infrastructure(&self) -> Option<DynamicObject> {
        let cluster = self.cluster().await;
        let name = text(&cluster, "/spec/infrastructureRef/name");
        if name.is_empty() {
            return None;
        }
        let all = self.provider.cluster.of(&self.client, &self.space);
        all.get_opt(name).await.unwrap()
    }

    /// The control plane, once there is one.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub async fn control_plane(&self) -> Option<DynamicObject> {
        let cluster = self.cluster().await;
        let name = text(&cluster, "/spec/controlPlaneRef/name");
        let all = foreign::CONTROL_PLANE.of(&self.client, &self.space);
        all.get_opt(name).await.unwrap()
    }

    /// Its machines.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub async fn machines(&self) -> Vec<DynamicObject> {
        let of_us =
            ListParams::default().labels(&format!("{}={}", foreign::CLUSTER_NAME, self.name));
        let all = foreign::MACHINE.of(&self.client, &self.space);
        all.list(&of_us).await.unwrap().items
    }

    /// Merges something into the Cluster.
    ///
    /// # Panics
    ///
    /// When the server refuses.
    pub async fn merge(&self, patch: Value) {
        let all = foreign::CLUSTER.of(&self.client, &self.space);
        all.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Applies an endpoint to the infrastructure's part as Kedge does: host and port, no force, and
    /// the object's own uid, so that nothing is ever created.
    ///
    /// # Errors
    ///
    /// Why the server refuses.
    pub async fn fill(&self, infra: &DynamicObject, host: &str, port: u16) -> kube::Result<()> {
        let kind = self.provider.cluster;
        let name = infra.metadata.name.as_deref().unwrap_or_default();
        let patch = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": {"name": name, "uid": infra.metadata.uid},
            "spec": {"controlPlaneEndpoint": {"host": host, "port": port}},
        });
        let all = kind.of(&self.client, &self.space);
        let how = PatchParams::apply(FIELD_MANAGER);
        all.patch(name, &how, &Patch::Apply(patch))
            .await
            .map(|_| ())
    }

    async fn create(&self, kind: Kind, rest: Value) {
        let object = kind.object(&self.name, rest);
        let all = kind.of(&self.client, &self.space);
        if let Err(err) = all.create(&PostParams::default(), &object).await {
            panic!("{}: {err}", kind.kind);
        }
    }
}

/// The endpoint an object has: host and port.
#[must_use]
pub fn endpoint(object: &DynamicObject) -> Option<(String, i64)> {
    let host = text(object, "/spec/controlPlaneEndpoint/host").to_owned();
    let port = at(object, "/spec/controlPlaneEndpoint/port").as_i64();
    (!host.is_empty()).then_some((host, port.unwrap_or_default()))
}

fn reference(kind: Kind, name: &str) -> Value {
    json!({"apiGroup": kind.group, "kind": kind.kind, "name": name})
}

fn versioned(kind: Kind, name: &str) -> Value {
    json!({"apiVersion": kind.api_version(), "kind": kind.kind, "name": name})
}

/// Who fills endpoints.
pub const FIELD_MANAGER: &str = "kedge-endpoint";

const VERSION: &str = "v1.36.3";
