//! What is to be done about the Gateway API: Gateways of our classes, and routes that are attached to them.
//!
//! A Gateway's listeners are places of the tenant's gateway, which is there already; each route becomes one
//! HTTPLoadBalancer, with the names it has at the listeners it is attached to. A Gateway may ask for an address of
//! its own: then it becomes one that holds the address, and each route one more there.

mod attach;
mod bound;
mod cors;
mod listener;
mod own;
mod ports;
mod route;
mod rules;
mod said;
mod tls;

use std::collections::{BTreeMap, BTreeSet};

use self::{
    listener::Judged,
    said::{features, say},
};
use super::{http::Http, owner::Owner};
use crate::{
    apply::Kind,
    gateway_api::{Class, Gateway, Reference, Route},
    names::CONTROLLER,
    snapshot::{GatewayApi, Key},
};
use kedge_crd::Condition;
use serde_json::json;

/// The Secrets that listeners of ours name, where they may.
#[must_use]
pub fn secrets(api: &GatewayApi) -> BTreeSet<Key> {
    let ours = api
        .gateways
        .values()
        .filter(|it| class_of(api, it).is_some());
    ours.flat_map(|gateway| listener::secrets(api, gateway))
        .collect()
}

/// Takes the Gateway API into a plan.
pub fn take(http: &mut Http<'_>, api: &GatewayApi) {
    if http.snapshot.offered.is_none() {
        // What is said depends on what the manager says, and nothing is asked of it meanwhile.
        return;
    }
    for class in api.classes.values().filter(|it| is_ours(it)) {
        let accepted = match &class.spec.parameters_ref {
            None => Condition::new("Accepted", true, "Accepted", ""),
            Some(_) => {
                let text = "spec.parametersRef: there are no parameters";
                Condition::new("Accepted", false, "InvalidParameters", text)
            }
        };
        let status = json!({"supportedFeatures": features(class)});
        say(http, (Kind::GatewayClass, class), status, vec![accepted]);
    }
    let mut judged: BTreeMap<Key, Judged<'_>> = BTreeMap::new();
    for (key, gateway) in &api.gateways {
        if let Some(class) = class_of(api, gateway) {
            let of = Judged::of((http.snapshot, api), class, gateway);
            judged.insert(key.clone(), of);
        }
    }
    // Who is older has a name before a route of another kind (`GRPCRouteSpec.hostnames`).
    let mut routes: Vec<&Route> = api.all_routes().collect();
    routes.sort_by_cached_key(|route| (&route.metadata.creation_timestamp, Key::of(*route)));
    for route in routes {
        route::take(http, api, route, &mut judged);
    }
    for one in judged.values() {
        one.say(http);
    }
}

/// The class of a Gateway, where it is ours.
fn class_of<'a>(api: &'a GatewayApi, gateway: &Gateway) -> Option<&'a Class> {
    let class = api.classes.get(&gateway.spec.gateway_class_name);
    class.filter(|class| is_ours(class) && class.spec.parameters_ref.is_none())
}

/// Whether a class is ours.
#[must_use]
pub fn is_ours(class: &Class) -> bool {
    class.spec.controller_name == CONTROLLER
}

/// Whether anything of ours is on a route.
#[must_use]
pub fn is_touched(route: &Route) -> bool {
    Owner::from(route).is_guarded() || said::has_parents(route)
}

/// The Gateways that a route refers to.
pub fn parents(route: &Route) -> impl Iterator<Item = (&Reference, Key)> {
    let references = route.spec.parent_refs.iter();
    let gateways = references.filter(|it| route::is_gateway(it));
    gateways.map(|reference| (reference, route::key(route, reference)))
}

/// What we say of a route at a Gateway.
#[must_use]
pub fn conditions(route: &Route, reference: &Reference) -> Vec<Condition> {
    let named = json!(route::trimmed(reference));
    let said = said::parent(route, &named);
    let conditions = said.get("conditions").cloned().unwrap_or_default();
    serde_json::from_value(conditions).unwrap_or_default()
}

fn is_leaving(route: &Route) -> bool {
    route.metadata.deletion_timestamp.is_some()
}

/// Whether an object may refer to one of another namespace.
fn is_granted(
    api: &GatewayApi,
    (kind, from): (&str, &str),
    (to_group, to_kind, to): (&str, &str, &Key),
) -> bool {
    if from == to.namespace {
        return true;
    }
    let grants = api
        .grants
        .iter()
        .filter(|(key, _)| key.namespace == to.namespace);
    grants.into_iter().any(|(_, grant)| {
        let is_from = grant.spec.from.iter().any(|it| {
            it.group.as_deref() == Some(crate::gateway_api::GROUP)
                && it.kind.as_deref() == Some(kind)
                && it.namespace.as_deref() == Some(from)
        });
        let is_to = grant.spec.to.iter().any(|it| {
            let is_named = it.name.as_ref().is_none_or(|name| *name == to.name);
            it.group == to_group && it.kind == to_kind && is_named
        });
        is_from && is_to
    })
}
