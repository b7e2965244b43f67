//! First clusters from each template, and what `clusterctl describe cluster` says of them.

use k8s_openapi::api::apps::v1::Deployment;
use kedge_tests_kube::{
    assets::{Program, ready},
    clusterctl::{ELEMENTAL_VERSION, Repository, prepare},
    clusters::{Cluster, EDGE_TEST, endpoint},
    eventually, foreign, k3s, manifests,
    objects::{condition, text},
    ours::Ours,
    rke2,
    server::Server,
};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
};
use serde_json::{Value, json};

use crate::{
    IMAGE, TURN,
    site::{BALANCER, LIMIT, POOL, Site, address},
};

#[tokio::test]
async fn a_first_cluster_comes_from_each_template_and_its_endpoint_is_filled() {
    if !ready(&[Program::Helm, Program::Clusterctl]) {
        return;
    }
    let _turn = TURN.lock().await;
    let Some(ours) = Ours::shared().await else {
        return;
    };
    let server = ours.stack().server();
    let client = server.client().await;
    manifests::apply_definitions(&client, &rke2::definitions()).await;
    manifests::apply_definitions(&client, &k3s::definitions()).await;
    prepare(&client).await;
    let repository = Repository::new();
    let said = repository.run(server, &["init", "--addon", "kedge"], IMAGE);
    println!("{said}");
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "kedge-system");
    let manager = deployments.get("kedge-manager").await.unwrap();
    let pod = manager.spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.containers[0].name, "manager");
    assert_eq!(
        pod.containers[0].image.as_deref(),
        Some("registry.example.org/kedge/manager:0.1.0")
    );

    let first = First {
        site: Site::new().await.unwrap(),
        repository: &repository,
    };
    // By its file, as it lies in the release; as the guide begins.
    let release = repository.release().join("cluster-template.yaml");
    let from = ["--from", release.to_str().unwrap()];
    let plane = first.comes("first", &from, "v1.36.3").await;
    first.has_machine("first").await;
    assert_eq!(plane.types.unwrap().kind, "KubeadmControlPlane");
    let described = first.described(server, "first");
    let infra = format!("ElementalCluster {}/first", first.site.space);
    assert!(described.contains(&infra), "{described}");

    // By flavors, as whoever keeps templates beside Elemental's.
    let elemental = format!("elemental:{ELEMENTAL_VERSION}");
    let of = |flavor: &'static str| ["--infrastructure", elemental.as_str(), "--flavor", flavor];
    let plane = first
        .comes("farm", &of("kedge-rke2"), "v1.36.3+rke2r1")
        .await;
    assert_eq!(plane.types.as_ref().unwrap().kind, "RKE2ControlPlane");
    let commands = plane.data["spec"]["preRKE2Commands"].to_string();
    assert!(commands.contains("kedge vip wait"), "{commands}");
    let balancer = first.site.get(BALANCER, "farm").await.unwrap();
    let ports = balancer.data["status"].to_string();
    println!("{ports}");
    assert_eq!(balancer.data["spec"]["preset"], "rke2");

    let plane = first.comes("shop", &of("kedge-k3s"), "v1.36.3+k3s1").await;
    assert_eq!(plane.types.as_ref().unwrap().kind, "KThreesControlPlane");
    let commands = plane.data["spec"]["kthreesConfigSpec"]["preK3sCommands"].to_string();
    assert!(commands.contains("kedge vip wait"), "{commands}");

    // Of the class, which clusterctl brings along.
    let plane = first
        .comes("classy", &of("kedge-topology"), "v1.36.3")
        .await;
    first.has_machine("classy").await;
    let commands = plane.data["spec"]["kubeadmConfigSpec"]["preKubeadmCommands"].to_string();
    assert!(commands.contains("kedge vip wait"), "{commands}");
    first.is_of_its_class("classy").await;
    let flavor = of("kedge-topology-k3s");
    let plane = first.comes("chain", &flavor, "v1.36.3+k3s1").await;
    assert_eq!(plane.types.as_ref().unwrap().kind, "KThreesControlPlane");
    let commands = plane.data["spec"]["kthreesConfigSpec"]["preK3sCommands"].to_string();
    assert!(commands.contains("kedge vip wait"), "{commands}");
    first.is_of_its_class("chain").await;
    let flavor = of("kedge-topology-rke2");
    let plane = first.comes("ranch", &flavor, "v1.36.3+rke2r1").await;
    assert_eq!(plane.types.as_ref().unwrap().kind, "RKE2ControlPlane");
    assert_eq!(
        plane.data["spec"]["registrationMethod"],
        "control-plane-endpoint"
    );
    let commands = plane.data["spec"]["preRKE2Commands"].to_string();
    assert!(commands.contains("kedge vip wait"), "{commands}");
    let balancer = first.site.get(BALANCER, "ranch").await.unwrap();
    assert_eq!(balancer.data["spec"]["preset"], "rke2");
    first.is_of_its_class("ranch").await;
}

