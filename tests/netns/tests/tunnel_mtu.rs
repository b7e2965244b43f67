//! What ways carry is found out, though nobody on the way says so.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::mtu;
use crate::tunnel;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use kedge_net::link::{Links, sysctl};
use kedge_tunnel_device::{
    PeerSpec,
    paths::{Because, Config},
};
use mtu::*;
use tokio::runtime::Runtime;
use tunnel::{wireguard_go::WireGuardGo, *};

const LIMIT: Duration = Duration::from_secs(20);
/// So much must arrive.
const MUCH: u64 = 4 << 20;

/// Raises soon.
fn soon() -> Config {
    Config {
        raise: Duration::from_secs(2),
        ..Config::default()
    }
}

fn both<'a>(site: &'a Site, runtime: &'a Runtime, config: Config) -> (End<'a>, End<'a>) {
    let (host, gateway) = site.open();
    ends(site, runtime, config, (host, gateway))
}

fn ends<'a>(
    site: &'a Site,
    runtime: &'a Runtime,
    config: Config,
    (host, gateway): (kedge_tunnel_device::Device, kedge_tunnel_device::Device),
) -> (End<'a>, End<'a>) {
    (
        End::new(&site.host, runtime, host, "gw-0", [HOST, GATEWAY], config),
        End::new(
            &site.gateway,
            runtime,
            gateway,
            "host-1",
            [GATEWAY, HOST],
            config,
        ),
    )
}

fn until(what: &str, (host, gateway): &mut (End<'_>, End<'_>), mtus: (u16, u16)) -> Duration {
    eventually(what, LIMIT, || {
        host.tend();
        gateway.tend();
        let settled = [&*host, &*gateway].iter().all(|end| end.is_settled());
        settled && (host.mtu(), gateway.mtu()) == mtus
    })
}

/// Much arrives, in every family and direction, and what was found stays.
fn carry(site: &Site, ends: &mut (End<'_>, End<'_>)) {
    let mtus = (ends.0.mtu(), ends.1.mtu());
    for (from, to, address) in [
        (&site.host, &site.gateway, GATEWAY),
        (&site.host, &site.gateway, GATEWAY_V4),
        (&site.gateway, &site.host, HOST),
        (&site.gateway, &site.host, HOST_V4),
    ] {
        let flow = Flow::start(from, to, address);
        eventually(&format!("{MUCH} bytes to {address}"), LIMIT, || {
            ends.0.tend();
            ends.1.tend();
            flow.arrived() >= MUCH
        });
    }
    let settled = [&ends.0, &ends.1].map(|end| end.known().unwrap().because);
    assert!(!settled.contains(&Because::Searching), "{settled:?}");
    assert_eq!((ends.0.mtu(), ends.1.mtu()), mtus);
}

#[test]
fn a_hop_that_carries_less_and_does_not_say_so() {
    if !ready() {
        return;
    }
    for hop in [1400, 1437, 1492] {
        let site = Site::new();
        let runtime = Runtime::new().unwrap();
        say_nothing(&site);
        link_mtu(&site.router, "wan", hop);
        let mut ends = both(&site, &runtime, Config::default());
        // A veth takes four bytes more than its MTU, which leave room for a VLAN's tag: each direction
        // has its own.
        let (there, back) = (hop - 60, (hop + 4 - 60).min(1440));
        until(&format!("a hop of {hop}"), &mut ends, (there, back));
        assert_eq!(ends.0.known().unwrap().because, Because::Probed);
        assert_eq!(ends.0.known().unwrap().most, 1440);
        let route = ends.0.route();
        assert!(route.contains(&format!("mtu {there}")), "{route}");
        let route = ends.1.route();
        assert!(route.contains(&format!("mtu {back}")), "{route}");
        carry(&site, &mut ends);
        // No less than that: a packet of exactly so many bytes passes in one piece.
        let probe = socket(&site.host, HOST_V4);
        let _echo = UdpEcho::start(&site.gateway, &[GATEWAY_V4]);
        assert!(echoed(&probe, GATEWAY_V4, usize::from(there) - 28));
        for end in [&ends.0, &ends.1] {
            assert_eq!(peer(&end.device).drops, []);
        }
        let seen = run(&site.gateway, "nft", &["list", "table", "netdev", "whole"]);
        println!(
            "{}",
            seen.lines().find(|line| line.contains("counter")).unwrap()
        );
    }
}

#[test]
fn without_it_the_same_hop_is_a_hole() {
    if !ready() {
        return;
    }
    let site = Site::new();
    say_nothing(&site);
    link_mtu(&site.router, "wan", 1400);
    let (_host, _gateway) = site.open();
    let _echo = site.echo();
    let probe = socket(&site.host, HOST_V4);
    eventually("small ones pass", LIMIT, || answered(&probe, GATEWAY_V4));
    // 1340 bytes would be padded to 1344: nobody knows that those do not pass.
    assert!(echoed(&probe, GATEWAY_V4, 1328 - 28), "what fits passes");
    assert!(
        !echoed(&probe, GATEWAY_V4, 1420 - 28),
        "what does not is lost"
    );
}

