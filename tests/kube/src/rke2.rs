//! RKE2's kinds, as far as a template names their fields (v0.25, v1beta2 contract). Nobody serves
//! them: they show that our templates are such as the API server takes, and that a control plane of this
//! kind is looked at by the label of its contract alone.

use serde_json::{Value, json};

use crate::{
    objects::Kind,
    schema::{anything, atomic, definition, object, string, template},
};

/// The control plane.
pub const CONTROL_PLANE: Kind = Kind::new(
    "controlplane.cluster.x-k8s.io",
    "v1beta2",
    "RKE2ControlPlane",
);
/// What topologies make it from.
pub const CONTROL_PLANE_TEMPLATE: Kind = Kind::new(
    "controlplane.cluster.x-k8s.io",
    "v1beta2",
    "RKE2ControlPlaneTemplate",
);
/// What workers' configurations are made from.
pub const CONFIG_TEMPLATE: Kind = Kind::new(
    "bootstrap.cluster.x-k8s.io",
    "v1beta2",
    "RKE2ConfigTemplate",
);

/// Their definitions.
#[must_use]
pub fn definitions() -> Vec<Value> {
    let mut status = object(&json!({}));
    status["x-kubernetes-preserve-unknown-fields"] = json!(true);
    vec![
        definition(CONTROL_PLANE, CONTRACT, &plane(), Some(&status), &[]),
        definition(
            CONTROL_PLANE_TEMPLATE,
            CONTRACT,
            &template(&plane_of_template()),
            None,
            &[],
        ),
        definition(CONFIG_TEMPLATE, CONTRACT, &config(), None, &[]),
    ]
}

fn plane() -> Value {
    let reference = required(
        &json!({"apiGroup": string(), "kind": string(), "name": string()}),
        &["apiGroup", "kind", "name"],
    );
    let machine = required(
        &json!({"infrastructureRef": reference}),
        &["infrastructureRef"],
    );
    let mut plane = plane_of_template();
    plane["properties"]["replicas"] = json!({"type": "integer"});
    plane["properties"]["version"] =
        json!({"type": "string", "pattern": r"(v\d\.\d{2}\.\d+\+rke2r\d)|^$"});
    // What a topology says of its machines goes there.
    let texts = json!({"type": "object", "additionalProperties": string()});
    let metadata = object(&json!({"labels": texts, "annotations": texts}));
    plane["properties"]["machineTemplate"] =
        required(&json!({"metadata": metadata, "spec": machine}), &["spec"]);
    plane["required"] = json!(["rolloutStrategy", "version"]);
    plane
}

/// What a template may say of it: everything but how many, which version and which machines.
fn plane_of_template() -> Value {
    let methods = [
        "internal-first",
        "internal-only-ips",
        "external-only-ips",
        "address",
        "control-plane-endpoint",
        "",
    ];
    let rollout = json!({"type": string(), "rollingUpdate": object(&json!({"maxSurge": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": true}}))});
    required(
        &json!({
            "registrationMethod": {"type": "string", "enum": methods},
            "rolloutStrategy": object(&rollout),
            "preRKE2Commands": atomic(&string()),
            "agentConfig": loose(),
            "serverConfig": loose(),
        }),
        &["rolloutStrategy"],
    )
}

fn config() -> Value {
    let spec = object(&json!({"agentConfig": loose(), "preRKE2Commands": atomic(&string())}));
    template(&spec)
}

fn loose() -> Value {
    let mut loose = anything();
    loose["type"] = json!("object");
    loose
}

fn required(properties: &Value, fields: &[&str]) -> Value {
    let mut all = object(properties);
    all["required"] = json!(fields);
    all
}

const CONTRACT: &str = "cluster.x-k8s.io/v1beta2";
