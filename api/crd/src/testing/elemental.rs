//! Elemental's CustomResourceDefinitions, with its schema: what it does not know is pruned, as by
//! the real ones.

use serde_json::{Value, json};

use crate::elemental::GROUP;

/// The CustomResourceDefinitions of Elemental's six kinds.
#[must_use]
pub fn elemental_crds() -> Vec<Value> {
    let cluster = json!({
        "type": "object",
        "properties": {"controlPlaneEndpoint": {
            "type": "object",
            "required": ["host", "port"],
            "properties": {"host": text(), "port": {"type": "integer", "format": "int32"}},
        }},
    });
    let machine = json!({
        "type": "object",
        "properties": {
            "providerID": text(),
            "selector": label_selector(),
            "hostRef": object_reference(),
            "osVersionManagement": schemaless(),
        },
    });
    let host = json!({
        "type": "object",
        "properties": {
            "bootstrapSecret": object_reference(),
            "machineRef": object_reference(),
            "pubKey": text(),
            "osVersionManagement": schemaless(),
        },
    });
    let infra_status = json!({
        "type": "object",
        "properties": {
            "ready": {"type": "boolean", "default": false},
            "conditions": conditions(),
            "failureDomains": {"type": "object", "additionalProperties": {
                "type": "object",
                "properties": {"controlPlane": {"type": "boolean"}, "attributes": texts()},
            }},
        },
    });
    let host_status = json!({
        "type": "object",
        "properties": {"phase": text(), "conditions": conditions()},
    });
    let registration_status = json!({
        "type": "object", "properties": {"conditions": conditions()},
    });
    vec![
        crd(
            "ElementalCluster",
            &cluster,
            Some(&infra_status),
            &json!([]),
        ),
        crd(
            "ElementalMachine",
            &machine,
            Some(&infra_status),
            &json!([]),
        ),
        crd("ElementalHost", &host, Some(&host_status), &host_columns()),
        crd(
            "ElementalRegistration",
            &registration(),
            Some(&registration_status),
            &json!([]),
        ),
        crd(
            "ElementalClusterTemplate",
            &template(&cluster),
            None,
            &json!([]),
        ),
        crd(
            "ElementalMachineTemplate",
            &template(&machine),
            None,
            &json!([]),
        ),
    ]
}

fn crd(kind: &str, spec: &Value, status: Option<&Value>, columns: &Value) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let mut properties = json!({
        "apiVersion": text(), "kind": text(), "metadata": {"type": "object"}, "spec": spec,
    });
    if let (Some(properties), Some(status)) = (properties.as_object_mut(), status) {
        properties.insert("status".to_owned(), status.clone());
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{GROUP}"),
            "labels": {
                "cluster.x-k8s.io/provider": "infrastructure-elemental",
                "cluster.x-k8s.io/v1beta1": "v1beta1",
            },
        },
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                "singular": singular, "categories": ["cluster-api"],
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
            }],
        },
    })
}

fn template(spec: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["template"],
        "properties": {"template": {
            "type": "object",
            "required": ["spec"],
            "properties": {
                "metadata": {
                    "type": "object",
                    "properties": {"labels": texts(), "annotations": texts()},
                },
                "spec": spec,
            },
        }},
    })
}

fn registration() -> Value {
    let duration =
        |default: Value| json!({"type": "integer", "format": "int64", "default": default});
    let flag = || json!({"type": "boolean"});
    let power = || json!({"type": "object", "properties": {"powerOff": flag(), "reboot": flag()}});
    let agent = json!({
        "type": "object",
        "properties": {
            "workDir": {"type": "string", "default": "/var/lib/elemental/agent"},
            "hostname": {
                "type": "object", "properties": {"useExisting": flag(), "prefix": text()},
            },
            "noSmbios": flag(),
            "debug": flag(),
            "osPlugin": {
                "type": "string", "default": "/usr/lib/elemental/plugins/elemental.so",
            },
            "reconciliation": duration(json!(10_000_000_000_i64)),
            "insecureAllowHttp": flag(),
            "insecureSkipTlsVerify": flag(),
            "useSystemCertPool": flag(),
            "postInstall": power(),
            "postReset": power(),
        },
    });
    let elemental = json!({
        "type": "object",
        "properties": {
            "install": schemaless(),
            "reset": schemaless(),
            "registration": {
                "type": "object",
                "properties": {
                    "uri": text(), "caCert": text(), "token": text(),
                    "tokenDuration": {"type": "integer", "format": "int64"},
                },
            },
            "agent": agent,
        },
    });
    json!({
        "type": "object",
        "properties": {
            "hostLabels": texts(),
            "hostAnnotations": texts(),
            "privateKeyRef": object_reference(),
            "config": {
                "type": "object",
                "properties": {"cloudConfig": schemaless(), "elemental": elemental},
            },
        },
    })
}

fn host_columns() -> Value {
    let label = |name: &str| {
        format!(r".metadata.labels.elementalhost\.infrastructure\.cluster\.x-k8s\.io/{name}")
    };
    let column =
        |name: &str, path: String| json!({"name": name, "type": "string", "jsonPath": path});
    json!([
        column("Cluster", r".metadata.labels.cluster\.x-k8s\.io/cluster-name".to_owned()),
        column("Machine", label("machine-name")),
        column("ElementalMachine", label("elemental-machine-name")),
        column("Phase", ".status.phase".to_owned()),
        column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#.to_owned()),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ])
}

/// Cluster API's v1beta1 conditions, with severity.
fn conditions() -> Value {
    json!({"type": "array", "items": {
        "type": "object",
        "required": ["lastTransitionTime", "status", "type"],
        "properties": {
            "type": text(), "status": text(), "severity": text(), "reason": text(),
            "message": text(),
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
    }})
}

fn label_selector() -> Value {
    json!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": texts(),
            "matchExpressions": {"type": "array", "items": {
                "type": "object",
                "required": ["key", "operator"],
                "properties": {
                    "key": text(), "operator": text(),
                    "values": {"type": "array", "items": text()},
                },
            }},
        },
    })
}

fn object_reference() -> Value {
    json!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "apiVersion": text(), "kind": text(), "namespace": text(), "name": text(),
            "uid": text(), "resourceVersion": text(), "fieldPath": text(),
        },
    })
}

fn schemaless() -> Value {
    json!({"x-kubernetes-preserve-unknown-fields": true})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn texts() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}
