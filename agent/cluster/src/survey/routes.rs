//! The routes of a cluster at Gateways of ours, as their statuses tell of them.

use std::{collections::BTreeMap, fmt::Debug};

use kedge_control::local::{OfferedRoute, OfferedRouteList};
use kedge_core::Problem;
use kedge_crd::{Condition, Status, condition::find};
use kube::{Api, Client, Resource, api::ListParams};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::refused;
use crate::{
    gateway_api::{Class, Gateway, GrpcRoute, Reference, Route, TlsRoute},
    place::Place,
    plan::gateway::{conditions, is_ours, parents},
    snapshot::Key,
};

/// The routes that are at Gateways of ours, a line for each place.
pub async fn listed(place: &Place, client: &Client) -> Result<OfferedRouteList, Problem> {
    let classes: Vec<Class> = all(place, client).await?;
    let gateways: Vec<Gateway> = all(place, client).await?;
    let mut routes: Vec<Route> = all(place, client).await?;
    let calls: Vec<GrpcRoute> = all(place, client).await?;
    let passed: Vec<TlsRoute> = all(place, client).await?;
    routes.extend(calls.into_iter().map(Route::from));
    routes.extend(passed.into_iter().map(Route::from));
    let gateways = ours(&classes, gateways);
    let each = routes.iter().flat_map(|route| of(&gateways, route));
    let mut items: Vec<OfferedRoute> = each.collect();
    items.sort_by(|a, b| (&a.namespace, &a.name, &a.kind).cmp(&(&b.namespace, &b.name, &b.kind)));
    Ok(OfferedRouteList { items })
}

/// Every object of a kind; none where there is no such kind.
async fn all<R>(place: &Place, client: &Client) -> Result<Vec<R>, Problem>
where
    R: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let objects: Api<R> = Api::all(client.clone());
    match objects.list(&ListParams::default()).await {
        Ok(all) => Ok(all.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(refused(place, &error)),
    }
}

fn ours(classes: &[Class], gateways: Vec<Gateway>) -> BTreeMap<Key, Gateway> {
    let is_of_ours = |gateway: &Gateway| {
        let name = Some(&gateway.spec.gateway_class_name);
        let mut all = classes.iter().filter(|class| is_ours(class));
        all.any(|class| class.metadata.name.as_ref() == name)
    };
    let all = gateways.into_iter().filter(is_of_ours);
    all.map(|gateway| (Key::of(&gateway), gateway)).collect()
}

fn of(gateways: &BTreeMap<Key, Gateway>, route: &Route) -> Vec<OfferedRoute> {
    let places = parents(route).filter_map(|(reference, key)| {
        let gateway = gateways.get(&key)?;
        Some(one(route, reference, (&key, gateway)))
    });
    places.collect()
}

fn one(route: &Route, reference: &Reference, (key, gateway): (&Key, &Gateway)) -> OfferedRoute {
    let said = conditions(route, reference);
    let accepted = find(&said, "Accepted");
    let is_accepted = accepted.is_some_and(|it| it.status == Status::True);
    let addresses = gateway.status.get("addresses").and_then(Value::as_array);
    let addresses = addresses.into_iter().flatten();
    let addresses = addresses.filter_map(|it| it.get("value")?.as_str().map(str::to_owned));
    let listener = reference.section_name.clone();
    let listener = listener.or_else(|| reference.port.map(|port| port.to_string()));
    let lacking = find(&said, "ResolvedRefs").filter(|it| it.status == Status::False);
    let told = |it: &Condition| format!("{}: {}", it.reason, it.message);
    let (reason, message) = match accepted {
        _ if is_accepted => (String::new(), String::new()),
        Some(it) => (it.reason.clone(), it.message.clone()),
        None => ("Pending".to_owned(), "it waits for the agent".to_owned()),
    };
    let owner = Key::of(route);
    OfferedRoute {
        kind: route.spec.of.kind().to_owned(),
        namespace: owner.namespace,
        name: owner.name,
        hosts: match route.spec.hostnames.is_empty() {
            true => vec!["*".to_owned()],
            false => route.spec.hostnames.clone(),
        },
        gateway: key.to_string(),
        listener: listener.unwrap_or_default(),
        addresses: match is_accepted {
            true => addresses.collect(),
            false => Vec::new(),
        },
        unserved: lacking.map(told).into_iter().collect(),
        ready: is_accepted,
        reason,
        message,
        leaving: route.metadata.deletion_timestamp.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_route_is_told_for_each_gateway_of_ours() {
        let read = |value: Value| serde_json::from_value::<Gateway>(value).unwrap();
        let gateway = |name: &str, class: &str| {
            read(json!({"metadata": {"name": name, "namespace": "edge"},
                "spec": {"gatewayClassName": class},
                "status": {"addresses": [{"value": "203.0.113.7"}]}}))
        };
        let class: Class = serde_json::from_value(json!({"metadata": {"name": "kedge"},
            "spec": {"controllerName": "kedge.dev/agent"}}))
        .unwrap();
        let gateways = ours(
            &[class],
            vec![gateway("gw", "kedge"), gateway("other", "x")],
        );
        let parent =
            |section: &str| json!({"name": "gw", "namespace": "edge", "sectionName": section});
        let said = |section: &str, conditions: Value| {
            json!({"controllerName": "kedge.dev/agent", "parentRef": parent(section),
                "conditions": conditions})
        };
        let condition = |kind: &str, status: &str, reason: &str| {
            json!({"type": kind, "status": status, "reason": reason, "message": "why",
                "lastTransitionTime": "2026-01-02T03:04:05Z"})
        };
        let route: TlsRoute = serde_json::from_value(json!({
            "metadata": {"name": "raw", "namespace": "shop"},
            "spec": {"hostnames": ["raw.example"], "parentRefs": [parent("tls"), parent("late"),
                parent("shut"), {"name": "other", "namespace": "edge"}]},
            "status": {"parents": [
                said("tls", json!([condition("Accepted", "True", "Accepted"),
                    condition("ResolvedRefs", "False", "BackendNotFound")])),
                said("shut", json!([condition("Accepted", "False", "NotAllowedByListeners")]))]}}))
        .unwrap();
        let found = of(&gateways, &route.into());
        let lines: Vec<_> = found
            .iter()
            .map(|it| (&*it.listener, it.addresses.len(), it.ready, &*it.reason))
            .collect();
        assert_eq!(
            lines,
            [
                ("tls", 1, true, ""),
                ("late", 0, false, "Pending"),
                ("shut", 0, false, "NotAllowedByListeners")
            ]
        );
        assert_eq!(
            (&*found[0].kind, &*found[0].gateway),
            ("TLSRoute", "edge/gw")
        );
        assert_eq!(found[0].unserved, ["BackendNotFound: why"]);
    }
}
