//! A blank endpoint is filled, in every mode and every shape of blank, before there is any machine.

use std::time::Duration;

use futures_util::future::join_all;
use kedge_tests_kube::{
    clusters::{Cluster, EDGE_TEST, ELEMENTAL, FIELD_MANAGER, Provider, endpoint},
    edge::Edge,
    eventually, foreign,
    objects::{at, text},
    stays,
};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::site::{BALANCER, GATEWAY_ADDRESS, HOST, LIMIT, Site, address, ours_in};

const MODES: [&str; 3] = ["VIP", "Tunnel", "HostAddress"];

#[tokio::test]
async fn every_mode_fills_every_blank_of_the_v1beta1_contract() {
    let blanks = [
        json!({}),
        json!({"controlPlaneEndpoint": {"host": "", "port": 6443}}),
        json!({"controlPlaneEndpoint": {"host": "", "port": 0}}),
    ];
    fills(ELEMENTAL, blanks).await;
}

#[tokio::test]
async fn every_mode_fills_every_blank_of_the_v1beta2_contract() {
    let blanks = [
        json!({}),
        json!({"controlPlaneEndpoint": {}}),
        json!({"controlPlaneEndpoint": {"port": 6443}}),
    ];
    fills(EDGE_TEST, blanks).await;
}

/// Every mode with every blank; each mode once with a control plane.
async fn fills(provider: Provider, blanks: [Value; 3]) {
    let Some(site) = Site::new().await else {
        return;
    };
    let mut hosts: Vec<Edge> = Vec::new();
    for (at, name) in ["host-a", "host-b", "host-c"].into_iter().enumerate() {
        hosts.push(site.host(name, &format!("10.20.14.{}", 31 + at)).await);
    }
    let cases = MODES.iter().enumerate().flat_map(|(row, mode)| {
        let blanks = blanks.iter().enumerate();
        blanks.map(move |(column, blank)| (*mode, column, blank.clone(), row == column))
    });
    let cases = cases.map(|(mode, column, blank, whole)| {
        let site = &site;
        async move {
            let name = format!("{}-{column}", mode.to_lowercase());
            let infra = json!({"metadata": {"annotations": site.asks(mode)}, "spec": blank});
            let (client, space) = (&site.client, &site.space);
            let cluster = if whole {
                Cluster::with(client, space, &name, provider, infra, json!({})).await
            } else {
                Cluster::bare(client, space, &name, provider, infra, json!({})).await
            };
            moves(site, &cluster, mode, whole).await;
        }
    });
    join_all(cases.collect::<Vec<_>>()).await;
}

