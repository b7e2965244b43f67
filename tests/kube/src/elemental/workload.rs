//! The workload cluster, reached as its providers reach it: by the kubeconfig Secret.

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;

/// Names a node after its host and lets it run. False where there is no such node.
pub(super) async fn name_node(
    client: &Client,
    space: &str,
    cluster: &DynamicObject,
    name: &str,
    id: &str,
) -> kube::Result<bool> {
    let Some(workload) = connect(client, space, &cluster.name_any()).await? else {
        return Ok(false);
    };
    let nodes: Api<Node> = Api::all(workload);
    let Some(node) = nodes.get_opt(name).await? else {
        return Ok(false);
    };
    let mut taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    taints.retain(|taint| taint.key != UNINITIALIZED);
    let patch = json!({"spec": {"providerID": id, "taints": taints}});
    nodes
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(true)
}

async fn connect(client: &Client, space: &str, cluster: &str) -> kube::Result<Option<Client>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), space);
    let secret = secrets.get_opt(&format!("{cluster}-kubeconfig")).await?;
    let value = secret.and_then(|secret| secret.data?.remove("value"));
    let Some(value) = value else {
        return Ok(None);
    };
    let config = Kubeconfig::from_yaml(&String::from_utf8_lossy(&value.0))?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Client::try_from(config).map(Some)
}

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
