//! Kedge with clusterctl: installed, used for a first cluster, and moved with it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    dead_code,
    reason = "test code, parts of it shared with other suites"
)]

#[path = "endpoint/fleet.rs"]
mod fleet;
#[path = "endpoint/site.rs"]
mod site;
#[path = "clusterctl/templates.rs"]
mod templates;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Secret;
use kedge_tests_kube::{
    assets::{Program, ready},
    clusterctl::{Repository, prepare},
    clusters::endpoint,
    eventually, foreign,
    objects::{Kind, at},
    ours::Ours,
    stack::Stack,
};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{
    fleet::Fleet,
    site::{BALANCER, GATEWAY, HOST, LIMIT, POOL, TENANT},
};

/// One at a time: the manager is shared, and a move ends it.
static TURN: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn a_cluster_that_moves_keeps_its_vip_its_ports_and_its_hosts() {
    if !ready(&[Program::Helm, Program::Clusterctl]) {
        return;
    }
    let _turn = TURN.lock().await;
    let Some(fleet) = Fleet::of(&["cp-a", "cp-b"], json!({})).await else {
        return;
    };
    let source = fleet.site.ours.stack().server();
    let there = Stack::start().await.unwrap();
    let (from, to) = (source.client().await, there.server().client().await);
    for client in [&from, &to] {
        prepare(client).await;
    }
    let repository = Repository::new();
    for server in [source, there.server()] {
        _ = repository.run(server, &["init", "--addon", "kedge"], IMAGE);
    }
    let space = fleet.site.space.clone();
    let before = Moved::of(&from, &space).await;
    let told: Vec<_> = fleet
        .hosts
        .iter()
        .map(|host| host.config().unwrap())
        .collect();

    // The managers of the target come after the objects: theirs is the authority that moves.
    let kubeconfig = there.server().kubeconfig("admin");
    let kubeconfig = kubeconfig.to_str().unwrap();
    for namespace in ["kedge-system", &space] {
        let args = [
            "move",
            "--to-kubeconfig",
            kubeconfig,
            "--namespace",
            namespace,
        ];
        println!("{}", repository.run(source, &args, &[]));
    }
    let port = fleet.site.ours.port();
    fleet.site.ours.halt().await;
    let target = Ours::start_at(Arc::new(there), port).await;
    eventually("the moved cluster is served as before", LIMIT, async || {
        let now = Moved::of(&to, &space).await;
        if now != before {
            println!("{now:#?}");
        }
        now == before
    })
    .await;
    // The hosts go on asking where they asked, and are known there.
    for (host, told) in fleet.hosts.iter().zip(&told) {
        let begun = Instant::now();
        loop {
            let known = HOST.of(&to, &space).get(&host.name).await.unwrap();
            if at(&known, "/status/agent/configGeneration").as_u64() == Some(told.generation) {
                break;
            }
            if begun.elapsed() > LIMIT {
                let problems = target.problems().await;
                panic!(
                    "{} is not served: {problems:#?} {:#}",
                    host.name, known.data["status"]
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(
            host.config().as_ref(),
            Some(told),
            "nothing new was asked of it"
        );
    }
    drop(target);
}

/// What must be the same after a move.
#[derive(Debug, PartialEq)]
struct Moved {
    endpoint: Option<(String, i64)>,
    balancer: Value,
    identities: BTreeMap<String, Value>,
    gateway: Value,
    tenant: Value,
    pool: Value,
    authority: BTreeMap<String, Vec<u8>>,
    tokens: usize,
}

impl Moved {
    async fn of(client: &Client, space: &str) -> Self {
        let spec = async |kind: Kind, name: &str| {
            let all: Api<DynamicObject> = if kind == TENANT {
                kind.everywhere(client)
            } else {
                kind.of(client, space)
            };
            let found = all.get_opt(name).await.unwrap();
            found.map_or(Value::Null, |found| found.data["spec"].clone())
        };
        let cluster = foreign::CLUSTER
            .of(client, space)
            .get_opt("edge")
            .await
            .unwrap();
        let hosts = HOST.of(client, space).list(&ListParams::default()).await;
        let identities = hosts
            .unwrap()
            .into_iter()
            .map(|host| (host.metadata.name.unwrap(), host.data["spec"].clone()));
        let system: Api<Secret> = Api::namespaced(client.clone(), "kedge-system");
        let authority = system.get_opt("kedge-manager-ca").await.unwrap();
        let data = authority.and_then(|secret| secret.data).unwrap_or_default();
        let tokens: Api<Secret> = Api::namespaced(client.clone(), space);
        let of_tokens = ListParams::default().fields("type=kedge.dev/enrollment-token");
        Self {
            endpoint: cluster.as_ref().and_then(endpoint),
            balancer: spec(BALANCER, "edge").await,
            identities: identities.collect(),
            gateway: spec(GATEWAY, "gw").await,
            tenant: spec(TENANT, space).await,
            pool: spec(POOL, "lan").await,
            authority: data
                .into_iter()
                .map(|(name, data)| (name, data.0))
                .collect(),
            tokens: tokens.list(&of_tokens).await.unwrap().items.len(),
        }
    }
}

/// clusterctl wants to know where an image lies.
const IMAGE: &[(&str, &str)] = &[("KEDGE_IMAGE", "registry.example.org/kedge/manager")];
