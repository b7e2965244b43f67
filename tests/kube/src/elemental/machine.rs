//! ElementalMachines: each takes a free host, and is ready once that host is a node.

use std::{sync::Arc, time::Duration};

use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams},
    core::Selector,
    runtime::{Controller, controller::Action, reflector::ObjectRef, watcher},
};
use serde_json::{Value, json};

use super::{
    BOOTSTRAPPED, ELEMENTAL_MACHINE_NAME, FINALIZER, INSTALLED, MACHINE_NAME, NEEDS_RESET, kinds,
    workload,
};
use crate::{
    background::{drive, infrastructure_of},
    condition::{Conditions, Severity},
    finalizers, foreign,
    objects::{at, condition, label, merge, merge_status, text},
};

pub(super) async fn run(client: Client) {
    let ours = kinds::MACHINE.resource();
    let (of_machine, of_host, of_cluster) = (ours.clone(), ours.clone(), ours.clone());
    let controller = Controller::new_with(
        kinds::MACHINE.everywhere(&client),
        watcher::Config::default(),
        ours,
    );
    // A cluster's change concerns its machines: they carry its name.
    let reader = controller.store();
    let controller = controller
        .watches_with(
            foreign::MACHINE_V1BETA1.everywhere(&client),
            foreign::MACHINE_V1BETA1.resource(),
            watcher::Config::default(),
            move |machine| {
                infrastructure_of(&machine, kinds::MACHINE).map(|(space, name)| {
                    ObjectRef::new_with(&name, of_machine.clone()).within(&space)
                })
            },
        )
        .watches_with(
            kinds::HOST.everywhere(&client),
            kinds::HOST.resource(),
            watcher::Config::default(),
            move |host| {
                let name = text(&host, "/spec/machineRef/name");
                let space = text(&host, "/spec/machineRef/namespace");
                (!name.is_empty()).then(|| ObjectRef::new_with(name, of_host.clone()).within(space))
            },
        )
        .watches_with(
            foreign::CLUSTER_V1BETA1.everywhere(&client),
            foreign::CLUSTER_V1BETA1.resource(),
            watcher::Config::default(),
            move |cluster| {
                let all = reader.state().into_iter().filter(move |machine| {
                    machine.namespace() == cluster.namespace()
                        && label(machine, foreign::CLUSTER_NAME) == cluster.name_any()
                });
                let of_cluster = of_cluster.clone();
                all.map(move |machine| ObjectRef::from_obj_with(&*machine, of_cluster.clone()))
                    .collect::<Vec<_>>()
            },
        );
    drive("ElementalMachine", controller, client, reconcile).await;
}

async fn reconcile(machine: Arc<DynamicObject>, client: Arc<Client>) -> kube::Result<Action> {
    let space = machine.namespace().unwrap_or_default();
    let mut pass = Pass {
        machines: kinds::MACHINE.of(&client, &space),
        hosts: kinds::HOST.of(&client, &space),
        conditions: Conditions::of(&machine),
        client,
        space,
        machine,
    };
    let outcome = pass.run().await?;
    // Gone with its finalizer.
    let Some((ready, action)) = outcome else {
        return Ok(Action::await_change());
    };
    let status = json!({"ready": ready, "conditions": pass.conditions.with_summary()});
    merge_status(&pass.machines, &pass.machine, status).await?;
    Ok(action)
}

/// One look at a machine.
struct Pass {
    client: Arc<Client>,
    machine: Arc<DynamicObject>,
    machines: Api<DynamicObject>,
    hosts: Api<DynamicObject>,
    conditions: Conditions,
    space: String,
}

type Outcome = Option<(bool, Action)>;

const WAIT: Outcome = Some((false, Action::await_change()));

impl Pass {
    async fn run(&mut self) -> kube::Result<Outcome> {
        let owner = match foreign::MACHINE_V1BETA1.owner_of(&self.machine) {
            Some(name) => {
                let machines = foreign::MACHINE_V1BETA1.of(&self.client, &self.space);
                machines.get_opt(&name).await?
            }
            None => None,
        };
        let Some(owner) = owner else {
            return Ok(self.unassociated(Severity::Error, "MissingMachineOwner"));
        };
        let clusters = foreign::CLUSTER_V1BETA1.of(&self.client, &self.space);
        let cluster = match label(&self.machine, foreign::CLUSTER_NAME) {
            "" => None,
            name => clusters.get_opt(name).await?,
        };
        let Some(cluster) = cluster else {
            return Ok(self.unassociated(Severity::Error, "MissingAssociatedCluster"));
        };
        if self.machine.metadata.deletion_timestamp.is_some() {
            return self.delete().await;
        }
        if let Some(patch) = finalizers::add(&self.machine, FINALIZER) {
            merge(&self.machines, &self.machine.name_any(), patch).await?;
        }
        if at(&cluster, "/status/infrastructureReady") != &json!(true) {
            return Ok(self.unassociated(Severity::Error, "MissingClusterInfrastructureReady"));
        }
        let secret = text(&owner, "/spec/bootstrap/dataSecretName");
        if secret.is_empty() {
            return Ok(self.unassociated(Severity::Error, "MissingBootstrapSecret"));
        }
        match text(&self.machine, "/spec/hostRef/name") {
            "" => self.associate(&owner, secret).await,
            host => self.follow(host.to_owned(), &cluster).await,
        }
    }

    fn unassociated(&mut self, severity: Severity, reason: &str) -> Outcome {
        self.conditions
            .no("AssociationReady", severity, reason, reason);
        WAIT
    }

