//! TCPLoadBalancers at addresses of their own: from which pool, which one, and until when.

use kedge_crd::tcp::TcpPort;

use super::{tcp::*, world::*};

#[test]
fn an_own_address_comes_from_a_pool_the_tenant_may_use() {
    let mut world = ready();
    world.offer("web", "kedge.dev/vip-pool: edge-lan", WEB);
    let plan = world.settle();
    let own = served(&plan).frontends[0].address.to_string();
    assert_eq!(own, "10.20.14.10");
    assert_eq!(
        world.tcp("web").status.ingress[0].ip.unwrap().to_string(),
        own
    );
    // The same port on another address is another place.
    world.offer("other", "", WEB);
    let plan = world.settle();
    assert_eq!(places(&plan).len(), 2);
    world.offer("third", "kedge.dev/vip-pool: edge-lan", WEB);
    let plan = world.settle();
    let addresses = served(&plan).frontends;
    assert_eq!(addresses[1].address.to_string(), "10.20.14.14");
    world.write(&format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {NS}}}\n\
         spec: {{namespace: {NS}, gatewayRef: {{name: gw}}, allowedPools: [none]}}\n"
    ));
    world.settle();
    assert!(reason(&world, "web", "Accepted").starts_with("False: "));
    assert_eq!(world.tcp("web").status.ingress, []);
}

#[test]
fn an_own_address_is_named_and_another_one_is_taken_when_that_is_named() {
    let mut world = ready();
    let at = |address: &str| format!("{WEB}, address: {address}");
    let has = |world: &World, name: &str| {
        let ingress = &world.tcp(name).status.ingress;
        ingress
            .iter()
            .filter_map(|it| Some(it.ip?.to_string()))
            .collect::<Vec<_>>()
    };
    world.offer("web", "", &at("{pool: edge-lan, ip: 10.20.14.15}"));
    world.offer("next", "", &at("{pool: edge-lan}"));
    world.settle();
    assert_eq!(has(&world, "web"), ["10.20.14.15"]);
    assert_eq!(has(&world, "next"), ["10.20.14.10"]);
    // It stays where nobody names one any more, and is nobody else's.
    world.offer("web", "", &at("{pool: edge-lan}"));
    world.offer("late", "", &at("{pool: edge-lan, ip: 10.20.14.15}"));
    world.settle();
    assert_eq!(has(&world, "web"), ["10.20.14.15"]);
    assert_eq!(reason(&world, "late", "Accepted"), "False: Conflict");
    world.offer("web", "", &at("{pool: edge-lan, ip: 10.20.14.14}"));
    world.settle();
    assert_eq!(has(&world, "web"), ["10.20.14.14"]);
    // The address is free, its ports rest.
    world.later(3600);
    world.settle();
    assert_eq!(has(&world, "late"), ["10.20.14.15"]);
    for (address, because) in [
        ("{pool: edge-lan, ip: 192.0.2.1}", "Forbidden"),
        ("{pool: none}", "WaitingForPool"),
    ] {
        world.offer("wrong", "", &at(address));
        world.settle();
        assert_eq!(
            reason(&world, "wrong", "Accepted"),
            format!("False: {because}")
        );
    }
}

#[test]
fn a_port_at_an_address_of_its_own_says_nothing_about_the_gateways_own() {
    let mut world = ready();
    let zip =
        "ports: [{name: p, port: 53}, {name: q, port: 8080}], endpoints: [{hostSelector: {}}]";
    world.offer("zip", "kedge.dev/vip-pool: edge-lan", zip);
    world.settle();
    world.offer("api", "", &port(53));
    world.settle();
    world.offer("zip", "kedge.dev/listener-ports: Hashed", zip);
    let plan = world.settle();
    assert_eq!(reason(&world, "zip", "Accepted"), "True: Accepted");
    let ports = world.tcp("zip").spec.ports;
    let in_range = |port: &TcpPort| port.listener_port.is_some_and(|it| it.get() >= 30_000);
    assert!(ports.iter().all(in_range), "{ports:?}");
    assert_eq!(places(&plan).len(), 3);
}
