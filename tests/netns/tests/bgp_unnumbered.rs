//! Neighbours without an address: an agent and a real FRR that find each other by router advertisements,
//! and routes of IPv4 over a link that has no common network of IPv4.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    net::{IpAddr, SocketAddr, TcpStream},
    process::Command,
};

use kedge_tests_netns::{
    agent::Agent,
    answers::Answers,
    asked::Asked,
    bgpd::Bgpd,
    eventually,
    lan::{Host, Lan},
    millis, on_a_steady_machine, secs, throughout,
};
use serde_json::Value;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const VIP: &str = "192.0.2.10";
const VIP6: &str = "2001:db8:10::10";
/// The router's only address of IPv4: nothing else of it is on the link.
const ROUTER: &str = "203.0.113.1";
const PORT: u16 = 8080;

/// What a router says of a neighbour of its interface.
fn frr(more: &str) -> String {
    format!(
        "router bgp 65014\n bgp router-id {ROUTER}\n no bgp ebgp-requires-policy\n neighbor eth0 interface remote-as external\n neighbor eth0 timers \
         connect 1\n{more} address-family ipv4 unicast\n  neighbor eth0 activate\n exit-address-family\n \
         address-family ipv6 unicast\n  neighbor eth0 activate\n exit-address-family\n"
    )
}

fn yaml(neighbor: &str) -> String {
    format!(
        "bgp: {{asn: 65001, router_id: 10.20.14.11, neighbors: {{tor: {{interface: eth0, asn: external, \
         connect_retry: 1s{neighbor}}}}}}}\nvips: {{api: {{addresses: [{VIP}], via: [bgp], health: none}}, \
         six: {{addresses: ['{VIP6}'], via: [bgp], health: none}}}}\n"
    )
}

fn session(agent: &Agent<'_>) -> Value {
    agent.kedge("bgp neighbors -o json").json()["items"][0].clone()
}

fn is_established(agent: &Agent<'_>) -> bool {
    session(agent)["state"] == "Established"
}

fn ip(host: &Host, line: &str) {
    let line = line.to_owned();
    host.run(move || {
        let status = Command::new("ip").args(line.split(' ')).status();
        assert!(status.unwrap().success(), "ip {line}");
    });
}

/// Where packets of IPv6 go that no route is known for.
fn default_routes(host: &Host) -> String {
    host.run(|| {
        let mut ip = Command::new("ip");
        let output = ip.args(["-6", "route", "show", "default"]).output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    })
}

/// The answer of a VIP to a connection from the router.
fn reaches(router: &Host, address: &'static str) -> bool {
    router.run(move || {
        let to: SocketAddr = (address.parse::<IpAddr>().unwrap(), PORT).into();
        TcpStream::connect_timeout(&to, millis(300)).is_ok()
    })
}

/// Both sides: the host has a way back to the router, as nothing that the router says is taken.
fn sides(lan: &Lan) -> (Host, Host) {
    let a = lan.host("a", "10.20.14.11/24");
    let r = lan.host("r", &format!("{ROUTER}/32"));
    let back = r.link_local();
    ip(
        &a,
        &format!("-4 route add {ROUTER}/32 via inet6 {back} dev eth0"),
    );
    (a, r)
}

