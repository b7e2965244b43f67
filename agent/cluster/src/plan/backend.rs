//! One port of a Service as HTTPLoadBalancers lead to it.

use std::num::NonZeroU16;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use kedge_crd::{
    TcpLoadBalancerSpec,
    tcp::{AppProtocol, BackendPort, Exposure, TcpPort},
    traffic::Transport,
};

use super::{
    claim::is_leaving,
    companion::{self, Door},
    owner::Owner,
    trouble::Trouble,
    wanted::{affinity, endpoint, protocol, proxy_protocol},
};
use crate::{
    names,
    snapshot::{Key, Snapshot},
};

/// A port of a Service, as its user names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortName {
    /// By its name.
    Name(String),
    /// By its number.
    Number(i32),
}

/// What leads to a port of a Service.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// The name of the exposure.
    pub name: String,
    /// The port.
    pub port: NonZeroU16,
    /// What is asked of the manager for it.
    pub spec: TcpLoadBalancerSpec,
    /// What is led to by a companion, where one is.
    pub door: Option<Door>,
    /// Whether the gateway can speak with it, or only pass TLS on to it.
    pub speaks_tls: bool,
}

/// What leads to a port of a Service.
///
/// # Errors
///
/// Nothing does.
pub fn backend(snapshot: &Snapshot, key: &Key, port: &PortName) -> Result<Backend, Trouble> {
    let service = snapshot.services.get(key);
    let service = service.filter(|service| !is_leaving(service));
    let service = service.ok_or_else(|| Trouble::ServiceMissing { key: key.clone() })?;
    let spec = service.spec.clone().unwrap_or_default();
    let found = find(&spec, port).ok_or_else(|| Trouble::PortMissing {
        key: key.clone(),
        port: port.clone(),
    })?;
    let number = numbered(found.port).ok_or_else(|| Trouble::PortMissing {
        key: key.clone(),
        port: port.clone(),
    })?;
    if protocol(found) != Some(Transport::Tcp) {
        return Err(Trouble::NotTcp {
            key: key.clone(),
            port: number,
        });
    }
    let node_port = found.node_port.and_then(numbered);
    let door = node_port.is_none().then(|| (key.clone(), number));
    let node_port = match node_port {
        Some(node_port) => node_port,
        None => beside(snapshot, key, service, number)?,
    };
    let speaks = spoken(found);
    let asked = asked(snapshot, service, (found, number, node_port), speaks);
    let asked = asked.map_err(|refusal| Trouble::Service {
        key: key.clone(),
        refusal,
    })?;
    Ok(Backend {
        name: names::backend(&service.metadata, number),
        port: number,
        spec: asked,
        door,
        speaks_tls: speaks == Spoken::Tls,
    })
}

/// The node port of what stands beside a Service.
fn beside(
    snapshot: &Snapshot,
    key: &Key,
    service: &Service,
    port: NonZeroU16,
) -> Result<NonZeroU16, Trouble> {
    let spec = service.spec.clone().unwrap_or_default();
    let taken = companion::taken(snapshot, service);
    let refused = snapshot.companions_refused.get(key).cloned().or(taken);
    match companion::node_port(snapshot, service, port) {
        Some(node_port) => Ok(node_port),
        None if companion::may_have(&spec) && refused.is_none() => Err(Trouble::Opening {
            key: key.clone(),
            port,
        }),
        None => Err(Trouble::NoNodePort {
            key: key.clone(),
            port,
            kind: spec.type_.unwrap_or_else(|| "ClusterIP".to_owned()),
            because: refused,
        }),
    }
}

/// What calls of gRPC to a port of a Service lead to: by HTTP/2, whether it says so or not.
///
/// # Errors
///
/// Nothing does.
pub fn called(snapshot: &Snapshot, key: &Key, port: &PortName) -> Result<Backend, Trouble> {
    let mut found = backend(snapshot, key, port)?;
    let h2c = Some(AppProtocol::H2c);
    let is_known = found.spec.ports.iter().all(|it| it.app_protocol == h2c);
    if is_known || found.speaks_tls {
        return Ok(found);
    }
    if let Some(service) = snapshot.services.get(key) {
        found.name = names::called(&service.metadata, found.port);
    }
    for port in &mut found.spec.ports {
        port.app_protocol = h2c;
    }
    Ok(found)
}

fn asked(
    snapshot: &Snapshot,
    service: &Service,
    (port, number, node_port): (&ServicePort, NonZeroU16, NonZeroU16),
    speaks: Spoken,
) -> Result<TcpLoadBalancerSpec, super::refusal::Refusal> {
    let name = match port.name.as_deref() {
        None | Some("") => format!("port-{number}"),
        Some(name) => name.to_owned(),
    };
    let spec = service.spec.clone().unwrap_or_default();
    let leads = BackendPort {
        name: name.clone(),
        port: node_port,
    };
    Ok(TcpLoadBalancerSpec {
        source: Some(Owner::from(service).source()),
        ports: vec![TcpPort {
            name,
            port: Some(number),
            protocol: None,
            app_protocol: (speaks == Spoken::H2c).then_some(AppProtocol::H2c),
            listener_port: None,
        }],
        endpoints: vec![endpoint(snapshot, service, vec![leads])?],
        exposure: Some(Exposure::Routed),
        session_affinity: affinity(&spec)?,
        proxy_protocol: proxy_protocol(service),
        ..TcpLoadBalancerSpec::default()
    })
}

fn find<'a>(spec: &'a ServiceSpec, port: &PortName) -> Option<&'a ServicePort> {
    let mut all = spec.ports.iter().flatten();
    match port {
        PortName::Name(name) => all.find(|it| it.name.as_ref() == Some(name)),
        // TCP and UDP may share a number.
        PortName::Number(number) => {
            let same: Vec<_> = all.filter(|it| it.port == *number).collect();
            let tcp = same.iter().find(|it| protocol(it) == Some(Transport::Tcp));
            tcp.or_else(|| same.first()).copied()
        }
    }
}

/// The number of a port.
#[must_use]
pub fn numbered(port: i32) -> Option<NonZeroU16> {
    NonZeroU16::new(u16::try_from(port).ok()?)
}

/// What a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    Http,
    H2c,
    Tls,
}

/// What `appProtocol` says (KEP-1422, KEP-3726), and what is in use beside it.
fn spoken(port: &ServicePort) -> Spoken {
    match port.app_protocol.as_deref() {
        Some("kubernetes.io/h2c" | "h2c" | "http2" | "grpc" | "kubernetes.io/grpc") => Spoken::H2c,
        Some("https" | "tls" | "grpcs" | "wss" | "kubernetes.io/wss") => Spoken::Tls,
        _ => Spoken::Http,
    }
}
