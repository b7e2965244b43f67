//! What keeps the manager's hands off an endpoint.

use std::time::Duration;

use kedge_tests_kube::{
    clusters::{Cluster, EDGE_TEST, ELEMENTAL, Provider, endpoint},
    foreign,
    objects::{at, condition},
    stays,
};
use serde_json::{Value, json};

use crate::site::{BALANCER, POOL, Site, address, is_true, ours_in};

#[tokio::test]
async fn nothing_is_filled_while_a_cluster_is_paused() {
    let Some(site) = Site::new().await else {
        return;
    };
    let asks = site.asks("VIP");
    let mut paused = asks.clone();
    paused["cluster.x-k8s.io/paused"] = json!("");
    let by_spec = json!({"spec": {"paused": true}});
    let by_annotation = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    let cases = [
        ("spec", asks.clone(), by_spec),
        ("cluster", asks, by_annotation),
        ("infra", paused, json!({})),
    ];
    let mut clusters = Vec::new();
    for (name, annotations, own) in cases {
        let infra = json!({"metadata": {"annotations": annotations}, "spec": {}});
        let (client, space) = (&site.client, &site.space);
        clusters.push(Cluster::bare(client, space, name, ELEMENTAL, infra, own).await);
    }
    for cluster in &clusters {
        site.says(cluster.name(), "Paused", "True/Paused").await;
    }
    stays("blank", Duration::from_secs(2), async || {
        let mut blank = true;
        for cluster in &clusters {
            blank &= endpoint(&cluster.infrastructure().await.unwrap()).is_none();
        }
        blank
    })
    .await;
    let none = json!({"cluster.x-k8s.io/paused": null});
    clusters[0].merge(json!({"spec": {"paused": false}})).await;
    let unpaused = json!({"metadata": {"annotations": none}});
    clusters[1].merge(unpaused.clone()).await;
    clusters[2].merge_infrastructure(unpaused).await;
    for cluster in &clusters {
        site.until(&format!("{} is provisioned", cluster.name()), async || {
            cluster.is_provisioned().await
        })
        .await;
    }
}

#[tokio::test]
async fn a_cluster_managed_by_kedge_is_provisioned_by_us_in_the_v1beta1_contract() {
    is_managed_by_us(ELEMENTAL, "/status/ready").await;
}

#[tokio::test]
async fn a_cluster_managed_by_kedge_is_provisioned_by_us_in_the_v1beta2_contract() {
    is_managed_by_us(EDGE_TEST, "/status/initialization/provisioned").await;
}

async fn is_managed_by_us(provider: Provider, flag: &str) {
    let Some(site) = Site::new().await else {
        return;
    };
    let mut annotations = site.asks("VIP");
    annotations[foreign::MANAGED_BY] = json!("kedge");
    let infra = json!({"metadata": {"annotations": annotations}, "spec": {}});
    let (client, space) = (&site.client, &site.space);
    let cluster = Cluster::with(client, space, "edge", provider, infra, json!({})).await;
    site.until("provisioned", async || cluster.is_provisioned().await)
        .await;
    site.until("the first machine exists", async || {
        !cluster.machines().await.is_empty()
    })
    .await;
    let infra = cluster.infrastructure().await.unwrap();
    assert_eq!(at(&infra, flag), &json!(true));
    assert!(is_true(&infra, "Ready"));
}

#[tokio::test]
async fn a_cluster_managed_by_somebody_else_is_not_touched() {
    let Some(site) = Site::new().await else {
        return;
    };
    let (client, space) = (&site.client, &site.space);
    let mut made = Vec::new();
    for (name, provider) in [("old", ELEMENTAL), ("new", EDGE_TEST)] {
        let mut annotations = site.asks("VIP");
        annotations[foreign::MANAGED_BY] = json!("terraform");
        let infra = json!({"metadata": {"annotations": annotations}, "spec": {}});
        made.push(Cluster::bare(client, space, name, provider, infra, json!({})).await);
    }
    for cluster in &made {
        let said = site
            .says(cluster.name(), "EndpointPublished", "False/Forbidden")
            .await;
        assert!(said.contains("`terraform`"), "{said}");
    }
    stays("untouched", Duration::from_secs(2), async || {
        let mut untouched = true;
        for cluster in &made {
            let infra = cluster.infrastructure().await.unwrap();
            let fields = infra.metadata.managed_fields.iter().flatten();
            let mut managers = fields.filter_map(|entry| entry.manager.clone());
            untouched &= !managers.any(|manager| manager.starts_with("kedge"));
            untouched &= at(&infra, "/status").is_null();
        }
        untouched
    })
    .await;
}

