//! What is asked of the manager for a Service.

use std::num::NonZeroU16;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use kedge_crd::{
    TcpLoadBalancerSpec,
    host::{Family, HOST_LABEL},
    selector::{LabelSelector, Operator, Requirement},
    tcp::{Backend, BackendPort, ProxyProtocol, SessionAffinity, TcpPort},
    traffic::Transport,
};

use super::{
    addresses,
    nodes::{self, every, local},
    owner::Owner,
    refusal::{AFFINITY_TIMEOUT, MAX_PORTS, Refusal},
    sources::sources,
};
use crate::{
    names::{EXPOSE, POOLS, PREFIX, PROXY_PROTOCOL},
    snapshot::{Key, Snapshot},
};

/// What is asked of the manager for a Service.
///
/// Of the other fields: `externalIPs`, `internalTrafficPolicy`, `trafficDistribution`, `targetPort`,
/// `selector` and `publishNotReadyAddresses` are honoured behind the node port by whoever serves it;
/// `appProtocol` is a hint, and connections are carried as they come; `healthCheckNodePort` says what
/// EndpointSlices say.
///
/// # Errors
///
/// Something it asks for is not done, so that nothing of it is.
pub fn wanted(snapshot: &Snapshot, service: &Service) -> Result<TcpLoadBalancerSpec, Refusal> {
    let spec = service.spec.clone().unwrap_or_default();
    annotations(service)?;
    let source_ranges = sources(&spec)?;
    let address = addresses::own(snapshot, service)?;
    let ports = ports(&spec)?;
    let backends = ports.iter().map(|(port, node_port)| BackendPort {
        name: port.name.clone(),
        port: *node_port,
    });
    let backends = backends.collect();
    Ok(TcpLoadBalancerSpec {
        source: Some(Owner::from(service).source()),
        ports: ports.into_iter().map(|(port, _)| port).collect(),
        endpoints: vec![endpoint(snapshot, service, backends)?],
        source_ranges,
        session_affinity: affinity(&spec)?,
        proxy_protocol: proxy_protocol(service),
        address,
        ..TcpLoadBalancerSpec::default()
    })
}

/// The hosts that lead to a Service by its node ports.
///
/// # Errors
///
/// It has a policy or a family nobody knows.
pub fn endpoint(
    snapshot: &Snapshot,
    service: &Service,
    ports: Vec<BackendPort>,
) -> Result<Backend, Refusal> {
    let spec = service.spec.clone().unwrap_or_default();
    let family = family(&spec)?;
    let hosts = match spec.external_traffic_policy.as_deref() {
        None | Some("Cluster") => every(snapshot),
        Some("Local") => local(snapshot, &Key::of(service), family),
        Some(value) => {
            let value = value.to_owned();
            return Err(Refusal::TrafficPolicy { value });
        }
    };
    let nodes::Hosts { taking, leaving } = hosts;
    let named = Requirement {
        key: HOST_LABEL.to_owned(),
        operator: Operator::In,
        values: taking.into_iter().chain(leaving.iter().cloned()).collect(),
    };
    Ok(Backend {
        host_selector: Some(LabelSelector {
            match_expressions: vec![named],
            ..LabelSelector::default()
        }),
        address_family: Some(family),
        addresses: Vec::new(),
        draining_hosts: leaving,
        ports,
    })
}

/// The protocol of a port, if it is served. Left out it is TCP.
#[must_use]
pub fn protocol(port: &ServicePort) -> Option<Transport> {
    match port.protocol.as_deref() {
        None | Some("TCP") => Some(Transport::Tcp),
        Some("UDP") => Some(Transport::Udp),
        Some(_) => None,
    }
}

/// The version of the PROXY protocol that is asked for.
#[must_use]
pub fn proxy_protocol(service: &Service) -> Option<ProxyProtocol> {
    let annotations = service.metadata.annotations.as_ref()?;
    match annotations.get(PROXY_PROTOCOL)?.as_str() {
        "v1" => Some(ProxyProtocol::V1),
        "v2" => Some(ProxyProtocol::V2),
        _ => None,
    }
}

