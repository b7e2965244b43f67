//! Splits an object of the API server into layers, by who owns which field.
//!
//! ```text
//! managedFields: kedge-endpoint ──► owned[kedge-endpoint]
//!                kedge-overlay  ──► owned[kedge-overlay]
//!                kedge-marks    ──► marks
//! .status of our kinds, and what kedge-manager owns in others' ──► status
//! everything else               ──► user document
//! ```
//!
//! A field that a user owns beside us is the user's: it stays in the user document.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kedge_crd::{ipam, meta};
use serde_json::{Map, Value, json};

use super::{
    fields::{self, Fields},
    raw::{self, Raw},
};
use crate::{
    managers,
    plan::marks::{
        ADDRESS_FINALIZER, BALANCER_FINALIZER, HOOK_OWNER, PRE_DRAIN_HOOK, PRE_TERMINATE_HOOK,
    },
    store::{Ground, Layers, Name, ObjectKey, Server, UserDocument, is_from_our_pool},
};

/// The annotation that keeps what was last asked for with a LoadBalancer. It is a copy of fields a
/// user owns, so it cannot be fields itself.
pub const GIVEN_ANNOTATION: &str = "kedge.dev/given";

/// An object as the API server holds it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Its layers.
    pub layers: Layers,
    /// Its `apiVersion`.
    pub api_version: String,
    /// Whether nobody but us has a word in it: without our fields it is nothing.
    pub is_ours: bool,
}

/// Splits an object as the API server sent it.
#[must_use]
pub fn split(key: &ObjectKey, raw: Raw) -> Seen {
    let Raw {
        mut object,
        managed,
        ..
    } = raw;
    let api_version = text(&object, "/apiVersion");
    let managed = Managed::new(managed);
    let mut server = take_server(&mut object);
    let given = take_given(&mut object);
    let identity = identity(key, &api_version);
    let with_identity = |mut document: Value| {
        fields::put(&mut document, identity.clone());
        document
    };
    let status = if key.group == meta::GROUP {
        take(&mut object, "status").map(|status| json!({ "status": status }))
    } else {
        part(&object, &managed.status, &[])
    };
    let is_said = |document: &Value| {
        let status = document.get("status").and_then(Value::as_object);
        status.is_some_and(|status| !status.is_empty())
    };
    let status = status.filter(is_said).map(with_identity);
    let mut owned = BTreeMap::new();
    for manager in managers::LAYERED {
        let Some(own) = managed.ours.get(manager) else {
            continue;
        };
        let document = fields::extract(&object, own, &managed.all_but(manager));
        let document = readable(key, document.unwrap_or_else(|| json!({})));
        owned.insert(manager.to_owned(), with_identity(document));
    }
    if let Some(given) = given {
        owned.insert(managers::GIVEN.to_owned(), with_identity(given));
    }
    let is_ours = key.ground() == Ground::Ours
        && !managed.ours.is_empty()
        && !managed.others.iter().any(|(_, fields)| has_word(fields));
    server.endpoint_owners = managed
        .others
        .iter()
        .filter(|(_, fields)| fields.at(&ENDPOINT_HOST).is_some())
        .map(|(manager, _)| manager.clone())
        .collect();
    let others: Vec<&Fields> = managed.others.iter().map(|(_, fields)| fields).collect();
    let adopted = take_finalizers(&mut object);
    let marks = part(&object, &managed.marks, &managed.all_but(managers::MARKS));
    let marks = marks.filter(|marks| marks.get("metadata").is_some());
    let marks = with_finalizers(marks, adopted);
    // All at once: an item of a list is found by its key, which each of us owns beside the others.
    let mut own = managed.marks;
    for fields in managed.ours.into_values().chain([managed.status]) {
        own.join(fields);
    }
    let rest = if own.is_empty() {
        Some(object)
    } else {
        fields::without(object, &own, &others)
    };
    let (rest, marks) = match rest {
        Some(rest) => {
            let (rest, marks) = adopt(rest, marks);
            (Some(rest), marks)
        }
        None => (None, marks),
    };
    let user = rest.and_then(|rest| {
        let value = if is_ours {
            only_metadata(rest)?
        } else {
            readable(key, rest)
        };
        let origin = key.name.to_string();
        Some(UserDocument { value, origin })
    });
    Seen {
        layers: Layers {
            user,
            owned,
            status,
            marks,
            server: Some(server),
        },
        api_version,
        is_ours,
    }
}

