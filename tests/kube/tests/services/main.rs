//! Services and Ingresses of a real API server, offered by the agent through a manager that is somewhere else.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

mod agents;
mod ingresses;
mod routes;
mod world;

use agents::{Agent, impatient, patient};
use http::StatusCode;
use k8s_openapi::api::core::v1::Service;
use kedge_control::exposure::{ExposureChange, ExposureKind};
use kedge_host::enrol::ClientError;
use kedge_tests_kube::{eventually, stays};
use serde_json::{Value, json};
use std::time::Duration;
use world::{LIMIT, World, condition, ports};

#[tokio::test(flavor = "multi_thread")]
async fn services_are_offered_told_and_taken_back() {
    let Some(world) = World::start().await else {
        return;
    };
    world.node("edge-a", true).await;
    world.node("edge-b", true).await;
    let agent = Agent::start(&world, "one", patient()).await;

    // A Service of our class, and what becomes of it.
    world.service("web", json!({})).await;
    let shown = world.shown("web", "it has an address", |service| {
        !ports(service).is_empty()
    });
    let shown = shown.await;
    let ingress = serde_json::to_value(&shown.status.as_ref().unwrap().load_balancer).unwrap();
    let ports = json!([{"port": 80, "protocol": "TCP"}]);
    assert_eq!(
        ingress["ingress"],
        json!([{"ip": "203.0.113.7", "ipMode": "VIP", "ports": ports}])
    );
    assert_eq!(
        shown.metadata.finalizers.as_deref(),
        Some(&["kedge.dev/service".to_owned()][..])
    );
    assert_eq!(condition(&shown, "Accepted"), "True Accepted");
    assert_eq!(condition(&shown, "Programmed"), "False Pending");
    let balancer = world.balancer("web").await.unwrap();
    assert_eq!(balancer["spec"]["source"]["name"], "web");
    assert_eq!(balancer["spec"]["ports"][0]["listenerPort"], 80);
    assert_eq!(hosts(&balancer), ["edge-a", "edge-b"]);
    let node_port = shown.spec.as_ref().unwrap().ports.as_ref().unwrap()[0].node_port;
    assert_eq!(
        balancer["spec"]["endpoints"][0]["ports"][0]["port"],
        json!(node_port)
    );
    assert_eq!(world.members("web").await, 2, "both hosts are enrolled");

    // The clients that may come arrive, and everybody again.
    let from = |ranges: Value| json!({"spec": {"loadBalancerSourceRanges": ranges}});
    let told = json!(["192.0.2.0/24", "2001:db8::/32"]);
    let written = json!(["192.0.2.0/24 ", "2001:db8::/32"]);
    for (ranges, told) in [(written, told), (json!(null), json!(null))] {
        world.patch("web", from(ranges)).await;
        eventually("the balancer has the clients", LIMIT, async || {
            world.balancer("web").await.unwrap()["spec"]["sourceRanges"] == told
        })
        .await;
    }

    // A node goes.
    world.node("edge-b", false).await;
    eventually("one host is left", LIMIT, async || {
        hosts(&world.balancer("web").await.unwrap()) == ["edge-a"]
    })
    .await;
    world.node("edge-b", true).await;
    world.exclude("edge-a").await;
    eventually("the other host is left", LIMIT, async || {
        hosts(&world.balancer("web").await.unwrap()) == ["edge-b"]
    })
    .await;
    world.delete_node("edge-a").await;

    // What cannot be done is said, and nothing of it is offered.
    let affinity = json!({"spec": {"sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}});
    world.service("sticky", affinity).await;
    refused(&world, "sticky", "AffinityTimeoutNotSupported").await;
    world
        .service("far", json!({"spec": {"loadBalancerIP": "192.0.2.9"}}))
        .await;
    refused(&world, "far", "AddressNotAvailable").await;
    world
        .service(
            "bare",
            json!({"spec": {"allocateLoadBalancerNodePorts": false}}),
        )
        .await;
    refused(&world, "bare", "NodePortRequired").await;
    let events = world.events("sticky").await;
    assert!(
        events.contains(&"AffinityTimeoutNotSupported".to_owned()),
        "{events:?}"
    );
    world
        .patch("far", json!({"spec": {"loadBalancerIP": "203.0.113.7"}}))
        .await;
    world
        .shown("far", "it says why it has no port", |service| {
            condition(service, "Accepted") == "False PortInUse"
        })
        .await;

    // Of an address of its own every port is free, and it may say which of the pool's.
    let of_pool = |ip: Value| {
        json!({"metadata": {"annotations": {"kedge.dev/vip-pool": "public"}},
            "spec": {"loadBalancerIP": ip}})
    };
    world.service("own", of_pool(json!("198.51.100.11"))).await;
    world.service("next", of_pool(json!(null))).await;
    for (name, address) in [("own", "198.51.100.11"), ("next", "198.51.100.10")] {
        let shown = world.shown(name, "it has an address of its own", |service| {
            !self::ports(service).is_empty()
        });
        let shown = serde_json::to_value(&shown.await.status.unwrap().load_balancer).unwrap();
        assert_eq!(shown["ingress"][0]["ip"], address, "{shown}");
        assert_eq!(shown["ingress"][0]["ports"], ports);
    }
    world.service("third", of_pool(json!(null))).await;
    world
        .shown("third", "it says why it has no address", |service| {
            condition(service, "Accepted") == "False PoolExhausted"
        })
        .await;

    // By a wish, a Service that is no load balancer: conditions tell where it is.
    let wish = json!({"metadata": {"annotations": {"kedge.dev/expose": "true"}},
        "spec": {"type": "NodePort", "loadBalancerClass": null,
            "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}});
    world.service("dns", wish).await;
    world
        .shown("dns", "it is accepted", |service| {
            condition(service, "Accepted") == "True Accepted"
        })
        .await;

    // Others' Services are left alone.
    let other = json!({"spec": {"loadBalancerClass": "cloud.example/x"}});
    world.service("other", other).await;

    // Local traffic goes where its endpoints are.
    let local = json!({"spec": {"externalTrafficPolicy": "Local",
        "ports": [{"name": "http", "port": 8080}]}});
    world.service("local", local).await;
    world
        .slice("local", &[("edge-b", true), ("edge-c", false)])
        .await;
    world.node("edge-c", true).await;
    eventually("the host with the endpoint", LIMIT, async || {
        world
            .balancer("local")
            .await
            .is_some_and(|it| hosts(&it) == ["edge-b"])
    })
    .await;
    world
        .slice("local", &[("edge-b", false), ("edge-c", true)])
        .await;
    eventually("it moved", LIMIT, async || {
        hosts(&world.balancer("local").await.unwrap()) == ["edge-c"]
    })
    .await;

    // No longer ours: what was written is taken back, what others wrote stays.
    world
        .patch(
            "dns",
            json!({"metadata": {"annotations": {"kedge.dev/expose": null}}}),
        )
        .await;
    gone(&world, "dns").await;
    world
        .shown("dns", "nothing of ours is on it", |service| {
            is_bare(service)
        })
        .await;

    // Deleted: nothing is left, at the manager or in the cluster.
    for name in ["web", "sticky", "far", "bare", "local"] {
        world.delete(name).await;
    }
    for name in ["web", "sticky", "far", "bare", "local"] {
        eventually(&format!("{name} is gone"), LIMIT, async || {
            world.find(name).await.is_none()
        })
        .await;
        gone(&world, name).await;
    }
    let untouched = world.find("other").await.unwrap();
    assert!(is_bare(&untouched));
    assert_eq!(agent.stop().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_agent_takes_over_and_the_first_is_heard_no_more() {
    let Some(world) = World::start().await else {
        return;
    };
    world.node("edge-a", true).await;
    let one = Agent::start(&world, "one", impatient()).await;
    world.service("web", json!({})).await;
    world
        .shown("web", "it is offered", |service| !ports(service).is_empty())
        .await;
    let two = Agent::start(&world, "two", impatient()).await;
    let first = world.lease().await;
    assert!(first.holder.starts_with("one"), "{first:?}");
    stays("the second waits", Duration::from_millis(500), async || {
        world.lease().await.holder == first.holder
    })
    .await;

    // The first one dies without a word, in the middle of its work.
    let client = one.dies();
    let begun = std::time::Instant::now();
    eventually("the second leads and speaks", LIMIT, async || {
        let lease = world.lease().await;
        lease.holder.starts_with("two") && lease.epoch > first.epoch
    })
    .await;
    println!("taken over after {:.1} s", begun.elapsed().as_secs_f64());

    // What the first one still says changes nothing.
    let change = ExposureChange {
        epoch: first.epoch,
        spec: json!({"ports": [{"name": "http", "port": 8443}]}),
    };
    let name = world.exposure("web").await.unwrap();
    let said = client.offer_one(ExposureKind::Tcp, &name, &change).await;
    assert!(is_fenced(&said), "{said:?}");
    let said = client.withdraw(ExposureKind::Tcp, &name, first.epoch).await;
    assert!(is_fenced(&said), "{said:?}");
    assert_eq!(
        world.balancer("web").await.unwrap()["spec"]["ports"][0]["port"],
        80
    );

    // The second one goes on with the same identity.
    world
        .service(
            "new",
            json!({"spec": {"ports": [{"name": "x", "port": 81}]}}),
        )
        .await;
    world
        .shown("new", "it is offered", |service| !ports(service).is_empty())
        .await;
    assert_eq!(
        world.speakers(),
        ["kedge-services"],
        "nobody enrolled twice"
    );

    // It leaves in order: a third one need not wait for its Lease to run out.
    assert_eq!(two.stop().await, Ok(()));
    assert_eq!(world.lease().await.holder, "");
    let three = Agent::start(&world, "three", patient()).await;
    world.delete("web").await;
    world.delete("new").await;
    for name in ["web", "new"] {
        eventually(&format!("{name} is gone"), LIMIT, async || {
            world.find(name).await.is_none()
        })
        .await;
        gone(&world, name).await;
    }
    assert_eq!(three.stop().await, Ok(()));
}

fn is_fenced<T>(said: &Result<T, ClientError>) -> bool {
    let conflict = StatusCode::CONFLICT.as_u16();
    matches!(said, Err(ClientError::Refused { status, .. }) if *status == conflict)
}

/// The hosts a TCPLoadBalancer names.
fn hosts(balancer: &Value) -> Vec<String> {
    let values = balancer.pointer("/spec/endpoints/0/hostSelector/matchExpressions/0/values");
    let values = values
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let texts = values
        .iter()
        .map(|value| value.as_str().unwrap().to_owned());
    texts.collect()
}

async fn refused(world: &World, name: &str, reason: &str) {
    let expected = format!("False {reason}");
    let what = format!("{name}: {reason}");
    let shown = world
        .shown(name, &what, |service| {
            condition(service, "Accepted") == expected
        })
        .await;
    assert!(ports(&shown).is_empty());
    assert!(shown.metadata.finalizers.is_none());
    assert!(world.balancer(name).await.is_none());
}

async fn gone(world: &World, name: &str) {
    eventually(
        &format!("nothing of {name} is offered"),
        LIMIT,
        async || world.balancer(name).await.is_none(),
    )
    .await;
}

fn is_bare(service: &Service) -> bool {
    let status = service.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    service.metadata.finalizers.is_none() && conditions.is_empty() && ports(service).is_empty()
}
