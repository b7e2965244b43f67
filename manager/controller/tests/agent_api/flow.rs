//! The main job: enrol, report, get the desired state, see the endpoint filled.

use std::{fs, time::Duration};

use kedge_control::{
    agent::{GatewayConfig, HostConfig},
    report::{GatewayReport, ReportedPeer, ReportedTunnel, ReportedVip},
};
use kedge_core::vip::RouterState;
use serde_json::json;

use crate::site::{NS, Site, eventually};

/// Every file of ours and its content.
fn own_files(site: &Site) -> Vec<(String, Vec<u8>)> {
    let mut open = vec![site.objects().join("owned"), site.objects().join("status")];
    let mut files = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.push((path.display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_enrols_reports_and_gets_its_endpoints() {
    let mut site = Site::start().await;
    let edge = site.endpoint("edge").await;
    assert_eq!(
        edge["endpoint"], "10.20.14.10:6443",
        "known before any host is there"
    );
    let fill = site.document(&format!(
        "owned/infrastructure.cluster.x-k8s.io/ElementalCluster/{NS}/edge/kedge-endpoint.yaml"
    ));
    assert_eq!(
        fill.unwrap()["spec"],
        json!({"controlPlaneEndpoint": {"host": "10.20.14.10", "port": 6443}})
    );
    let user = fs::read_to_string(site.objects().join("cluster-edge.yaml")).unwrap();
    let demo = include_str!("../fixtures/demo/cluster-edge.yaml");
    assert_eq!(user, demo, "the user's file is not touched");

    let gateway = site.gateway("gw-0").await.enrolled().await;
    let a = site.host("edge-a").await.enrolled().await;
    let b = site.host("edge-b").await.enrolled().await;
    assert_eq!(
        a.client.member().unwrap().path,
        "/kedge/v1/tenants/store-014/hosts/edge-a"
    );
    assert_eq!(
        gateway.client.member().unwrap().path,
        "/kedge/v1/gateways/kedge-system.gw/instances/gw-0"
    );
    a.client.report(&a.report("10.20.14.11")).await.unwrap();
    b.client.report(&b.report("10.20.14.12")).await.unwrap();
    let report = GatewayReport {
        public_key: gateway.tunnel_key.clone(),
        listen_port: 51820,
        ..GatewayReport::default()
    };
    gateway.client.report(&report).await.unwrap();

    // The desired state of host and gateway fit each other.
    let config: HostConfig = eventually("the host knows its gateway", async || {
        let config = a
            .client
            .config::<HostConfig>(None, Duration::ZERO)
            .await
            .unwrap()
            .unwrap();
        let known = config
            .tunnel
            .as_ref()
            .is_some_and(|tunnel| !tunnel.peers.is_empty());
        (known && !config.vips.is_empty()).then_some(config)
    })
    .await;
    let tunnel = config.tunnel.unwrap();
    assert_eq!(
        config.vips[0].addresses,
        ["10.20.14.10".parse::<std::net::IpAddr>().unwrap()]
    );
    assert_eq!(config.vips[0].name, "edge");
    assert!(config.ca_bundle.contains("BEGIN CERTIFICATE"));
    let hub: GatewayConfig = eventually("the gateway knows both hosts", async || {
        let hub = gateway
            .client
            .config::<GatewayConfig>(None, Duration::ZERO)
            .await
            .unwrap()
            .unwrap();
        let members = hub
            .listeners
            .first()
            .is_some_and(|listener| listener.members.len() == 2);
        members.then_some(hub)
    })
    .await;
    let hub_tunnel = hub.tunnel.unwrap();
    assert_eq!(tunnel.peers[0].allowed_ips, hub_tunnel.addresses);
    assert_eq!(tunnel.peers[0].public_key, gateway.tunnel_key);
    let peer = hub_tunnel
        .peers
        .iter()
        .find(|peer| peer.name == "store-014/edge-a")
        .unwrap();
    assert_eq!(
        (&peer.allowed_ips, &peer.public_key),
        (&tunnel.addresses, &a.tunnel_key)
    );

    // The reserved host's address, and who holds the VIP.
    let reserved = eventually("a host is reserved", async || {
        let item = site.endpoint("edge-host").await;
        item["endpoint"].is_string().then_some(item)
    })
    .await;
    assert_eq!(reserved["endpoint"], "10.20.14.11:6443");
    let mut active = b.report("10.20.14.12");
    active.applied_generation = config.generation;
    active.tunnel.as_mut().unwrap().gateway = Some("gw-0".to_owned());
    active.vips = vec![ReportedVip {
        name: "edge".to_owned(),
        address: "10.20.14.10".parse().unwrap(),
        state: RouterState::Active,
        since: "2026-01-01T00:00:00Z".to_owned(),
        because: "no better router is heard".to_owned(),
        answers: Some(true),
    }];
    b.client.report(&active).await.unwrap();
    eventually("the holder is seen", async || {
        (site.endpoint("edge").await["owner"] == "edge-b").then_some(())
    })
    .await;
    let hosts = site.get("/v1/fleet/hosts").await;
    let host = &hosts["items"][1];
    assert_eq!(
        (&host["name"], &host["cluster"]),
        (&json!("edge-b"), &json!("edge"))
    );
    assert_eq!(host["hostRef"], "ElementalHost/edge-b");
    assert_eq!(host["alive"], true);
    assert_eq!(host["vips"], json!(["edge Active"]));
    let status = site.get("/v1/status").await;
    assert_eq!(
        (&status["hosts"], &status["hostsAlive"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        (&status["clusters"], &status["endpoints"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(status["problems"], json!([]));

    // A second start writes nothing and hands out the same generations.
    let generation = a
        .client
        .config::<HostConfig>(None, Duration::ZERO)
        .await
        .unwrap()
        .unwrap()
        .generation;
    site.halt().await;
    let before = own_files(&site);
    site.boot().await;
    assert_eq!(own_files(&site), before);
    let again = crate::site::open(
        a.dir.path(),
        site.port(),
        "edge-a",
        kedge_control::identity::Role::Host,
        &a.tunnel_key,
    );
    let config = again
        .config::<HostConfig>(None, Duration::ZERO)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(config.generation, generation);
    assert_eq!(
        again
            .config::<HostConfig>(Some(generation), Duration::ZERO)
            .await
            .unwrap(),
        None
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_request_is_answered_when_a_file_changes() {
    let site = Site::start().await;
    let a = site.host("edge-a").await.enrolled().await;
    let settled = eventually("the first state is there", async || {
        let config = a
            .client
            .config::<HostConfig>(None, Duration::ZERO)
            .await
            .unwrap()
            .unwrap();
        (!config.vips.is_empty()).then_some(config)
    })
    .await;
    let waiting = a.client.clone();
    let poll = tokio::spawn(async move {
        waiting
            .config::<HostConfig>(Some(settled.generation), Duration::from_secs(30))
            .await
    });
    let lb = "apiVersion: kedge.dev/v1alpha1\nkind: LoadBalancer\nmetadata: {name: edge, namespace: store-014}\n\
              spec: {clusterName: edge, mode: VIP, vip: {poolRef: {name: edge-lan}, advertIntervalSeconds: 1}}\n";
    fs::write(site.objects().join("edge-lb.yaml"), lb).unwrap();
    let config = tokio::time::timeout(Duration::from_secs(10), poll)
        .await
        .unwrap()
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(config.generation, settled.generation + 1);
    assert!((config.vips[0].advert_interval_seconds - 1.0).abs() < f64::EPSILON);

    // A mistake is told where it is, and changes nothing.
    fs::write(
        site.objects().join("edge-lb.yaml"),
        lb.replace("advertIntervalSeconds: 1", "advertIntervalSeconds: 99"),
    )
    .unwrap();
    let what = eventually("the mistake is told", async || {
        let status = site.get("/v1/status").await;
        let problems = status["problems"].as_array().unwrap().clone();
        let told = problems
            .into_iter()
            .find(|problem| problem["code"] == "KEDGE-CAPI-0001");
        told.map(|problem| problem["what"].as_str().unwrap().to_owned())
    })
    .await;
    assert!(what.starts_with("edge-lb.yaml:4:"), "{what}");
    let same = a
        .client
        .config::<HostConfig>(Some(config.generation), Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(same, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_its_gateway_lost_is_silent_within_seconds() {
    let site = Site::start().await;
    let gateway = site.gateway("gw-0").await.enrolled().await;
    let a = site.host("edge-a").await.enrolled().await;
    let b = site.host("edge-b").await.enrolled().await;
    for (host, address) in [(&a, "10.20.14.11"), (&b, "10.20.14.12")] {
        let mut report = host.report(address);
        report.tunnel = Some(ReportedTunnel {
            gateway: Some("gw-0".to_owned()),
            ..ReportedTunnel::default()
        });
        host.client.report(&report).await.unwrap();
    }
    let hears = |alive: bool| GatewayReport {
        peers: ["store-014/edge-a", "store-014/edge-b"]
            .map(|name| ReportedPeer {
                name: name.to_owned(),
                alive,
                since: String::new(),
            })
            .to_vec(),
        ..GatewayReport::default()
    };
    // A gateway speaks for the peers it was given.
    eventually("the gateway knows both hosts", async || {
        let hub = gateway
            .client
            .config::<GatewayConfig>(None, Duration::ZERO)
            .await
            .unwrap()
            .unwrap();
        let peers = hub.tunnel.map_or(0, |tunnel| tunnel.peers.len());
        (peers == 2).then_some(())
    })
    .await;
    gateway.client.report(&hears(true)).await.unwrap();
    // Host b goes on asking; host a asked once and is dead since, its connection half open.
    let polls = b.client.clone();
    let polling = tokio::spawn(async move {
        let mut known = None;
        loop {
            let config = polls
                .config::<HostConfig>(known, Duration::from_secs(30))
                .await
                .unwrap();
            known = config.map(|config| config.generation).or(known);
        }
    });
    let dead = a.client.clone();
    let known = dead
        .config::<HostConfig>(None, Duration::ZERO)
        .await
        .unwrap()
        .unwrap()
        .generation;
    let half_open = tokio::spawn(async move {
        dead.config::<HostConfig>(Some(known), Duration::from_secs(30))
            .await
    });
    let alive = async |name: &str| {
        let hosts = site.get("/v1/fleet/hosts").await;
        let items = hosts["items"].as_array().unwrap().clone();
        items.into_iter().find(|item| item["name"] == name).unwrap()["alive"] == true
    };
    eventually("both are alive", async || {
        (alive("edge-a").await && alive("edge-b").await).then_some(())
    })
    .await;
    gateway.client.report(&hears(false)).await.unwrap();
    eventually("the dead one is silent", async || {
        (!alive("edge-a").await).then_some(())
    })
    .await;
    assert!(alive("edge-b").await, "the living one spoke up");
    let answered = tokio::time::timeout(Duration::from_secs(10), half_open).await;
    assert!(
        answered.is_ok(),
        "its open request was answered to make it speak"
    );
    polling.abort();
}
