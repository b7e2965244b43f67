//! An HTTPLoadBalancer for people.

use kedge_control::local::{FleetBackend, FleetLoadBalancer, FleetPort};
use kedge_crd::{HttpLoadBalancerSpec, HttpLoadBalancerStatus, Resource as _, condition::find};

use super::Http;
use crate::{
    plan::{health::tunnel_is_up, shown_condition, tcp},
    snapshot::Snapshot,
};

/// What is said of it.
pub fn shown(
    snapshot: &Snapshot,
    http: &Http,
    status: &HttpLoadBalancerStatus,
) -> FleetLoadBalancer {
    let served = http.served();
    let ports = served.map(|served| [("http", &served.http), ("https", &served.https)]);
    let ports = ports.into_iter().flatten();
    let ports = ports.flat_map(|(name, all)| all.iter().map(move |port| (name, *port)));
    let ports = ports.map(|(name, port)| FleetPort {
        name: name.to_owned(),
        protocol: "TCP".to_owned(),
        port: Some(port.into()),
        listener_port: Some(port.into()),
    });
    let hosts = served.map(|served| &served.hosts).into_iter().flatten();
    let hosts = hosts.map(|(host, address)| FleetBackend {
        host: host.name.clone(),
        address: address.to_string(),
        up: tunnel_is_up(snapshot, host),
    });
    let ready = find(&status.conditions, "Ready");
    let gateway = http.gateway.as_ref();
    FleetLoadBalancer {
        kind: HttpLoadBalancerSpec::KIND.to_owned(),
        namespace: http.name.namespace.clone(),
        name: http.name.name.clone(),
        tenant: http.tenant.clone(),
        source: tcp::source(http.spec.source.as_ref()),
        gateway: gateway.map(ToString::to_string).unwrap_or_default(),
        addresses: tcp::addresses(&status.ingress),
        hostnames: http.names.clone(),
        ports: ports.collect(),
        hosts: hosts.collect(),
        since: ready.map(|ready| ready.last_transition_time.clone()),
        conditions: status.conditions.iter().map(shown_condition).collect(),
    }
}
