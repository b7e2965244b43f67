//! What hosts offer for their cluster, and that nothing of it stays of one that is out.

use http::Method;
use kedge_manager_controller::Manager;
use kedge_tests_kube::eventually;
use serde_json::{Value, json};

use crate::{
    fleet::{Fleet, LIMIT},
    host::Host,
};

/// A host begins to speak for its cluster.
pub async fn speaks(fleet: &Fleet, at: &Manager, host: &Host, name: &str) -> u64 {
    fleet
        .patch_host(name, json!({"spec": {"exposures": true}}))
        .await;
    eventually("it may speak", LIMIT, async || {
        host.ask(at, (Method::GET, PATH), Value::Null).await.0 == 200
    })
    .await;
    let (_, list) = host.ask(at, (Method::GET, PATH), Value::Null).await;
    let path = format!("{PATH}/epoch");
    let seen = json!({"epoch": list["epoch"]});
    let (status, answer) = host.ask(at, (Method::POST, &path), seen).await;
    assert_eq!(status, 200, "{answer}");
    answer["epoch"].as_u64().unwrap()
}

/// It says everything there is.
pub async fn says(at: &Manager, host: &Host, epoch: u64, names: &[&str]) -> (u16, Value) {
    let item = |name: &&str| {
        json!({"kind": "TCPLoadBalancer", "name": name, "spec": {
            "source": {"kind": "Service", "namespace": "default", "name": name},
            "ports": [{"name": "http", "port": 80}],
            "endpoints": [{"hostSelector": {"matchLabels": {}},
                "ports": [{"name": "http", "port": 30080}]}]}})
    };
    let items: Vec<Value> = names.iter().map(item).collect();
    let set = json!({"epoch": epoch, "kinds": ["TCPLoadBalancer"], "items": items});
    host.ask(at, (Method::PUT, PATH), set).await
}

/// Waits until these are there and no others, with the host that said each.
pub async fn are(fleet: &Fleet, what: &str, wanted: &[(&str, &str)]) {
    let wanted: Vec<(String, String)> = wanted
        .iter()
        .map(|(name, host)| ((*name).to_owned(), (*host).to_owned()))
        .collect();
    eventually(what, LIMIT, async || fleet.exposures().await == wanted).await;
}

pub const PATH: &str = "/kedge/v1/tenants/t/exposures";
