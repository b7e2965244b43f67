//! What goes wrong around a manager, on a real API server: it costs time, and nothing else.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test code"
)]

mod sight;

use std::{
    collections::BTreeSet,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use kedge_manager_controller::{Manager, store::Store};
use kedge_tests_kube::{
    at_rest,
    bare::{BALANCER, Bare, SPACE},
    controllers::Controllers,
    elemental::kinds,
    eventually,
    objects::{at, label, text},
    process::Process,
    relay::Relay,
    stays,
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, WatchEvent, WatchParams},
};
use rustix::process::Signal;
use serde_json::{Value, json};

#[tokio::test]
async fn a_frozen_api_server_and_one_that_was_killed_cost_time_alone() {
    let Some((mut bare, manager)) = served(9).await else {
        return;
    };
    let first = asked(&bare, &manager, "first").await;

    loses_its_lease(&bare, &manager).await;
    asked(&bare, &manager, "frozen").await;

    bare.server.kill_api();
    bare.server.start_api().await;
    asked(&bare, &manager, "killed").await;

    bare.server.kill_etcd();
    bare.server.start_etcd();
    eventually("the API server has its store again", LONG, async || {
        bare.label(SPACE, "first", "here").await.is_ok()
    })
    .await;
    asked(&bare, &manager, "storeless").await;
    assert_eq!(bare.endpoint(SPACE, "first").await, Some(first));
    ends_well(&bare, manager).await;
}

#[tokio::test]
async fn a_history_that_is_gone_is_read_anew() {
    let Some(mut bare) = pooled(9).await else {
        return;
    };
    let (relay, manager) = behind_relay(&bare).await;
    asked(&bare, &manager, "first").await;
    calm(&bare).await;
    let infra = kinds::CLUSTER.of(&bare.client, SPACE);
    let seen = infra.list(&ListParams::default()).await.unwrap();
    let seen = seen.metadata.resource_version.unwrap();

    relay.close();
    bare.ask(SPACE, "second").await;
    bare.label(SPACE, "first", "changed").await.unwrap();
    // A server that starts knows no more of the past than what it lists.
    bare.server.stop_api();
    bare.server.compact().await;
    bare.server.start_api().await;
    eventually("the history is gone", LONG, async || {
        use futures_util::StreamExt as _;
        let events = infra.watch(&WatchParams::default(), &seen).await;
        match events {
            Ok(events) => {
                let first = events.boxed().next().await;
                matches!(first, Some(Ok(WatchEvent::Error(status))) if status.code == 410)
            }
            Err(kube::Error::Api(status)) => status.code == 410,
            Err(_) => false,
        }
    })
    .await;
    relay.open();
    filled(&bare, &manager, "second").await;
    ends_well(&bare, manager).await;
}

#[tokio::test]
async fn watches_that_are_cut_and_slow_end_where_steady_ones_do() {
    let Some(bare) = pooled(40).await else {
        return;
    };
    let (relay, manager) = behind_relay(&bare).await;
    relay.slow(Duration::from_millis(100));
    for round in 0..10 {
        bare.ask(SPACE, &format!("c{round}")).await;
        bare.ask(SPACE, &format!("gone{round}")).await;
        if round % 3 == 0 {
            relay.cut();
        }
        bare.label(SPACE, &format!("c{round}"), "x").await.unwrap();
        bare.remove(SPACE, &format!("gone{round}")).await;
    }
    relay.slow(Duration::ZERO);
    for round in 0..10 {
        filled(&bare, &manager, &format!("c{round}")).await;
    }
    no_address_twice(&bare).await;
    calm(&bare).await;
    for round in 0..10 {
        let gone = kinds::CLUSTER.of(&bare.client, SPACE);
        let gone = gone.get_opt(&format!("gone{round}")).await.unwrap();
        assert!(gone.is_none(), "a ghost of gone{round}");
    }
    manager.stop().await;
}

#[tokio::test]
async fn a_second_writer_costs_conflicts_and_loses_nothing() {
    let Some((bare, manager)) = served(20).await else {
        return;
    };
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (client, stop) = (bare.client.clone(), Arc::clone(&stop));
        async move {
            let mut rounds = 0_u32;
            loop {
                // The last round begins after everything is there.
                let is_last = stop.load(Ordering::Relaxed);
                rounds += 1;
                for kind in [kinds::CLUSTER, BALANCER] {
                    let all = kind.of(&client, SPACE);
                    for object in all.list(&ListParams::default()).await.into_iter().flatten() {
                        let patch = json!({"metadata": {"labels": {"round": rounds.to_string()}}});
                        let params = PatchParams::default();
                        let patch = Patch::Merge(patch);
                        _ = all.patch(&object.name_any(), &params, &patch).await;
                    }
                }
                if is_last {
                    return rounds;
                }
            }
        }
    });
    for round in 0..10 {
        bare.ask(SPACE, &format!("c{round}")).await;
    }
    for round in 0..10 {
        filled(&bare, &manager, &format!("c{round}")).await;
    }
    stop.store(true, Ordering::Relaxed);
    let rounds = writer.await.unwrap();
    println!("the other one wrote {rounds} rounds");
    no_address_twice(&bare).await;
    calm(&bare).await;
    let infra = kinds::CLUSTER.of(&bare.client, SPACE);
    for object in infra.list(&ListParams::default()).await.unwrap() {
        assert!(
            !label(&object, "round").is_empty(),
            "its label is still there"
        );
    }
    manager.stop().await;
}