#[tokio::test]
async fn a_blank_is_filled_only_once_its_cluster_owns_it() {
    let Some(site) = Site::new().await else {
        return;
    };
    let infra = json!({"metadata": {"annotations": site.asks("VIP")}, "spec": {}});
    site.create(ELEMENTAL.cluster, "edge", infra).await;
    stays("blank", Duration::from_secs(2), async || {
        let infra = site.get(ELEMENTAL.cluster, "edge").await.unwrap();
        endpoint(&infra).is_none() && site.get(BALANCER, "edge").await.is_none()
    })
    .await;
    let whole = json!({"spec": {"infrastructureRef": {
        "apiGroup": ELEMENTAL.cluster.group, "kind": ELEMENTAL.cluster.kind, "name": "edge",
    }}});
    site.create(foreign::CLUSTER, "edge", whole).await;
    site.until("filled", async || {
        let infra = site.get(ELEMENTAL.cluster, "edge").await.unwrap();
        let owner = foreign::CLUSTER.owner_of(&infra);
        endpoint(&infra).is_some() && owner.as_deref() == Some("edge")
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_that_contradicts_another_is_refused_with_a_condition() {
    let Some(site) = Site::new().await else {
        return;
    };
    // The Cluster has one already, and it is not ours.
    let infra = json!({"metadata": {"annotations": site.asks("VIP")}, "spec": {}});
    let own = json!({"spec": {"controlPlaneEndpoint": {"host": "192.0.2.50", "port": 6443}}});
    let (client, space) = (&site.client, &site.space);
    let other = Cluster::bare(client, space, "other", ELEMENTAL, infra, own).await;
    let said = site
        .says("other", "EndpointPublished", "False/Conflict")
        .await;
    assert!(said.contains("192.0.2.50:6443"), "{said}");
    // The LoadBalancer says one thing, the infrastructure another.
    let endpoint_at = |host: &str| json!({"host": host, "port": 6443});
    let asked = json!({"spec": {
        "clusterName": "two", "mode": "VIP", "endpoint": endpoint_at("10.20.14.60"),
    }});
    site.create(BALANCER, "two", asked).await;
    let infra = json!({"spec": {"controlPlaneEndpoint": endpoint_at("10.20.14.61")}});
    let two = Cluster::bare(client, space, "two", ELEMENTAL, infra, json!({})).await;
    site.says("two", "EndpointPublished", "False/Conflict")
        .await;
    stays("nothing is written", Duration::from_secs(1), async || {
        let (other, two) = (other.infrastructure().await, two.infrastructure().await);
        let (other, two) = (other.unwrap(), two.unwrap());
        endpoint(&other).is_none() && ours_in(&two).is_none() && address(&two) == "10.20.14.61:6443"
    })
    .await;
}

#[tokio::test]
async fn a_users_endpoint_is_kept_and_served() {
    let Some(site) = Site::new().await else {
        return;
    };
    let endpoint = json!({"host": "10.20.14.60", "port": 6444});
    let infra = json!({
        "metadata": {"annotations": site.asks("VIP")},
        "spec": {"controlPlaneEndpoint": endpoint},
    });
    let (client, space) = (&site.client, &site.space);
    let cluster = Cluster::bare(client, space, "edge", ELEMENTAL, infra, json!({})).await;
    site.says("edge", "EndpointPublished", "True/UserProvided")
        .await;
    site.until("provisioned", async || cluster.is_provisioned().await)
        .await;
    let infra = cluster.infrastructure().await.unwrap();
    assert_eq!(address(&infra), "10.20.14.60:6444");
    assert!(ours_in(&infra).is_none());
}

#[tokio::test]
async fn an_endpoint_that_is_set_never_changes() {
    let Some(site) = Site::new().await else {
        return;
    };
    let infra = json!({"metadata": {"annotations": site.asks("VIP")}, "spec": {}});
    let (client, space) = (&site.client, &site.space);
    let cluster = Cluster::bare(client, space, "edge", ELEMENTAL, infra, json!({})).await;
    site.until("provisioned", async || cluster.is_provisioned().await)
        .await;
    let set = address(&cluster.infrastructure().await.unwrap());
    // Everything it came from changes or goes.
    let asks: Value = site.asks("Tunnel");
    let annotations = json!({"metadata": {"annotations": asks}});
    cluster.merge_infrastructure(annotations).await;
    site.delete(POOL, "lan").await;
    site.says("edge", "MatchesConfig", "False/RolloutRequired")
        .await;
    stays("the same", Duration::from_secs(2), async || {
        let infra = cluster.infrastructure().await.unwrap();
        address(&infra) == set && address(&cluster.cluster().await) == set
    })
    .await;
    let balancer = site.get(BALANCER, "edge").await.unwrap();
    assert_eq!(at(&balancer, "/spec/mode"), &json!("VIP"));
    assert_eq!(condition(&balancer, "EndpointPublished")["status"], "True");
}

#[tokio::test]
async fn a_cluster_that_is_deleted_goes_with_everything_and_leaves_no_ghost() {
    let Some(site) = Site::new().await else {
        return;
    };
    let infra = json!({"metadata": {"annotations": site.asks("VIP")}, "spec": {}});
    let (client, space) = (&site.client, &site.space);
    let mut clusters = Vec::new();
    for (name, provider) in [("old", ELEMENTAL), ("new", EDGE_TEST)] {
        let made = Cluster::bare(client, space, name, provider, infra.clone(), json!({})).await;
        clusters.push((made, provider));
    }
    for (cluster, _) in &clusters {
        site.until("provisioned", async || cluster.is_provisioned().await)
            .await;
    }
    for (cluster, _) in &clusters {
        site.delete(foreign::CLUSTER, cluster.name()).await;
    }
    for (cluster, provider) in &clusters {
        site.gone(foreign::CLUSTER, cluster.name()).await;
        site.gone(provider.cluster, cluster.name()).await;
        site.gone(BALANCER, cluster.name()).await;
    }
    stays("nothing comes back", Duration::from_secs(2), async || {
        let mut gone = true;
        for (cluster, provider) in &clusters {
            gone &= site.get(provider.cluster, cluster.name()).await.is_none();
            gone &= site.get(BALANCER, cluster.name()).await.is_none();
        }
        gone
    })
    .await;
}
