//! Whose a Service is.

use std::collections::BTreeSet;

use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use crate::{
    names::{EXPOSE, FIELD_MANAGER, PREFIX},
    snapshot::Config,
};

/// Whose a Service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Ours, as a load balancer: its status has a place for addresses.
    Balancer,
    /// Ours by the annotation: an API server takes addresses in the status of type LoadBalancer
    /// alone, so conditions tell them.
    NodePort,
    /// It would be ours, but its type has no node ports.
    WithoutNodePorts {
        /// Its type.
        kind: String,
    },
    /// It would be ours, but somebody else has answered it.
    Answered {
        /// Their field managers.
        by: Vec<String>,
    },
    /// Not ours.
    Foreign,
}

/// Whose a Service is.
///
/// Of `spec.loadBalancerClass` Kubernetes says (KEP-1959): with a class a Service is its
/// controller's alone; without one it is the cluster's default implementation's, which this agent is
/// only where it is configured so, and never beside another one that answered.
#[must_use]
pub fn claim(config: &Config, service: &Service) -> Claim {
    let spec = service.spec.as_ref();
    let kind = spec.and_then(|spec| spec.type_.as_deref());
    let kind = kind.unwrap_or("ClusterIP");
    let class = spec.and_then(|spec| spec.load_balancer_class.as_deref());
    let annotations = service.metadata.annotations.as_ref();
    let expose = annotations.and_then(|all| all.get(EXPOSE));
    let is_wished = expose.is_some_and(|value| value == "true");
    match (kind, class) {
        ("LoadBalancer", Some(class)) if class == config.class => Claim::Balancer,
        ("LoadBalancer", None) if config.unclassed => {
            let others = answered_by(service);
            if others.is_empty() {
                Claim::Balancer
            } else {
                let by = others.into_iter().collect();
                Claim::Answered { by }
            }
        }
        ("LoadBalancer", _) => Claim::Foreign,
        ("NodePort", _) if is_wished => Claim::NodePort,
        (kind, _) if is_wished => Claim::WithoutNodePorts {
            kind: kind.to_owned(),
        },
        _ => Claim::Foreign,
    }
}

/// Who else wrote addresses to a Service's status, by field manager. Without a record of managers
/// that is told as well.
fn answered_by(service: &Service) -> BTreeSet<String> {
    if !has_addresses(service) {
        return BTreeSet::new();
    }
    let managers = address_writers(&service.metadata);
    if managers.is_empty() {
        return BTreeSet::from(["an unnamed writer".to_owned()]);
    }
    let others = managers.into_iter().filter(|name| name != FIELD_MANAGER);
    others.collect()
}

/// Who owns `status.loadBalancer` of an object.
#[must_use]
pub fn address_writers(meta: &ObjectMeta) -> BTreeSet<String> {
    let entries = meta.managed_fields.iter().flatten();
    let of_addresses = entries.filter(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| {
            fields
                .pointer("/f:status/f:loadBalancer/f:ingress")
                .is_some()
        })
    });
    of_addresses
        .filter_map(|entry| entry.manager.clone())
        .collect()
}

/// Whether a Service has addresses in its status.
#[must_use]
pub fn has_addresses(service: &Service) -> bool {
    let status = service.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref());
    ingress.is_some_and(|ingress| !ingress.is_empty())
}

/// Whether the addresses in a Service's status are ours.
#[must_use]
pub fn wrote_addresses(service: &Service) -> bool {
    has_addresses(service) && address_writers(&service.metadata).contains(FIELD_MANAGER)
}

/// Whether a Service has conditions of ours.
#[must_use]
pub fn has_conditions(service: &Service) -> bool {
    let status = service.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let mut all = conditions.into_iter().flatten();
    all.any(|condition| condition.type_.starts_with(PREFIX))
}

/// Whether a Service is being deleted.
#[must_use]
pub const fn is_leaving(service: &Service) -> bool {
    service.metadata.deletion_timestamp.is_some()
}
