//! Elemental's definitions: its kinds with exactly its schema (v0.7, v1beta1 contract).

use serde_json::{Value, json};

use crate::{
    objects::Kind,
    schema::{
        Column, anything, atomic, boolean, definition, object, reference, string, strings, template,
    },
};

/// The group of infrastructure.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// The cluster's part.
pub const CLUSTER: Kind = Kind::new(GROUP, "v1beta1", "ElementalCluster");
/// What topologies make the cluster's part from.
pub const CLUSTER_TEMPLATE: Kind = Kind::new(GROUP, "v1beta1", "ElementalClusterTemplate");
/// A machine's part.
pub const MACHINE: Kind = Kind::new(GROUP, "v1beta1", "ElementalMachine");
/// What machines' parts are made from.
pub const MACHINE_TEMPLATE: Kind = Kind::new(GROUP, "v1beta1", "ElementalMachineTemplate");
/// A registered host.
pub const HOST: Kind = Kind::new(GROUP, "v1beta1", "ElementalHost");
/// What hosts register with.
pub const REGISTRATION: Kind = Kind::new(GROUP, "v1beta1", "ElementalRegistration");

/// Every definition.
#[must_use]
pub fn definitions() -> Vec<Value> {
    vec![
        definition(CLUSTER, CONTRACT, &cluster(), Some(&status_of_infra()), &[]),
        definition(CLUSTER_TEMPLATE, CONTRACT, &template(&cluster()), None, &[]),
        definition(
            MACHINE,
            CONTRACT,
            &machine(),
            Some(&status_of_infra()),
            MACHINE_COLUMNS,
        ),
        definition(MACHINE_TEMPLATE, CONTRACT, &template(&machine()), None, &[]),
        definition(
            HOST,
            CONTRACT,
            &host(),
            Some(&status_of_host()),
            HOST_COLUMNS,
        ),
        definition(
            REGISTRATION,
            CONTRACT,
            &registration(),
            Some(&status(&json!({}))),
            &[],
        ),
    ]
}

const CONTRACT: &str = "cluster.x-k8s.io/v1beta1";

const HOST_COLUMNS: &[Column] = &[
    (
        "Cluster",
        "string",
        r".metadata.labels['cluster\.x-k8s\.io/cluster-name']",
    ),
    (
        "Machine",
        "string",
        r".metadata.labels['elementalhost\.infrastructure\.cluster\.x-k8s\.io/machine-name']",
    ),
    ("ElementalMachine", "string", ".spec.machineRef.name"),
    ("Phase", "string", ".status.phase"),
    (
        "Ready",
        "string",
        r#".status.conditions[?(@.type=="Ready")].status"#,
    ),
    ("Age", "date", ".metadata.creationTimestamp"),
];

const MACHINE_COLUMNS: &[Column] = &[
    (
        "Cluster",
        "string",
        r".metadata.labels['cluster\.x-k8s\.io/cluster-name']",
    ),
    (
        "Machine",
        "string",
        r#".metadata.ownerReferences[?(@.kind=="Machine")].name"#,
    ),
    ("ProviderID", "string", ".spec.providerID"),
    (
        "Ready",
        "string",
        r#".status.conditions[?(@.type=="Ready")].status"#,
    ),
    ("Age", "date", ".metadata.creationTimestamp"),
];

fn cluster() -> Value {
    object(&json!({
        "controlPlaneEndpoint": {
            "type": "object",
            "properties": {"host": string(), "port": {"type": "integer", "format": "int32"}},
            "required": ["host", "port"],
        },
    }))
}

fn machine() -> Value {
    let expression = json!({
        "type": "object",
        "properties": {"key": string(), "operator": string(), "values": atomic(&string())},
        "required": ["key", "operator"],
    });
    object(&json!({
        "hostRef": reference(),
        "osVersionManagement": anything(),
        "providerID": string(),
        "selector": {
            "type": "object",
            "properties": {"matchExpressions": atomic(&expression), "matchLabels": strings()},
            "x-kubernetes-map-type": "atomic",
        },
    }))
}

fn host() -> Value {
    object(&json!({
        "bootstrapSecret": reference(),
        "machineRef": reference(),
        "osVersionManagement": anything(),
        "pubKey": string(),
    }))
}

fn registration() -> Value {
    let power = || object(&json!({"powerOff": boolean(), "reboot": boolean()}));
    let plugin = "/usr/lib/elemental/plugins/elemental.so";
    let duration = || json!({"type": "integer", "format": "int64"});
    let agent = json!({
        "type": "object",
        "default": {
            "debug": false,
            "hostname": {"useExisting": false},
            "osPlugin": plugin,
            "reconciliation": 10_000_000_000_i64,
        },
        "properties": {
            "debug": boolean(),
            "hostname": {
                "type": "object",
                "default": {"useExisting": true},
                "properties": {
                    "prefix": string(),
                    "useExisting": {"type": "boolean", "default": false},
                },
            },
            "insecureAllowHttp": boolean(),
            "insecureSkipTlsVerify": boolean(),
            "noSmbios": boolean(),
            "osPlugin": {"type": "string", "default": plugin},
            "postInstall": power(),
            "postReset": power(),
            "reconciliation": {
                "type": "integer", "format": "int64", "default": 10_000_000_000_i64,
            },
            "useSystemCertPool": boolean(),
            "workDir": {"type": "string", "default": "/var/lib/elemental/agent"},
        },
    });
    let elemental = object(&json!({
        "agent": agent,
        "install": anything(),
        "registration": object(&json!({
            "caCert": string(), "token": string(), "tokenDuration": duration(), "uri": string(),
        })),
        "reset": anything(),
    }));
    object(&json!({
        "config": object(&json!({"cloudConfig": anything(), "elemental": elemental})),
        "hostAnnotations": strings(),
        "hostLabels": strings(),
        "privateKeyRef": reference(),
    }))
}

fn status_of_infra() -> Value {
    let domain = object(&json!({"attributes": strings(), "controlPlane": boolean()}));
    status(&json!({
        "failureDomains": {"type": "object", "additionalProperties": domain},
        "ready": {"type": "boolean", "default": false},
    }))
}

fn status_of_host() -> Value {
    status(&json!({"phase": string()}))
}

fn status(rest: &Value) -> Value {
    let mut properties = rest.clone();
    let condition = json!({
        "type": "object",
        "properties": {
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "message": string(), "reason": string(), "severity": string(),
            "status": string(), "type": string(),
        },
        "required": ["lastTransitionTime", "status", "type"],
    });
    properties["conditions"] = json!({"type": "array", "items": condition});
    object(&properties)
}