#[test]
fn a_hop_that_shrinks_under_traffic_and_grows_again() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let runtime = Runtime::new().unwrap();
    say_nothing(&site);
    let mut ends = both(&site, &runtime, soon());
    until("at first", &mut ends, (1440, 1440));
    assert_eq!(ends.0.known().unwrap().because, Because::ProbedToTheMost);
    let flow = Flow::start(&site.host, &site.gateway, GATEWAY);
    let arrives = |what: &str, ends: &mut (End<'_>, End<'_>), bytes: u64| {
        let before = flow.arrived();
        eventually(what, LIMIT, || {
            ends.0.tend();
            ends.1.tend();
            flow.arrived() >= before + bytes
        })
    };
    arrives("it flows", &mut ends, MUCH);
    link_mtu(&site.router, "wan", 1400);
    let shrunk = Instant::now();
    // What is under way still arrives.
    arrives("what was under way", &mut ends, 1);
    let usable = eventually("less is used", LIMIT, || {
        ends.0.tend();
        ends.1.tend();
        ends.0.mtu() <= 1340
    });
    arrives("it flows again", &mut ends, MUCH);
    println!("whole again after {:.3} s", shrunk.elapsed().as_secs_f64());
    assert!(usable < Duration::from_secs(6), "{usable:?}");
    until("exactly", &mut ends, (1340, 1344));
    link_mtu(&site.router, "wan", 1500);
    until("grown", &mut ends, (1440, 1440));
    arrives("it flows", &mut ends, MUCH);
}

#[test]
fn jumbo_frames_are_used_where_they_pass() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let runtime = Runtime::new().unwrap();
    say_nothing(&site);
    for (namespace, link) in [
        (&site.host, "eth0"),
        (&site.router, "lan"),
        (&site.router, "wan"),
        (&site.gateway, "eth0"),
    ] {
        link_mtu(namespace, link, 9000);
    }
    let mut ends = both(&site, &runtime, soon());
    until("jumbo", &mut ends, (8940, 8940));
    let link = run(&site.host, "ip", &["link", "show", "kedge0"]);
    assert!(link.contains("mtu 8940"), "{link}");
    carry(&site, &mut ends);
    // The way is no longer one of large frames.
    link_mtu(&site.router, "wan", 1500);
    let flow = Flow::start(&site.host, &site.gateway, GATEWAY);
    let flow_back = Flow::start(&site.gateway, &site.host, HOST);
    until("no jumbo", &mut ends, (1440, 1444));
    for flow in [&flow, &flow_back] {
        let before = flow.arrived();
        eventually("it flows", LIMIT, || flow.arrived() > before + MUCH);
    }
    let link = run(&site.host, "ip", &["link", "show", "kedge0"]);
    assert!(link.contains("mtu 1440"), "{link}");
}

#[test]
fn an_underlay_of_ipv6_where_nobody_cuts() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let runtime = Runtime::new().unwrap();
    say_nothing(&site);
    let add = |link: &str, address: &str| {
        let mut links = Links::open().unwrap();
        links.add_address(link, address.parse().unwrap()).unwrap();
    };
    let route = |to: &str, via: &str| {
        let (to, via) = (to.parse().unwrap(), via.parse().unwrap());
        Links::open().unwrap().add_route(to, via).unwrap();
    };
    site.router
        .run(|| {
            add("lan", "fd00:1::1/64");
            add("wan", "fd00:2::1/64");
            sysctl("ipv6/conf/all/forwarding", "1").unwrap();
        })
        .unwrap();
    site.host
        .run(|| {
            add("eth0", "fd00:1::11/64");
            route("fd00:2::/64", "fd00:1::1");
        })
        .unwrap();
    site.gateway
        .run(|| {
            add("eth0", "fd00:2::7/64");
            route("fd00:1::/64", "fd00:2::1");
        })
        .unwrap();
    link_mtu(&site.router, "wan", 1400);
    let (host, gateway) = (site.open_host(), site.open_gateway());
    gateway.apply(vec![host_peer()]).unwrap();
    let endpoint: SocketAddr = format!("[fd00:2::7]:{PORT}").parse().unwrap();
    let over_v6 = PeerSpec {
        endpoint: Some(endpoint),
        ..gateway_peer()
    };
    host.apply(vec![over_v6]).unwrap();
    let mut ends = ends(&site, &runtime, soon(), (host, gateway));
    until("over IPv6", &mut ends, (1320, 1324));
    assert_eq!(ends.0.known().unwrap().most, 1420);
    carry(&site, &mut ends);
    // Back to IPv4 while it runs: another way, with 20 bytes more room.
    ends.0.device.apply(vec![gateway_peer()]).unwrap();
    until("over IPv4", &mut ends, (1340, 1344));
}

#[test]
fn who_answers_no_probe_is_sent_what_the_route_says() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let runtime = Runtime::new().unwrap();
    let configuration = format!(
        "[Interface]\nPrivateKey = {}\nListenPort = {PORT}\n\
         [Peer]\nPublicKey = {}\nAllowedIPs = {HOST}/128, {HOST_V4}/32\n",
        key(2).to_base64().as_str(),
        key(1).public(),
    );
    let _theirs = WireGuardGo::start(
        &site.gateway,
        &configuration,
        &[&format!("{GATEWAY}/64"), &format!("{GATEWAY_V4}/16")],
    );
    for (link, mtu) in [(1500, 1420), (1480, 1400), (9000, 1420)] {
        link_mtu(&site.host, "eth0", link);
        let host = site.open_host();
        host.apply(vec![gateway_peer()]).unwrap();
        let mut end = End::new(
            &site.host,
            &runtime,
            host,
            "gw-0",
            [HOST, GATEWAY],
            Config::default(),
        );
        eventually("nobody answers", LIMIT, || {
            end.tend();
            let known = end.known();
            known.is_some_and(|known| known.because == Because::Unanswered)
        });
        assert_eq!(end.mtu(), mtu);
        for (from, to, address) in [
            (&site.host, &site.gateway, GATEWAY_V4),
            (&site.gateway, &site.host, HOST),
        ] {
            let flow = Flow::start(from, to, address);
            eventually("it flows", LIMIT, || {
                end.tend();
                flow.arrived() > MUCH
            });
        }
        assert_eq!(end.mtu(), mtu);
        assert_eq!(peer(&end.device).drops, []);
    }
}
