//! ElementalClusters: ready once somebody gave them an endpoint.

use std::sync::Arc;

use kube::{
    Client, ResourceExt as _,
    api::DynamicObject,
    runtime::{Controller, controller::Action, reflector::ObjectRef, watcher},
};
use serde_json::json;

use super::kinds;
use crate::{
    background::{drive, infrastructure_of},
    condition::{Conditions, Severity},
    foreign,
    objects::{at, merge_status, text},
};

pub(super) async fn run(client: Client) {
    let ours = kinds::CLUSTER.resource();
    let of_cluster = ours.clone();
    let controller = Controller::new_with(
        kinds::CLUSTER.everywhere(&client),
        watcher::Config::default(),
        ours,
    )
    .watches_with(
        foreign::CLUSTER_V1BETA1.everywhere(&client),
        foreign::CLUSTER_V1BETA1.resource(),
        watcher::Config::default(),
        move |cluster| {
            infrastructure_of(&cluster, kinds::CLUSTER)
                .map(|(space, name)| ObjectRef::new_with(&name, of_cluster.clone()).within(&space))
        },
    );
    drive("ElementalCluster", controller, client, reconcile).await;
}

async fn reconcile(cluster: Arc<DynamicObject>, client: Arc<Client>) -> kube::Result<Action> {
    // Somebody else provides this cluster: not even its status is touched.
    if cluster.annotations().contains_key(foreign::MANAGED_BY) {
        return Ok(Action::await_change());
    }
    let space = cluster.namespace().unwrap_or_default();
    let mut conditions = Conditions::of(&cluster);
    let ready = judge(&cluster, &client, &space, &mut conditions).await?;
    let status = json!({"ready": ready, "conditions": conditions.with_summary()});
    merge_status(&kinds::CLUSTER.of(&client, &space), &cluster, status).await?;
    Ok(Action::await_change())
}

async fn judge(
    cluster: &DynamicObject,
    client: &Client,
    space: &str,
    conditions: &mut Conditions,
) -> kube::Result<bool> {
    let owner = match foreign::CLUSTER_V1BETA1.owner_of(cluster) {
        Some(name) => {
            let clusters = foreign::CLUSTER_V1BETA1.of(client, space);
            clusters.get_opt(&name).await?
        }
        None => None,
    };
    if owner.is_none() {
        conditions.no(
            "CAPIClusterReady",
            Severity::Error,
            "MissingClusterOwner",
            "missing CAPI Cluster owner",
        );
        return Ok(false);
    }
    conditions.yes("CAPIClusterReady");
    let host = text(cluster, "/spec/controlPlaneEndpoint/host");
    let port = at(cluster, "/spec/controlPlaneEndpoint/port").as_i64();
    if host.is_empty() || port.unwrap_or_default() == 0 {
        conditions.no(
            "ControlPlaneEndpointReady",
            Severity::Error,
            "MissingControlPlaneEndpoint",
            "missing control plane endpoint",
        );
        return Ok(false);
    }
    conditions.yes("ControlPlaneEndpointReady");
    Ok(true)
}