/// Takes hooks and finalizers of ours whoever wrote them: a backup that was restored says nothing
/// of managers of fields, and what holds a deletion must be let go by us.
fn adopt(mut rest: Value, marks: Option<Value>) -> (Value, Option<Value>) {
    let Some(metadata) = rest.get_mut("metadata").and_then(Value::as_object_mut) else {
        return (rest, marks);
    };
    let mut found = Map::new();
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        let mut hooks = Map::new();
        for hook in [PRE_DRAIN_HOOK, PRE_TERMINATE_HOOK] {
            if annotations
                .get(hook)
                .is_some_and(|owner| owner == HOOK_OWNER)
            {
                hooks.extend(annotations.remove_entry(hook));
            }
        }
        if !hooks.is_empty() {
            found.insert("annotations".to_owned(), Value::Object(hooks));
        }
    }
    if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
        let is_ours = |one: &Value| one == BALANCER_FINALIZER || one == ADDRESS_FINALIZER;
        let ours: Vec<Value> = finalizers
            .iter()
            .filter(|one| is_ours(one))
            .cloned()
            .collect();
        finalizers.retain(|one| !is_ours(one));
        if !ours.is_empty() {
            found.insert("finalizers".to_owned(), Value::Array(ours));
        }
    }
    if found.is_empty() {
        return (rest, marks);
    }
    for part in found.keys() {
        let is_left = metadata.get(part).is_some_and(is_filled);
        if !is_left {
            metadata.remove(part);
        }
    }
    let mut all = marks.unwrap_or_else(|| json!({}));
    let held = all.pointer("/metadata/finalizers").cloned();
    if let (Some(Value::Array(held)), Some(Value::Array(more))) =
        (held, found.get_mut("finalizers"))
    {
        more.extend(held);
    }
    fields::put(&mut all, json!({ "metadata": found }));
    (rest, Some(all))
}

fn is_filled(part: &Value) -> bool {
    let list = part.as_array().is_some_and(|list| !list.is_empty());
    list || part.as_object().is_some_and(|map| !map.is_empty())
}

/// `apiVersion`, `kind`, name and namespace: what every document of ours begins with.
#[must_use]
pub fn identity(key: &ObjectKey, api_version: &str) -> Value {
    let Name { namespace, name } = &key.name;
    let metadata = if namespace.is_empty() {
        json!({ "name": name })
    } else {
        json!({ "name": name, "namespace": namespace })
    };
    json!({ "apiVersion": api_version, "kind": key.kind, "metadata": metadata })
}

/// Whether it is a Secret.
#[must_use]
pub fn is_secret(key: &ObjectKey) -> bool {
    key.group.is_empty() && key.kind == "Secret"
}

/// A Secret with its data as text.
pub(super) fn with_text(secret: &Value) -> Value {
    let bytes = secret.get("data").and_then(Value::as_object);
    let text: Map<String, Value> = bytes
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| {
            let bytes = STANDARD.decode(value.as_str()?).ok()?;
            Some((name.clone(), String::from_utf8(bytes).ok()?.into()))
        })
        .collect();
    let mut secret = secret.clone();
    fields::put(&mut secret, json!({ "stringData": text }));
    secret
}

/// What of an object is in a set of fields; nothing where there is no set.
fn part(object: &Value, own: &Fields, others: &[&Fields]) -> Option<Value> {
    (!own.is_empty())
        .then(|| fields::extract(object, own, others))
        .flatten()
}

/// Who owns what.
#[derive(Debug, Default)]
struct Managed {
    ours: BTreeMap<String, Fields>,
    marks: Fields,
    status: Fields,
    others: Vec<(String, Fields)>,
}

impl Managed {
    fn new(entries: Vec<raw::Managed>) -> Self {
        let mut managed = Self::default();
        for entry in entries {
            let Some(fields) = entry.fields else { continue };
            let is_status = entry.subresource == "status";
            let manager = entry.manager;
            let own = match manager.as_str() {
                managers::STATUS if is_status => &mut managed.status,
                // The status has its own way; who else wrote it has no word in the rest.
                _ if is_status => continue,
                managers::MARKS => &mut managed.marks,
                own if own == managers::GIVEN || managers::LAYERED.contains(&own) => {
                    managed.ours.entry(manager).or_default()
                }
                _ => {
                    managed.others.push((manager, fields));
                    continue;
                }
            };
            own.join(fields);
        }
        managed
    }

    /// The fields of everybody but `manager`.
    fn all_but(&self, manager: &str) -> Vec<&Fields> {
        let ours = self.ours.iter().filter(|(name, _)| *name != manager);
        let others = self.others.iter().map(|(_, fields)| fields);
        ours.map(|(_, fields)| fields).chain(others).collect()
    }
}

