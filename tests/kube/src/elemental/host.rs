//! ElementalHosts: they stay until the machine behind them was reset.

use std::sync::Arc;

use kube::{
    Client, ResourceExt as _,
    api::DynamicObject,
    runtime::{Controller, controller::Action, watcher},
};
use serde_json::json;

use super::{BOOTSTRAPPED, FINALIZER, INSTALLED, NEEDS_RESET, RESET, kinds};
use crate::{
    background::drive,
    condition::{Conditions, Severity},
    finalizers,
    objects::{label, merge, merge_status},
};

pub(super) async fn run(client: Client) {
    let controller = Controller::new_with(
        kinds::HOST.everywhere(&client),
        watcher::Config::default(),
        kinds::HOST.resource(),
    );
    drive("ElementalHost", controller, client, reconcile).await;
}

async fn reconcile(host: Arc<DynamicObject>, client: Arc<Client>) -> kube::Result<Action> {
    let hosts = kinds::HOST.of(&client, &host.namespace().unwrap_or_default());
    let name = host.name_any();
    let mut conditions = Conditions::of(&host);
    if host.metadata.deletion_timestamp.is_none() {
        if let Some(patch) = finalizers::add(&host, FINALIZER) {
            merge(&hosts, &name, patch).await?;
        }
        if label(&host, INSTALLED) == "true" {
            conditions.yes("RegistrationReady");
            conditions.yes("InstallationReady");
        }
        if label(&host, BOOTSTRAPPED) == "true" {
            conditions.yes("BootstrapReady");
        }
    } else if label(&host, RESET) == "true" {
        if let Some(patch) = finalizers::remove(&host, FINALIZER) {
            merge(&hosts, &name, patch).await?;
        }
        return Ok(Action::await_change());
    } else {
        if label(&host, NEEDS_RESET) != "true" {
            let patch = json!({"metadata": {"labels": {NEEDS_RESET: "true"}}});
            merge(&hosts, &name, patch).await?;
        }
        conditions.no(
            "ResetReady",
            Severity::Info,
            "WaitingForReset",
            "Waiting for remote host to reset",
        );
    }
    let status = json!({"conditions": conditions.with_summary()});
    merge_status(&hosts, &host, status).await?;
    Ok(Action::await_change())
}
