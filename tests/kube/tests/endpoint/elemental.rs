//! Beside the unmodified provider: hosts are linked, reserved, taken, reset and enrolled anew.

use kedge_tests_kube::{
    clusters::{Cluster, ELEMENTAL},
    elemental::{self, kinds},
    eventually, foreign,
    objects::{label, text},
};
use serde_json::{Value, json};

use crate::site::{BALANCER, HOST, LIMIT, Site, address, annotation, state, taken};

const RESERVED: &str = "kedge-reserved";

async fn asking(site: &Site, mode: &str) -> Cluster {
    let infra = json!({"metadata": {"annotations": site.asks(mode)}, "spec": {}});
    let (client, space) = (&site.client, &site.space);
    Cluster::with(client, space, "edge", ELEMENTAL, infra, json!({})).await
}

async fn machine_of(site: &Site, host: &str) -> String {
    let host = site.get(kinds::HOST, host).await.unwrap();
    label(&host, elemental::MACHINE_NAME).to_owned()
}

#[tokio::test]
async fn the_host_whose_address_is_the_endpoint_becomes_the_first_machine() {
    let Some(site) = Site::new().await else {
        return;
    };
    // The first by name is not ours: nobody knows its address, and yet it must not be taken.
    site.install("host-a").await;
    let hosts = [
        site.host("host-b", "10.20.14.32").await,
        site.host("host-c", "10.20.14.33").await,
    ];
    let cluster = asking(&site, "HostAddress").await;
    site.until("provisioned", async || cluster.is_provisioned().await)
        .await;
    assert_eq!(address(&cluster.cluster().await), "10.20.14.32:6443");
    for host in ["host-a", "host-c"] {
        assert_eq!(machine_of(&site, host).await, RESERVED, "{host}");
    }
    let chosen = site.get(kinds::HOST, "host-b").await.unwrap();
    assert_eq!(label(&chosen, "kedge.dev/endpoint-for"), "edge");
    taken(&site, "host-b").await;
    site.until("the machine has it", async || {
        machine_of(&site, "host-b").await
            == cluster.machines().await[0].metadata.name.clone().unwrap()
    })
    .await;
    // No other may become the first: it must have the address.
    for host in ["host-a", "host-c"] {
        assert_eq!(machine_of(&site, host).await, RESERVED, "{host}");
    }
    // Once the API server answers the others are free again.
    let all = foreign::CLUSTER.of(&site.client, &site.space);
    let conditions = json!([{"type": "ControlPlaneInitialized", "status": "True",
        "reason": "Initialized", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let status = json!({"status": {
        "initialization": {"controlPlaneInitialized": true}, "conditions": conditions,
    }});
    let patch = kube::api::Patch::Merge(&status);
    all.patch_status("edge", &Default::default(), &patch)
        .await
        .unwrap();
    site.until("the others are free", async || {
        machine_of(&site, "host-a").await.is_empty() && machine_of(&site, "host-c").await.is_empty()
    })
    .await;
    drop(hosts);
}

#[tokio::test]
async fn a_machine_that_is_deleted_hands_its_vip_to_the_next_and_the_endpoint_stays() {
    let Some(site) = Site::new().await else {
        return;
    };
    let a = site.host("host-a", "10.20.14.31").await;
    let cluster = asking(&site, "VIP").await;
    site.until("provisioned", async || cluster.is_provisioned().await)
        .await;
    let set = address(&cluster.cluster().await);
    taken(&site, "host-a").await;
    // It has the VIP before it is bootstrapped.
    site.until("the host has the VIP", async || a.vips() == ["edge"])
        .await;
    let machine = machine_of(&site, "host-a").await;
    site.until("the machine is active", async || {
        let machine = site.get(foreign::MACHINE, &machine).await.unwrap();
        state(&machine) == "active"
    })
    .await;
    let edge = site.get(HOST, "host-a").await.unwrap();
    assert_eq!(text(&edge, "/status/machineRef"), machine);
    assert_eq!(text(&edge, "/spec/hostRef/name"), "host-a");
    let b = site.host("host-b", "10.20.14.32").await;
    site.delete(foreign::MACHINE, &machine).await;
    site.gone(foreign::MACHINE, &machine).await;
    eventually("the host has to be reset", LIMIT, async || {
        let host = site.get(kinds::HOST, "host-a").await.unwrap();
        label(&host, elemental::NEEDS_RESET) == "true"
    })
    .await;
    taken(&site, "host-b").await;
    site.until("the VIP moved on", async || {
        a.vips().is_empty() && b.vips() == ["edge"]
    })
    .await;
    assert_eq!(address(&cluster.cluster().await), set);
    assert_eq!(address(&cluster.infrastructure().await.unwrap()), set);
}

#[tokio::test]
async fn a_host_tells_its_addresses_and_is_enrolled_anew_after_a_reset() {
    let Some(site) = Site::new().await else {
        return;
    };
    let host = site.host("host-a", "10.20.14.31").await;
    let told = async |wanted: &str| {
        site.until(&format!("the record says {wanted}"), async || {
            let record = site.get(kinds::HOST, "host-a").await.unwrap();
            let addresses = annotation(&record, "kedge.dev/addresses");
            let addresses: Value = serde_json::from_str(&addresses).unwrap_or_default();
            addresses == json!([{"type": "InternalIP", "address": wanted}])
        })
        .await;
    };
    told("10.20.14.31").await;
    host.moves_to("10.20.14.41");
    told("10.20.14.41").await;
    let before = site.get(HOST, "host-a").await.unwrap();
    site.until("the record owns the host", async || {
        let host = site.get(HOST, "host-a").await.unwrap();
        kinds::HOST.owner_of(&host).as_deref() == Some("host-a")
    })
    .await;
    // The provider resets the machine and lets the record go: what it was enrolled with is gone.
    let reset = json!({"metadata": {"labels": {elemental::RESET: "true"}}});
    site.merge(kinds::HOST, "host-a", reset).await;
    site.delete(kinds::HOST, "host-a").await;
    site.gone(kinds::HOST, "host-a").await;
    site.gone(HOST, "host-a").await;
    drop(host);
    let host = site.host("host-a", "10.20.14.31").await;
    told("10.20.14.31").await;
    let after = site.get(HOST, "host-a").await.unwrap();
    let uid = "/spec/identity/uid";
    assert_ne!(text(&after, uid), text(&before, uid));
    assert!(site.get(BALANCER, "edge").await.is_none());
    drop(host);
}
