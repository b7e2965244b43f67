//! Device to device, a NAT router between them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::tunnel;

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use kedge_core::Coded as _;
use kedge_net::link::{Links, sysctl};
use kedge_tunnel_device::{Device, DeviceConfig, PeerSpec, State, Workers, echo};
use tunnel::*;

const LIMIT: Duration = Duration::from_secs(5);

#[test]
fn a_host_behind_nat_reaches_the_gateway_and_is_reached() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let (host, gateway) = site.open();
    let _echo = site.echo();
    let (v6, v4) = (socket(&site.host, HOST), socket(&site.host, HOST_V4));
    eventually("first answer, IPv6", LIMIT, || answered(&v6, GATEWAY));
    eventually("first answer, IPv4", LIMIT, || answered(&v4, GATEWAY_V4));
    let back = UdpEcho::start(&site.host, &[HOST]);
    let from_gateway = socket(&site.gateway, GATEWAY);
    eventually("the gateway calls the host", LIMIT, || {
        answered(&from_gateway, HOST)
    });
    drop(back);

    let (ours, theirs) = (peer(&host), peer(&gateway));
    assert_eq!(
        (ours.state, theirs.state),
        (State::Connected, State::Connected)
    );
    assert!(ours.last_handshake.unwrap().elapsed().unwrap() < LIMIT);
    assert_eq!(
        ours.last_handshake,
        peer(&host).last_handshake,
        "the time does not move"
    );
    let seen_at = theirs.endpoint.unwrap();
    assert_eq!(
        seen_at.ip().to_string(),
        "198.51.100.1",
        "the gateway sees the router"
    );
    assert!(ours.rx_bytes > 0 && ours.tx_packets >= 2 && theirs.rx_packets >= 2);
    assert_eq!(theirs.drops, []);

    let links = run(&site.host, "ip", &["-6", "route", "show", "proto", "107"]);
    assert!(links.contains("fd6b:6564:6765::1 dev kedge0"), "{links}");
    assert!(links.contains("unreachable fd6b:6564:6765::1"), "{links}");
    let addresses = run(&site.host, "ip", &["address", "show", "dev", "kedge0"]);
    assert!(
        addresses.contains("mtu 1420") && addresses.contains("qlen 2000"),
        "{addresses}"
    );
    assert!(
        !addresses.contains("fe80"),
        "no link-local address: {addresses}"
    );

    host.close().unwrap();
    for family in ["-4", "-6"] {
        let left = run(&site.host, "ip", &[family, "route", "show", "proto", "107"]);
        assert_eq!(left, "", "a closed device leaves nothing");
    }
}

#[test]
fn who_calls_the_other_port_is_answered_from_it_and_found_again_at_the_usual_one() {
    if !ready() {
        return;
    }
    for workers in [Workers::ONE, Workers::configured(2)] {
        let site = Site::new();
        let gateway = DeviceConfig {
            other_port: Some(443),
            workers,
            ..config(2, PORT, &[GATEWAY, GATEWAY_V4])
        };
        let gateway = site.gateway.run(|| Device::open(gateway)).unwrap().unwrap();
        gateway.apply(vec![host_peer()]).unwrap();
        assert_eq!(gateway.device_stats().other_port, Some(443));
        let host = site.open_host();
        let _echo = site.echo();
        let probe = socket(&site.host, HOST);
        let at = |port| PeerSpec {
            endpoint: Some(SocketAddr::new(GATEWAY_WAN.parse().unwrap(), port)),
            ..gateway_peer()
        };
        for (port, by_other) in [(443, true), (PORT, false), (443, true)] {
            host.apply(vec![at(port)]).unwrap();
            eventually(&format!("answered by {port}"), LIMIT, || {
                answered(&probe, GATEWAY) && peer(&gateway).by_other == by_other
            });
            let seen = peer(&gateway).endpoint.unwrap();
            assert_eq!(seen.ip().to_string(), "198.51.100.1");
            assert_eq!(peer(&host).endpoint.unwrap().port(), port);
            // A move holds for a second.
            std::thread::sleep(Duration::from_millis(1_100));
        }
        assert_eq!(peer(&gateway).drops, []);
    }
}

