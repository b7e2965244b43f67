//! HTTPLoadBalancers at addresses of their own: which one, who shares it, and until when.

use std::{net::IpAddr, num::NonZeroU16};

use kedge_control::frontend::Protocol;
use serde_json::json;

use super::{http::*, world::*};
use crate::plan::Plan;

const HOSTS: &str = "hostnames: [shop.example.com]";

/// At the address that these share.
fn own(by: &str) -> String {
    format!("{HOSTS}, address: {{pool: edge-lan, sharedBy: {by}}}, {RULE}")
}

/// What holds an address for others.
fn held(by: &str) -> String {
    format!("address: {{pool: edge-lan, sharedBy: {by}}}")
}

impl World {
    fn own(&self, name: &str) -> String {
        let own = self.http(name).status.address;
        own.map(|own| own.ip.to_string()).unwrap_or_default()
    }
}

fn at(plan: &Plan, name: &str) -> IpAddr {
    site_of(plan, name).unwrap().address
}

#[test]
fn those_that_share_an_address_have_one_and_others_have_others() {
    let mut world = ready();
    for (name, spec) in [
        ("a", own("shop/one")),
        ("b", own("shop/one")),
        ("c", own("shop/two")),
        ("plain", format!("{HOSTS}, {RULE}")),
    ] {
        world.ask(name, &spec);
    }
    let plan = world.settle();
    for (name, address) in [
        ("a", "10.20.14.10"),
        ("b", "10.20.14.10"),
        ("c", "10.20.14.14"),
        ("plain", "203.0.113.7"),
    ] {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(at(&plan, name), address, "{name}");
        assert_eq!(world.told(name, "Accepted"), "True: Accepted: ");
        let ingress = world.http(name).status.ingress;
        assert_eq!(ingress[0].ip, Some(address), "{name}");
        assert_eq!(ingress.len(), 1);
    }
    let status = serde_json::to_value(world.http("a").status).unwrap();
    let address = json!({"ip": "10.20.14.10", "pool": "edge-lan", "sharedBy": "shop/one"});
    assert_eq!(status["address"], address);
}

#[test]
fn an_address_stays_while_anybody_has_it_and_is_free_then() {
    let mut world = ready();
    world.ask("gone", &own("shop/zero"));
    world.settle();
    world.ask("held", &held("shop/one"));
    world.ask("a", &own("shop/one"));
    world.settle();
    assert_eq!(world.own("gone"), "10.20.14.10");
    world.remove("kedge.dev", "HTTPLoadBalancer", "gone");
    world.settle();
    world.ask("b", &own("shop/two"));
    world.settle();
    for (name, address) in [("held", "14"), ("a", "14"), ("b", "10")] {
        assert_eq!(world.own(name), format!("10.20.14.{address}"), "{name}");
    }
    // The first of those that have it goes, and then the last.
    world.remove("kedge.dev", "HTTPLoadBalancer", "held");
    world.settle();
    assert_eq!(world.own("a"), "10.20.14.14");
    world.ask("c", &own("shop/three"));
    world.settle();
    assert_eq!(world.own("c"), "10.20.14.15");
    world.ask("a", &format!("{HOSTS}, {RULE}"));
    world.settle();
    assert_eq!(world.own("a"), "");
    world.ask("d", &own("shop/four"));
    world.settle();
    assert_eq!(world.own("d"), "10.20.14.14");
}

