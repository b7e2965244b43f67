//! What a Service's status says of it.

use k8s_openapi::api::core::v1::{LoadBalancerIngress, PortStatus, Service};
use kedge_crd::{
    Condition, Status, TcpLoadBalancerStatus,
    condition::{find, merge},
    traffic::{Ingress, Transport},
};

use super::{
    addresses::{asked, is_asked},
    claim::Claim,
    refusal::Refusal,
    wanted::{protocol, proxy_protocol},
};
use crate::{
    names::PREFIX,
    snapshot::{Config, ManagerRefusal},
};

/// What of a Service's status is ours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    /// Where clients reach it.
    pub ingress: Vec<LoadBalancerIngress>,
    /// Our conditions, by type.
    pub conditions: Vec<Condition>,
}

/// Something worth an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether somebody has to do something about it.
    pub is_warning: bool,
    /// The reason of the condition.
    pub reason: String,
    /// Its message.
    pub text: String,
}

impl Note {
    /// Something that somebody has to do something about.
    #[must_use]
    pub fn warning(reason: &str, text: &impl ToString) -> Self {
        Self {
            is_warning: true,
            reason: reason.to_owned(),
            text: text.to_string(),
        }
    }
}

/// What stands in a Service's status of ours.
#[must_use]
pub fn standing(service: &Service) -> Shown {
    let status = service.status.clone().unwrap_or_default();
    let balancer = status.load_balancer.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default().into_iter();
    let ours = conditions.filter(|condition| condition.type_.starts_with(PREFIX));
    let mut conditions: Vec<Condition> = ours
        .map(|it| Condition {
            status: match it.status.as_str() {
                "True" => Status::True,
                "False" => Status::False,
                _ => Status::Unknown,
            },
            kind: it.type_,
            reason: it.reason,
            message: it.message,
            last_transition_time: it.last_transition_time.0.to_string(),
            observed_generation: it.observed_generation,
        })
        .collect();
    conditions.sort_by(|a, b| a.kind.cmp(&b.kind));
    Shown {
        ingress: balancer.ingress.unwrap_or_default(),
        conditions,
    }
}

/// The status of a Service that is refused here.
#[must_use]
pub fn refused(service: &Service, refusal: &Refusal, now: &str) -> Shown {
    let text = refusal.to_string();
    Shown {
        ingress: Vec::new(),
        conditions: conditions(
            service,
            now,
            vec![
                Condition::new("Accepted", false, refusal.reason(), text.clone()),
                Condition::new("Ready", false, refusal.reason(), text),
            ],
        ),
    }
}

/// The status of a Service that the manager refused. What was offered of it before stays so.
#[must_use]
pub fn refused_by_manager(service: &Service, said: &ManagerRefusal, now: &str) -> Shown {
    let text = format!("the manager says: {}", said.because);
    let reason = "RefusedByManager";
    Shown {
        ingress: standing(service).ingress,
        conditions: conditions(
            service,
            now,
            vec![
                Condition::new("Accepted", false, reason, text.clone()),
                Condition::new("Ready", false, reason, text),
            ],
        ),
    }
}

/// The status of a Service that waits for the manager. What was said of it before stays, but for a
/// refusal that may not hold any more; while nobody `answers`, that stays as well.
#[must_use]
pub fn waiting(service: &Service, answers: bool, now: &str) -> Shown {
    let before = standing(service);
    let ready = find(&before.conditions, &typed("Ready"));
    if ready.is_some_and(|ready| !answers || !is_of_refusal(ready)) {
        return before;
    }
    let text = "it waits for the manager's answer";
    let ready = Condition::new("Ready", false, PENDING, text);
    Shown {
        ingress: before.ingress,
        conditions: conditions(service, now, vec![ready]),
    }
}

/// The status of a Service that is offered.
#[must_use]
pub fn offered(
    config: &Config,
    (service, claim): (&Service, &Claim),
    said: &TcpLoadBalancerStatus,
    now: &str,
) -> Shown {
    let ingress = ingress(config, service, said);
    let copied = COPIED.iter().filter_map(|kind| {
        let condition = find(&said.conditions, kind)?;
        let mut copy = Condition::new(
            kind,
            condition.status,
            &condition.reason,
            condition.message.clone(),
        );
        if *kind == "Ready" && condition.status == Status::True {
            copy.message = where_to(&ingress);
        }
        Some(copy)
    });
    Shown {
        conditions: conditions(service, now, copied.collect()),
        // An API server takes addresses of type LoadBalancer alone.
        ingress: match claim {
            Claim::Balancer => ingress,
            _ => Vec::new(),
        },
    }
}