    /// Takes the first free host of the namespace; one that carries our name already wins.
    async fn associate(&mut self, owner: &DynamicObject, secret: &str) -> kube::Result<Outcome> {
        let name = self.machine.name_any();
        let linked = format!("{ELEMENTAL_MACHINE_NAME}={name},!{NEEDS_RESET}");
        let free = format!("{INSTALLED}=true,!{NEEDS_RESET},!{MACHINE_NAME}");
        let mut found = self.first(&linked).await?;
        if found.is_none() {
            let wish = wish(at(&self.machine, "/spec/selector"));
            found = self
                .first([wish, free].join(",").trim_start_matches(','))
                .await?;
        }
        let Some(host) = found else {
            let reason = "MissingAvailableHosts";
            self.conditions.no(
                "AssociationReady",
                Severity::Warning,
                reason,
                "No ElementalHosts available for association.",
            );
            return Ok(Some((false, Action::requeue(REQUEUE))));
        };
        let host_name = host.name_any();
        let link = json!({
            "metadata": {"labels": {
                MACHINE_NAME: owner.name_any(),
                ELEMENTAL_MACHINE_NAME: name,
                foreign::CLUSTER_NAME: label(&self.machine, foreign::CLUSTER_NAME),
            }},
            "spec": {
                "machineRef": reference(kinds::MACHINE, &self.machine),
                "bootstrapSecret": {"kind": "Secret", "namespace": self.space, "name": secret},
                "osVersionManagement": at(&self.machine, "/spec/osVersionManagement"),
            },
        });
        merge(&self.hosts, &host_name, link).await?;
        let link = json!({"spec": {"hostRef": reference(kinds::HOST, &host)}});
        merge(&self.machines, &name, link).await?;
        self.conditions.yes("AssociationReady");
        self.waits_for_bootstrap(&host_name);
        Ok(WAIT)
    }

    /// Follows the host until it is a node.
    async fn follow(&mut self, name: String, cluster: &DynamicObject) -> kube::Result<Outcome> {
        let Some(host) = self.hosts.get_opt(&name).await? else {
            let unlink = json!({"spec": {"providerID": null, "hostRef": null}});
            merge(&self.machines, &self.machine.name_any(), unlink).await?;
            let why = format!("Previously associated host not found: {name}");
            self.conditions.no(
                "AssociationReady",
                Severity::Warning,
                "AssociatedHostNotFound",
                &why,
            );
            return Ok(Some((false, Action::requeue(REQUEUE))));
        };
        self.conditions.yes("AssociationReady");
        if label(&host, INSTALLED) != "true" {
            let why = format!("ElementalHost '{name}' is not installed.");
            self.conditions
                .no("HostReady", Severity::Error, "HostWaitingForInstall", &why);
            return Ok(WAIT);
        }
        if label(&host, BOOTSTRAPPED) != "true" {
            self.waits_for_bootstrap(&name);
            return Ok(WAIT);
        }
        self.conditions.yes("HostReady");
        if condition(cluster, "ControlPlaneInitialized")["status"] != "True" {
            self.conditions.no(
                "ProviderIDReady",
                Severity::Info,
                "WaitingForControlPlaneInitialized",
                "Waiting for the control plane to be initialized.",
            );
            return Ok(Some((false, Action::requeue(REQUEUE))));
        }
        let id = format!("elemental://{}/{name}", self.space);
        if text(&self.machine, "/spec/providerID") != id {
            let told = workload::name_node(&self.client, &self.space, cluster, &name, &id).await?;
            if !told {
                let why = format!("Downstream cluster node '{name}' is not found.");
                self.conditions
                    .no("ProviderIDReady", Severity::Error, "NodeNotFound", &why);
                return Ok(Some((false, Action::requeue(REQUEUE))));
            }
            let spec = json!({"spec": {"providerID": id}});
            merge(&self.machines, &self.machine.name_any(), spec).await?;
            self.conditions.yes("ProviderIDReady");
        }
        Ok(Some((true, Action::await_change())))
    }

    /// Has the host reset itself and lets go at once. A host that is gone keeps the machine: that
    /// is how the provider behaves.
    async fn delete(&mut self) -> kube::Result<Outcome> {
        let host = text(&self.machine, "/spec/hostRef/name");
        if !host.is_empty() {
            if self.hosts.get_opt(host).await?.is_none() {
                return Ok(None);
            }
            let patch = json!({"metadata": {"labels": {NEEDS_RESET: "true"}}});
            merge(&self.hosts, host, patch).await?;
        }
        if let Some(patch) = finalizers::remove(&self.machine, FINALIZER) {
            merge(&self.machines, &self.machine.name_any(), patch).await?;
        }
        Ok(None)
    }

    fn waits_for_bootstrap(&mut self, host: &str) {
        let why = format!("Waiting for ElementalHost '{host}' to be bootstrapped");
        self.conditions
            .no("HostReady", Severity::Info, "HostWaitingForBootstrap", &why);
    }

    async fn first(&self, labels: &str) -> kube::Result<Option<DynamicObject>> {
        let listed = self
            .hosts
            .list(&ListParams::default().labels(labels))
            .await?;
        Ok(listed.items.into_iter().next())
    }
}

/// A machine's selector as the API server reads it.
fn wish(selector: &Value) -> String {
    let wanted = serde_json::from_value(selector.clone()).unwrap_or_default();
    let wanted: k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector = wanted;
    Selector::try_from(wanted).map_or_else(|_| String::new(), |wish| wish.to_string())
}

fn reference(kind: crate::objects::Kind, object: &DynamicObject) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "namespace": object.namespace(),
        "name": object.name_any(),
        "uid": object.uid(),
    })
}

/// How often a machine looks again for what announces itself by no event.
const REQUEUE: Duration = Duration::from_secs(10);