#[tokio::test]
async fn what_a_cluster_that_kedge_manages_waits_for_stands_in_clusterctl_describe() {
    if !ready(&[Program::Clusterctl]) {
        return;
    }
    let _turn = TURN.lock().await;
    let Some(ours) = Ours::shared().await else {
        return;
    };
    let repository = Repository::new();
    let server = ours.stack().server();
    let first = First {
        site: Site::new().await.unwrap(),
        repository: &repository,
    };
    let site = &first.site;
    site.create(
        POOL,
        "small",
        json!({"spec": {"addresses": ["10.20.16.10"], "prefix": 24}}),
    )
    .await;
    let managed = json!({"metadata": {"annotations": {
        "kedge.dev/endpoint-mode": "VIP", "kedge.dev/vip-pool": "small",
        "cluster.x-k8s.io/managed-by": "kedge"}}, "spec": {}});
    let cluster = async |name: &str| {
        let (client, space) = (&site.client, &site.space);
        Cluster::bare(client, space, name, EDGE_TEST, managed.clone(), json!({})).await
    };
    let one = cluster("one").await;
    site.until("one is provisioned", async || one.is_provisioned().await)
        .await;
    let _two = cluster("two").await;
    // The condition stands below its object.
    let ready = |described: &str| -> String {
        let lines = described.lines();
        let mut of_infra = lines.skip_while(|line| !line.contains("EdgeTestCluster "));
        of_infra.nth(1).unwrap_or_default().to_owned()
    };
    // The program blocks this thread, and what else runs on it needs its turn in between.
    site.until("the condition is described", async || {
        ready(&first.described(server, "two")).contains("PoolExhausted")
    })
    .await;
    let described = first.described(server, "two");
    println!("{described}");
    for word in ["Ready", "False", "VIPPool small has 0 of 1 addresses free"] {
        assert!(ready(&described).contains(word), "{word}: {described}");
    }
    // Core says the same of the Cluster.
    site.until("the Cluster says it too", async || {
        let cluster = first.cluster("two").await;
        condition(&cluster, "InfrastructureReady")["reason"] == "PoolExhausted"
    })
    .await;
    let more = json!({"spec": {"addresses": ["10.20.16.10-10.20.16.11"]}});
    site.merge(POOL, "small", more).await;
    site.until("two is provisioned", async || {
        address(&first.cluster("two").await) == "10.20.16.11:6443"
    })
    .await;
    let described = first.described(server, "two");
    println!("{described}");
    assert!(ready(&described).contains("True"), "{described}");
}

/// First clusters in a namespace.
struct First<'a> {
    site: Site,
    repository: &'a Repository,
}

impl First<'_> {
    /// Makes a cluster of a template and waits until it is provisioned; answers with its control
    /// plane.
    async fn comes(&self, name: &str, template: &[&str], version: &str) -> DynamicObject {
        let (client, space) = (&self.site.client, self.site.space.as_str());
        let mut args = vec!["generate", "cluster", name, "--target-namespace", space];
        args.extend(["--kubernetes-version", version]);
        args.extend(["--control-plane-machine-count", "1"]);
        args.extend(template);
        let server = self.site.ours.stack().server();
        let generated = self.repository.run(server, &args, &[("VIP_POOL", "lan")]);
        assert!(!generated.contains("kube-vip"), "{generated}");
        for object in documents(&generated) {
            // Nothing else runs in the way of the endpoint, and nobody gives one.
            let text = object.to_string();
            assert!(!text.contains("controlPlaneEndpoint"), "{text}");
            manifests::apply_in(client, space, &[object]).await;
        }
        eventually(&format!("{name} is provisioned"), LIMIT, async || {
            let cluster = self.cluster(name).await;
            endpoint(&cluster).is_some() && text(&cluster, "/status/phase") == "Provisioned"
        })
        .await;
        let balancer = self.site.get(BALANCER, name).await.unwrap();
        let cluster = self.cluster(name).await;
        let ours = &balancer.data["spec"]["endpoint"]["host"];
        assert_eq!(
            Some(ours.as_str().unwrap()),
            endpoint(&cluster).map(|it| it.0).as_deref()
        );
        self.plane(client, &cluster).await
    }

    async fn plane(&self, client: &Client, cluster: &DynamicObject) -> DynamicObject {
        let reference = &cluster.data["spec"]["controlPlaneRef"];
        let name = reference["name"].as_str().unwrap();
        let kind = match reference["kind"].as_str().unwrap() {
            "RKE2ControlPlane" => rke2::CONTROL_PLANE,
            "KThreesControlPlane" => k3s::CONTROL_PLANE,
            _ => foreign::CONTROL_PLANE,
        };
        let found = kind.of(client, &self.site.space).get(name).await;
        found.unwrap()
    }

    async fn cluster(&self, name: &str) -> DynamicObject {
        let clusters = foreign::CLUSTER.of(&self.site.client, &self.site.space);
        clusters.get(name).await.unwrap()
    }

    /// Waits until core has made of a class what a cluster asks for.
    async fn is_of_its_class(&self, name: &str) {
        eventually(&format!("{name} is of its class"), LIMIT, async || {
            let cluster = self.cluster(name).await;
            condition(&cluster, "TopologyReconciled")["status"] == "True"
        })
        .await;
    }

    /// Waits until the control plane of a cluster makes a machine.
    async fn has_machine(&self, cluster: &str) {
        let machines = foreign::MACHINE.of(&self.site.client, &self.site.space);
        let of_it = format!("{}={cluster}", foreign::CLUSTER_NAME);
        let of_it = ListParams::default().labels(&of_it);
        eventually(&format!("{cluster} has a machine"), LIMIT, async || {
            !machines.list(&of_it).await.unwrap().items.is_empty()
        })
        .await;
    }

    /// What clusterctl says of a cluster.
    fn described(&self, server: &Server, name: &str) -> String {
        let args = [
            "describe",
            "cluster",
            name,
            "--namespace",
            &self.site.space,
            "--show-conditions",
            "all",
        ];
        self.repository.run(server, &args, &[])
    }
}

fn documents(text: &str) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, text).unwrap();
    manifests::read(&file)
}
