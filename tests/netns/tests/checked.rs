//! A gateway with more back ends than Envoy is to check each second: it asks each host itself.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{collections::BTreeSet, time::Instant};

use kedge_control::{
    agent::{GatewayConfig, PeerConfig},
    frontend::{ClientIp, Frontend, Health, Offer, Pool, PoolMember, Protocol},
};
use kedge_tests_netns::{
    agent::Agent,
    answers::{Answers, ask},
    asked::Asked as _,
    envoy::executable,
    eventually,
    gateway::Gateway,
    lan::{Host, Lan},
    plain, ready, secs,
};

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");

#[test]
fn a_host_whose_port_refuses_gets_nothing_of_any_pool_while_its_tunnel_lives() {
    let Some(envoy) = executable().filter(|_| ready()) else {
        return;
    };
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let gateway_host = lan.host("gateway", "10.20.14.21/24");
    let client = lan.host("client", "10.20.14.2/24");
    let yaml = format!(
        "tenants: {{isolation: namespace}}\nproxy: {{engine: envoy, envoy: '{}'}}\n",
        envoy.display()
    );
    let mut gateway = Gateway::new(&gateway_host, KEDGE, &yaml);
    let edges = [(&a, "a", 10), (&b, "b", 11)];
    let mut agents = edges.map(|(host, name, number)| {
        for port in [WEB, OTHER] {
            let _ = Answers::start(host, port, name, 0);
        }
        Agent::new(host, KEDGE, &plain::host(number, &gateway))
    });
    let peers = edges.iter().zip(&agents);
    let peers = peers.map(|((_, name, number), agent)| PeerConfig {
        tenant: "shop".to_owned(),
        ..plain::peer(&format!("shop/{name}"), agent, *number)
    });
    let mut wished = GatewayConfig {
        generation: 1,
        tunnel: Some(plain::tunnel(1, peers.collect())),
        offer: offer(&gateway_host, 600),
        ..GatewayConfig::default()
    };
    gateway.remember(&wished);
    gateway.start();
    agents.iter_mut().for_each(|it| it.start());
    let at = gateway_host.address().into();
    let name = |port| ask(&client, at, port, b"").map(|asked| asked.name);
    let both = |what: &str, port| {
        let mut heard = BTreeSet::new();
        eventually(what, secs(30), || {
            heard.extend(name(port));
            heard.len() == 2
        });
    };
    // What of `b` is said to be dead, and why.
    let dead = |gateway: &Gateway<'_>| {
        let status = gateway.kedge("status -o json").json();
        let listeners = status["listeners"].as_array().unwrap().clone();
        let members = listeners
            .iter()
            .flat_map(|it| it["members"].as_array().unwrap());
        let of_b = members.filter(|it| it["host"] == "shop/b" && it["alive"] == false);
        of_b.map(|it| it["because"].as_str().unwrap().to_owned())
            .collect::<BTreeSet<_>>()
    };
    both("both hosts answer", OTHER);

    // One port of `b` refuses. No check of its own is on the other one, and the tunnel lives.
    refuse(&b);
    let since = Instant::now();
    eventually("the host is down", secs(10), || !dead(&gateway).is_empty());
    println!("down after {:.1} s", since.elapsed().as_secs_f64());
    assert!(
        dead(&gateway)
            .iter()
            .all(|why| why.contains("its tunnel lives")),
        "{:?}",
        dead(&gateway)
    );
    for _ in 0..50 {
        assert_eq!(name(OTHER).as_deref(), Some("a"));
    }
    // All of them at once: it is not they who are silent.
    refuse(&a);
    both("both hosts are led to again", OTHER);
    assert_eq!(dead(&gateway), BTreeSet::new());
    accept(&a);
    eventually("one of them is silent", secs(10), || {
        !dead(&gateway).is_empty()
    });
    accept(&b);
    both("it answers again", OTHER);
    assert_eq!(dead(&gateway), BTreeSet::new());

    // With fewer back ends Envoy finds out itself, port by port.
    agents.iter_mut().for_each(|it| it.kill());
    gateway.stop();
    wished.generation = 2;
    wished.offer = offer(&gateway_host, 100);
    gateway.remember(&wished);
    gateway.start();
    agents.iter_mut().for_each(|it| it.start());
    both("both hosts answer", OTHER);
    both("the checked one as well", WEB);
    refuse(&b);
    let mut answers = 0;
    eventually("Envoy's check has found it", secs(20), || {
        answers = if name(WEB).as_deref() == Some("a") {
            answers + 1
        } else {
            0
        };
        answers == 50
    });
    both("the other port is served by both", OTHER);
    assert_eq!(dead(&gateway), BTreeSet::new());
    gateway.stop();
}

/// A port of both hosts that is checked, twice; one that is not; and so many that are checked and refuse.
fn offer(gateway: &Host, fill: u16) -> Offer {
    let health = Some(Health {
        interval_seconds: 1.0,
        timeout_seconds: 0.5,
        fall: 2,
        rise: 1,
    });
    let mut offer = Offer::default();
    let pools = [
        ("web", WEB, 1, health),
        ("same", WEB, 1, health),
        ("other", OTHER, 1, None),
        ("fill", 20_000, fill, health),
    ];
    for (index, (name, first, ports, health)) in (0..).zip(pools) {
        let members = (first..first + ports).flat_map(|port| {
            ["a", "b"]
                .into_iter()
                .zip([10, 11])
                .map(move |(host, number)| PoolMember {
                    host: format!("shop/{host}"),
                    address: format!("198.18.0.{number}").parse().unwrap(),
                    port: port.try_into().unwrap(),
                    weight: 1,
                    draining: false,
                })
        });
        offer.pools.push(Pool {
            name: name.to_owned(),
            tenant: "shop".to_owned(),
            members: members.collect(),
            health,
            ..Pool::default()
        });
        let port = match name {
            "other" => OTHER,
            _ => WEB + 10 * index,
        };
        offer.frontends.push(Frontend {
            name: format!("shop/{name}"),
            tenant: "shop".to_owned(),
            address: gateway.address().into(),
            port: port.try_into().unwrap(),
            protocol: Protocol::Tcp,
            pool: name.to_owned(),
            client_ip: ClientIp::Hidden,
            source_ranges: Vec::new(),
        });
    }
    offer
}

/// The checked port of a host refuses.
fn refuse(host: &Host) {
    host.nft(format!(
        "table ip refuse {{ chain in {{ type filter hook input priority 0; tcp dport {WEB} reject with tcp reset; }}; }}"
    ));
}

fn accept(host: &Host) {
    host.nft("delete table ip refuse");
}

const WEB: u16 = 9000;
const OTHER: u16 = 9001;
