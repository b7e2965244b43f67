//! The work handed to a load balancer of somebody else: it brings the endpoint, we publish it.

use kedge_crd::{Condition, Endpoint, Status, host::HostRef};
use serde_json::Value;

use super::{balancer::Balancer, because::Because};
use crate::{
    snapshot::Snapshot,
    store::{Name, ObjectKey},
};

/// The endpoint that the other load balancer says it has.
///
/// # Errors
///
/// It is missing, or has none yet.
pub fn endpoint(
    snapshot: &Snapshot,
    balancer: &Name,
    reference: &HostRef,
) -> Result<(Endpoint, Because), Because> {
    let object = key(balancer, reference);
    let wait = || Because::HandedWaiting {
        object: object.clone(),
    };
    let document = document(snapshot, &object).ok_or_else(wait)?;
    let endpoint = ["/spec/endpoint", "/status/endpoint"]
        .iter()
        .filter_map(|path| serde_json::from_value(document.pointer(path)?.clone()).ok())
        .find(Endpoint::is_valid)
        .ok_or_else(wait)?;
    Ok((endpoint, Because::HandedOver { object }))
}

/// Whether it is reached, by the other load balancer's own word; `None` where we do the work.
#[must_use]
pub fn reachable(snapshot: &Snapshot, balancer: &Balancer) -> Option<Condition> {
    let reference = balancer.spec.infrastructure_ref.as_ref()?;
    let object = key(&balancer.name, reference);
    let conditions = document(snapshot, &object)
        .and_then(|document| document.pointer("/status/conditions")?.as_array())
        .map(Vec::as_slice)
        .unwrap_or_default();
    let find = |kind: &str| {
        let is_it = |condition: &&Value| condition.get("type") == Some(&Value::from(kind));
        conditions.iter().find(is_it)
    };
    let said = find("IsReachable").or_else(|| find("Ready"));
    let status = said.and_then(|said| said.get("status")?.as_str());
    let (status, reason) = match status {
        Some("True") => (Status::True, "Reported"),
        Some("False") => (Status::False, "Reported"),
        _ => (Status::Unknown, "NotReported"),
    };
    let text = match status {
        Status::Unknown => format!("{object} does not say whether it is reached"),
        _ => format!("so says {object}"),
    };
    Some(Condition::new("IsReachable", status, reason, text))
}

fn key(balancer: &Name, reference: &HostRef) -> ObjectKey {
    let name = Name::new(&balancer.namespace, &reference.name);
    ObjectKey::new(&reference.api_group, &reference.kind, name)
}

fn document<'a>(snapshot: &'a Snapshot, key: &ObjectKey) -> Option<&'a Value> {
    let layers = snapshot.objects.get(key)?;
    layers.user.as_ref().map(|user| &user.value)
}