#[tokio::test]
async fn a_leader_that_was_frozen_writes_nothing_when_it_wakes() {
    let Some(bare) = pooled(2).await else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let config = root.path().join("etc/kedge");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(
        config.join("manager.yaml"),
        "version: 1\nlisten: 127.0.0.1:0\n",
    )
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kedge-on-kubernetes"));
    command
        .arg("manager")
        .arg("--kubeconfig")
        .arg(bare.server.kubeconfig("admin"));
    command.arg("--root").arg(root.path());
    let first = Process::start("manager", root.path(), &command).unwrap();
    bare.ask(SPACE, "before").await;
    eventually("before is filled", LIMIT, async || {
        bare.endpoint(SPACE, "before").await.is_some()
    })
    .await;
    let second = bare.manager().await;
    assert!(!leads(&second), "{}", first.last_words());

    // It is frozen between a look and a write, as likely as anywhere else.
    bare.ask(SPACE, "between").await;
    first.signal(Signal::STOP);
    eventually("the other one leads", LONG, async || leads(&second)).await;
    filled(&bare, &second, "between").await;
    // Addresses go from hand to hand: what the sleeper knows is wrong.
    bare.remove(SPACE, "before").await;
    asked(&bare, &second, "after").await;
    calm(&bare).await;
    let before = bare.versions().await;
    first.signal(Signal::CONT);
    stays("nothing is written", Duration::from_secs(4), async || {
        leads(&second) && bare.versions().await == before
    })
    .await;
    no_address_twice(&bare).await;
    bare.ask(SPACE, "late").await;
    second.stop().await;
}

