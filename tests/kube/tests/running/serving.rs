//! What probes, scrapers and operators see of a running manager.

use k8s_openapi::api::{coordination::v1::Lease, events::v1::Event};
use kedge_tests_kube::{bare::Bare, eventually, foreign};
use kube::{Api, api::ListParams};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{fleet::Fleet, installed::installed, site::LIMIT};

#[tokio::test]
async fn probes_and_scrapers_are_answered_and_events_say_what_happened() {
    let Some(ours) = installed().await else {
        return;
    };
    let Some(fleet) = Fleet::of(&["cp-a"], json!({})).await else {
        return;
    };
    let at = ours.observed().await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(at, path).await, (200, "ok\n".to_owned()), "{path}");
    }
    eventually("it leads, and says so", LIMIT, async || {
        let (_, text) = get(at, "/metrics").await;
        text.contains("\nkedge_leader 1\n")
    })
    .await;
    let (code, text) = get(at, "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        "# TYPE kedge_controller_reconcile_duration_seconds histogram",
        "# TYPE kedge_lb_members gauge",
        "# TYPE kedge_identity_conflicts counter",
        "kedge_endpoints{state=\"filled\"}",
        "kedge_hosts{state=\"alive\"}",
        "kedge_enrolments_total{outcome=\"granted\"}",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }

    let events: Api<Event> = Api::namespaced(fleet.site.client.clone(), &fleet.site.space);
    let told = async |kind: &str, reason: &str| {
        let all = events.list(&ListParams::default()).await.unwrap();
        let about = all.into_iter().filter(|event| {
            let of_kind = |it: &k8s_openapi::api::core::v1::ObjectReference| {
                it.kind.as_deref() == Some(kind) && it.uid.is_some()
            };
            event.regarding.as_ref().is_some_and(of_kind) && event.reason.as_deref() == Some(reason)
        });
        about.count()
    };
    for (kind, reason) in [
        ("EdgeTestCluster", "EndpointFilled"),
        ("Machine", "HookAdded"),
    ] {
        eventually(&format!("{kind} {reason}"), LIMIT, async || {
            told(kind, reason).await > 0
        })
        .await;
        assert_eq!(told(kind, reason).await, 1, "{kind} {reason} is told once");
    }
    fleet.site.delete(foreign::MACHINE, "cp-a").await;
    eventually("HookRemoved", LIMIT, async || {
        told("Machine", "HookRemoved").await == 1
    })
    .await;
}

#[tokio::test]
async fn a_manager_that_leaves_gives_its_lease_back() {
    // A server of its own: other tests go on with the manager they share.
    let Some(bare) = Bare::start().await else {
        return;
    };
    let leases: Api<Lease> = Api::namespaced(bare.client.clone(), "kedge-system");
    let holder = async || {
        let lease = leases.get_opt("kedge-manager").await.unwrap();
        let spec = lease.and_then(|lease| lease.spec);
        spec.and_then(|spec| spec.holder_identity)
            .unwrap_or_default()
    };
    let manager = bare.manager().await;
    eventually("it leads", LIMIT, async || !holder().await.is_empty()).await;
    let first = holder().await;
    manager.stop().await;
    assert_eq!(holder().await, "", "another need not wait");
    let manager = bare.manager().await;
    eventually("it leads again", LIMIT, async || {
        let now = holder().await;
        !now.is_empty() && now != first
    })
    .await;
    manager.stop().await;
}

/// The status and the body of a plain request.
pub async fn get(at: std::net::SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, body.to_owned())
}
