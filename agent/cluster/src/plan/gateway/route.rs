//! Routes: what each becomes, and what it is told.

use std::collections::BTreeMap;

use kedge_crd::{Condition, HttpLoadBalancerStatus, Status, condition::find};
use serde_json::{Value, json};

use super::{
    attach::{Attached, attach},
    bound::bind,
    is_leaving,
    listener::{Judged, Reason},
    own::Own,
    rules::{Made, rules},
    said::{has_parents, met, others, parent, put},
    tls,
};
use crate::{
    gateway_api::{GROUP, Reference, Route, Routed},
    names::CONTROLLER,
    plan::{
        http::{Asked, Http, Standing},
        owner::Owner,
    },
    snapshot::{GatewayApi, Key, Snapshot},
};

/// Takes a route into a plan.
pub fn take(
    http: &mut Http<'_>,
    api: &GatewayApi,
    route: &Route,
    gateways: &mut BTreeMap<Key, Judged<'_>>,
) {
    let owner = Owner::from(route);
    if is_leaving(route) {
        http.unwant(owner);
        return;
    }
    let verdict = Verdict::of(http.snapshot, api, route, gateways);
    if verdict.parents.is_empty() && !has_parents(route) {
        http.unwant(owner);
        return;
    }
    let answered = |made: &Result<Option<Asked>, Reason>| match made {
        Ok(Some(asked)) => told(&http.standing(owner, asked)),
        // It waits for its listeners, which say what they lack.
        Ok(None) => Some(Ok(())),
        Err(reason) => Some(Err(reason.clone())),
    };
    let made = verdict.made.iter();
    let answers: BTreeMap<&String, _> = made.map(|(at, made)| (at, answered(made))).collect();
    let mut parents = others(route);
    for (reference, found) in &verdict.parents {
        let named = json!(trimmed(reference));
        let standing = parent(route, &named);
        let gateway = key(route, reference);
        let at = gateways.get(&gateway).map(Judged::at).unwrap_or_default();
        let manager = answers.get(&at).cloned().flatten();
        let accepted = match (found, &manager) {
            (Err((reason, text)), _) => Condition::new("Accepted", false, reason, text.clone()),
            (Ok(_), Some(Ok(()))) => Condition::new("Accepted", true, "Accepted", ""),
            (Ok(_), Some(Err((reason, text)))) => {
                Condition::new("Accepted", false, reason, text.clone())
            }
            (Ok(_), None) => waiting(&standing),
        };
        if let (Ok(attached), Some(gateway)) = (found, gateways.get_mut(&gateway))
            && accepted.status != Status::False
        {
            for it in attached {
                if let Some(place) = gateway.listeners.get_mut(it.at) {
                    place.attached += 1;
                    place.held.push((route.spec.of, it.hostnames.clone()));
                }
            }
        }
        let resolved = match verdict.unresolved.first() {
            None => Condition::new("ResolvedRefs", true, "ResolvedRefs", ""),
            Some((reason, text)) => Condition::new("ResolvedRefs", false, reason, text.clone()),
        };
        let now = &http.snapshot.now;
        let conditions = met(&standing, vec![accepted, resolved], route, now);
        parents.push(json!({"parentRef": named, "controllerName": CONTROLLER,
            "conditions": conditions}));
    }
    put(http, owner.kind, route, json!({"parents": parents}));
    let asked = verdict.made.into_values().filter_map(Result::ok).flatten();
    let asked: Vec<Asked> = asked.collect();
    if asked.is_empty() {
        http.unwant(owner);
    }
    for asked in asked {
        http.want(owner, asked);
    }
}

/// What becomes of a route.
struct Verdict<'a> {
    /// Each reference to a Gateway of ours, with what it is attached to.
    parents: Vec<(&'a Reference, Result<Vec<Attached>, Reason>)>,
    /// What is asked for at the shared addresses, and at each Gateway's own; nothing where no listener that it is
    /// attached to there is usable.
    made: BTreeMap<String, Result<Option<Asked>, Reason>>,
    /// What it refers to, and does not find.
    unresolved: Vec<Reason>,
}