#[test]
fn one_of_the_pools_addresses_may_be_named() {
    let named = |by: &str, ip: &str| {
        format!("{HOSTS}, address: {{pool: edge-lan, sharedBy: {by}, ip: {ip}}}, {RULE}")
    };
    let mut world = ready();
    for name in ["a", "b"] {
        world.ask(name, &named("shop/one", "10.20.14.15"));
    }
    let plan = world.settle();
    for name in ["a", "b"] {
        assert_eq!(at(&plan, name).to_string(), "10.20.14.15", "{name}");
    }
    // What somebody has stays theirs, and is not given to others by chance either.
    world.ask("other", &named("shop/two", "10.20.14.15"));
    world.ask("outside", &named("shop/three", "10.20.15.1"));
    world.settle();
    let refused = world.told("other", "Accepted");
    assert!(
        refused.starts_with("False: Conflict: 10.20.14.15 is already given to"),
        "{refused}"
    );
    assert_eq!(
        world.told("outside", "Accepted"),
        "False: Forbidden: 10.20.15.1 is none of the addresses of VIPPool edge-lan"
    );
    // One moves while the other one still names the first.
    world.ask("a", &named("shop/one", "10.20.14.14"));
    let plan = world.settle();
    assert_eq!(at(&plan, "a").to_string(), "10.20.14.14");
    assert_eq!(at(&plan, "b").to_string(), "10.20.14.15");
    world.ask("b", &named("shop/one", "10.20.14.14"));
    let plan = world.settle();
    assert_eq!(at(&plan, "b").to_string(), "10.20.14.14");
    // What nobody has any more is had by who waited for it.
    world.settle();
    assert_eq!(world.own("other"), "10.20.14.15");
    // Whoever has one and names it moves nowhere.
    world.ask("a", &own("shop/one"));
    world.settle();
    assert_eq!(world.own("a"), "10.20.14.14");
}

#[test]
fn one_without_names_and_rules_holds_an_address_and_serves_nothing() {
    let mut world = ready();
    world.write(&tenant("domain: lb.example.net, allowedHostnames: ['*']"));
    world.ask("held", &held("shop/one"));
    let plan = world.settle();
    assert_eq!(served(&plan).sites, []);
    assert_eq!(world.told("held", "Accepted"), "True: Accepted: ");
    assert_eq!(world.told("held", "Ready"), "True: Ready: ");
    let status = world.http("held").status;
    assert_eq!(status.served_by, "kedge-system/gw");
    assert_eq!(
        (&*status.generated_hostname, status.hostnames),
        ("", vec![])
    );
    // Nobody else gets it, whatever asks.
    world.offer("web2", "kedge.dev/vip-pool: edge-lan", TCP);
    world.settle();
    let ingress = world.tcp("web2").status.ingress;
    assert_eq!(ingress[0].ip, Some("10.20.14.14".parse().unwrap()));
}

const TCP: &str = "ports: [{name: https, port: 443}], endpoints: [{hostSelector: {}}]";

#[test]
fn at_an_address_of_its_own_listeners_may_name_ports() {
    let listeners = "listeners: [{protocol: HTTP, port: 8080}, {protocol: HTTP, port: 9000}, \
                     {protocol: HTTPS, port: 8443}]";
    let tls = "tls: [{secretRef: cert}], httpsRedirect: true";
    let address = "address: {pool: edge-lan, sharedBy: shop/one}";
    let mut world = ready();
    world.certify("cert", &pair(&["shop.example.com"]));
    world.ask(
        "a",
        &format!("{HOSTS}, {address}, {tls}, {listeners}, {RULE}"),
    );
    let plan = world.settle();
    assert_eq!(world.told("a", "Accepted"), "True: Accepted: ");
    let sites = served(&plan).sites.into_iter().map(|site| {
        let ports = [site.http, site.https].map(|port| port.map_or(0, NonZeroU16::get));
        (site.name, ports, site.redirect)
    });
    assert_eq!(
        sites.collect::<Vec<_>>(),
        [
            ("store-014/a".to_owned(), [8080, 8443], true),
            ("store-014/a:9000/http".to_owned(), [9000, 0], false)
        ]
    );
    let ingress = &world.http("a").status.ingress[0];
    let told: Vec<u16> = ingress.ports.iter().map(|it| it.port.get()).collect();
    assert_eq!(told, [8080, 9000, 8443]);
    // What passes TLS through does so at each of them.
    let through = "tls: [{passthrough: true}]";
    let both = "listeners: [{protocol: HTTPS, port: 443}, {protocol: HTTPS, port: 8443}]";
    world.ask(
        "a",
        &format!("{HOSTS}, {address}, {through}, {both}, {RULE}"),
    );
    let plan = world.settle();
    let passed = served(&plan).frontends.into_iter();
    let passed = passed.filter(|it| matches!(it.protocol, Protocol::TlsPassthrough { .. }));
    let passed: Vec<_> = passed.map(|it| (it.name, it.port.get())).collect();
    assert_eq!(
        passed,
        [
            ("store-014/a/shop.example.com".to_owned(), 443),
            ("store-014/a:8443/shop.example.com".to_owned(), 8443)
        ]
    );
    // At addresses that others have as well ports are the gateway's.
    world.ask("a", &format!("{HOSTS}, {listeners}, {RULE}"));
    world.settle();
    let told = world.told("a", "Accepted");
    assert!(
        told.starts_with("False: Invalid: spec.listeners[0].port: "),
        "{told}"
    );
}

