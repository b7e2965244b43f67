//! What is said of objects of the Gateway API: conditions, and what stands beside them.

use kedge_crd::{Condition, condition::merge};
use serde_json::{Map, Value, json};

use super::own;
use crate::{
    apply::Kind,
    gateway_api::{self, Class, Object, Route},
    names::CONTROLLER,
    plan::{
        Target,
        http::{Http, Say},
    },
    snapshot::Key,
};

/// Says something of an object, unless that stands there already.
pub fn say<S: gateway_api::Kind>(
    http: &mut Http<'_>,
    (kind, object): (Kind, &Object<S>),
    mut status: Value,
    conditions: Vec<Condition>,
) {
    let conditions = met(&object.status, conditions, object, &http.snapshot.now);
    if let Some(status) = status.as_object_mut() {
        status.insert("conditions".to_owned(), json!(conditions));
    }
    put(http, kind, object, status);
}

/// Writes these fields of a status where they are otherwise.
pub fn put<S>(http: &mut Http<'_>, kind: Kind, object: &Object<S>, status: Value) {
    let wanted = status.as_object().cloned().unwrap_or_else(Map::new);
    let is_same = |(name, value): (&String, &Value)| object.status.get(name) == Some(value);
    if wanted.iter().all(is_same) {
        return;
    }
    let meta = &object.metadata;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    http.routes.say.push(Say {
        kind,
        target: Target {
            key: Key::new(text(&meta.namespace), text(&meta.name)),
            uid: text(&meta.uid),
        },
        version: text(&meta.resource_version),
        status,
    });
}

/// New conditions as they meet those that stand in a part of a status. What others say there stays.
pub fn met<S>(
    standing: &Value,
    mut new: Vec<Condition>,
    object: &Object<S>,
    now: &str,
) -> Vec<Value> {
    let old: Vec<Value> = standing
        .get("conditions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let known: Vec<Condition> = old
        .iter()
        .filter_map(|it| serde_json::from_value(it.clone()).ok())
        .collect();
    for condition in &mut new {
        condition.observed_generation = object.metadata.generation;
    }
    let merged = merge(&known, new, now);
    let ours: Vec<Value> = merged.iter().map(|it| json!(it)).collect();
    let is_theirs = |it: &&Value| {
        let kind = it.get("type").and_then(Value::as_str);
        !merged
            .iter()
            .any(|condition| Some(condition.kind.as_str()) == kind)
    };
    let theirs = old.iter().filter(is_theirs).cloned();
    // In the order they stand there, so that nothing is written for its sake.
    let mut all: Vec<Value> = theirs.chain(ours).collect();
    let place = |it: &Value| {
        let kind = it.get("type");
        let found = old.iter().position(|old| old.get("type") == kind);
        found.unwrap_or(usize::MAX)
    };
    all.sort_by_key(place);
    all
}

/// The entries of a route's parents that are another controller's.
pub fn others(route: &Route) -> Vec<Value> {
    let all = route.status.get("parents").and_then(Value::as_array);
    let all = all.into_iter().flatten();
    let theirs = all.filter(|it| !is_of_ours(it));
    theirs.cloned().collect()
}

/// Our entry of a route's parents.
pub fn parent(route: &Route, reference: &Value) -> Value {
    let all = route.status.get("parents").and_then(Value::as_array);
    let mut all = all.into_iter().flatten().filter(|it| is_of_ours(it));
    let found = all.find(|it| it.get("parentRef") == Some(reference));
    found.cloned().unwrap_or_default()
}

/// Whether anything of ours is said of a route.
pub fn has_parents(route: &Route) -> bool {
    let all = route.status.get("parents").and_then(Value::as_array);
    all.into_iter().flatten().any(is_of_ours)
}

fn is_of_ours(parent: &Value) -> bool {
    parent.get("controllerName").and_then(Value::as_str) == Some(CONTROLLER)
}

/// What of the Gateway API is served, by the names of its conformance tests.
pub fn features(class: &Class) -> Vec<Value> {
    let is_own = own::pool([&class.metadata]).is_some();
    let more = OWN_FEATURES.iter().filter(|_| is_own);
    let mut all: Vec<&str> = FEATURES.iter().chain(more).copied().collect();
    // As the specification wants it.
    all.sort_unstable();
    all.into_iter().map(|name| json!({"name": name})).collect()
}

/// Where all Gateways of a class have addresses of their own, at which they listen at whichever port. Tests of the
/// others of these do that as well.
const OWN_FEATURES: [&str; 4] = [
    "GatewayAddressEmpty",
    "GatewayPort8080",
    "GatewayStaticAddresses",
    "HTTPRouteParentRefPort",
];

const FEATURES: [&str; 27] = [
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteCORS",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteSchemeRedirect",
    "ReferenceGrant",
    "TLSRoute",
];
