//! Finalizers as merge patches that nobody else's change can get lost in.

use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::{Value, json};

/// The patch that adds one, unless it is there.
#[must_use]
pub fn add(object: &DynamicObject, finalizer: &str) -> Option<Value> {
    let mut all = object.finalizers().to_vec();
    if all.iter().any(|one| one == finalizer) {
        return None;
    }
    all.push(finalizer.to_owned());
    Some(patch(object, &all))
}

/// The patch that removes one, if it is there.
#[must_use]
pub fn remove(object: &DynamicObject, finalizer: &str) -> Option<Value> {
    let mut all = object.finalizers().to_vec();
    let before = all.len();
    all.retain(|one| one != finalizer);
    (all.len() != before).then(|| patch(object, &all))
}

fn patch(object: &DynamicObject, all: &[String]) -> Value {
    json!({"metadata": {
        "finalizers": all,
        "resourceVersion": object.metadata.resource_version,
    }})
}
