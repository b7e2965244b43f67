//! The status of a TCPLoadBalancer.

use kedge_crd::{
    Condition, Status, TcpLoadBalancerStatus,
    condition::merge,
    traffic::{Ingress, IngressPort},
};

use super::{Tcp, offer::frontend_name};
use crate::{
    plan::{
        gateway::public_addresses,
        health::tunnel_is_up,
        programmed::{Asked, programmed},
        report::clean,
    },
    snapshot::Snapshot,
};

/// The status, with what stays of the last one.
pub fn status(snapshot: &Snapshot, tcp: &Tcp) -> TcpLoadBalancerStatus {
    let staying = tcp.members.iter().filter(|member| !member.draining);
    let mut hosts: Vec<_> = staying.map(|member| &member.host).collect();
    hosts.sort();
    hosts.dedup();
    let down: Vec<String> = hosts
        .iter()
        .filter(|name| !tunnel_is_up(snapshot, name))
        .map(|name| name.name.clone())
        .collect();
    let up = hosts.len() - down.len();
    let mut conditions = vec![accepted(tcp)];
    if tcp.is_served() {
        conditions.push(match tcp.is_routed() {
            true => Condition::new("Programmed", true, "Routed", ""),
            false => programmed(snapshot, tcp.gateway.as_ref(), &asked(tcp)),
        });
        let leaves = tcp.members.iter().any(|member| member.draining);
        conditions.push(match hosts.is_empty() && leaves {
            true => Condition::new(BACKENDS, false, "AllLeaving", ALL_LEAVE),
            false => backends(hosts.len(), &down),
        });
    }
    let missing = conditions
        .iter()
        .find(|condition| condition.status != Status::True)
        // One host is enough to serve.
        .filter(|condition| condition.kind != BACKENDS || up == 0);
    let ready = match missing {
        Some(missing) => {
            let text = format!("{}: {}", missing.kind, missing.message);
            Condition::new("Ready", false, &missing.reason, text)
        }
        None => Condition::new("Ready", true, "Ready", ""),
    };
    conditions.push(ready);
    TcpLoadBalancerStatus {
        ingress: ingress(snapshot, tcp),
        active_endpoints: match tcp.is_served() {
            true => u32::try_from(up).unwrap_or(u32::MAX),
            false => 0,
        },
        conditions: merge(&tcp.last.conditions, conditions, &snapshot.now),
    }
}

fn accepted(tcp: &Tcp) -> Condition {
    match &tcp.refused {
        Some(refusal) => {
            let text = clean(&refusal.to_string());
            Condition::new("Accepted", false, refusal.reason(), text)
        }
        None => Condition::new("Accepted", true, "Accepted", ""),
    }
}

/// Where clients come.
fn ingress(snapshot: &Snapshot, tcp: &Tcp) -> Vec<Ingress> {
    let gateway = tcp.gateway.as_ref().and_then(|name| snapshot.gateway(name));
    let Some(gateway) = gateway.filter(|_| tcp.is_served() && !tcp.is_routed()) else {
        return Vec::new();
    };
    let addresses = match tcp.own {
        Some(own) => vec![own.to_string()],
        None => public_addresses(gateway),
    };
    let ports: Vec<IngressPort> = tcp
        .given
        .iter()
        .map(|given| IngressPort {
            port: given.listener,
            protocol: given.protocol,
        })
        .collect();
    let ingress = addresses.into_iter().map(|address| {
        let ip = address.parse().ok();
        Ingress {
            hostname: ip.is_none().then_some(address),
            ip,
            ports: ports.clone(),
        }
    });
    ingress.take(INGRESS).collect()
}

/// What is asked of the gateway: its ports, as they are called there, and for people.
fn asked(tcp: &Tcp) -> Asked {
    let parts = tcp.given.iter().map(|given| {
        let name = frontend_name(&tcp.name, &given.name);
        (name, format!("port {}", given.name))
    });
    Asked {
        parts: parts.collect(),
        is_restricted: !tcp.spec.source_ranges.is_empty(),
    }
}

fn backends(all: usize, down: &[String]) -> Condition {
    let said =
        |holds: bool, reason: &str, text: String| Condition::new(BACKENDS, holds, reason, text);
    let up = all - down.len();
    match (all, up) {
        (0, _) => said(
            false,
            "NoBackends",
            "spec.endpoints selects no enrolled host of the gateway".to_owned(),
        ),
        (_, 0) => {
            let text = format!(
                "the tunnel of none of {all} hosts is up: {}",
                down.join(", ")
            );
            said(false, "NoneHealthy", text)
        }
        _ if up < all => {
            let text = format!(
                "the tunnel of {} is down: {up} of {all} serve",
                down.join(", ")
            );
            said(false, "SomeUnhealthy", text)
        }
        _ => said(true, "AllHealthy", String::new()),
    }
}

/// What is said where every host is being left.
const ALL_LEAVE: &str =
    "every host is being removed: what is open goes on, and new connections are refused";
const BACKENDS: &str = "BackendsHealthy";
/// As many as the schema takes.
const INGRESS: usize = 16;
