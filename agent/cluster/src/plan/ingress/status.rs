//! What an Ingress's status says of it.

use k8s_openapi::api::networking::v1::{Ingress, IngressLoadBalancerIngress, IngressPortStatus};
use kedge_crd::{
    Condition, HttpLoadBalancerSpec, HttpLoadBalancerStatus, Status,
    condition::find,
    traffic::{IngressPort, Transport},
};

use crate::{
    names::{FIELD_MANAGER, PREFIX},
    plan::status::Note,
};

/// What stands in an Ingress's status.
#[must_use]
pub fn standing(ingress: &Ingress) -> Vec<IngressLoadBalancerIngress> {
    let status = ingress.status.as_ref();
    let balancer = status.and_then(|status| status.load_balancer.as_ref());
    balancer
        .and_then(|balancer| balancer.ingress.clone())
        .unwrap_or_default()
}

/// Whether the addresses in an Ingress's status are ours.
#[must_use]
pub fn wrote_addresses(ingress: &Ingress) -> bool {
    let is_there = !standing(ingress).is_empty();
    is_there && super::super::claim::address_writers(&ingress.metadata).contains(FIELD_MANAGER)
}

/// The addresses of an Ingress that is offered. One without names of its own is reached by the name
/// that was generated for it, which stands first.
#[must_use]
pub fn offered(
    spec: &HttpLoadBalancerSpec,
    said: &HttpLoadBalancerStatus,
) -> Vec<IngressLoadBalancerIngress> {
    let ports = |ports: &[IngressPort]| {
        let accepted = find(&said.conditions, "Accepted");
        let refused = accepted.filter(|it| it.status != Status::True);
        let error = refused.map(|it| format!("{PREFIX}{}", it.reason));
        let each = ports.iter().map(|port| IngressPortStatus {
            port: i32::from(port.port.get()),
            protocol: spelt(port.protocol).to_owned(),
            error: error.clone(),
        });
        Some(each.collect::<Vec<_>>()).filter(|all| !all.is_empty())
    };
    let mut all: Vec<IngressLoadBalancerIngress> = said
        .ingress
        .iter()
        .map(|it| IngressLoadBalancerIngress {
            ip: it.ip.map(|ip| ip.to_string()),
            hostname: match it.ip {
                Some(_) => None,
                None => it.hostname.clone(),
            },
            ports: ports(&it.ports),
        })
        .collect();
    let generated = Some(&said.generated_hostname).filter(|name| !name.is_empty());
    if let Some(name) = generated
        && spec.hostnames.is_empty()
        && !all.is_empty()
        && !all.iter().any(|it| it.hostname.as_ref() == Some(name))
    {
        let like = all.first().and_then(|first| first.ports.clone());
        all.insert(
            0,
            IngressLoadBalancerIngress {
                ip: None,
                hostname: Some(name.clone()),
                ports: like,
            },
        );
    }
    all
}

/// What the manager says that somebody should hear of.
#[must_use]
pub fn notes(said: &HttpLoadBalancerStatus, shown: &[IngressLoadBalancerIngress]) -> Vec<Note> {
    let wrong = |it: &&Condition| it.status == Status::False && it.reason != "Pending";
    let of_kind = |kind: &&str| find(&said.conditions, kind);
    let mut told = KINDS.iter().filter_map(of_kind);
    let note = match told.find(wrong) {
        Some(it) => Some(Note::warning(&it.reason, &it.message)),
        None => find(&said.conditions, "Ready")
            .filter(|ready| ready.status == Status::True)
            .map(|ready| Note {
                is_warning: false,
                reason: ready.reason.clone(),
                text: where_to(shown),
            }),
    };
    note.into_iter().collect()
}

/// Where clients go, in words.
fn where_to(shown: &[IngressLoadBalancerIngress]) -> String {
    let all = shown.iter();
    let all = all.filter_map(|it| it.ip.as_deref().or(it.hostname.as_deref()));
    let all: Vec<&str> = all.collect();
    format!("served at {}", all.join(", "))
}

const fn spelt(protocol: Transport) -> &'static str {
    match protocol {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
    }
}

/// The conditions that tell what is wrong, the cause before what follows from it.
const KINDS: [&str; 6] = [
    "Accepted",
    "ResolvedRefs",
    "CertificateReady",
    "DNSReady",
    "Programmed",
    "Ready",
];
