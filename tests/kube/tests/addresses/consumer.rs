//! VIPs from the pools of the real in-cluster provider, and from our own by claim.

use std::time::Duration;

use kedge_tests_kube::{
    clusters::{Cluster, EDGE_TEST, endpoint},
    edge::Edge,
    foreign,
    objects::{at, label, text},
    stays,
};
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::site::{BALANCER, HOLD, POOL, Site, TENANT, is_held};

#[tokio::test]
async fn a_vip_is_filled_from_a_claim_and_an_address_of_each_family_is_held() {
    let Some(site) = Site::new().await else {
        return;
    };
    foreign_pool(&site, "four", "192.0.2.10-192.0.2.19", 24, "192.0.2.1").await;
    foreign_pool(&site, "six", "fd00::10-fd00::19", 64, "fd00::1").await;
    let cluster = bare(&site, "edge").await;
    let vip = json!({"poolRef": theirs("four"), "second": {"poolRef": theirs("six")}});
    balance(&site, "edge", vip, json!({})).await;
    filled(&site, &cluster, "192.0.2.10").await;
    site.says(
        BALANCER,
        "edge",
        "DualStack",
        "False/FamilyUnsupported: fd00::10",
    )
    .await;
    site.says(BALANCER, "edge", "EndpointPublished", "True")
        .await;
    let balancer = site.get(BALANCER, "edge").await.unwrap();
    let vip = at(&balancer, "/status/vip");
    let told = json!({"address": "192.0.2.10", "prefix": 24, "claimRef": "edge-vip-ipv4",
        "second": {"address": "fd00::10", "prefix": 64, "claimRef": "edge-vip-ipv6"}});
    assert_eq!(vip, &told);
    for name in ["edge-vip-ipv4", "edge-vip-ipv6"] {
        let claim = site.get(foreign::CLAIM, name).await.unwrap();
        assert_eq!(text(&claim, "/spec/clusterName"), "edge");
        assert_eq!(label(&claim, foreign::CLUSTER_NAME), "edge");
        let owner = claim.metadata.owner_references.unwrap().remove(0);
        assert_eq!(Some(owner.uid), balancer.metadata.uid);
        assert_eq!(owner.controller, Some(true));
        assert_eq!(owner.block_owner_deletion, Some(true));
        site.until(&format!("{name} is held"), async || {
            let address = site.get(foreign::ADDRESS, name).await.unwrap();
            is_held(&address, HOLD)
        })
        .await;
    }
}

#[tokio::test]
async fn an_exhausted_pool_is_shown_and_filled_from_once_an_address_is_freed() {
    let Some(site) = Site::new().await else {
        return;
    };
    foreign_pool(&site, "one", "192.0.2.20", 24, "192.0.2.1").await;
    let cluster = bare(&site, "edge").await;
    let claim = json!({"spec": {"clusterName": "edge", "poolRef": theirs("one")}});
    site.create(foreign::CLAIM, "first", claim).await;
    site.served("first").await;
    balance(&site, "edge", json!({"poolRef": theirs("one")}), json!({})).await;
    let said = "False/PoolExhausted: InClusterIPPool one has 0 of 1";
    site.says(BALANCER, "edge", "EndpointPublished", said).await;
    assert!(endpoint(&cluster.infrastructure().await.unwrap()).is_none());
    site.delete(foreign::CLAIM, "first").await;
    filled(&site, &cluster, "192.0.2.20").await;
    site.says(BALANCER, "edge", "EndpointPublished", "True")
        .await;
}

#[tokio::test]
async fn a_vip_from_a_pool_of_ours_is_a_claim_like_any_other() {
    let Some(site) = Site::new().await else {
        return;
    };
    site.pool("lan", &["192.0.2.30-192.0.2.31"], json!({}))
        .await;
    site.claim("another", "lan").await;
    assert_eq!(site.served("another").await, "192.0.2.30");
    let cluster = bare(&site, "edge").await;
    balance(
        &site,
        "edge",
        json!({"poolRef": {"name": "lan"}}),
        json!({}),
    )
    .await;
    filled(&site, &cluster, "192.0.2.31").await;
    assert_eq!(site.served("edge-vip-ipv4").await, "192.0.2.31");
    site.until("the claim is told", async || {
        let balancer = site.get(BALANCER, "edge").await.unwrap();
        text(&balancer, "/status/vip/claimRef") == "edge-vip-ipv4"
    })
    .await;
    let late = bare(&site, "late").await;
    balance(
        &site,
        "late",
        json!({"poolRef": {"name": "lan"}}),
        json!({}),
    )
    .await;
    let said = "False/PoolExhausted: VIPPool lan has 0 of 2";
    site.says(BALANCER, "late", "EndpointPublished", said).await;
    site.delete(foreign::CLAIM, "another").await;
    filled(&site, &late, "192.0.2.30").await;
    assert_eq!(site.served("late-vip-ipv4").await, "192.0.2.30");
    site.until("both are in use", async || {
        site.counts(POOL, "lan").await == [2, 0, 2, 0]
    })
    .await;
}