#[tokio::test]
async fn a_namespace_goes_with_everything_of_ours_in_it() {
    let Some(bare) = Bare::start().await else {
        return;
    };
    let Some(_controllers) = Controllers::start(&bare.server) else {
        return;
    };
    let space = "short-lived";
    bare.space(space).await;
    bare.pool(space, 3).await;
    let manager = bare.manager().await;
    for name in ["one", "two"] {
        bare.ask(space, name).await;
        eventually(&format!("{name} is filled"), LIMIT, async || {
            bare.endpoint(space, name).await.is_some()
        })
        .await;
    }
    let spaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(bare.client.clone());
    spaces.delete(space, &Default::default()).await.unwrap();
    let begun = Instant::now();
    while let Some(left) = spaces.get_opt(space).await.unwrap() {
        for name in ["one", "two"] {
            bare.let_go(space, name).await;
        }
        let versions = bare.versions().await;
        let left = (left.status, versions);
        assert!(
            begun.elapsed() < LONG,
            "the namespace is not gone: {left:#?}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    calm(&bare).await;
    // One of the same name begins anew.
    bare.space(space).await;
    bare.pool(space, 3).await;
    bare.ask(space, "one").await;
    eventually("it is filled again", LIMIT, async || {
        bare.endpoint(space, "one").await.is_some()
    })
    .await;
    manager.stop().await;
}

#[tokio::test]
async fn a_store_that_goes_back_in_time_locks_nobody_out() {
    let Some((mut bare, manager)) = served(9).await else {
        return;
    };
    let first = asked(&bare, &manager, "first").await;
    calm(&bare).await;
    bare.server.backup();
    asked(&bare, &manager, "forgotten").await;
    for round in 0..20 {
        let value = round.to_string();
        bare.label(SPACE, "first", &value).await.unwrap();
    }
    bare.server.restore().await;
    assert_eq!(bare.endpoint(SPACE, "forgotten").await, None);
    assert_eq!(bare.endpoint(SPACE, "first").await, Some(first));
    eventually("the manager leads again", LONG, async || leads(&manager)).await;
    asked(&bare, &manager, "second").await;
    asked(&bare, &manager, "forgotten").await;
    ends_well(&bare, manager).await;
}

#[tokio::test]
async fn nothing_is_written_while_nothing_changes() {
    let Some(bare) = pooled(9).await else {
        return;
    };
    let often = || {
        let mut options = bare.options();
        options.rescan = Duration::from_millis(200);
        options
    };
    let manager = Manager::start(&often()).await.unwrap();
    for name in ["one", "two", "three"] {
        asked(&bare, &manager, name).await;
    }
    calm(&bare).await;
    let (versions, writes) = (bare.versions().await, bare.writes().await);
    assert!(writes > 0, "the counter counts");
    let still = async || bare.versions().await == versions && bare.writes().await == writes;
    stays("over rescans", Duration::from_secs(3), &still).await;
    manager.stop().await;
    let manager = Manager::start(&often()).await.unwrap();
    eventually("a new one leads", LIMIT, async || leads(&manager)).await;
    stays("after a restart", Duration::from_secs(3), &still).await;
    manager.stop().await;
}

/// A server with a pool of that many addresses.
async fn pooled(addresses: u8) -> Option<Bare> {
    let bare = Bare::start().await?;
    bare.pool(SPACE, addresses).await;
    Some(bare)
}

/// The same with a manager.
async fn served(addresses: u8) -> Option<(Bare, Manager)> {
    let bare = pooled(addresses).await?;
    let manager = bare.manager().await;
    Some((bare, manager))
}

/// A cluster that asks, and is filled; answers with its endpoint.
async fn asked(bare: &Bare, manager: &Manager, name: &str) -> String {
    bare.ask(SPACE, name).await;
    filled(bare, manager, name).await
}

/// Whatever happened: nobody has an address of another's, and all comes to rest.
async fn ends_well(bare: &Bare, manager: Manager) {
    no_address_twice(bare).await;
    calm(bare).await;
    manager.stop().await;
}

/// A manager that reaches its server by a relay.
async fn behind_relay(bare: &Bare) -> (Relay, Manager) {
    let relay = Relay::start(bare.server.address()).await;
    let url = format!("https://{}", relay.address());
    let kubeconfig = bare.kubeconfig_with("relayed", "/clusters/0/cluster/server", json!(url));
    let manager = Manager::start(&Bare::options_by(kubeconfig)).await.unwrap();
    (relay, manager)
}

/// The API server is frozen until the manager does not lead any more, and leads again then.
async fn loses_its_lease(bare: &Bare, manager: &Manager) {
    bare.server.api().signal(Signal::STOP);
    eventually("the manager does not lead any more", LONG, async || {
        !leads(manager)
    })
    .await;
    bare.server.api().signal(Signal::CONT);
    eventually("it leads again", LONG, async || leads(manager)).await;
}

/// Waits for an endpoint; when it does not come, tells what the manager says.
async fn filled(bare: &Bare, manager: &Manager, name: &str) -> String {
    let begun = Instant::now();
    loop {
        if let Some(endpoint) = bare.endpoint(SPACE, name).await {
            println!(
                "{name} is filled: {:.0} ms",
                begun.elapsed().as_secs_f64() * 1e3
            );
            return endpoint;
        }
        if begun.elapsed() > LIMIT {
            let state = manager.world.state().await;
            let there = bare.versions().await;
            panic!("{name} is not filled: {:#?} {there:#?}", state.problems());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn leads(manager: &Manager) -> bool {
    match &manager.world.store {
        Store::Kubernetes(cluster) => cluster.leads(),
        Store::Directory(_) => false,
    }
}

/// Of the clusters of a site no two have the same endpoint; two sites may use the same private
/// addresses.
async fn no_address_twice(bare: &Bare) {
    let infra = kinds::CLUSTER.everywhere(&bare.client);
    let infra = infra.list(&ListParams::default()).await.unwrap();
    let mut seen = BTreeSet::new();
    for object in infra {
        let host = text(&object, "/spec/controlPlaneEndpoint/host").to_owned();
        let name = object.name_any();
        assert!(
            host.is_empty() || seen.insert((object.namespace(), host.clone())),
            "{name}: {host} twice"
        );
    }
}

/// Waits until nothing is written any more, and every condition is up to date.
async fn calm(bare: &Bare) {
    let look = async || bare.versions().await;
    at_rest("everything", QUIET, LONG, look).await;
    let balancers = BALANCER.everywhere(&bare.client);
    for object in balancers.list(&ListParams::default()).await.unwrap() {
        let of = |one: &Value| one["observedGeneration"].as_i64();
        let conditions = at(&object, "/status/conditions").as_array().cloned();
        for condition in conditions.unwrap_or_default() {
            let is_current = of(&condition) == object.metadata.generation;
            assert!(is_current, "{}: {condition}", object.name_any());
        }
    }
}

/// Long: the machine may stand still for a while.
const LIMIT: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(60);
const QUIET: Duration = Duration::from_millis(1500);
