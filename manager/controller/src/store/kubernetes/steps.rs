//! What one write asks of an API server, decided without one.
//!
//! - Every apply to an object that is known carries its uid: server-side apply on an object that
//!   is gone would make a ghost of it.
//! - Nothing but objects of our own kinds is ever created, and nothing else deleted. A layer that
//!   only stands beside others makes no object and keeps none.
//! - An endpoint is filled where nobody has a word, or over a blank that somebody owns, as it was
//!   seen (`resourceVersion`): a value that appeared meanwhile wins.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kedge_crd::{LoadBalancerSpec, Resource as _, meta};
use serde_json::{Map, Value, json};

use super::{
    fields,
    layers::{GIVEN_ANNOTATION, Seen, identity, is_secret},
};
use crate::{
    managers,
    store::{Ground, Layer, ObjectKey, Write, is_from_our_pool},
};

/// What a write asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It is so already.
    Nothing,
    /// Server-side apply.
    Apply(Apply),
    /// A merge patch.
    Merge {
        /// The patch.
        body: Value,
    },
    /// The object goes.
    Delete {
        /// Its uid.
        uid: String,
        /// The version that was seen to hold nothing of anybody else.
        resource_version: String,
    },
    /// It must not be done.
    Refuse(Refusal),
}

/// A server-side apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// The field manager.
    pub manager: String,
    /// Whether fields are taken from others.
    pub force: bool,
    /// Whether it is the status.
    pub status: bool,
    /// The document.
    pub body: Value,
}

/// Why a write must not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The object is somebody else's, and it is gone.
    #[error("the object does not exist any more")]
    Missing,
    /// It is not there, but nobody was seen to delete it.
    #[error("the object vanished without having been deleted, as when it is moved")]
    Vanished,
    /// Somebody set the endpoint.
    #[error("somebody else has set the endpoint")]
    Taken,
    /// It is an address of another provider's pool.
    #[error("the address is from a pool of another provider")]
    Foreign,
    /// The content is no document.
    #[error("the content names no apiVersion")]
    Content,
}

/// What a write asks for, with the object as it was last seen.
#[must_use]
pub fn step(write: &Write, seen: Option<&Seen>) -> Step {
    let server = seen.and_then(|seen| seen.layers.server.as_ref());
    if server.is_some_and(|server| server.vanished) {
        return Step::Refuse(Refusal::Vanished);
    }
    match (&write.layer, &write.content) {
        (Layer::Owned(manager), Some(content)) => own(&write.key, manager, content, seen),
        (Layer::Owned(manager), None) => disown(&write.key, manager, seen),
        (Layer::Status, content) => status(&write.key, content.as_ref(), seen),
        (Layer::Marks, content) => marks(content.as_ref(), seen),
    }
}

/// What takes an object of ours away at once, where these writes give up the last of it: one layer
/// after the other would be refused by what must not change while the object lives.
#[must_use]
pub fn removal(writes: &[Write], seen: Option<&Seen>) -> Option<Step> {
    let seen = seen.filter(|seen| seen.is_ours && !seen.layers.owned.is_empty())?;
    let server = seen.layers.server.as_ref()?;
    let given_up = |manager: &String| {
        writes.iter().any(|write| {
            write.content.is_none() && matches!(&write.layer, Layer::Owned(of) if of == manager)
        })
    };
    let is_kept = |manager: &String| {
        let stays = !managers::BESIDE.contains(&manager.as_str()) && !given_up(manager);
        let wanted = writes.iter().any(|write| {
            write.content.is_some() && matches!(&write.layer, Layer::Owned(of) if of == manager)
        });
        stays || wanted
    };
    let any = seen.layers.owned.keys().any(given_up);
    if server.vanished || server.is_deleted() || !any || seen.layers.owned.keys().any(is_kept) {
        return None;
    }
    Some(Step::Delete {
        uid: server.uid.clone(),
        resource_version: server.resource_version.clone(),
    })
}

