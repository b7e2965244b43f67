//! What tenants have, against what they may have.

use kedge_crd::{TenantSpec, TenantStatus, tenant::TenantUsage};

use super::world::*;
use crate::{snapshot::key, store::Name};

fn status(world: &World) -> TenantStatus {
    let layers = &world.objects.by_key[&key::<TenantSpec>(&Name::new("", NS))];
    let tenant: kedge_crd::Tenant = layers.in_force().unwrap();
    tenant.status
}

fn limits(world: &World) -> String {
    let status = status(world);
    let found = kedge_crd::condition::find(&status.conditions, "WithinLimits").unwrap();
    format!(
        "{} {}: {}",
        found.status.as_str(),
        found.reason,
        found.message
    )
}

#[test]
fn what_a_tenant_has_is_counted_by_kind() {
    let mut world = demo();
    world.enrol_gateway("gw-0");
    for host in ["edge-a", "edge-b", "edge-c"] {
        world.enrol(host);
    }
    world.settle();
    let before = status(&world).usage.unwrap();
    assert_eq!(before.hosts, 3);
    assert_eq!(
        (before.tcp_load_balancers, before.http_load_balancers),
        (0, 0)
    );
    assert_eq!(before.load_balancers, before.control_planes);
    assert!(before.addresses >= 1, "{before:?}");
    assert_eq!(limits(&world), "True WithinLimits: ");
    let two = "ports: [{name: a, port: 81}, {name: b, port: 82, protocol: UDP}], endpoints: [{hostSelector: {}}]";
    world.offer("web", "", two);
    world.offer(
        "own",
        "kedge.dev/vip-pool: edge-lan",
        "ports: [{name: p, port: 80}], endpoints: [{hostSelector: {}}]",
    );
    world.settle();
    let after = TenantUsage {
        load_balancers: before.load_balancers + 2,
        tcp_load_balancers: 2,
        ports: before.ports + 3,
        addresses: before.addresses + 1,
        ..before
    };
    assert_eq!(status(&world).usage, Some(after));
    world.remove("kedge.dev", "TCPLoadBalancer", "own");
    world.later(3600);
    world.settle();
    let usage = status(&world).usage.unwrap();
    assert_eq!(
        (usage.tcp_load_balancers, usage.addresses),
        (1, before.addresses)
    );
}

#[test]
fn a_limit_that_is_lowered_is_told_and_takes_nothing() {
    let mut world = demo();
    world.enrol_gateway("gw-0");
    world.enrol("edge-a");
    world.offer(
        "web",
        "",
        "ports: [{name: a, port: 81}, {name: b, port: 82}], endpoints: [{hostSelector: {}}]",
    );
    world.settle();
    let usage = status(&world).usage;
    for (limit, said) in [
        (
            "ports: 1",
            "False TooManyPorts: more ports than spec.limits.ports",
        ),
        (
            "loadBalancers: 1",
            "False TooManyLoadBalancers: more load balancers than spec.limits.loadBalancers",
        ),
        (
            "hosts: 0",
            "False TooManyHosts: more hosts than spec.limits.hosts",
        ),
        ("ports: 9999", "True WithinLimits: "),
    ] {
        let key = key::<TenantSpec>(&Name::new("", NS));
        let user = world
            .objects
            .by_key
            .get_mut(&key)
            .unwrap()
            .user
            .as_mut()
            .unwrap();
        let (name, most) = limit.split_once(": ").unwrap();
        let most: u32 = most.parse().unwrap();
        user.value["spec"]["limits"] = serde_json::json!({ name: most });
        world.settle();
        assert_eq!(limits(&world), said);
        assert_eq!(status(&world).usage, usage);
    }
}
