//! RKE2's kinds, as far as a template names their fields (v0.25, v1beta2 contract). Nobody serves
//! them: they show that our template is one the API server takes, and that a control plane of this
//! kind is looked at by the label of its contract alone.

use serde_json::{Value, json};

use crate::{
    objects::Kind,
    schema::{anything, atomic, definition, object, string},
};

/// The control plane.
pub const CONTROL_PLANE: Kind = Kind::new(
    "controlplane.cluster.x-k8s.io",
    "v1beta2",
    "RKE2ControlPlane",
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
            "replicas": {"type": "integer"},
            "version": {"type": "string", "pattern": r"(v\d\.\d{2}\.\d+\+rke2r\d)|^$"},
            "registrationMethod": {"type": "string", "enum": methods},
            "rolloutStrategy": object(&rollout),
            "machineTemplate": required(&json!({"spec": machine}), &["spec"]),
            "preRKE2Commands": atomic(&string()),
            "serverConfig": loose(),
        }),
        &["rolloutStrategy", "version"],
    )
}

fn config() -> Value {
    let spec = object(&json!({"agentConfig": loose(), "preRKE2Commands": atomic(&string())}));
    let template = required(&json!({"spec": spec}), &["spec"]);
    required(&json!({"template": template}), &["template"])
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