fn own(key: &ObjectKey, manager: &str, content: &Value, seen: Option<&Seen>) -> Step {
    let Some(api_version) = content.get("apiVersion").and_then(Value::as_str) else {
        return Step::Refuse(Refusal::Content);
    };
    let known = seen.and_then(|seen| seen.layers.owned.get(manager));
    if known.is_some_and(|known| fields::same(known, content)) {
        return Step::Nothing;
    }
    if key.is_address() && !is_ours(content, seen) {
        return Step::Refuse(Refusal::Foreign);
    }
    let ground = key.ground();
    if seen.is_none() && (ground == Ground::Theirs || managers::BESIDE.contains(&manager)) {
        return Step::Refuse(Refusal::Missing);
    }
    let mut body = if manager == managers::GIVEN {
        given(key, api_version, content, seen)
    } else {
        writable(key, content.clone())
    };
    let mut force = true;
    fields::put(&mut body, guard(seen, false));
    if ground == Ground::Theirs {
        force = match endpoint_host(seen) {
            // It was asked for, and what stands there is what we published: the version holds that.
            Host::Set => match manager {
                managers::FOLLOW => true,
                managers::ENDPOINT => return Step::Refuse(Refusal::Taken),
                _ => false,
            },
            Host::None => false,
            Host::Blank => true,
        };
        fields::put(&mut body, guard(seen, true));
    } else if manager == managers::ENDPOINT || key.is_made_for_others() {
        // Beside a user's word, never over it.
        force = seen.is_none_or(|seen| seen.is_ours);
    }
    Step::Apply(Apply {
        manager: manager.to_owned(),
        force,
        status: false,
        body,
    })
}

fn disown(key: &ObjectKey, manager: &str, seen: Option<&Seen>) -> Step {
    let Some(seen) = seen else {
        return Step::Nothing;
    };
    if manager == managers::IPAM {
        return drop_address(seen);
    }
    if !seen.layers.owned.contains_key(manager) {
        return Step::Nothing;
    }
    let mut others = seen.layers.owned.keys().filter(|other| *other != manager);
    if let Some(server) = &seen.layers.server
        && seen.is_ours
        && others.all(|other| managers::BESIDE.contains(&other.as_str()))
    {
        return Step::Delete {
            uid: server.uid.clone(),
            resource_version: server.resource_version.clone(),
        };
    }
    let mut body = identity(key, &seen.api_version);
    fields::put(&mut body, guard(Some(seen), false));
    Step::Apply(Apply {
        manager: manager.to_owned(),
        force: false,
        status: false,
        body,
    })
}

/// An address goes whole, whoever made it in our stead.
fn drop_address(seen: &Seen) -> Step {
    let server = seen.layers.server.as_ref();
    let Some(server) = server.filter(|server| !server.is_deleted()) else {
        return Step::Nothing;
    };
    if !is_from_our_pool(&seen.layers.effective()) {
        return Step::Refuse(Refusal::Foreign);
    }
    Step::Delete {
        uid: server.uid.clone(),
        resource_version: server.resource_version.clone(),
    }
}

/// Whether an address is from a pool of ours, as it is and as it is wanted.
fn is_ours(content: &Value, seen: Option<&Seen>) -> bool {
    let known = seen.map(|seen| seen.layers.effective());
    is_from_our_pool(content) && known.is_none_or(|known| is_from_our_pool(&known))
}

fn status(key: &ObjectKey, content: Option<&Value>, seen: Option<&Seen>) -> Step {
    // A status without its object is nothing to keep.
    let Some(seen) = seen else {
        return Step::Nothing;
    };
    let known = seen.layers.status.as_ref();
    let is_same = match (known, content) {
        (Some(known), Some(content)) => fields::same(known, content),
        (None, None) => true,
        _ => false,
    };
    if is_same {
        return Step::Nothing;
    }
    let mut body = identity(key, &seen.api_version);
    let status = content.and_then(|content| content.get("status"));
    if let Some(status) = status {
        fields::put(&mut body, json!({ "status": status }));
    }
    fields::put(&mut body, guard(Some(seen), false));
    Step::Apply(Apply {
        manager: managers::STATUS.to_owned(),
        force: true,
        status: true,
        body,
    })
}

fn marks(content: Option<&Value>, seen: Option<&Seen>) -> Step {
    let Some(seen) = seen else {
        return match content {
            Some(_) => Step::Refuse(Refusal::Missing),
            None => Step::Nothing,
        };
    };
    let nothing = Value::Null;
    let (known, wanted) = (
        seen.layers.marks.as_ref().unwrap_or(&nothing),
        content.unwrap_or(&nothing),
    );
    let mut metadata = Map::new();
    for part in ["labels", "annotations"] {
        let changes = changes(keys(known, part), keys(wanted, part));
        if !changes.is_empty() {
            metadata.insert(part.to_owned(), Value::Object(changes));
        }
    }
    let (held, wanted) = (finalizers(known), finalizers(wanted));
    let finalizers_change = held != wanted;
    if finalizers_change {
        let theirs = seen.layers.user.as_ref().map(|user| &user.value);
        let others = theirs.map(finalizers).unwrap_or_default();
        let mut all: Vec<&str> = others;
        for one in wanted {
            if !all.contains(&one) {
                all.push(one);
            }
        }
        metadata.insert("finalizers".to_owned(), json!(all));
    }
    if metadata.is_empty() {
        return Step::Nothing;
    }
    let mut body = json!({ "metadata": metadata });
    // The list is replaced whole: nobody may have added to it meanwhile.
    fields::put(&mut body, guard(Some(seen), finalizers_change));
    Step::Merge { body }
}

