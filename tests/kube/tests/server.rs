//! The harness itself: a server comes up, serves, survives the loss of its store's server and goes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use k8s_openapi::api::core::v1::Namespace;
use kedge_tests_kube::server::Server;
use kube::{Api, api::PostParams};

#[tokio::test]
async fn a_server_serves_and_remembers_across_a_restart() {
    let Some(mut server) = Server::start().await else {
        return;
    };
    let spaces: Api<Namespace> = Api::all(server.client().await);
    let space = serde_json::from_value(serde_json::json!({"metadata": {"name": "edge"}})).unwrap();
    spaces.create(&PostParams::default(), &space).await.unwrap();
    server.stop_api();
    server.start_api().await;
    let spaces: Api<Namespace> = Api::all(server.client().await);
    assert!(spaces.get_opt("edge").await.unwrap().is_some());
}
