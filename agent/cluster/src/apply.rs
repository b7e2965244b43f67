//! What is written to a Service, as documents of server-side apply.

use serde_json::{Map, Value, json};

use crate::{
    names::FINALIZER,
    plan::{Target, status::Shown},
};

/// The document that holds a Service, or lets it go. With its uid: applied to a Service that is gone
/// it makes none.
#[must_use]
pub fn guard(target: &Target, holds: bool) -> Value {
    let mut whole = document(target);
    if holds && let Some(meta) = whole.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.insert("finalizers".to_owned(), json!([FINALIZER]));
    }
    whole
}

/// The document of what a Service's status says of ours.
#[must_use]
pub fn show(target: &Target, shown: &Shown, with_addresses: bool) -> Value {
    let mut whole = document(target);
    if let Some(whole) = whole.as_object_mut() {
        whole.insert("status".to_owned(), status(shown, with_addresses));
    }
    whole
}

/// What of a status is ours. What is left out is taken back.
#[must_use]
pub fn status(shown: &Shown, with_addresses: bool) -> Value {
    let mut status = Map::new();
    if with_addresses && !shown.ingress.is_empty() {
        let balancer = json!({"ingress": shown.ingress});
        status.insert("loadBalancer".to_owned(), balancer);
    }
    if !shown.conditions.is_empty() {
        status.insert("conditions".to_owned(), json!(shown.conditions));
    }
    Value::Object(status)
}

fn document(target: &Target) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {
        "name": target.key.name, "namespace": target.key.namespace, "uid": target.uid,
    }})
}
