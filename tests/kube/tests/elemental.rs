//! What Elemental does and does not do, as far as the manager is built on it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::{sync::Arc, time::Duration};

use kedge_tests_kube::{
    clusters::{Cluster, ELEMENTAL},
    elemental::{self, kinds},
    eventually, foreign,
    objects::{at, condition, label, text},
    stack::Stack,
    stays,
};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_host_is_taken_only_after_the_endpoint_and_is_ready_only_as_a_node() {
    let Some(site) = Site::new().await else {
        return;
    };
    site.install("host-a").await;
    let cluster = site.cluster().await;
    stays("the host stays free", Duration::from_secs(3), async || {
        text(&site.host("host-a").await, "/spec/machineRef/name").is_empty()
    })
    .await;
    site.fill(&cluster).await;
    eventually("the Machine has its bootstrap data", LIMIT, async || {
        let machines = cluster.machines().await;
        let mut secrets = machines
            .iter()
            .map(|m| text(m, "/spec/bootstrap/dataSecretName"));
        secrets.any(|secret| !secret.is_empty())
    })
    .await;
    site.taken("host-a").await;
    let host = site.host("host-a").await;
    assert_eq!(label(&host, foreign::CLUSTER_NAME), "edge");
    assert_eq!(text(&host, "/spec/bootstrapSecret/kind"), "Secret");
    let name = text(&host, "/spec/machineRef/name").to_owned();
    assert_eq!(label(&host, elemental::ELEMENTAL_MACHINE_NAME), name);
    let machines = site.machines();
    eventually("the machine waits for its bootstrap", LIMIT, async || {
        let machine = machines.get(&name).await.unwrap();
        condition(&machine, "HostReady")["reason"] == "HostWaitingForBootstrap"
    })
    .await;
    site.tell("host-a", elemental::BOOTSTRAPPED).await;
    eventually(
        "the machine waits for the control plane",
        LIMIT,
        async || {
            let machine = machines.get(&name).await.unwrap();
            condition(&machine, "ProviderIDReady")["reason"] == "WaitingForControlPlaneInitialized"
        },
    )
    .await;
    let machine = machines.get(&name).await.unwrap();
    assert_eq!(condition(&machine, "HostReady")["status"], "True");
    assert_eq!(condition(&machine, "Ready")["severity"], "Info");
    assert_eq!(at(&machine, "/status/ready"), &json!(false));
}

#[tokio::test]
async fn a_deleted_cluster_has_its_hosts_reset_and_goes() {
    let Some(site) = Site::new().await else {
        return;
    };
    site.install("host-a").await;
    let cluster = site.cluster().await;
    site.fill(&cluster).await;
    site.taken("host-a").await;
    let clusters = foreign::CLUSTER.of(&site.client, &site.space);
    let now = DeleteParams::default();
    clusters.delete("edge", &now).await.unwrap();
    eventually("the host has to be reset", LIMIT, async || {
        label(&site.host("host-a").await, elemental::NEEDS_RESET) == "true"
    })
    .await;
    eventually("the cluster is gone", LIMIT * 2, async || {
        clusters.get_opt("edge").await.unwrap().is_none()
    })
    .await;
    let hosts = kinds::HOST.of(&site.client, &site.space);
    hosts.delete("host-a", &now).await.unwrap();
    stays(
        "the host stays until it was reset",
        Duration::from_secs(2),
        async || hosts.get_opt("host-a").await.unwrap().is_some(),
    )
    .await;
    site.tell("host-a", elemental::RESET).await;
    eventually("the host is gone", LIMIT, async || {
        hosts.get_opt("host-a").await.unwrap().is_none()
    })
    .await;
}

#[tokio::test]
async fn a_machine_whose_host_vanished_takes_another() {
    let Some(site) = Site::new().await else {
        return;
    };
    site.install("host-a").await;
    let cluster = site.cluster().await;
    site.fill(&cluster).await;
    site.taken("host-a").await;
    site.install("host-b").await;
    let hosts = kinds::HOST.of(&site.client, &site.space);
    site.tell("host-a", elemental::RESET).await;
    let now = DeleteParams::default();
    hosts.delete("host-a", &now).await.unwrap();
    site.taken("host-b").await;
}

#[tokio::test]
async fn a_cluster_that_somebody_else_provides_is_not_touched() {
    let Some(site) = Site::new().await else {
        return;
    };
    let all = kinds::CLUSTER.of(&site.client, &site.space);
    let create = async |name: &str, annotations: serde_json::Value| {
        let object = json!({"metadata": {"annotations": annotations}, "spec": {}});
        let object = kinds::CLUSTER.object(name, object);
        all.create(&PostParams::default(), &object).await.unwrap();
    };
    create("theirs", json!({foreign::MANAGED_BY: "kedge"})).await;
    create("own", json!({})).await;
    eventually("the other one is looked at", LIMIT, async || {
        let own = all.get("own").await.unwrap();
        condition(&own, "CAPIClusterReady")["reason"] == "MissingClusterOwner"
    })
    .await;
    stays("no status is written", Duration::from_secs(2), async || {
        at(&all.get("theirs").await.unwrap(), "/status").is_null()
    })
    .await;
}

/// A namespace with Elemental's objects.
struct Site {
    client: Client,
    space: String,
    _stack: Arc<Stack>,
}

impl Site {
    async fn new() -> Option<Self> {
        let stack = Stack::shared().await?;
        let (client, space) = stack.space().await;
        Some(Self {
            client,
            space,
            _stack: stack,
        })
    }

    async fn cluster(&self) -> Cluster {
        Cluster::blank(&self.client, &self.space, "edge", ELEMENTAL).await
    }

    async fn fill(&self, cluster: &Cluster) {
        let infra = cluster.infrastructure().await.unwrap();
        cluster.fill(&infra, "192.0.2.10", 6443).await.unwrap();
    }

    /// A host registered and installed, as the registration server would write it.
    async fn install(&self, name: &str) {
        let hosts = kinds::HOST.of(&self.client, &self.space);
        let host = json!({"metadata": {"labels": {elemental::INSTALLED: "true"}}, "spec": {}});
        let host = kinds::HOST.object(name, host);
        hosts.create(&PostParams::default(), &host).await.unwrap();
    }

    /// What a host's agent has the registration server write.
    async fn tell(&self, name: &str, what: &str) {
        let hosts = kinds::HOST.of(&self.client, &self.space);
        let patch = Patch::Merge(json!({"metadata": {"labels": {what: "true"}}}));
        hosts
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn host(&self, name: &str) -> DynamicObject {
        let hosts = kinds::HOST.of(&self.client, &self.space);
        hosts.get(name).await.unwrap()
    }

    async fn taken(&self, host: &str) {
        eventually(&format!("{host} is taken"), LIMIT, async || {
            !text(&self.host(host).await, "/spec/machineRef/name").is_empty()
        })
        .await;
    }

    fn machines(&self) -> Api<DynamicObject> {
        kinds::MACHINE.of(&self.client, &self.space)
    }
}