#[test]
fn names_of_one_port_and_every_name_of_another() {
    let listeners = "listeners: [{protocol: HTTP, port: 80}, {protocol: HTTP, port: 8080, hosts: [shop.example.com]}]";
    let spec =
        format!("{HOSTS}, otherHostnames: true, address: {{pool: edge-lan}}, {listeners}, {RULE}");
    let mut world = ready();
    for (allowed, names) in [("shop.example.com", 2), ("'*'", 3)] {
        let dns = format!("domain: lb.example.net, allowedHostnames: [{allowed}]");
        world.write(&tenant(&dns));
        world.ask("a", &spec);
        let plan = world.settle();
        assert_eq!(world.told("a", "Accepted"), "True: Accepted: ");
        let sites = served(&plan).sites.into_iter();
        let hosts: Vec<_> = sites
            .map(|site| (site.http.unwrap().get(), site.hosts.len()))
            .collect();
        assert_eq!(hosts, [(80, names), (8080, 1)]);
        // It keeps them.
        let plan = world.settle();
        assert_eq!(served(&plan).sites[0].hosts.len(), names);
    }
}

#[test]
fn what_holds_an_address_holds_the_ports_of_its_listeners() {
    let mut world = ready();
    world.write(&GATEWAY.replace("tunnel: {", "tunnel: {tlsPort: 8443, "));
    world.ask(
        "held",
        &format!(
            "{}, listeners: [{{protocol: HTTPS, port: 8443}}]",
            held("shop/one")
        ),
    );
    world.settle();
    let told = world.told("held", "Accepted");
    assert!(told.starts_with("False: PortInUse: port 8443 "), "{told}");
    world.ask(
        "held",
        &format!(
            "{}, listeners: [{{protocol: HTTPS, port: 9443}}]",
            held("shop/one")
        ),
    );
    world.settle();
    assert_eq!(world.told("held", "Accepted"), "True: Accepted: ");
}

#[test]
fn a_name_is_one_tenants_where_it_is_asked_for_alone() {
    let mut world = ready();
    let dns = "domain: lb.example.net, allowedHostnames: [shop.example.com]";
    world.write(&tenant_of("other", dns, ""));
    world.ask_as(NS, "a", &format!("{HOSTS}, {RULE}"));
    world.ask_as("other", "b", &format!("{HOSTS}, {RULE}"));
    world.settle();
    assert!(
        world
            .told("b", "Accepted")
            .starts_with("False: HostnameTaken")
    );
    // One key of two tenants is two addresses.
    world.ask_as("other", "b", &own("shop/one"));
    world.ask_as(NS, "c", &own("shop/one"));
    let plan = world.settle();
    assert_eq!(world.told("b", "Accepted"), "True: Accepted: ");
    let all = ["a", "b", "c"].map(|name| at(&plan, name).to_string());
    assert_eq!(all, ["203.0.113.7", "10.20.14.10", "10.20.14.14"]);
}

