//! A TCPLoadBalancer for people.

use kedge_control::local::{FleetBackend, FleetLoadBalancer, FleetPort};
use kedge_crd::{
    Resource as _, TcpLoadBalancerSpec, TcpLoadBalancerStatus,
    condition::find,
    traffic::{Ingress, Source},
};

use super::{Tcp, refusal::word};
use crate::{
    plan::{health::tunnel_is_up, shown_condition},
    snapshot::Snapshot,
};

/// What is said of it.
pub fn shown(snapshot: &Snapshot, tcp: &Tcp, status: &TcpLoadBalancerStatus) -> FleetLoadBalancer {
    let given = if tcp.is_served() { &tcp.given[..] } else { &[] };
    let ports = tcp.spec.ports.iter().map(|port| {
        let given = given.iter().find(|given| given.name == port.name);
        FleetPort {
            name: port.name.clone(),
            protocol: word(port.protocol.unwrap_or_default()).to_owned(),
            port: port.port.map(Into::into),
            listener_port: given.map(|given| given.listener.into()),
        }
    });
    let hosts = tcp.members.iter().map(|member| FleetBackend {
        host: member.host.name.clone(),
        address: member.address.to_string(),
        up: tunnel_is_up(snapshot, &member.host),
    });
    let ready = find(&status.conditions, "Ready");
    FleetLoadBalancer {
        kind: TcpLoadBalancerSpec::KIND.to_owned(),
        namespace: tcp.name.namespace.clone(),
        name: tcp.name.name.clone(),
        tenant: tcp.tenant.clone(),
        source: source(tcp.spec.source.as_ref()),
        gateway: tcp
            .gateway
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        addresses: addresses(&status.ingress),
        hostnames: Vec::new(),
        ports: ports.collect(),
        hosts: hosts.collect(),
        since: ready.map(|ready| ready.last_transition_time.clone()),
        conditions: status.conditions.iter().map(shown_condition).collect(),
    }
}

/// What a load balancer stands for, as `KIND NAMESPACE/NAME`.
pub fn source(source: Option<&Source>) -> String {
    let source = source.map(|source| {
        let place = match source.namespace.as_str() {
            "" => source.name.clone(),
            space => format!("{space}/{}", source.name),
        };
        format!("{} {place}", source.kind)
    });
    source.unwrap_or_default()
}

/// Where clients come.
pub fn addresses(ingress: &[Ingress]) -> Vec<String> {
    let addresses = ingress.iter().map(|ingress| match ingress.ip {
        Some(ip) => ip.to_string(),
        None => ingress.hostname.clone().unwrap_or_default(),
    });
    addresses.collect()
}