/// The copy of what a user asked, as an annotation; where nobody else makes the object, with what
/// an object cannot be without.
fn given(key: &ObjectKey, api_version: &str, content: &Value, seen: Option<&Seen>) -> Value {
    let mut kept = content.clone();
    if let Some(members) = kept.as_object_mut() {
        members.retain(|name, _| ["metadata", "spec"].contains(&name.as_str()));
        if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
            metadata.retain(|name, _| !["name", "namespace"].contains(&name.as_str()));
            if metadata.is_empty() {
                members.remove("metadata");
            }
        }
    }
    let mut body = identity(key, api_version);
    fields::put(
        &mut body,
        json!({"metadata": {"annotations": {GIVEN_ANNOTATION: kept.to_string()}}}),
    );
    let is_balancer = key.group == meta::GROUP && key.kind == LoadBalancerSpec::KIND;
    let cluster = content.pointer("/spec/clusterName");
    if let Some(cluster) = cluster.filter(|_| is_balancer && seen.is_none_or(|seen| seen.is_ours)) {
        fields::put(&mut body, json!({"spec": {"clusterName": cluster}}));
        // The owner is a fact of the object itself: garbage collection and moves follow it.
        if let Some(owners) = content.pointer("/metadata/ownerReferences") {
            fields::put(&mut body, json!({"metadata": {"ownerReferences": owners}}));
        }
    }
    body
}

/// What must be the same as it was seen.
fn guard(seen: Option<&Seen>, version: bool) -> Value {
    let Some(server) = seen.and_then(|seen| seen.layers.server.as_ref()) else {
        return json!({});
    };
    if version {
        json!({"metadata": {"uid": server.uid, "resourceVersion": server.resource_version}})
    } else {
        json!({"metadata": {"uid": server.uid}})
    }
}

/// A Secret's text as an API server keeps it.
fn writable(key: &ObjectKey, mut content: Value) -> Value {
    let text = content
        .as_object_mut()
        .filter(|_| is_secret(key))
        .and_then(|content| content.remove("stringData"));
    if let Some(Value::Object(text)) = text {
        let data: Map<String, Value> = text
            .into_iter()
            .filter_map(|(name, value)| Some((name, STANDARD.encode(value.as_str()?).into())))
            .collect();
        fields::put(&mut content, json!({ "data": data }));
    }
    content
}

/// What others say of the endpoint.
enum Host {
    /// Nothing, or nobody owns it.
    None,
    /// Somebody wrote an empty host.
    Blank,
    /// Somebody wrote a host.
    Set,
}

fn endpoint_host(seen: Option<&Seen>) -> Host {
    let user = seen.and_then(|seen| seen.layers.user.as_ref());
    let endpoint = user.and_then(|user| user.value.pointer("/spec/controlPlaneEndpoint"));
    match endpoint {
        None | Some(Value::Null) => Host::None,
        Some(endpoint) => match endpoint.get("host") {
            None | Some(Value::Null) => Host::Blank,
            Some(host) if host == "" => Host::Blank,
            Some(_) => Host::Set,
        },
    }
}

fn keys<'a>(marks: &'a Value, part: &str) -> Option<&'a Map<String, Value>> {
    marks.get("metadata")?.get(part)?.as_object()
}

/// What to put, and `null` for what to drop.
fn changes(
    known: Option<&Map<String, Value>>,
    wanted: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    let put = wanted
        .into_iter()
        .flatten()
        .filter(|(name, value)| known.and_then(|known| known.get(*name)) != Some(value))
        .map(|(name, value)| (name.clone(), value.clone()));
    let drop = known
        .into_iter()
        .flatten()
        .filter(|(name, _)| wanted.is_none_or(|wanted| !wanted.contains_key(*name)))
        .map(|(name, _)| (name.clone(), Value::Null));
    put.chain(drop).collect()
}

fn finalizers(document: &Value) -> Vec<&str> {
    let list = document.pointer("/metadata/finalizers");
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests;