#[test]
fn one_name_is_passed_through_to_different_backends_at_different_addresses() {
    let mut world = ready();
    world.offer(
        "api",
        "",
        "exposure: Routed, ports: [{name: tls, port: 443}], endpoints: [{hostSelector: {}}]",
    );
    let to = |name: &str, port: u16| {
        format!(
            "tls: [{{passthrough: true}}], rules: [{{backends: [{{name: {name}, port: {port}}}]}}]"
        )
    };
    let address = |by: &str| format!("{HOSTS}, address: {{pool: edge-lan, sharedBy: {by}}}");
    world.ask("a", &format!("{}, {}", address("shop/one"), to("web", 80)));
    world.ask("b", &format!("{}, {}", address("shop/two"), to("api", 443)));
    let plan = world.settle();
    let offer = served(&plan);
    let passed = offer.frontends.iter().map(|it| {
        assert!(matches!(it.protocol, Protocol::TlsPassthrough { .. }));
        (it.address.to_string(), it.port.get(), it.pool.as_str())
    });
    assert_eq!(
        passed.collect::<Vec<_>>(),
        [
            ("10.20.14.10".to_owned(), 443, "store-014/web/http"),
            ("10.20.14.14".to_owned(), 443, "store-014/api/tls"),
        ]
    );
}

#[test]
fn what_a_pool_does_not_give_is_told() {
    let mut world = ready();
    for number in 0..7 {
        world.ask(&format!("held-{number}"), &held(&format!("shop/{number}")));
    }
    world.settle();
    world.ask("late", &own("shop/late"));
    let plan = world.settle();
    assert_eq!(
        world.told("late", "Accepted"),
        "False: PoolExhausted: VIPPool edge-lan has 0 of 7 addresses free"
    );
    assert_eq!(site_of(&plan, "late"), None);
    assert_eq!(world.names("late"), Vec::<String>::new());
    // Who comes to one that is there needs none.
    world.ask("guest", &own("shop/3"));
    world.settle();
    assert_eq!(world.own("guest"), world.own("held-3"));
    world.remove("kedge.dev", "HTTPLoadBalancer", "held-0");
    world.settle();
    assert_eq!(world.own("late"), "10.20.14.10");
    world.ask(
        "none",
        &format!("{HOSTS}, address: {{pool: nowhere}}, {RULE}"),
    );
    world.settle();
    assert!(
        world
            .told("none", "Accepted")
            .starts_with("False: WaitingForPool: there is no VIPPool")
    );
}

#[test]
fn what_a_tenant_may_not_have_is_told() {
    let mut world = ready();
    let tenant = tenant_of(
        NS,
        "allowedHostnames: [shop.example.com]",
        "loadBalancers: 2",
    );
    let denied = tenant.replace("gatewayRef", "allowedPools: [other], gatewayRef");
    world.write(&denied);
    world.ask("a", &own("shop/one"));
    let plan = world.settle();
    assert!(
        world
            .told("a", "Accepted")
            .starts_with("False: Forbidden: tenant store-014 may not use VIPPool edge-lan")
    );
    assert_eq!(site_of(&plan, "a"), None);
    // What counts is what has something: the TCPLoadBalancer that is led to is one.
    world.write(&tenant);
    world.ask("held", &held("shop/one"));
    world.settle();
    let quota = "False: QuotaExceeded: its tenant may have 2 load balancers (spec.limits)";
    assert_eq!(world.told("a", "Accepted"), "True: Accepted: ");
    assert_eq!(world.told("held", "Accepted"), quota);
    assert_eq!(world.own("held"), "");
    // A pool that is taken from it is told, and the address stays.
    world.write(&denied);
    let plan = world.settle();
    assert!(
        world
            .told("a", "Accepted")
            .starts_with("False: Forbidden: tenant store-014 may not use VIPPool edge-lan")
    );
    assert_eq!(site_of(&plan, "a"), None);
    assert_eq!(world.own("a"), "10.20.14.10");
    world.write(&tenant);
    assert_eq!(at(&world.settle(), "a").to_string(), "10.20.14.10");
}

#[test]
fn where_a_gateway_listens_everywhere_its_ports_are_nobodys_alone() {
    let mut world = ready();
    world.write(&GATEWAY.replace("host: 203.0.113.7", "host: gw.example.net"));
    world.ask("a", &own("shop/one"));
    world.settle();
    let told = world.told("a", "Accepted");
    assert!(told.starts_with("False: PortInUse: TCP port 80"), "{told}");
}
