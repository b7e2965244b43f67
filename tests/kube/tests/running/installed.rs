//! The chart on an API server that writes down who asks for what.

use std::sync::{Arc, Weak};

use k8s_openapi::api::rbac::v1::ClusterRole;
use kedge_tests_kube::{
    assets::{Program, ready},
    chart, edgetest, eventually, manifests,
    ours::Ours,
    server::Server,
    stack::Stack,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::site::LIMIT;

/// The manager as its Pods are: as the chart's ServiceAccount. Every test of this program that
/// shares a manager shares this one.
pub async fn installed() -> Option<Arc<Ours>> {
    let mut shared = SHARED.lock().await;
    if let Some(running) = shared.upgrade() {
        return Some(running);
    }
    if !ready(&[Program::Helm]) {
        return None;
    }
    let stack = Stack::around(Server::start_audited().await?).await?;
    let stack = stack.share().await;
    let server = stack.server();
    let client = server.client().await;
    // Rights in a namespace need the namespace.
    let spaces: Vec<Value> = spaces()
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .collect();
    manifests::apply(&client, &spaces).await;
    _ = chart::install(server, &values());
    aggregated(&client).await;
    let account = server
        .kubeconfig_of_account("kedge-system", "kedge-manager")
        .await;
    let ours = Ours::start_as(Arc::clone(&stack), account)
        .await
        .share()
        .await;
    *shared = Arc::downgrade(&ours);
    Some(ours)
}

/// The values of the tests: their provider's kinds beside Elemental's.
pub fn values() -> Value {
    let spaces: Vec<String> = spaces().collect();
    json!({
        "tenantNamespaces": spaces,
        "kubeconfigNamespaces": spaces,
        "infraKinds": [
            {"group": edgetest::CLUSTER.group, "resources": ["edgetestclusters"]},
        ],
        "policies": {"hostnameSuffixes": [".lb.example.net"]},
    })
}

/// A provider brings rules of its own: waits until Kubernetes has put them into the manager's role.
pub async fn aggregated(client: &Client) {
    let provider = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "edgetest-kedge",
            "labels": {"kedge.dev/aggregate-to-manager": "true"},
        },
        "rules": [{
            "apiGroups": [edgetest::CLUSTER.group],
            "resources": ["edgetestmachines", "edgetestmachinetemplates"],
            "verbs": ["list", "watch"],
        }],
    });
    manifests::apply(client, &[provider]).await;
    let roles: Api<ClusterRole> = Api::all(client.clone());
    eventually("the role is aggregated", LIMIT, async || {
        let role = roles.get("kedge-manager-infrastructure").await.unwrap();
        role.rules.is_some_and(|rules| !rules.is_empty())
    })
    .await;
}

/// The namespaces of the tests, before they are made.
fn spaces() -> impl Iterator<Item = String> {
    (0..SPACES).map(|number| format!("edge-{number}"))
}

/// How many tests there may be.
pub const SPACES: usize = 12;

static SHARED: Mutex<Weak<Ours>> = Mutex::const_new(Weak::new());