#[test]
fn a_restarted_gateway_is_found_by_the_echo() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (host, mut gateway) = site.open();
    let mut answers = site.echo();
    let responder = || {
        let _guard = runtime.enter();
        site.gateway.run(|| {
            let _guard = runtime.enter();
            echo::Responder::start(&[GATEWAY.parse().unwrap()]).unwrap()
        })
    };
    let mut responding = responder().unwrap();
    let client = site
        .host
        .run(|| {
            let _guard = runtime.enter();
            let (local, remote) = (HOST.parse().unwrap(), GATEWAY.parse().unwrap());
            let config = echo::Config::default();
            echo::Client::start(host.handle(), "gw-0", local, remote, config).unwrap()
        })
        .unwrap();
    eventually("echo up", LIMIT, || client.report().up == Some(true));
    let probe = socket(&site.host, HOST);
    let mut worst = Duration::ZERO;
    for round in 1..=3 {
        // Not in step with the probes.
        std::thread::sleep(Duration::from_millis(350 * round));
        drop((answers, responding));
        gateway.close().unwrap();
        let closed = Instant::now();
        gateway = site.open_gateway();
        gateway.apply(vec![host_peer()]).unwrap();
        answers = site.echo();
        responding = responder().unwrap();
        assert!(!answered(&probe, GATEWAY), "the old session is dead");
        eventually("traffic flows again", LIMIT, || answered(&probe, GATEWAY));
        let gap = closed.elapsed();
        println!("outage of restart {round}: {:.3} s", gap.as_secs_f64());
        worst = worst.max(gap);
    }
    println!(
        "longest time from restart to traffic: {:.3} s",
        worst.as_secs_f64()
    );
    assert!(worst <= Duration::from_secs(4), "{worst:?}");
    eventually("echo up again", LIMIT, || client.report().up == Some(true));
    drop((answers, responding));
}

#[test]
fn a_new_nat_mapping_is_followed_after_authenticated_data() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let (host, gateway) = site.open();
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY));
    let before = peer(&gateway).endpoint.unwrap();
    // The kernel forgets the flows of a masqueraded link that goes down; the next packet gets a
    // port from another range.
    site.router
        .run(|| {
            let rules = "flush ruleset; add table ip nat; \
                add chain ip nat post { type nat hook postrouting priority 100; }; \
                add rule ip nat post oifname wan meta l4proto udp masquerade to :40000-40010";
            run_here("ip", &["link", "set", "wan", "down"]);
            run_here("nft", &[rules]);
            run_here("ip", &["link", "set", "wan", "up"]);
        })
        .unwrap();
    let took = eventually("traffic flows over the new mapping", LIMIT, || {
        answered(&probe, GATEWAY)
    });
    let after = peer(&gateway).endpoint.unwrap();
    println!("{before} -> {after}");
    assert_ne!(before, after);
    assert!((40_000..=40_010).contains(&after.port()));
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(
        peer(&host).state,
        State::Connected,
        "no handshake was needed"
    );
}

#[test]
fn a_gateway_with_two_addresses_answers_from_the_one_it_was_called_on() {
    if !ready() {
        return;
    }
    const SECOND: &str = "198.51.100.8";
    let site = Site::new();
    let second = |add: bool| {
        let verb = if add { "add" } else { "del" };
        let at = format!("{SECOND}/24");
        run(&site.gateway, "ip", &["address", verb, &at, "dev", "eth0"]);
    };
    second(true);
    let (host, gateway) = (site.open_host(), site.open_gateway());
    gateway.apply(vec![host_peer()]).unwrap();
    // The router's masquerading passes answers from the called address alone, as any NAT does.
    let called = |address: &str| PeerSpec {
        endpoint: Some(SocketAddr::new(address.parse().unwrap(), PORT)),
        ..gateway_peer()
    };
    host.apply(vec![called(SECOND)]).unwrap();
    let _echo = site.echo();
    let probe = socket(&site.host, HOST);
    eventually("an answer from the second address", LIMIT, || {
        answered(&probe, GATEWAY)
    });
    assert_eq!(peer(&host).endpoint.unwrap().ip().to_string(), SECOND);
    let back = UdpEcho::start(&site.host, &[HOST]);
    let from_gateway = socket(&site.gateway, GATEWAY);
    assert!(answered(&from_gateway, HOST), "the gateway speaks first");
    // The address goes, and with it this way. What the gateway says leaves from the other one.
    second(false);
    assert!(!answered(&from_gateway, HOST) && !answered(&probe, GATEWAY));
    drop(back);
    host.apply(vec![called(GATEWAY_WAN)]).unwrap();
    eventually("an answer from the first address", LIMIT, || {
        answered(&probe, GATEWAY)
    });
    assert_eq!(peer(&gateway).drops, []);
}