fn annotations(service: &Service) -> Result<(), Refusal> {
    let refused = |key: &str, why| {
        let key = key.to_owned();
        Err(Refusal::Annotation { key, why })
    };
    for (key, value) in service.metadata.annotations.iter().flatten() {
        match key.as_str() {
            EXPOSE => {}
            key if POOLS.contains(&key) && value.is_empty() => {
                return refused(key, "it names no pool");
            }
            key if POOLS.contains(&key) => {}
            PROXY_PROTOCOL if value == "v1" || value == "v2" => {}
            PROXY_PROTOCOL => return refused(key, "the values it may have are v1 and v2"),
            key if key.starts_with(PREFIX) => {
                return refused(key, "nobody here honours it");
            }
            _ => {}
        }
    }
    Ok(())
}

/// The family of the Service's node ports that hosts are reached by: its first one (KEP-563).
fn family(spec: &ServiceSpec) -> Result<Family, Refusal> {
    let families = spec.ip_families.as_deref().unwrap_or_default();
    match families.first().map(String::as_str) {
        None | Some("IPv4") => Ok(Family::IPv4),
        Some("IPv6") => Ok(Family::IPv6),
        Some(value) => {
            let value = value.to_owned();
            Err(Refusal::Family { value })
        }
    }
}

/// The affinity that is asked for.
///
/// # Errors
///
/// Nobody knows it, or does it so.
pub fn affinity(spec: &ServiceSpec) -> Result<Option<SessionAffinity>, Refusal> {
    match spec.session_affinity.as_deref() {
        None | Some("" | "None") => return Ok(None),
        Some("ClientIP") => {}
        Some(value) => {
            let value = value.to_owned();
            return Err(Refusal::Affinity { value });
        }
    }
    let config = spec.session_affinity_config.as_ref();
    let client_ip = config.and_then(|config| config.client_ip.as_ref());
    match client_ip.and_then(|client_ip| client_ip.timeout_seconds) {
        None | Some(AFFINITY_TIMEOUT) => Ok(Some(SessionAffinity::ClientIP)),
        Some(seconds) => Err(Refusal::AffinityTimeout { seconds }),
    }
}

/// The ports that are served, each with the node port that leads to it. A port of a protocol that is
/// not served is left out and told in the Service's status (KEP-1435), unless it is the only one.
fn ports(spec: &ServiceSpec) -> Result<Vec<(TcpPort, NonZeroU16)>, Refusal> {
    let all = spec.ports.as_deref().unwrap_or_default();
    if all.len() > MAX_PORTS {
        let count = all.len();
        return Err(Refusal::TooManyPorts { count });
    }
    let mut served = Vec::new();
    let mut left_out = None;
    for port in all {
        let Some(protocol) = protocol(port) else {
            left_out = port.protocol.clone();
            continue;
        };
        let number = u16::try_from(port.port).ok().and_then(NonZeroU16::new);
        let Some(number) = number else { continue };
        let name = match port.name.as_deref() {
            None | Some("") => format!("port-{number}"),
            Some(name) => name.to_owned(),
        };
        let node_port = port.node_port.and_then(|port| u16::try_from(port).ok());
        let Some(node_port) = node_port.and_then(NonZeroU16::new) else {
            return Err(Refusal::NoNodePort { port: name });
        };
        let port = TcpPort {
            name,
            port: Some(number),
            protocol: (protocol != Transport::default()).then_some(protocol),
            app_protocol: None,
            listener_port: None,
        };
        served.push((port, node_port));
    }
    match left_out {
        _ if !served.is_empty() => Ok(served),
        Some(protocol) => Err(Refusal::Protocol { protocol }),
        None => Err(Refusal::NoPorts),
    }
}