impl<'a> Verdict<'a> {
    fn of(
        snapshot: &Snapshot,
        api: &GatewayApi,
        route: &'a Route,
        gateways: &BTreeMap<Key, Judged<'_>>,
    ) -> Self {
        let references = route.spec.parent_refs.iter().filter(|it| is_gateway(it));
        let parents: Vec<_> = references
            .filter_map(|reference| {
                let gateway = gateways.get(&key(route, reference))?;
                Some((reference, attach(api, route, reference, gateway)))
            })
            .collect();
        let mut unresolved = Vec::new();
        let made = match route.spec.of {
            Routed::Http | Routed::Grpc => rules(snapshot, api, route),
            Routed::Tls => tls::rules(snapshot, api, route),
        };
        let judged = |reference| gateways.get(&key(route, reference));
        let attached = parents.iter().filter(|(_, found)| found.is_ok());
        let places: BTreeMap<String, Option<&Own>> = attached
            .filter_map(|(reference, _)| judged(reference))
            .map(|gateway| (gateway.at(), gateway.own.as_ref()))
            .collect();
        let bound = |made: &Made, (at, own): (&str, Option<&Own>)| {
            let mut asked = Asked {
                at: at.to_owned(),
                backends: made.backends.clone(),
                doors: made.doors.clone(),
                ..Asked::default()
            };
            asked.spec.rules.clone_from(&made.rules);
            asked.spec.source = Some(Owner::from(route).source());
            asked.spec.address = own.map(|own| own.address.clone());
            let there = parents.iter().flat_map(|(reference, found)| {
                let gateway = judged(reference).filter(|it| it.at() == at);
                let listeners = gateway.map(|it| it.listeners.as_slice());
                let listeners = listeners.unwrap_or_default();
                let found = found.iter().flatten();
                found.filter_map(move |it| Some((it, listeners.get(it.at)?)))
            });
            let bound = bind(&mut asked, there);
            bound.map(|is_served| is_served.then_some(asked))
        };
        let each = places.into_iter().map(|(at, own)| {
            let bound = match &made {
                Err(text) => Err(("UnsupportedValue", text.clone())),
                Ok(made) => bound(made, (&at, own)),
            };
            (at, bound)
        });
        let each = each.collect();
        if let Ok(made) = made {
            unresolved = made.unresolved;
        }
        Self {
            made: each,
            parents,
            unresolved,
        }
    }
}

/// What the manager says of a route; `None` while it says nothing.
fn told(standing: &Standing<'_>) -> Option<Result<(), Reason>> {
    match standing {
        Standing::Refused(because) => Some(Err(("RefusedByManager", because.join("; ")))),
        Standing::Said(said) => Some(accepted(said)),
        Standing::Waiting => None,
    }
}

fn accepted(said: &HttpLoadBalancerStatus) -> Result<(), Reason> {
    match find(&said.conditions, "Accepted") {
        Some(it) if it.status == Status::False => {
            Err(("RefusedByManager", format!("{}: {}", it.reason, it.message)))
        }
        _ => Ok(()),
    }
}

/// While the manager has not answered what was said stays, where anything was.
fn waiting(standing: &Value) -> Condition {
    let all = standing.get("conditions").cloned().unwrap_or_default();
    let all: Vec<Condition> = serde_json::from_value(all).unwrap_or_default();
    find(&all, "Accepted").cloned().unwrap_or_else(|| {
        let text = "it waits for the manager's answer";
        let mut condition = Condition::new("Accepted", false, "Pending", text);
        condition.status = Status::Unknown;
        condition
    })
}

/// Whether a reference is to a Gateway.
pub fn is_gateway(reference: &Reference) -> bool {
    reference.group.as_deref().unwrap_or(GROUP) == GROUP
        && reference.kind.as_deref().unwrap_or("Gateway") == "Gateway"
}

/// Which Gateway a reference is to.
pub fn key(route: &Route, reference: &Reference) -> Key {
    let own = Key::of(route).namespace;
    let namespace = reference.namespace.as_deref().unwrap_or(&own);
    Key::new(namespace, &reference.name)
}

/// A reference as a status has it.
pub fn trimmed(reference: &Reference) -> serde_json::Map<String, Value> {
    let fields = [
        ("group", json!(reference.group)),
        ("kind", json!(reference.kind)),
        ("namespace", json!(reference.namespace)),
        ("name", json!(reference.name)),
        ("sectionName", json!(reference.section_name)),
        ("port", json!(reference.port)),
    ];
    let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