#[test]
fn an_underlay_of_ipv6_carries_it_as_well() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let add = |link: &str, address: &str| {
        Links::open()
            .unwrap()
            .add_address(link, address.parse().unwrap())
            .unwrap();
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
    let (host, gateway) = (site.open_host(), site.open_gateway());
    gateway.apply(vec![host_peer()]).unwrap();
    let endpoint = Some(format!("[fd00:2::7]:{PORT}").parse().unwrap());
    let over_v6 = PeerSpec {
        endpoint,
        ..gateway_peer()
    };
    host.apply(vec![over_v6]).unwrap();
    let _echo = site.echo();
    let (v6, v4) = (socket(&site.host, HOST), socket(&site.host, HOST_V4));
    eventually("IPv6 in IPv6", LIMIT, || answered(&v6, GATEWAY));
    eventually("IPv4 in IPv6", LIMIT, || answered(&v4, GATEWAY_V4));
    assert!(echoed(&v6, GATEWAY, 5_000), "fragments");
    // Back to IPv4 while it runs: the session stays.
    let before = peer(&host).last_handshake;
    host.apply(vec![gateway_peer()]).unwrap();
    eventually("over IPv4", LIMIT, || {
        answered(&v6, GATEWAY) && peer(&gateway).endpoint.unwrap().is_ipv4()
    });
    assert_eq!(peer(&host).last_handshake, before);
}

#[test]
fn a_host_without_ipv6_gets_along() {
    if !ready() {
        return;
    }
    let site = Site::new();
    site.host
        .run(|| {
            for scope in ["all", "default"] {
                sysctl(&format!("ipv6/conf/{scope}/disable_ipv6"), "1").unwrap();
            }
        })
        .unwrap();
    let open = |addresses: &[&str]| {
        site.host
            .run(|| Device::open(config(1, 0, addresses)))
            .unwrap()
    };
    let problem = open(&[HOST, HOST_V4]).unwrap_err().problem();
    assert!(problem.what.contains(HOST), "{problem:?}");
    let host = open(&[HOST_V4]).unwrap();
    let gateway = site.open_gateway();
    gateway.apply(vec![host_peer()]).unwrap();
    let only_v4 = PeerSpec {
        allowed_ips: vec![GATEWAY_V4.parse::<IpAddr>().unwrap().into()],
        ..gateway_peer()
    };
    host.apply(vec![only_v4]).unwrap();
    let _echo = site.echo();
    let v4 = socket(&site.host, HOST_V4);
    eventually("first answer", LIMIT, || answered(&v4, GATEWAY_V4));
}

/// Runs a program in the namespace of this thread.
fn run_here(program: &str, arguments: &[&str]) {
    text(
        program,
        std::process::Command::new(program).args(arguments).output(),
    );
}

#[test]
fn what_a_router_says_of_congestion_is_told_inside() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let _devices = site.open();
    let _echo = site.echo();
    let (v6, v4) = (socket(&site.host, HOST), socket(&site.host, HOST_V4));
    let all = || answered(&v6, GATEWAY) && answered(&v4, GATEWAY_V4);
    eventually("first answers", LIMIT, all);
    // A router that is full marks whatever may be marked.
    let router = "add table ip full; \
        add chain ip full forward { type filter hook forward priority 0; }; \
        add rule ip full forward udp dport 51820 ip ecn ect0 ip ecn set ce";
    run(&site.router, "nft", &[router]);
    let gateway = "add table inet told; \
        add chain inet told input { type filter hook input priority 0; }; \
        add rule inet told input iifname kedge0 ip ecn ce counter; \
        add rule inet told input iifname kedge0 ip6 ecn ce counter";
    run(&site.gateway, "nft", &[gateway]);
    let told = || {
        let rules = run(&site.gateway, "nft", &["list", "table", "inet", "told"]);
        let counted = rules.lines().filter(|line| line.contains("counter"));
        let marked = counted.filter(|line| !line.contains("packets 0 "));
        marked.count()
    };
    eventually("who does not know of it is answered", LIMIT, all);
    assert_eq!(told(), 0, "and nothing is marked");
    socket2::SockRef::from(&v4).set_tos_v4(2).unwrap();
    socket2::SockRef::from(&v6).set_tclass_v6(2).unwrap();
    eventually("who knows of it is answered", LIMIT, all);
    assert_eq!(told(), 2, "and marked in both families");
}
