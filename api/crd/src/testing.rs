//! What tests of several crates share: good objects of our kinds, what is refused and why, and
//! the CustomResourceDefinitions of a foreign provider.

mod cases;
mod elemental;
mod good;

pub use self::{cases::CASES, elemental::elemental_crds, good::good};
use crate::kinds::Kind;
use serde_json::Value;

/// A change that is accepted or refused.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The kind.
    pub kind: &'static str,
    /// What the object was, as a merge patch (JSON) of a good one; `None` for a new object.
    pub old: Option<&'static str>,
    /// What it becomes, as a merge patch of a good one.
    pub new: &'static str,
    /// A part of the message it is refused with; `None` where it is accepted.
    pub refused: Option<&'static str>,
}

impl Case {
    /// What the object was.
    #[must_use]
    pub fn was(&self) -> Option<Value> {
        self.old.map(|patch| patched(self.kind, patch))
    }

    /// What it becomes.
    #[must_use]
    pub fn becomes(&self) -> Value {
        patched(self.kind, self.new)
    }
}

/// The messages of the rules of a kind's spec, wherever in its schema they stand.
#[must_use]
pub fn rule_messages(kind: &Kind) -> Vec<String> {
    fn walk(schema: &Value, found: &mut Vec<String>) {
        let rules = schema.get("x-kubernetes-validations");
        for rule in rules.and_then(Value::as_array).into_iter().flatten() {
            let message = rule.get("message").and_then(Value::as_str);
            found.extend(message.map(str::to_owned));
        }
        match schema {
            Value::Object(fields) => fields.values().for_each(|inner| walk(inner, found)),
            Value::Array(items) => items.iter().for_each(|inner| walk(inner, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    let mut schema = kind.schema();
    if let Some(status) = schema.pointer_mut("/properties/status") {
        status.take();
    }
    walk(&schema, &mut found);
    found.sort();
    found.dedup();
    found
}

fn patched(kind: &str, patch: &str) -> Value {
    let mut document = good(kind);
    // A patch that cannot be read leaves no object; every use of it fails.
    merge(
        &mut document,
        serde_json::from_str(patch).unwrap_or(Value::Null),
    );
    document
}

/// RFC 7386.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(&key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), value);
        }
    }
}
