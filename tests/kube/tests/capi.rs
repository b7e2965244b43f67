//! Facts about Cluster API's own managers that the manager is built on.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::time::Duration;

use kedge_tests_kube::{
    clusters::{Cluster, EDGE_TEST, ELEMENTAL, FIELD_MANAGER, Provider, endpoint},
    eventually, foreign,
    objects::{at, condition, text},
    stack::Stack,
    stays,
};
use kube::api::DynamicObject;
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_blank_cluster_of_the_v1beta1_contract_moves_as_soon_as_an_endpoint_is_applied() {
    let Some(stack) = Stack::shared().await else {
        return;
    };
    let (client, space) = stack.space().await;
    let cluster = Cluster::blank(&client, &space, "blank", ELEMENTAL).await;
    eventually("told that the endpoint is missing", LIMIT, async || {
        let infra = cluster.infrastructure().await.unwrap();
        condition(&infra, "ControlPlaneEndpointReady")["reason"] == "MissingControlPlaneEndpoint"
    })
    .await;
    let infra = cluster.infrastructure().await.unwrap();
    assert_eq!(condition(&infra, "Ready")["severity"], "Error");
    assert_eq!(at(&infra, "/status/ready"), &json!(false));
    moves_when_filled(&cluster).await;
    // What clients as old as Elemental's see: the managers convert.
    let old = foreign::CLUSTER_V1BETA1.of(&client, &space);
    let old = old.get("blank").await.unwrap();
    assert_eq!(at(&old, "/status/infrastructureReady"), &json!(true));
    assert_eq!(text(&old, "/spec/infrastructureRef/namespace"), space);
}

#[tokio::test]
async fn a_blank_cluster_of_the_v1beta2_contract_moves_as_soon_as_an_endpoint_is_applied() {
    let Some(stack) = Stack::shared().await else {
        return;
    };
    let (client, space) = stack.space().await;
    let cluster = Cluster::blank(&client, &space, "blank", EDGE_TEST).await;
    moves_when_filled(&cluster).await;
}

#[tokio::test]
async fn an_endpoint_left_out_of_a_v1beta1_class_is_filled_without_a_fight() {
    survives_topology_reconciles(ELEMENTAL).await;
}

#[tokio::test]
async fn an_endpoint_left_out_of_a_v1beta2_class_is_filled_without_a_fight() {
    survives_topology_reconciles(EDGE_TEST).await;
}

#[tokio::test]
async fn a_class_with_an_empty_host_never_gets_an_infrastructure_cluster() {
    let Some(stack) = Stack::shared().await else {
        return;
    };
    let (client, space) = stack.space().await;
    // As Elemental's own classes ship it.
    let empty = json!({"controlPlaneEndpoint": {"host": "", "port": 6443}});
    let cluster = Cluster::of_class(&client, &space, "empty", ELEMENTAL, empty).await;
    eventually("the topology says why it stands still", LIMIT, async || {
        let cluster = cluster.cluster().await;
        let message = condition(&cluster, "TopologyReconciled")["message"].clone();
        let message = message.as_str().unwrap_or_default();
        message.contains("controlPlaneEndpoint.host: Required value")
    })
    .await;
    assert!(cluster.infrastructure().await.is_none());
}

/// Nothing moves without an endpoint; one apply of it is enough.
async fn moves_when_filled(cluster: &Cluster) {
    eventually("the infrastructure is owned", LIMIT, async || {
        let infra = cluster.infrastructure().await.unwrap();
        infra.metadata.owner_references.is_some()
    })
    .await;
    stays("nothing moves", Duration::from_secs(2), async || {
        cluster.machines().await.is_empty()
            && endpoint(&cluster.cluster().await).is_none()
            && !is_provisioned(&cluster.cluster().await)
    })
    .await;
    let infra = cluster.infrastructure().await.unwrap();
    cluster.fill(&infra, "192.0.2.10", 6443).await.unwrap();
    let wanted = Some(("192.0.2.10".to_owned(), 6443));
    eventually("the Cluster has the endpoint", LIMIT, async || {
        endpoint(&cluster.cluster().await) == wanted
    })
    .await;
    eventually("the Cluster is Provisioned", LIMIT, async || {
        let cluster = cluster.cluster().await;
        is_provisioned(&cluster) && text(&cluster, "/status/phase") == "Provisioned"
    })
    .await;
    eventually("the first Machine exists", LIMIT, async || {
        !cluster.machines().await.is_empty()
    })
    .await;
}

async fn survives_topology_reconciles(provider: Provider) {
    let Some(stack) = Stack::shared().await else {
        return;
    };
    let (client, space) = stack.space().await;
    let cluster = Cluster::of_class(&client, &space, "class", provider, json!({})).await;
    eventually("the topology made its parts", LIMIT, async || {
        cluster.infrastructure().await.is_some() && cluster.control_plane().await.is_some()
    })
    .await;
    let infra = cluster.infrastructure().await.unwrap();
    assert_eq!(endpoint(&infra), None);
    cluster.fill(&infra, "192.0.2.11", 6443).await.unwrap();
    eventually("the Cluster has the endpoint", LIMIT, async || {
        endpoint(&cluster.cluster().await).is_some()
    })
    .await;
    let filled = cluster.infrastructure().await.unwrap();
    for round in 0..10 {
        // The controller writes the infrastructure first, then the control plane: once the
        // annotation arrived there, it has looked at both.
        let annotations = json!({"kedge.dev/round": round.to_string()});
        let topology = json!({"controlPlane": {"metadata": {"annotations": annotations}}});
        cluster.merge(json!({"spec": {"topology": topology}})).await;
        eventually("a topology reconcile", LIMIT, async || {
            let control_plane = cluster.control_plane().await.unwrap();
            let annotations = control_plane.metadata.annotations.unwrap_or_default();
            annotations.get("kedge.dev/round") == Some(&round.to_string())
        })
        .await;
    }
    let after = cluster.infrastructure().await.unwrap();
    assert_eq!(endpoint(&after), Some(("192.0.2.11".to_owned(), 6443)));
    assert_eq!(after.metadata.generation, filled.metadata.generation);
    assert_eq!(ours(&after), ours(&filled));
    assert!(ours(&after).is_some());
}

fn is_provisioned(cluster: &DynamicObject) -> bool {
    at(cluster, "/status/initialization/infrastructureProvisioned") == &json!(true)
}

/// What the field manager of endpoints owns, and since when.
fn ours(object: &DynamicObject) -> Option<serde_json::Value> {
    let all = object.metadata.managed_fields.iter().flatten();
    let mut of_us = all.filter(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER));
    of_us.next().map(|entry| json!(entry))
}
