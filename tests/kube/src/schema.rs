//! Definitions and their schemas, written short.

use serde_json::{Value, json};

use crate::{manifests, objects::Kind};

/// A printer column: name, type and path.
pub(crate) type Column = (&'static str, &'static str, &'static str);

/// A kind's definition. `contract` is the label that says which contract its version keeps.
pub(crate) fn definition(
    kind: Kind,
    contract: &str,
    spec: &Value,
    status: Option<&Value>,
    columns: &[Column],
) -> Value {
    let resource = kind.resource();
    let mut properties = json!({
        "apiVersion": string(), "kind": string(), "metadata": {"type": "object"}, "spec": spec,
    });
    let mut version = json!({"name": kind.version, "served": true, "storage": true});
    if let Some(status) = status {
        properties["status"] = status.clone();
        version["subresources"] = json!({"status": {}});
    }
    version["schema"]["openAPIV3Schema"] = object(&properties);
    let columns = columns
        .iter()
        .map(|(name, kind, path)| json!({"name": name, "type": kind, "jsonPath": path}));
    version["additionalPrinterColumns"] = columns.collect();
    let mut all = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", resource.plural, kind.group)},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {
                "kind": kind.kind,
                "listKind": format!("{}List", kind.kind),
                "plural": resource.plural,
                "singular": kind.kind.to_lowercase(),
            },
            "versions": [version],
        },
    });
    manifests::label(&mut all, &[(contract, kind.version)]);
    all
}

pub(crate) fn template(spec: &Value) -> Value {
    // Labels and annotations of a template's metadata are pruned: it has no schema of its own.
    let inner = json!({
        "type": "object",
        "properties": {"metadata": {"type": "object"}, "spec": spec},
        "required": ["spec"],
    });
    json!({"type": "object", "properties": {"template": inner}, "required": ["template"]})
}

pub(crate) fn reference() -> Value {
    let fields = [
        "apiVersion",
        "fieldPath",
        "kind",
        "name",
        "namespace",
        "resourceVersion",
        "uid",
    ];
    let properties: Value = fields.iter().map(|field| (*field, string())).collect();
    let mut reference = object(&properties);
    reference["x-kubernetes-map-type"] = json!("atomic");
    reference
}

pub(crate) fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

pub(crate) fn atomic(items: &Value) -> Value {
    json!({"type": "array", "items": items, "x-kubernetes-list-type": "atomic"})
}

pub(crate) fn strings() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

pub(crate) fn string() -> Value {
    json!({"type": "string"})
}

pub(crate) fn boolean() -> Value {
    json!({"type": "boolean"})
}

pub(crate) fn anything() -> Value {
    json!({"x-kubernetes-preserve-unknown-fields": true})
}