#[tokio::test]
async fn an_address_is_held_until_the_last_host_gave_the_vip_up() {
    let Some(site) = Site::new().await else {
        return;
    };
    let (cluster, host) = held(&site, "192.0.2.40", json!({"timeout": "600s"})).await;
    host.hangs();
    leave(&site, &cluster).await;
    let said = site
        .says(BALANCER, "edge", "VIPWithdrawn", "False/UnconfirmedHolder")
        .await;
    assert!(said.contains("host-a"), "{said}");
    stays("the address is held", Duration::from_secs(2), async || {
        let claim = site.get(foreign::CLAIM, "edge-vip-ipv4").await;
        let address = site.get(foreign::ADDRESS, "edge-vip-ipv4").await;
        claim.is_some() && address.is_some_and(|address| is_held(&address, HOLD))
    })
    .await;
    host.obeys();
    site.gone(BALANCER, "edge").await;
    site.gone(foreign::CLAIM, "edge-vip-ipv4").await;
    site.gone(foreign::ADDRESS, "edge-vip-ipv4").await;
    assert!(host.vips().is_empty());
}

#[tokio::test]
async fn an_address_of_a_dead_host_is_released_after_the_bounded_wait() {
    let Some(site) = Site::new().await else {
        return;
    };
    let (cluster, host) = held(&site, "192.0.2.50", json!({"timeout": "3s"})).await;
    host.dies();
    leave(&site, &cluster).await;
    site.says(BALANCER, "edge", "VIPWithdrawn", "False/UnconfirmedHolder")
        .await;
    site.gone(BALANCER, "edge").await;
    site.gone(foreign::CLAIM, "edge-vip-ipv4").await;
    site.gone(foreign::ADDRESS, "edge-vip-ipv4").await;
}

/// A cluster whose VIP from the in-cluster provider stands on a host.
async fn held(site: &Site, address: &str, drain: Value) -> (Cluster, Edge) {
    let tenants = TENANT.everywhere(&site.client);
    let tenant = json!({"spec": {"namespace": site.space, "enrollment": {
        "maxHosts": 3, "hostLabels": {"kedge.dev/site": site.space},
    }}});
    let tenant = TENANT.object(&site.space, tenant);
    tenants
        .create(&PostParams::default(), &tenant)
        .await
        .unwrap();
    foreign_pool(site, "lan", address, 24, "192.0.2.1").await;
    let host = Edge::enrol(&site.ours, &site.space, "host-a", "192.0.2.11", None).await;
    let cluster = bare(site, "edge").await;
    let labels = json!({"matchLabels": {"kedge.dev/site": site.space}});
    let more = json!({"drain": drain, "selector": labels,
        "targetKind": {"apiGroup": "kedge.dev", "kind": "EdgeHost"}});
    balance(site, "edge", json!({"poolRef": theirs("lan")}), more).await;
    filled(site, &cluster, address).await;
    site.until("the host has the VIP", async || host.vips() == ["edge"])
        .await;
    site.until("the host told so", async || {
        let hosts = HOST.of(&site.client, &site.space);
        let host = hosts.get("host-a").await.unwrap();
        text(&host, "/status/vips/0/lb") == "edge"
    })
    .await;
    (cluster, host)
}

/// The cluster is deleted, and with it its LoadBalancer.
async fn leave(site: &Site, cluster: &Cluster) {
    site.delete(foreign::CLUSTER, cluster.name()).await;
    site.gone(foreign::CLUSTER, cluster.name()).await;
    let balancers = BALANCER.of(&site.client, &site.space);
    balancers.delete("edge", &Default::default()).await.unwrap();
}

async fn foreign_pool(site: &Site, name: &str, addresses: &str, prefix: u8, gateway: &str) {
    let spec = json!({"addresses": [addresses], "prefix": prefix, "gateway": gateway});
    site.create(foreign::POOL, name, json!({ "spec": spec }))
        .await;
}

async fn bare(site: &Site, name: &str) -> Cluster {
    let (client, space) = (&site.client, &site.space);
    Cluster::bare(
        client,
        space,
        name,
        EDGE_TEST,
        json!({"spec": {}}),
        json!({}),
    )
    .await
}

async fn balance(site: &Site, name: &str, vip: Value, more: Value) {
    let mut spec = json!({"clusterName": name, "mode": "VIP", "vip": vip});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    site.create(BALANCER, name, json!({ "spec": spec })).await;
}

async fn filled(site: &Site, cluster: &Cluster, address: &str) {
    let name = cluster.name();
    site.until(&format!("{name} is filled"), async || {
        let infra = cluster.infrastructure().await.unwrap();
        endpoint(&infra) == Some((address.to_owned(), 6443))
    })
    .await;
}

fn theirs(pool: &str) -> Value {
    json!({"apiGroup": foreign::POOL.group, "kind": foreign::POOL.kind, "name": pool})
}

const HOST: kedge_tests_kube::objects::Kind =
    kedge_tests_kube::objects::Kind::new("kedge.dev", "v1alpha1", "EdgeHost");