/// The endpoint is there, the Cluster moves on, and says nothing else than its infrastructure.
async fn moves(site: &Site, cluster: &Cluster, mode: &str, has_plane: bool) {
    let name = cluster.name();
    site.until(&format!("{name} is provisioned"), async || {
        cluster.is_provisioned().await
    })
    .await;
    let infra = cluster.infrastructure().await.unwrap();
    let (host, port) = endpoint(&infra).unwrap();
    match mode {
        "VIP" => assert!(host.starts_with("10.20.14.1") && port == 6443, "{host}"),
        "Tunnel" => {
            assert_eq!(host, GATEWAY_ADDRESS);
            assert!((30000..30020).contains(&port), "{port}");
        }
        _ => assert!(host.starts_with("10.20.14.3") && port == 6443, "{host}"),
    }
    assert!(ours_in(&infra).is_some());
    assert_eq!(endpoint(&cluster.cluster().await), Some((host, port)));
    let balancer = site.get(BALANCER, name).await.unwrap();
    let owner = foreign::CLUSTER.owner_of(&balancer);
    assert_eq!(owner.as_deref(), Some(name), "it goes and moves with it");
    site.says(name, "ControlPlaneUnblocked", "True/EndpointSet")
        .await;
    if has_plane {
        site.until(&format!("{name} has its first machine"), async || {
            !cluster.machines().await.is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn a_value_that_somebody_else_applies_is_never_overwritten_whoever_is_first() {
    let Some(site) = Site::new().await else {
        return;
    };
    let rounds = (0..8_u64).map(|round| {
        let site = &site;
        async move {
            let name = format!("race-{round}");
            let infra = json!({"metadata": {"annotations": site.asks("VIP")}, "spec": {}});
            let (client, space) = (&site.client, &site.space);
            let cluster = Cluster::bare(client, space, &name, ELEMENTAL, infra, json!({})).await;
            // From well before the fill until after it.
            tokio::time::sleep(Duration::from_millis(round * 250)).await;
            let host = format!("192.0.2.{}", 70 + round);
            let theirs = json!({"host": host, "port": 6443});
            let patch = json!({
                "apiVersion": ELEMENTAL.cluster.api_version(),
                "kind": ELEMENTAL.cluster.kind,
                "metadata": {"name": name},
                "spec": {"controlPlaneEndpoint": theirs},
            });
            let all = ELEMENTAL.cluster.of(client, space);
            let how = PatchParams::apply("user");
            let applied = all.patch(&name, &how, &Patch::Apply(patch)).await;
            site.until(&format!("{name} is provisioned"), async || {
                cluster.is_provisioned().await
            })
            .await;
            let is_theirs = applied.is_ok();
            let infra = cluster.infrastructure().await.unwrap();
            assert_eq!(ours_in(&infra).is_none(), is_theirs, "{name}");
            let (set, _) = endpoint(&infra).unwrap();
            assert_eq!(set == host, is_theirs, "{name}: {set}");
            assert_eq!(address(&cluster.cluster().await), address(&infra));
            if is_theirs {
                site.says(&name, "EndpointPublished", "True/UserProvided")
                    .await;
            }
            is_theirs
        }
    });
    let theirs = join_all(rounds.collect::<Vec<_>>()).await;
    println!("the user was first: {theirs:?}");
}

#[tokio::test]
async fn a_manager_that_starts_again_writes_nothing() {
    let Some(site) = Site::new().await else {
        return;
    };
    let host = site.host("host-a", "10.20.14.31").await;
    let mut clusters = Vec::new();
    for (mode, provider) in [
        ("VIP", ELEMENTAL),
        ("Tunnel", EDGE_TEST),
        ("HostAddress", ELEMENTAL),
    ] {
        let infra = json!({"metadata": {"annotations": site.asks(mode)}, "spec": {}});
        let name = mode.to_lowercase();
        let (client, space) = (&site.client, &site.space);
        clusters.push(Cluster::bare(client, space, &name, provider, infra, json!({})).await);
    }
    for cluster in &clusters {
        site.until("provisioned", async || cluster.is_provisioned().await)
            .await;
    }
    let kinds = [
        ELEMENTAL.cluster,
        EDGE_TEST.cluster,
        foreign::CLUSTER,
        BALANCER,
        HOST,
        kedge_tests_kube::elemental::kinds::HOST,
    ];
    let before = site.at_rest(&kinds).await;
    site.ours.halt().await;
    site.ours.boot().await;
    stays("nothing is written", Duration::from_secs(4), async || {
        site.versions(&kinds).await == before
    })
    .await;
    drop(host);
}

#[tokio::test]
async fn a_class_and_the_fill_do_not_fight() {
    let Some(site) = Site::new().await else {
        return;
    };
    tokio::join!(
        outlives_its_class(&site, "old", ELEMENTAL),
        outlives_its_class(&site, "new", EDGE_TEST),
    );
}

/// The fill stands, and nobody writes it again, over ten reconciles of the topology.
async fn outlives_its_class(site: &Site, name: &str, provider: Provider) {
    let asked = json!({"spec": {
        "clusterName": name, "mode": "VIP", "vip": {"poolRef": {"name": "lan"}},
    }});
    site.create(BALANCER, name, asked).await;
    let (client, space) = (&site.client, &site.space);
    let cluster = Cluster::of_class(client, space, name, provider, json!({})).await;
    site.until(&format!("{name} is provisioned"), async || {
        cluster.is_provisioned().await
    })
    .await;
    let filled = cluster.infrastructure().await.unwrap();
    let fields = ours_in(&filled).unwrap();
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
    assert_eq!(ours_in(&after), Some(fields), "{name}");
    assert_eq!(after.metadata.generation, filled.metadata.generation);
}

#[tokio::test]
async fn a_class_that_cannot_make_its_infrastructure_is_named_as_the_cause() {
    let Some(site) = Site::new().await else {
        return;
    };
    let asked = json!({"spec": {
        "clusterName": "empty", "mode": "VIP", "vip": {"poolRef": {"name": "lan"}},
    }});
    site.create(BALANCER, "empty", asked).await;
    // As Elemental's own classes ship it.
    let empty = json!({"controlPlaneEndpoint": {"host": "", "port": 6443}});
    let (client, space) = (&site.client, &site.space);
    let cluster = Cluster::of_class(client, space, "empty", ELEMENTAL, empty).await;
    let said = site
        .says(
            "empty",
            "EndpointPublished",
            "False/WaitingForOwner: ClusterClass `empty`",
        )
        .await;
    assert!(said.contains("leave controlPlaneEndpoint out"), "{said}");
    assert!(cluster.infrastructure().await.is_none());
}

#[tokio::test]
async fn a_blank_that_is_forced_back_is_filled_again_with_pauses_and_explained() {
    let Some(site) = Site::new().await else {
        return;
    };
    let infra = json!({"metadata": {"annotations": site.asks("VIP")}, "spec": {}});
    let (client, space) = (&site.client, &site.space);
    let cluster = Cluster::bare(client, space, "edge", ELEMENTAL, infra, json!({})).await;
    site.until("filled", async || cluster.is_provisioned().await)
        .await;
    let filled = address(&cluster.infrastructure().await.unwrap());
    let blank = json!({
        "apiVersion": ELEMENTAL.cluster.api_version(),
        "kind": ELEMENTAL.cluster.kind,
        "metadata": {"name": "edge"},
        "spec": {"controlPlaneEndpoint": {"host": "", "port": 0}},
    });
    let all = ELEMENTAL.cluster.of(client, space);
    for round in 1..=3 {
        let how = PatchParams::apply("argocd").force();
        all.patch("edge", &how, &Patch::Apply(&blank))
            .await
            .unwrap();
        site.until("it is filled again", async || {
            address(&cluster.infrastructure().await.unwrap()) == filled
        })
        .await;
        site.until(&format!("{round} times, it says"), async || {
            let balancer = site.get(BALANCER, "edge").await.unwrap();
            at(&balancer, "/status/refill/count") == &json!(round)
                && text(&balancer, "/status/refill/by") == "argocd"
        })
        .await;
    }
    let said = site.said("edge", "EndpointPublished").await;
    assert!(said.contains("argocd writes an empty host"), "{said}");
    assert_eq!(address(&cluster.cluster().await), filled);
    assert_eq!(FIELD_MANAGER, "kedge-endpoint");
}