fn take_server(object: &mut Value) -> Server {
    let mut server = Server {
        uid: text(object, "/metadata/uid"),
        generation: object
            .pointer("/metadata/generation")
            .and_then(Value::as_i64),
        ..Server::default()
    };
    server.created = text(object, "/metadata/creationTimestamp");
    let deleted = text(object, "/metadata/deletionTimestamp");
    server.deletion_timestamp = (!deleted.is_empty()).then_some(deleted);
    if let Some(metadata) = object.get_mut("metadata") {
        // It changes with every write, and says nothing to a plan.
        let version = take(metadata, "resourceVersion");
        let version = version.as_ref().and_then(Value::as_str);
        server.resource_version = version.unwrap_or_default().to_owned();
    }
    server
}

/// Takes the finalizers that are ours by their name. Whoever carried an object here, as `clusterctl
/// move` does, put them on it in our stead: nobody else will take them off.
fn take_finalizers(object: &mut Value) -> Vec<Value> {
    let is_ours = is_from_our_pool(object);
    let Some(metadata) = object.get_mut("metadata") else {
        return Vec::new();
    };
    let all = metadata
        .get_mut("finalizers")
        .and_then(Value::as_array_mut)
        .map(std::mem::take);
    let ours = |one: &Value| {
        let name = one.as_str().unwrap_or_default();
        name.starts_with(OUR_FINALIZERS)
            || (is_ours && [ipam::RELEASE_FINALIZER, ipam::PROTECT_FINALIZER].contains(&name))
    };
    let (mut ours, theirs): (Vec<Value>, Vec<Value>) =
        all.unwrap_or_default().into_iter().partition(ours);
    if let (Some(metadata), true) = (metadata.as_object_mut(), theirs.is_empty()) {
        metadata.remove("finalizers");
    } else if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("finalizers".to_owned(), Value::Array(theirs));
    }
    ours.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
    ours
}

fn with_finalizers(marks: Option<Value>, finalizers: Vec<Value>) -> Option<Value> {
    if finalizers.is_empty() {
        return marks;
    }
    let mut marks = marks.unwrap_or_else(|| json!({}));
    fields::put(&mut marks, json!({"metadata": {"finalizers": finalizers}}));
    Some(marks)
}

fn take_given(object: &mut Value) -> Option<Value> {
    let metadata = object.get_mut("metadata")?;
    let annotations = metadata.get_mut("annotations")?;
    let text = take(annotations, GIVEN_ANNOTATION)?;
    if annotations.as_object().is_some_and(Map::is_empty) {
        take(metadata, "annotations");
    }
    let given: Value = serde_json::from_str(text.as_str()?).ok()?;
    given.is_object().then_some(given)
}

fn text(object: &Value, pointer: &str) -> String {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default().to_owned()
}

fn take(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut()?.remove(field)
}

/// Whether who owns these fields says something about the object itself: more than labels, notes
/// and finalizers, and more than a status.
fn has_word(fields: &Fields) -> bool {
    fields.goes_beyond(&["metadata", "status"])
}

/// What others labelled and annotated of an object of ours, and said in its status, if they did.
fn only_metadata(mut document: Value) -> Option<Value> {
    let filled = |pointer: &str| {
        let part = document.pointer(pointer).and_then(Value::as_object);
        part.is_some_and(|part| !part.is_empty())
    };
    // A list of finalizers is written whole, so those of others must be known.
    let metadata = filled("/metadata/labels")
        || filled("/metadata/annotations")
        || document.pointer("/metadata/finalizers").is_some();
    if !metadata && !filled("/status") {
        return None;
    }
    let members = document.as_object_mut()?;
    members.retain(|name, _| ["apiVersion", "kind", "metadata", "status"].contains(&name.as_str()));
    Some(document)
}

/// A Secret's data as text, as it was written.
fn readable(key: &ObjectKey, mut document: Value) -> Value {
    if !is_secret(key) {
        return document;
    }
    if let Some(Value::Object(data)) = take(&mut document, "data") {
        let text = |value: &Value| {
            let bytes = STANDARD.decode(value.as_str()?).ok()?;
            String::from_utf8(bytes).ok()
        };
        let data: Map<String, Value> = data
            .into_iter()
            .filter_map(|(name, value)| Some((name, Value::from(text(&value)?))))
            .collect();
        fields::put(&mut document, json!({ "stringData": data }));
    }
    document
}

/// How the finalizers begin that nobody but Kedge sets.
const OUR_FINALIZERS: &str = "kedge.dev/";
const ENDPOINT_HOST: [&str; 3] = ["spec", "controlPlaneEndpoint", "host"];

#[cfg(test)]
mod tests;
