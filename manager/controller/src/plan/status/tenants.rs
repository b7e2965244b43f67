//! What tenants have, against what they may have.

use std::collections::BTreeSet;

use kedge_crd::{
    Condition, Tenant, TenantSpec, TenantStatus,
    condition::merge,
    tenant::{self, TenantUsage},
};

use super::{last_conditions, put};
use crate::{
    plan::{
        Decisions,
        desired::Desired,
        dns,
        ports::{Owner, OwnerKind},
        share::Share,
    },
    snapshot::Snapshot,
    store::Name,
};

/// Wants the status of every tenant.
pub fn write(snapshot: &Snapshot, decisions: &Decisions<'_>, share: &Share, wanted: &mut Desired) {
    for (name, object) in &snapshot.tenants {
        let namespace = tenant::namespace(object);
        let usage = usage(snapshot, decisions, share, &namespace);
        let first = snapshot
            .tenant_of(&namespace)
            .is_some_and(|first| first.metadata.name == *name);
        let ready = if first {
            Condition::new("Ready", true, "Ready", "hosts may enrol")
        } else {
            let text = format!("another tenant already has the namespace {namespace}");
            Condition::new("Ready", false, "NamespaceTaken", text)
        };
        let mut conditions = vec![ready, limits(object, &usage)];
        if dns::is_asked(object) {
            conditions.push(dns::condition(snapshot, object));
        }
        let name = Name::new("", name);
        let last = last_conditions::<TenantSpec>(snapshot, &name);
        let status = TenantStatus {
            hosts: usage.hosts,
            load_balancers: usage.control_planes,
            usage: Some(usage),
            conditions: merge(&last, conditions, &snapshot.now),
            namespace,
        };
        put::<TenantSpec>(snapshot, wanted, &name, &status);
    }
}

/// What a namespace has of what may be limited, and of what it was given.
fn usage(
    snapshot: &Snapshot,
    decisions: &Decisions<'_>,
    share: &Share,
    space: &str,
) -> TenantUsage {
    let hosts = snapshot.hosts.iter();
    let hosts =
        hosts.filter(|(host, object)| host.namespace == *space && object.spec.identity.is_some());
    let services = decisions.services.iter();
    let services: Vec<_> = services
        .filter(|service| service.balancer.name.namespace == *space)
        .collect();
    let vips = services
        .iter()
        .filter_map(|service| service.balancer.spec.vip.as_ref());
    let vips = vips.flat_map(|vip| {
        let second = vip.second.as_ref().and_then(|second| second.address);
        vip.address.into_iter().chain(second)
    });
    let tcp: Vec<_> = decisions
        .tcp
        .iter()
        .filter(|tcp| tcp.name.namespace == *space)
        .collect();
    let own = tcp.iter().filter_map(|tcp| tcp.own());
    let tcp = tcp.iter().filter(|tcp| tcp.counts()).count();
    let http = decisions
        .http
        .iter()
        .filter(|http| http.name().namespace == *space);
    let http: Vec<_> = http.filter(|http| http.counts()).collect();
    let shared = http.iter().filter_map(|http| http.own());
    let addresses: BTreeSet<_> = vips.chain(own).chain(shared).collect();
    let names: BTreeSet<_> = http.iter().flat_map(|http| http.names()).collect();
    let is_own = |owner: &Owner| {
        owner.name.namespace == *space && matches!(owner.kind, OwnerKind::Balancer | OwnerKind::Tcp)
    };
    let ports = share.ports.values().flatten();
    let ports = ports.filter(|(_, owner)| is_own(owner));
    TenantUsage {
        hosts: count(hosts.count()),
        control_planes: count(services.len()),
        tcp_load_balancers: count(tcp),
        http_load_balancers: count(http.len()),
        load_balancers: count(services.len() + tcp + http.len()),
        ports: count(ports.count()),
        names: count(names.len()),
        addresses: count(addresses.len()),
    }
}

/// Whether it has no more than it may. A limit that is lowered takes nothing back.
fn limits(tenant: &Tenant, usage: &TenantUsage) -> Condition {
    let limits = tenant.spec.limits.clone().unwrap_or_default();
    let most = [
        (
            "TooManyHosts",
            "hosts",
            usage.hosts,
            tenant.spec.enrollment.max_hosts,
            "enrollment.maxHosts",
        ),
        (
            "TooManyHosts",
            "hosts",
            usage.hosts,
            limits.hosts,
            "limits.hosts",
        ),
        (
            "TooManyLoadBalancers",
            "load balancers",
            usage.load_balancers,
            limits.load_balancers,
            "limits.loadBalancers",
        ),
        (
            "TooManyPorts",
            "ports",
            usage.ports,
            limits.ports,
            "limits.ports",
        ),
    ];
    let over = most
        .iter()
        .find(|(_, _, used, most, _)| most.is_some_and(|most| *used > most));
    match over {
        Some((reason, what, _, _, field)) => {
            let text = format!("more {what} than spec.{field}");
            Condition::new("WithinLimits", false, reason, text)
        }
        None => Condition::new("WithinLimits", true, "WithinLimits", ""),
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
