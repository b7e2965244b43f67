//! Targets on real Machines: their states, and the deletion that waits for the traffic to go.

use std::time::Duration;

use kedge_tests_kube::{
    foreign,
    hub::Hub,
    objects::{at, condition, text},
    stays,
};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::{
    fleet::{Fleet, PRE_DRAIN},
    site::{BALANCER, LIMIT, TCP, annotation, state},
};

#[tokio::test]
async fn a_target_walks_through_its_states_as_its_annotations_say() {
    let Some(fleet) = Fleet::of(&["cp-a", "cp-b"], json!({})).await else {
        return;
    };
    let site = &fleet.site;
    site.until("the status counts both", async || {
        let balancer = site.get(BALANCER, "edge").await.unwrap();
        at(&balancer, "/status/activeCount") == &json!(2)
            && text(&balancer, "/status/vip/holder") == "cp-a"
    })
    .await;
    let machine = site.get(foreign::MACHINE, "cp-b").await.unwrap();
    let name = annotation(&machine, "loadbalancer.cluster.x-k8s.io/name");
    assert_eq!(name, "edge");
    let disabled = "loadbalancer.cluster.x-k8s.io/disabled";
    for key in [disabled, "kedge.dev/lb-disabled"] {
        // It is still in the VIP, and says so, until it has taken that out of use.
        fleet.hosts[1].hangs();
        site.annotate(foreign::MACHINE, "cp-b", json!({key: ""}))
            .await;
        fleet.shows("cp-b", "disabling", true).await;
        fleet.hosts[1].obeys();
        fleet.shows("cp-b", "disabled", false).await;
        assert_eq!(fleet.hosts[1].vips(), [""; 0]);
        site.annotate(foreign::MACHINE, "cp-b", json!({key: null}))
            .await;
        fleet.shows("cp-b", "active", true).await;
    }
    site.says("edge", "IsReachable", "True/Serving: cp-a holds")
        .await;
}

#[tokio::test]
async fn a_machine_is_deleted_only_after_its_traffic_is_gone() {
    let Some(fleet) = Fleet::of(&["cp-a", "cp-b"], json!({})).await else {
        return;
    };
    let site = &fleet.site;
    fleet.hosts[0].hangs();
    site.delete(foreign::MACHINE, "cp-a").await;
    // Core writes conditions first, and then the rest of a status.
    let is_waited_for = |machine: &DynamicObject| {
        !text(machine, "/status/deletion/waitForPreDrainHookStartTime").is_empty()
    };
    site.until("core waits for us", async || {
        let machine = site.get(foreign::MACHINE, "cp-a").await.unwrap();
        condition(&machine, "Deleting")["reason"] == "WaitingForPreDrainHook"
            && is_waited_for(&machine)
    })
    .await;
    fleet.shows("cp-a", "removing", true).await;
    stays("it waits", Duration::from_secs(2), async || {
        let machine = site.get(foreign::MACHINE, "cp-a").await.unwrap();
        is_waited_for(&machine)
            && annotation(&machine, PRE_DRAIN) == "kedge-manager"
            && state(&machine) == "removing"
    })
    .await;
    fleet.hosts[0].obeys();
    site.gone(foreign::MACHINE, "cp-a").await;
    fleet.shows("cp-b", "active", true).await;
}

#[tokio::test]
async fn a_hook_goes_after_its_timeout_when_the_agent_is_dead() {
    let drain = json!({"drain": {"timeout": "5s"}});
    let Some(fleet) = Fleet::of(&["cp-a", "cp-b"], drain).await else {
        return;
    };
    let site = &fleet.site;
    fleet.hosts[0].dies();
    site.delete(foreign::MACHINE, "cp-a").await;
    fleet.shows("cp-a", "removing", true).await;
    site.gone(foreign::MACHINE, "cp-a").await;
}

/// Beside the VIP, port 30080 of both hosts is offered at the gateway, of which an instance says what is
/// open to what it leaves.
async fn offered(fleet: &Fleet, drain: Value) -> Hub {
    let site = &fleet.site;
    let space = &site.space;
    let gateway = json!({"name": "gw", "namespace": space});
    let tenant = json!({"gatewayRef": gateway, "drain": drain});
    site.tenant(tenant).await;
    let hub = Hub::enrol(&site.ours, &format!("{space}/gw"), "gw-0").await;
    let selected = json!({"matchLabels": {"kedge.dev/site": space}});
    let web = json!({"spec": {
        "ports": [{"name": "http", "port": 80}],
        "endpoints": [{"hostSelector": selected, "ports": [{"name": "http", "port": 30080}]}],
    }});
    site.create(TCP, "web", web).await;
    site.until("the gateway leads to both hosts", async || {
        hub.backends().len() == 2
    })
    .await;
    hub
}