/// What changed so that somebody should hear of it.
#[must_use]
pub fn notes(before: &Shown, after: &Shown) -> Vec<Note> {
    let ready = typed("Ready");
    let Some(new) = find(&after.conditions, &ready) else {
        return Vec::new();
    };
    let old = find(&before.conditions, &ready);
    let is_same = old.is_some_and(|old| old.status == new.status && old.reason == new.reason);
    if is_same || new.reason == PENDING {
        return Vec::new();
    }
    vec![Note {
        is_warning: new.status != Status::True,
        reason: new.reason.clone(),
        text: new.message.clone(),
    }]
}

/// The type of a condition of ours on an object that is not.
#[must_use]
pub fn typed(kind: &str) -> String {
    format!("{PREFIX}{kind}")
}

fn conditions(service: &Service, now: &str, mut new: Vec<Condition>) -> Vec<Condition> {
    for condition in &mut new {
        condition.kind = typed(&condition.kind);
        // Services count generations since 1.33 at the earliest; before there is none to name.
        condition.observed_generation = service.metadata.generation;
    }
    merge(&standing(service).conditions, new, now)
}

/// Whether a condition tells of something that does not work.
fn is_of_refusal(ready: &Condition) -> bool {
    ready.status == Status::False && ready.reason != PENDING
}

fn ingress(
    config: &Config,
    service: &Service,
    said: &TcpLoadBalancerStatus,
) -> Vec<LoadBalancerIngress> {
    let asked = asked(service);
    let spelt = |ingress: &Ingress| match ingress.ip {
        Some(ip) => ip.to_string(),
        None => ingress.hostname.clone().unwrap_or_default(),
    };
    let all = said.ingress.iter();
    let shown = all.filter(|ingress| is_asked(&asked, &spelt(ingress)));
    // With the PROXY protocol a connection from within must take the way through the gateway, too:
    // the backend waits for the header (KEP-1860).
    let mode = match proxy_protocol(service) {
        Some(_) => "Proxy",
        None => "VIP",
    };
    shown
        .map(|ingress| LoadBalancerIngress {
            ip: ingress.ip.map(|ip| ip.to_string()),
            hostname: match ingress.ip {
                Some(_) => None,
                None => ingress.hostname.clone(),
            },
            ip_mode: ingress
                .ip
                .filter(|_| config.ip_mode)
                .map(|_| mode.to_owned()),
            ports: Some(port_states(service, ingress, said)),
        })
        .collect()
}

/// The ports of a Service as they are served at an address; one that is not says why (KEP-1435).
fn port_states(
    service: &Service,
    ingress: &Ingress,
    said: &TcpLoadBalancerStatus,
) -> Vec<PortStatus> {
    let is_given = |number: i32, protocol: Transport| {
        let mut given = ingress.ports.iter();
        given.any(|port| i32::from(port.port.get()) == number && port.protocol == protocol)
    };
    let accepted = find(&said.conditions, "Accepted");
    let refused = accepted.filter(|it| it.status != Status::True);
    let missing = refused.map_or(PENDING, |it| it.reason.as_str());
    let spec = service.spec.as_ref();
    let ports = spec.and_then(|spec| spec.ports.as_ref());
    let states = ports.into_iter().flatten().map(|port| {
        let error = match protocol(port) {
            None => Some("ProtocolNotSupported"),
            Some(protocol) if is_given(port.port, protocol) => None,
            Some(_) => Some(missing),
        };
        PortStatus {
            port: port.port,
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            error: error.map(|reason| format!("{PREFIX}{reason}")),
        }
    });
    states.collect()
}

/// Where clients go, in words.
fn where_to(ingress: &[LoadBalancerIngress]) -> String {
    let Some(first) = ingress.first() else {
        return String::new();
    };
    let addresses: Vec<&str> = ingress
        .iter()
        .filter_map(|it| it.ip.as_deref().or(it.hostname.as_deref()))
        .collect();
    let ports = first.ports.iter().flatten();
    let served = ports.filter(|port| port.error.is_none());
    let ports: Vec<String> = served
        .map(|port| format!("{}/{}", port.port, port.protocol))
        .collect();
    format!("served at {} {}", addresses.join(", "), ports.join(", "))
}

const PENDING: &str = "Pending";
/// The conditions of a TCPLoadBalancer that its Service shows.
const COPIED: [&str; 4] = ["Accepted", "BackendsHealthy", "Programmed", "Ready"];
