//! An infrastructure provider of the v1beta2 contract, in a group of its own.
//!
//! Its cluster is provisioned once somebody gave it an endpoint; its machines are provisioned as
//! soon as they may be, with an address.

use std::sync::Arc;

use kube::{
    Client, ResourceExt as _,
    api::DynamicObject,
    runtime::{Controller, controller::Action, reflector::ObjectRef, watcher},
};
use serde_json::{Value, json};

use crate::{
    background::{Background, drive},
    capi::Capi,
    foreign, manifests,
    objects::{Kind, at, condition, label, merge, merge_status, text},
    schema::{boolean, definition, object, string, strings, template},
    server::Server,
};

/// The cluster's part.
pub const CLUSTER: Kind = Kind::new(GROUP, "v1alpha1", "EdgeTestCluster");
/// What topologies make the cluster's part from.
pub const CLUSTER_TEMPLATE: Kind = Kind::new(GROUP, "v1alpha1", "EdgeTestClusterTemplate");
/// A machine's part.
pub const MACHINE: Kind = Kind::new(GROUP, "v1alpha1", "EdgeTestMachine");
/// What machines' parts are made from.
pub const MACHINE_TEMPLATE: Kind = Kind::new(GROUP, "v1alpha1", "EdgeTestMachineTemplate");

/// A load balancer of somebody else, which the tests serve by hand.
pub const LOAD_BALANCER: Kind = Kind::new(GROUP, "v1alpha1", "EdgeTestLoadBalancer");

/// The running controllers. They end with it.
#[derive(Debug)]
pub struct EdgeTest {
    _controllers: Background,
}

impl EdgeTest {
    /// Applies the definitions and starts the controllers beside Cluster API.
    pub async fn start(server: &Server, _capi: &Capi) -> Self {
        manifests::apply_definitions(&server.client().await, &definitions()).await;
        Self {
            _controllers: Background::start(server, run),
        }
    }
}

async fn run(client: Client) {
    let controller = |kind: Kind| {
        let config = watcher::Config::default();
        Controller::new_with(kind.everywhere(&client), config, kind.resource())
    };
    let machines = controller(MACHINE).watches_with(
        foreign::MACHINE.everywhere(&client),
        foreign::MACHINE.resource(),
        watcher::Config::default(),
        |machine| {
            let name = text(&machine, "/spec/infrastructureRef/name");
            let space = machine.namespace().unwrap_or_default();
            (text(&machine, "/spec/infrastructureRef/kind") == MACHINE.kind)
                .then(|| ObjectRef::new_with(name, MACHINE.resource()).within(&space))
        },
    );
    tokio::join!(
        drive(
            "EdgeTestCluster",
            controller(CLUSTER),
            client.clone(),
            cluster
        ),
        drive("EdgeTestMachine", machines, client.clone(), machine),
    );
}

async fn cluster(cluster: Arc<DynamicObject>, client: Arc<Client>) -> kube::Result<Action> {
    if cluster.annotations().contains_key(foreign::MANAGED_BY) {
        return Ok(Action::await_change());
    }
    let host = text(&cluster, "/spec/controlPlaneEndpoint/host");
    let owned = foreign::CLUSTER.owner_of(&cluster).is_some();
    let ready = owned && !host.is_empty();
    let reason = if ready {
        "Provisioned"
    } else {
        "MissingControlPlaneEndpoint"
    };
    let api = CLUSTER.of(&client, &cluster.namespace().unwrap_or_default());
    merge_status(&api, &cluster, status(&cluster, ready, reason)).await?;
    Ok(Action::await_change())
}

async fn machine(machine: Arc<DynamicObject>, client: Arc<Client>) -> kube::Result<Action> {
    let space = machine.namespace().unwrap_or_default();
    let api = MACHINE.of(&client, &space);
    let owner = match foreign::MACHINE.owner_of(&machine) {
        Some(name) => foreign::MACHINE.of(&client, &space).get_opt(&name).await?,
        None => None,
    };
    let secret = owner
        .as_ref()
        .map_or("", |owner| text(owner, "/spec/bootstrap/dataSecretName"));
    if secret.is_empty() || label(&machine, foreign::CLUSTER_NAME).is_empty() {
        let status = status(&machine, false, "WaitingForBootstrapData");
        merge_status(&api, &machine, status).await?;
        return Ok(Action::await_change());
    }
    let name = machine.name_any();
    let id = format!("edgetest://{space}/{name}");
    if text(&machine, "/spec/providerID") != id {
        merge(&api, &name, json!({"spec": {"providerID": id}})).await?;
    }
    let mut status = status(&machine, true, "Provisioned");
    status["addresses"] = json!([{"type": "Hostname", "address": name}]);
    merge_status(&api, &machine, status).await?;
    Ok(Action::await_change())
}

fn status(object: &DynamicObject, ready: bool, reason: &str) -> Value {
    let verdict = if ready { "True" } else { "False" };
    let before = condition(object, "Ready");
    let since = if before["status"] == verdict {
        before["lastTransitionTime"].clone()
    } else {
        json!(
            jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string()
        )
    };
    // Once provisioned, always provisioned: that is the contract.
    let provisioned = ready || at(object, "/status/initialization/provisioned") == &json!(true);
    json!({
        "initialization": {"provisioned": provisioned},
        "conditions": [{
            "type": "Ready", "status": verdict, "reason": reason, "message": "",
            "lastTransitionTime": since,
        }],
    })
}

fn definitions() -> Vec<Value> {
    let cluster = object(&json!({"controlPlaneEndpoint": object(&json!({
        "host": {"type": "string", "minLength": 1, "maxLength": 512},
        "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
    }))}));
    let machine = object(&json!({"providerID": string()}));
    let list = |items: Value| json!({"type": "array", "items": items});
    let condition = json!({
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": string(), "reason": string(), "status": string(), "type": string(),
        "observedGeneration": {"type": "integer", "format": "int64"},
    });
    let status = object(&json!({
        "addresses": list(object(&json!({"type": string(), "address": string()}))),
        "conditions": list(object(&condition)),
        "failureDomains": list(object(&json!({
            "name": string(), "controlPlane": boolean(), "attributes": strings(),
        }))),
        "initialization": object(&json!({"provisioned": boolean()})),
    }));
    let balancer = object(&json!({"endpoint": object(&json!({
        "host": string(), "port": {"type": "integer", "format": "int32"},
    }))}));
    vec![
        definition(LOAD_BALANCER, CONTRACT, &balancer, Some(&status), &[]),
        definition(CLUSTER, CONTRACT, &cluster, Some(&status), &[]),
        definition(CLUSTER_TEMPLATE, CONTRACT, &template(&cluster), None, &[]),
        definition(MACHINE, CONTRACT, &machine, Some(&status), &[]),
        definition(MACHINE_TEMPLATE, CONTRACT, &template(&machine), None, &[]),
    ]
}

const GROUP: &str = "infrastructure.edgetest.example.com";
const CONTRACT: &str = "cluster.x-k8s.io/v1beta2";