#[tokio::test]
async fn a_machine_is_deleted_once_nothing_is_open_to_its_host_at_the_gateway() {
    let Some(fleet) = Fleet::of(&["cp-a", "cp-b"], json!({})).await else {
        return;
    };
    let site = &fleet.site;
    let hub = offered(&fleet, json!({"timeout": "1h"})).await;
    hub.open(3);
    let host = |machine: &str| format!("{}/{machine}:30080", site.space);
    site.delete(foreign::MACHINE, "cp-b").await;
    site.until("the gateway leaves it", async || {
        hub.backends().contains(&(host("cp-b"), true))
    })
    .await;
    assert!(hub.backends().contains(&(host("cp-a"), false)));
    fleet.shows("cp-b", "removing", true).await;
    // "removing" is ours alone: Cluster API says in its own time that it came to the hook.
    let waits = async || {
        let machine = site.get(foreign::MACHINE, "cp-b").await.unwrap();
        condition(&machine, "Deleting")["reason"] == "WaitingForPreDrainHook"
            && annotation(&machine, PRE_DRAIN) == "kedge-manager"
            && !annotation(&machine, "kedge.dev/draining-until").is_empty()
    };
    site.until("core waits for us", waits).await;
    stays("it waits", Duration::from_secs(2), waits).await;
    hub.open(0);
    site.gone(foreign::MACHINE, "cp-b").await;
    site.until("it is no backend any more", async || {
        hub.backends() == [(host("cp-a"), false)]
    })
    .await;
    fleet.shows("cp-a", "active", true).await;
}

#[tokio::test]
async fn a_machine_is_deleted_after_the_timeout_though_its_host_is_busy_and_the_gateway_away() {
    let Some(fleet) = Fleet::of(&["cp-a", "cp-b"], json!({"drain": {"timeout": "1s"}})).await
    else {
        return;
    };
    let site = &fleet.site;
    let hub = offered(&fleet, json!({"timeout": "4s"})).await;
    hub.open(7);
    let begun = std::time::Instant::now();
    site.delete(foreign::MACHINE, "cp-b").await;
    site.until("the gateway leaves it", async || {
        hub.backends().iter().any(|(_, left)| *left)
    })
    .await;
    hub.dies();
    site.gone(foreign::MACHINE, "cp-b").await;
    assert!(
        begun.elapsed() > Duration::from_secs(2),
        "it was waited for"
    );
}

#[tokio::test]
async fn a_cluster_is_deleted_whatever_its_hosts_do() {
    let drain = json!({"drain": {"timeout": "1h"}});
    let Some(fleet) = Fleet::of(&["cp-a", "cp-b"], drain).await else {
        return;
    };
    let site = &fleet.site;
    fleet.hosts[0].dies();
    fleet.hosts[1].hangs();
    site.delete(foreign::CLUSTER, "edge").await;
    for machine in ["cp-a", "cp-b"] {
        site.gone(foreign::MACHINE, machine).await;
    }
    site.gone(foreign::CLUSTER, "edge").await;
    // The address goes to nobody else while a host may still have it: that is not waited for.
}

#[tokio::test]
async fn a_load_balancer_whose_cluster_lives_cannot_be_deleted_unless_it_is_forced() {
    let Some(fleet) = Fleet::of(&["cp-a"], json!({})).await else {
        return;
    };
    let site = &fleet.site;
    let before = site.get(BALANCER, "edge").await.unwrap();
    assert_eq!(
        before.metadata.finalizers,
        Some(vec!["kedge.dev/loadbalancer".to_owned()])
    );
    let owner = foreign::CLUSTER.owner_of(&before);
    assert_eq!(owner.as_deref(), Some("edge"), "it goes and moves with it");
    site.delete(BALANCER, "edge").await;
    site.says("edge", "Degraded", "True/DeletionBlocked").await;
    stays("it goes on", Duration::from_secs(2), async || {
        let machine = site.get(foreign::MACHINE, "cp-a").await.unwrap();
        fleet.hosts[0].vips() == ["edge"] && state(&machine) == "active"
    })
    .await;
    let forced = json!({"kedge.dev/force-release": ""});
    site.annotate(BALANCER, "edge", forced).await;
    site.gone(BALANCER, "edge").await;
    site.until("the host has no VIP any more", async || {
        fleet.hosts[0].vips().is_empty()
    })
    .await;
    site.until("no hook and no annotation of ours is left", async || {
        let machine = site.get(foreign::MACHINE, "cp-a").await.unwrap();
        annotation(&machine, PRE_DRAIN).is_empty() && state(&machine).is_empty()
    })
    .await;
    // Whoever dials it is not cut off by us.
    let infra = fleet.cluster.infrastructure().await.unwrap();
    assert!(!crate::site::address(&infra).is_empty());
    assert!(LIMIT > Duration::ZERO);
}

#[tokio::test]
async fn a_vip_whose_server_fails_its_probe_is_not_called_reachable() {
    let Some(fleet) = Fleet::of(&["cp-a", "cp-b"], json!({})).await else {
        return;
    };
    let site = &fleet.site;
    site.says("edge", "IsReachable", "True/Serving: cp-a").await;
    fleet.hosts[0].answers(false);
    let said = site
        .says("edge", "IsReachable", "False/ProbeFailed: cp-a")
        .await;
    assert!(said.contains("KEDGE-VIP-"), "{said}");
    site.says("edge", "Ready", "False/ProbeFailed").await;
    // That of a host nobody dials may fail.
    fleet.hosts[1].answers(false);
    fleet.hosts[0].answers(true);
    site.says("edge", "IsReachable", "True/Serving: cp-a").await;
    site.says("edge", "Ready", "True").await;
}
