//! What a LoadBalancer can be asked for: several at once, ports, others' work, a moving endpoint.

use k8s_openapi::api::core::v1::Secret;
use kedge_tests_kube::{
    clusters::{Cluster, EDGE_TEST},
    edgetest, foreign,
    objects::{at, text},
};
use kube::Api;
use serde_json::{Value, json};

use crate::{
    fleet::Fleet,
    site::{BALANCER, GATEWAY_ADDRESS, HOST, Site, address, annotation},
};

async fn blank(site: &Site, name: &str) -> Cluster {
    let (client, space) = (&site.client, &site.space);
    let infra = json!({"spec": {}});
    Cluster::bare(client, space, name, EDGE_TEST, infra, json!({})).await
}

#[tokio::test]
async fn a_cluster_has_an_internal_and_an_external_load_balancer() {
    let Some(fleet) = Fleet::of(&["cp-a"], json!({})).await else {
        return;
    };
    let site = &fleet.site;
    let filled = address(&fleet.cluster.cluster().await);
    let outside = json!({"spec": {
        "clusterName": "edge", "mode": "Tunnel",
        "gatewayRef": {"name": "gw", "namespace": site.space},
        "selector": {"matchLabels": {foreign::CLUSTER_NAME: "edge"}},
    }});
    site.create(BALANCER, "outside", outside).await;
    site.says("outside", "EndpointPublished", "True/Beside")
        .await;
    let object = site.get(BALANCER, "outside").await.unwrap();
    assert_eq!(text(&object, "/status/endpoint/host"), GATEWAY_ADDRESS);
    assert_eq!(at(&object, "/status/targetCount"), &json!(1));
    assert_eq!(address(&fleet.cluster.cluster().await), filled);
    // The target shows the one that fills the endpoint.
    let machine = site.get(foreign::MACHINE, "cp-a").await.unwrap();
    let name = annotation(&machine, "loadbalancer.cluster.x-k8s.io/name");
    assert_eq!(name, "edge");
    // By default it takes the machines that carry its name.
    let named = json!({"spec": {
        "clusterName": "edge", "mode": "VIP", "vip": {"poolRef": {"name": "lan"}},
    }});
    site.create(BALANCER, "inside", named).await;
    site.says("inside", "EndpointPublished", "True/Beside")
        .await;
    let object = site.get(BALANCER, "inside").await.unwrap();
    assert_eq!(
        text(&object, "/status/targetSelector"),
        "cluster.x-k8s.io/cluster-name=edge,loadbalancer.cluster.x-k8s.io/name=inside"
    );
    assert_eq!(at(&object, "/status/targetCount"), &json!(0));
    let label = json!({"metadata": {"labels": {"loadbalancer.cluster.x-k8s.io/name": "inside"}}});
    site.merge(foreign::MACHINE, "cp-a", label).await;
    site.until("the host is in both VIPs", async || {
        fleet.hosts[0].vips() == ["edge", "inside"]
    })
    .await;
}

#[tokio::test]
async fn a_preset_adds_the_port_where_nodes_of_rke2_join() {
    let Some(site) = Site::new().await else {
        return;
    };
    let asked = json!({"spec": {
        "clusterName": "edge", "mode": "Tunnel", "preset": "rke2",
        "gatewayRef": {"name": "gw", "namespace": site.space},
    }});
    site.create(BALANCER, "edge", asked).await;
    let cluster = blank(&site, "edge").await;
    site.until("provisioned", async || cluster.is_provisioned().await)
        .await;
    let ports = async || {
        let object = site.get(BALANCER, "edge").await.unwrap();
        at(&object, "/status/gateway/ports").clone()
    };
    site.until("both ports are there", async || {
        let ports = ports().await;
        ports["api"].is_number() && ports["join"].is_number() && ports["api"] != ports["join"]
    })
    .await;
    let api = ports().await["api"].clone();
    let wanted = format!("{GATEWAY_ADDRESS}:{api}");
    assert_eq!(address(&cluster.cluster().await), wanted);
}

#[tokio::test]
async fn a_load_balancer_of_somebody_else_brings_the_endpoint() {
    let Some(site) = Site::new().await else {
        return;
    };
    let kind = edgetest::LOAD_BALANCER;
    let asked = json!({"spec": {"clusterName": "edge", "infrastructureRef": {
        "apiGroup": kind.group, "kind": kind.kind, "name": "theirs",
    }}});
    site.create(BALANCER, "edge", asked).await;
    let cluster = blank(&site, "edge").await;
    site.says(
        "edge",
        "EndpointPublished",
        "False/WaitingForInfrastructure",
    )
    .await;
    site.create(kind, "theirs", json!({"spec": {}})).await;
    let endpoint = json!({"spec": {"endpoint": {"host": "192.0.2.90", "port": 443}}});
    site.merge(kind, "theirs", endpoint).await;
    site.until("provisioned", async || cluster.is_provisioned().await)
        .await;
    assert_eq!(address(&cluster.cluster().await), "192.0.2.90:443");
    site.says("edge", "IsReachable", "Unknown/NotReported")
        .await;
}

#[tokio::test]
async fn an_endpoint_that_follows_its_target_moves_in_the_cluster_and_its_kubeconfig() {
    let Some(site) = Site::new().await else {
        return;
    };
    let mut hosts = Vec::new();
    for (at, name) in ["host-a", "host-b"].into_iter().enumerate() {
        hosts.push(site.host(name, &format!("10.20.14.{}", 31 + at)).await);
    }
    let asked = json!({"spec": {
        "clusterName": "edge", "mode": "HostAddress", "endpointPolicy": "FollowTarget",
        "targetKind": {"apiGroup": "kedge.dev", "kind": "EdgeHost"},
        "selector": {"matchLabels": {"kedge.dev/site": site.space}},
    }});
    site.create(BALANCER, "edge", asked).await;
    let (client, space) = (&site.client, &site.space);
    let infra: Value = json!({"spec": {}});
    let cluster = Cluster::with(client, space, "edge", EDGE_TEST, infra, json!({})).await;
    site.until("provisioned", async || cluster.is_provisioned().await)
        .await;
    assert_eq!(address(&cluster.cluster().await), "10.20.14.31:6443");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), space);
    let leads = async |to: &str| {
        let secret = secrets.get_opt("edge-kubeconfig").await.unwrap();
        let value = secret.and_then(|secret| secret.data?.remove("value"));
        let text = value.map(|value| String::from_utf8(value.0).unwrap());
        text.is_some_and(|text| text.contains(&format!("server: https://{to}\n")))
    };
    site.until("its control plane wrote the kubeconfig", async || {
        leads("10.20.14.31:6443").await
    })
    .await;
    drop(hosts.remove(0));
    site.delete(HOST, "host-a").await;
    site.until("it moved in both", async || {
        let infra = cluster.infrastructure().await.unwrap();
        let moved = "10.20.14.32:6443";
        address(&infra) == moved && address(&cluster.cluster().await) == moved
    })
    .await;
    site.until("the kubeconfig moved as well", async || {
        leads("10.20.14.32:6443").await
    })
    .await;
    site.says("edge", "Degraded", "True/EndpointMoved").await;
    site.says("edge", "MatchesConfig", "False/RolloutRequired")
        .await;
}
