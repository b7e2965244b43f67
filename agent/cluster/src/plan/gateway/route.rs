//! HTTPRoutes: what each becomes, and what it is told.

use std::collections::{BTreeMap, BTreeSet};

use kedge_crd::{Condition, HttpLoadBalancerStatus, Status, condition::find, http::Tls};
use serde_json::{Value, json};

use super::{
    attach::{Attached, attach},
    is_leaving,
    listener::{Judged, Reason},
    rules::rules,
    said::{has_parents, met, others, parent, put},
};
use crate::{
    apply::Kind,
    gateway_api::{GROUP, Reference, Route},
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
    let manager = match &verdict.made {
        Ok(asked) => told(&http.standing(owner, asked)),
        Err(reason) => Some(Err(reason.clone())),
    };
    let mut parents = others(route);
    for (reference, found) in &verdict.parents {
        let named = json!(trimmed(reference));
        let standing = parent(route, &named);
        let accepted = match (found, &manager) {
            (Err((reason, text)), _) => Condition::new("Accepted", false, reason, text.clone()),
            (Ok(_), Some(Ok(()))) => Condition::new("Accepted", true, "Accepted", ""),
            (Ok(_), Some(Err((reason, text)))) => {
                Condition::new("Accepted", false, reason, text.clone())
            }
            (Ok(_), None) => waiting(&standing),
        };
        if let (Ok(attached), Some(gateway)) = (found, gateways.get_mut(&key(route, reference)))
            && accepted.status != Status::False
        {
            for it in attached {
                if let Some(place) = gateway.listeners.get_mut(it.at) {
                    place.attached += 1;
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
    put(http, Kind::HttpRoute, route, json!({"parents": parents}));
    match verdict.made {
        Ok(asked) => http.want(owner, asked),
        Err(_) => http.unwant(owner),
    }
}

/// What becomes of a route.
struct Verdict<'a> {
    /// Each reference to a Gateway of ours, with what it is attached to.
    parents: Vec<(&'a Reference, Result<Vec<Attached>, Reason>)>,
    /// What is asked for.
    made: Result<Asked, Reason>,
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
        let made = match rules(snapshot, api, route) {
            Err(text) => Err(("UnsupportedValue", text)),
            Ok(made) => {
                unresolved = made.unresolved;
                let mut asked = Asked {
                    backends: made.backends,
                    ..Asked::default()
                };
                asked.spec.rules = made.rules;
                asked.spec.source = Some(Owner::from(route).source());
                name(&mut asked, route, &parents, gateways).map(|()| asked)
            }
        };
        Self {
            parents,
            made,
            unresolved,
        }
    }
}

/// Gives a load balancer its names, and the certificates for them.
fn name(
    asked: &mut Asked,
    route: &Route,
    parents: &[(&Reference, Result<Vec<Attached>, Reason>)],
    gateways: &BTreeMap<Key, Judged<'_>>,
) -> Result<(), Reason> {
    let (mut hostnames, mut is_all, mut is_plain) = (BTreeSet::new(), false, false);
    let mut served = BTreeSet::new();
    for (reference, found) in parents {
        let gateway = gateways.get(&key(route, reference));
        for it in found.iter().flatten() {
            let Some(place) = gateway.and_then(|gateway| gateway.listeners.get(it.at)) else {
                continue;
            };
            if place.is_tls() {
                let Some(certificate) = &place.certificate else {
                    continue;
                };
                let names = it.hostnames.iter();
                let fresh: Vec<String> = names
                    .filter(|name| served.insert((*name).clone()))
                    .cloned()
                    .collect();
                if fresh.is_empty() && !it.hostnames.is_empty() {
                    continue;
                }
                asked.spec.tls.push(Tls {
                    hosts: fresh,
                    secret_ref: Some(certificate.name.clone()),
                    ..Tls::default()
                });
                asked.certificates.push(certificate.clone());
            } else {
                is_plain = true;
            }
            is_all |= it.hostnames.is_empty();
            hostnames.extend(it.hostnames.iter().cloned());
        }
    }
    if !is_all && hostnames.is_empty() {
        let text = "no listener it is attached to is usable".to_owned();
        return Err(("NoMatchingParent", text));
    }
    // Nobody who asked for HTTPS alone is served without.
    asked.spec.https_redirect = !is_plain;
    asked.spec.hostnames = hostnames.into_iter().collect();
    let counts = [
        ("names", asked.spec.hostnames.len(), 32),
        ("matches", asked.spec.rules.len(), 64),
        ("certificates", asked.spec.tls.len(), 16),
    ];
    for (what, count, most) in counts {
        if count > most {
            let text = format!("it has {count} {what}, and {most} are served");
            return Err(("UnsupportedValue", text));
        }
    }
    Ok(())
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

fn is_gateway(reference: &Reference) -> bool {
    reference.group.as_deref().unwrap_or(GROUP) == GROUP
        && reference.kind.as_deref().unwrap_or("Gateway") == "Gateway"
}

fn key(route: &Route, reference: &Reference) -> Key {
    let own = Key::of(route).namespace;
    let namespace = reference.namespace.as_deref().unwrap_or(&own);
    Key::new(namespace, &reference.name)
}

/// A reference as a status has it.
fn trimmed(reference: &Reference) -> serde_json::Map<String, Value> {
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