#[test]
fn a_router_of_a_link_is_found_told_by_way_of_the_link_and_sends_packets() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, r) = sides(&lan);
        let _here = Answers::start(&a, PORT, "a", 0);
        let near = a.link_local();
        let far = r.link_local();
        let bgpd = Bgpd::routing(&r, &frr(""));
        let mut agent = Agent::running(&a, KEDGE, &yaml(""));
        let took = eventually("established", secs(20), || is_established(&agent));
        println!("  found and established within {took:?}");
        let shown = session(&agent);
        assert_eq!(shown["address"], far.to_string(), "{shown}");
        assert_eq!(shown["asn"], 65_014, "{shown}");
        let route = || bgpd.kernel_route(&format!("{VIP}/32"));
        eventually("the kernel has its route", secs(5), || {
            route().contains(&format!("via inet6 {near} dev eth0"))
        });
        println!("  {}", route().trim());
        let said = bgpd.vtysh(&format!("show bgp ipv6 unicast {VIP6}/128"));
        assert!(said.contains(&near.to_string()), "{said}");
        eventually("packets come by it", secs(3), || reaches(&r, VIP));
        let told = agent.kedge("bgp routes advertised -o json").json();
        let hops = told["items"].as_array().unwrap().iter();
        for hop in hops.map(|it| it["nextHop"].as_str().unwrap()) {
            assert!(hop.contains(&near.to_string()), "{told}");
        }
        let listed = agent.kedge("bgp summary");
        assert!(listed.out.contains(&format!("{far}%eth0")), "{listed:?}");
        // What it says of itself makes it nobody's default router.
        assert_eq!(default_routes(&r), "");
        // What FRR says of itself does, unless it is told otherwise.
        let given = default_routes(&a);
        assert!(
            given.contains(&format!("via {far} dev eth0 proto ra")),
            "{given}"
        );
        let said = agent.kedge("drain --yes");
        assert_eq!(said.code, 0, "{said:?}");
        eventually("the route is gone", secs(3), || route().is_empty());
        assert_eq!(agent.kedge("undrain").code, 0);
        eventually("and is back", secs(3), || route().contains("inet6"));
        agent.stop();
        eventually("it left with a word", secs(3), || {
            route().is_empty()
                && bgpd
                    .vtysh("show bgp neighbors eth0")
                    .contains("Administrative Shutdown")
        });
    });
}

#[test]
fn whoever_begins_last_is_found_and_a_link_that_goes_is_found_again() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, r) = sides(&lan);
        let agent = Agent::running(&a, KEDGE, &yaml(""));
        eventually("nobody is there", secs(5), || {
            let because = session(&agent)["because"].to_string();
            because.contains("no router advertises itself")
        });
        assert!(session(&agent)["address"].is_null());
        let nobodys_default = "interface eth0\n ipv6 nd ra-lifetime 0\nexit\n";
        let bgpd = Bgpd::routing(&r, &format!("{nobodys_default}{}", frr("")));
        let took = eventually("established", secs(20), || is_established(&agent));
        println!("  after {took:?}");
        assert_eq!(default_routes(&a), "");
        drop(bgpd);
        eventually("the session is gone", secs(10), || !is_established(&agent));
        let bgpd = Bgpd::routing(&r, &frr(""));
        eventually("and comes back", secs(20), || is_established(&agent));
        // With the link its address goes, and for a while nothing can be said.
        ip(&a, "link set eth0 down");
        eventually("the link is gone", secs(20), || !is_established(&agent));
        ip(&a, "link set eth0 up");
        eventually("and comes back, too", secs(30), || {
            is_established(&agent) && bgpd.kernel_route(VIP).contains("via inet6")
        });
    });
}

#[test]
fn bfd_watches_a_router_that_was_found_and_packets_from_afar_are_refused() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, r) = sides(&lan);
        let lines = " neighbor eth0 bfd\n neighbor eth0 ttl-security hops 1\n";
        let bgpd = Bgpd::routing(&r, &frr(lines));
        let more = ", bfd: auto, ttl_security: true, hold_time: 90s";
        let agent = Agent::running(&a, KEDGE, &yaml(more));
        eventually("established", secs(20), || is_established(&agent));
        let bfd = || agent.kedge("bfd sessions -o json").json()["items"][0].clone();
        eventually("BFD sees the router", secs(10), || bfd()["state"] == "Up");
        assert_eq!(bfd()["peer"], r.link_local().to_string());
        throughout("both stay", secs(1), || {
            is_established(&agent) && bfd()["state"] == "Up"
        });
        lan.unplug(&r);
        let took = eventually("the session ends with the path", secs(3), || {
            !is_established(&agent)
        });
        println!("  detection time 900 ms, seen from outside after {took:?}");
        lan.plug(&r);
        eventually("and comes back with it", secs(30), || {
            is_established(&agent) && bgpd.kernel_route(VIP).contains("via inet6")
        });
    });
}
