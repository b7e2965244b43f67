//! Endpoints at a gateway that hosts answer for themselves while they do not reach it: who is told, and
//! whom they lead to.

use std::{collections::BTreeSet, net::IpAddr};

use kedge_control::agent::{ShortcutConfig, ShortcutPort, ShortcutTarget};
use kedge_crd::{
    EdgeHost,
    balancer::{Mode, Shortcut},
    capi::CLUSTER_NAME_LABEL,
    host::AddressKind,
};

use super::{
    Service,
    balancer::Balancer,
    endpoint::ports,
    gateway::public_addresses,
    targets::{HostIndex, Target, host_of},
    usable,
};
use crate::{snapshot::Snapshot, store::Name};

/// The hosts that answer for the endpoint of a cluster themselves: those of all its machines. None where
/// that is not asked for.
#[must_use]
pub fn hosts(
    snapshot: &Snapshot,
    index: &HostIndex,
    balancer: &Balancer,
    targets: &[Target],
) -> BTreeSet<Name> {
    if !is_asked(balancer) {
        return BTreeSet::new();
    }
    let (space, cluster) = (&balancer.name.namespace, &balancer.spec.cluster_name);
    let is_its = |label: Option<&String>| label == Some(cluster);
    let machines = snapshot.machines.iter().filter(|(name, machine)| {
        name.namespace == *space && is_its(machine.metadata.labels.get(CLUSTER_NAME_LABEL))
    });
    let machines = machines.filter_map(|(name, machine)| host_of(snapshot, index, name, machine));
    // Hosts that are no Machines say by a label whose they are.
    let labelled = snapshot.hosts.iter().filter(|(name, host)| {
        name.namespace == *space && is_its(host.metadata.labels.get(CLUSTER_NAME_LABEL))
    });
    let labelled = labelled.map(|(name, _)| name.clone());
    let targets = targets.iter().filter_map(|target| target.host.clone());
    machines.chain(labelled).chain(targets).collect()
}

/// What a host is told of its clusters' endpoints.
#[must_use]
pub fn of(
    snapshot: &Snapshot,
    services: &[Service],
    name: &Name,
    host: &EdgeHost,
) -> Vec<ShortcutConfig> {
    let its = services.iter().filter(|it| it.hosts.contains(name));
    let mut all: Vec<ShortcutConfig> = its
        .filter_map(|service| shortcut(snapshot, service, host))
        .collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

fn shortcut(snapshot: &Snapshot, service: &Service, host: &EdgeHost) -> Option<ShortcutConfig> {
    let spec = &service.balancer.spec;
    let planned = service.decided.plan.endpoint();
    let endpoint = planned.or(service.balancer.kept.endpoint.as_ref())?;
    let addresses = match endpoint.host.parse() {
        Ok(address) => vec![address],
        Err(_) => addresses_of(snapshot, service, &endpoint.host),
    };
    let ports = ports(spec, None).into_iter().filter_map(|port| {
        Some(ShortcutPort {
            port: *spec.listeners.get(&port.name)?,
            target_port: port.target_port.unwrap_or(port.port),
        })
    });
    let ports: Vec<ShortcutPort> = ports.collect();
    if addresses.is_empty() || ports.is_empty() {
        return None;
    }
    let site = site_of(host);
    let serving = service.targets.iter().filter_map(Target::serving);
    let targets = serving.filter_map(|target| {
        let other = snapshot.hosts.get(target)?;
        Some(ShortcutTarget {
            host: target.to_string(),
            address: (site_of(other) == site).then(|| address(other))??,
        })
    });
    let mut targets: Vec<ShortcutTarget> = targets.collect();
    targets.sort_by(|one, other| one.host.cmp(&other.host));
    Some(ShortcutConfig {
        name: service.balancer.name.to_string(),
        addresses,
        ports,
        targets,
    })
}

/// Where an endpoint is that is a name: at its gateway, which is known without asking anybody.
fn addresses_of(snapshot: &Snapshot, service: &Service, name: &str) -> Vec<IpAddr> {
    let used = service.decided.gateway.as_ref();
    let gateway = used.and_then(|used| snapshot.gateway(&used.as_ref().ok()?.name));
    let own = gateway.map(public_addresses).unwrap_or_default();
    let own: Vec<IpAddr> = own.iter().filter_map(|text| text.parse().ok()).collect();
    if !own.is_empty() {
        return own;
    }
    let found = snapshot.names.as_ref().and_then(|all| all.get(name));
    found.into_iter().flatten().copied().collect()
}

/// The address of a host on the network of its site.
fn address(host: &EdgeHost) -> Option<IpAddr> {
    let internal = host.status.addresses.iter();
    let internal = internal.filter(|it| it.kind == AddressKind::InternalIP);
    let first = internal
        .clone()
        .find(|it| it.primary)
        .or_else(|| internal.clone().next())?;
    let address: IpAddr = first.address.parse().ok()?;
    usable::refusal(address).is_none().then_some(address)
}

/// The site of a host. Hosts without a label are of one site: where there are several, their private
/// addresses may be the same.
fn site_of(host: &EdgeHost) -> Option<&str> {
    host.metadata.labels.get(SITE_LABEL).map(String::as_str)
}

fn is_asked(balancer: &Balancer) -> bool {
    balancer.spec.mode == Some(Mode::Tunnel) && balancer.spec.shortcut == Some(Shortcut::Lan)
}

/// Which site a host is at, where a tenant has several.
const SITE_LABEL: &str = "kedge.dev/site";
