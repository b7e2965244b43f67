//! A host with two gateways to the same network: real agents and gateways, and what a packet each
//! millisecond sees of their failures.
//!
//! ```text
//!   edge 10.20.14.11 ──┬── 10.20.14.21  a  10.9.0.1 ──┬── 10.9.0.5 server
//!   198.18.0.10        └── 10.20.14.22  b  10.9.0.2 ──┘
//! ```
//! The gateways masquerade towards the server, so that its answers come back the way they went; or they
//! know each other, and the server sends all its answers to `a`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use kedge_control::agent::{GatewayConfig, PeerConfig, TunnelConfig};
use kedge_host::Role;
use kedge_net::link::{Links, sysctl};
use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    eventually,
    gateway::{Gateway, tunnel_key},
    lan::{Host, Lan},
    millis, on_a_machine_without_pauses, on_a_steady_machine, secs, throughout,
    train::{Echo, Train},
};
use serde_json::Value;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 5);
/// How long a preferred gateway must be well before it is active again.
const RETURN: Duration = secs(3);

struct Hosts {
    _lan: Lan,
    edge: Host,
    a: Host,
    b: Host,
    server: Host,
    masquerade: bool,
}

impl Hosts {
    fn new() -> Self {
        Self::with(true)
    }

    fn with(masquerade: bool) -> Self {
        let lan = Lan::new();
        let host = |name, address: &str| lan.host(name, address);
        let (edge, server) = (
            host("edge", "10.20.14.11/24"),
            host("server", "10.9.0.5/24"),
        );
        let (a, b) = (host("a", "10.20.14.21/24"), host("b", "10.20.14.22/24"));
        a.add_address("10.9.0.1/24");
        b.add_address("10.9.0.2/24");
        for gateway in [&a, &b] {
            gateway.run(|| sysctl("ipv4/ip_forward", "1").unwrap());
            if !masquerade {
                continue;
            }
            let rules = "table ip way { chain out { type nat hook postrouting priority 100; \
                              ip saddr 198.18.0.0/16 oifname eth0 masquerade; }; }";
            gateway.nft(rules);
        }
        if !masquerade {
            server.run(|| {
                let (to, via) = ("198.18.0.0/16", "10.9.0.1");
                let (to, via) = (to.parse().unwrap(), via.parse().unwrap());
                Links::open().unwrap().add_route(to, via).unwrap();
            });
        }
        Self {
            masquerade,
            _lan: lan,
            edge,
            a,
            b,
            server,
        }
    }

    /// The agent and both gateways, with `a` active and both sessions up.
    fn start(&self, targets: &str, return_after: &str) -> (Agent<'_>, Gateway<'_>, Gateway<'_>) {
        let gateway = |host| Gateway::new(host, KEDGE, "tunnel: {listen_port: 51820}\n");
        let (mut a, mut b) = (gateway(&self.a), gateway(&self.b));
        if !self.masquerade {
            for (own, name, other, number) in [(&a, "b", &b, 2), (&b, "a", &a, 1)] {
                own.configure(&format!(
                    "tunnel: {{listen_port: 51820, behind: [10.9.0.0/24], gateways: {{{name}: \
                     {{public_key: '{}', endpoint: '10.9.0.{number}:51820', \
                     addresses: [198.18.0.{number}]}}}}}}\n",
                    other.key()
                ));
            }
        }
        let peer = |name: &str, gateway: &Gateway<'_>, number: u8| {
            format!(
                "{name}: {{public_key: '{}', endpoint: '10.20.14.{}:51820', \
                 allowed_ips: [198.18.0.{number}/32]}}",
                gateway.key(),
                20 + number
            )
        };
        let yaml = format!(
            "tunnel: {{addresses: [198.18.0.10/32], peers: {{{}, {}}}, failover: {{prefixes: \
             [10.9.0.0/24], gateways: [a, b], profile: fast, targets: [{targets}], \
             return_after: {return_after}}}}}\n",
            peer("a", &a, 1),
            peer("b", &b, 2)
        );
        let mut agent = Agent::new(&self.edge, KEDGE, &yaml);
        let edge = tunnel_key(agent.root(), Role::Agent);
        for (gateway, number) in [(&mut a, 1), (&mut b, 2)] {
            gateway.remember(&GatewayConfig {
                generation: 1,
                tunnel: Some(TunnelConfig {
                    addresses: vec![format!("198.18.0.{number}/32").parse().unwrap()],
                    mtu: 1420,
                    peers: vec![PeerConfig {
                        name: "site/edge".to_owned(),
                        public_key: edge.to_string(),
                        next_public_key: None,
                        endpoint: None,
                        other_endpoint: None,
                        tls_endpoint: None,
                        tenant: String::new(),
                        allowed_ips: vec!["198.18.0.10/32".parse().unwrap()],
                        keepalive_seconds: 0,
                    }],
                }),
                ..GatewayConfig::default()
            });
            gateway.start();
        }
        agent.start();
        both_up(&agent);
        assert_eq!(active(&agent), "a", "it is the preferred one");
        (agent, a, b)
    }
}

fn tunnels(agent: &Agent<'_>) -> Vec<Value> {
    let list = agent.kedge("tunnel list -o json").json();
    list["items"].as_array().unwrap().clone()
}

/// The active gateway.
fn active(agent: &Agent<'_>) -> String {
    let all = tunnels(agent);
    let active = all.iter().find(|it| it["gateway"]["active"] == true);
    active.map_or_else(String::new, |it| it["name"].as_str().unwrap().to_owned())
}

/// Why a gateway is active, or is not.
fn because(agent: &Agent<'_>, name: &str) -> String {
    let all = tunnels(agent);
    let gateway = all.iter().find(|it| it["name"] == name).unwrap();
    gateway["gateway"]["because"].as_str().unwrap().to_owned()
}

fn both_up(agent: &Agent<'_>) {
    eventually("BFD is up with both, quickly", secs(15), || {
        let sessions = agent.kedge("bfd sessions -o json").json();
        let all = sessions["items"].as_array().unwrap();
        let up = |it: &Value| {
            it["state"] == "Up" && it["detectionSeconds"].as_f64().is_some_and(|it| it < 0.35)
        };
        all.len() == 2 && all.iter().all(up)
    });
}

fn until_active(agent: &Agent<'_>, name: &str) {
    eventually(&format!("{name} is active"), secs(10), || {
        active(agent) == name
    });
}

#[test]
fn a_killed_gateway_is_left_within_half_a_second() {
    on_a_steady_machine(|| {
        let hosts = Hosts::new();
        let _echo = Echo::start(&hosts.server);
        let (agent, mut a, mut b) = hosts.start("", "1h");
        let kills = std::env::var("KEDGE_KILLS").map_or(4, |it| it.parse().unwrap());
        let mut outages = Vec::new();
        for kill in 0..kills {
            let (victim, next) = if kill % 2 == 0 {
                (&mut a, "b")
            } else {
                (&mut b, "a")
            };
            let train = Train::start(&hosts.edge, SERVER);
            // Not in step with the packets of BFD.
            std::thread::sleep(millis(300 + 37 * (kill % 10)));
            victim.kill();
            until_active(&agent, next);
            std::thread::sleep(millis(300));
            let (sent, outage) = train.outage();
            println!("kill {kill}: {outage} ms without an answer, of {sent} ms");
            outages.push(outage);
            victim.start();
            both_up(&agent);
            // It is not gone back to because it is there again.
            assert_eq!(active(&agent), next);
            if next == "a" {
                continue;
            }
            assert!(because(&agent, "b").contains("not heard any more"));
        }
        outages.sort_unstable();
        let median = outages[outages.len() / 2];
        println!(
            "{kills} kills: median {median} ms, longest {} ms",
            outages[outages.len() - 1]
        );
        assert!(outages.iter().all(|outage| *outage <= 500), "{outages:?}");
    });
}

#[test]
fn a_gateway_that_answers_and_forwards_nothing_is_left_and_comes_back_after_a_while() {
    on_a_steady_machine(|| {
        let hosts = Hosts::new();
        let _echo = Echo::start(&hosts.server);
        let (agent, _a, _b) = hosts.start("10.9.0.5", "3s");
        let train = Train::start(&hosts.edge, SERVER);
        std::thread::sleep(millis(500));
        let drop = "table ip fault { chain way { type filter hook forward priority 0; drop; }; }";
        hosts.a.nft(drop);
        until_active(&agent, "b");
        std::thread::sleep(millis(300));
        let (sent, outage) = train.outage();
        println!("{outage} ms without an answer, of {sent} ms");
        assert!(outage <= 800, "{outage} ms");
        let why = because(&agent, "b");
        assert!(why.contains("answers and forwards nothing"), "{why}");
        both_up(&agent);
        throughout(
            "it stays away while it forwards nothing",
            RETURN + secs(1),
            || active(&agent) == "b",
        );
        let train = Train::start(&hosts.edge, SERVER);
        // Before the order: it may be in force long before `nft` has ended and was waited for.
        let healed = Instant::now();
        hosts.a.nft("delete table ip fault");
        until_active(&agent, "a");
        let waited = healed.elapsed();
        println!("active again after {:.1} s", waited.as_secs_f64());
        assert!(waited >= RETURN, "{waited:?}");
        std::thread::sleep(millis(300));
        let (sent, lost) = train.finish();
        println!("going back: {lost} of {sent} packets lost");
        assert_eq!(lost, 0);
    });
}

#[test]
fn a_drained_gateway_and_one_that_is_stopped_lose_no_packet() {
    on_a_steady_machine(|| {
        let hosts = Hosts::new();
        let _echo = Echo::start(&hosts.server);
        let (agent, mut a, _b) = hosts.start("10.9.0.5", "3s");
        let train = Train::start(&hosts.edge, SERVER);
        std::thread::sleep(millis(500));
        let ordered = Instant::now();
        let said = a.kedge("gateway drain --wait -o json");
        assert_eq!(said.code, 0, "{said:?}");
        let told = said.json();
        assert_eq!((&told["hosts"], &told["waiting"]), (&1.into(), &0.into()));
        until_active(&agent, "b");
        println!(
            "elsewhere {:.0} ms after the order",
            ordered.elapsed().as_secs_f64() * 1e3
        );
        let why = because(&agent, "b");
        assert!(why.contains("is going to stop"), "{why}");
        throughout("it stays away while it drains", RETURN + secs(2), || {
            active(&agent) == "b"
        });
        let (sent, lost) = train.finish();
        println!("drained: {lost} of {sent} packets lost");
        assert_eq!(lost, 0);

        let train = Train::start(&hosts.edge, SERVER);
        let allowed = Instant::now();
        let said = a.kedge("gateway undrain");
        assert_eq!(said.code, 0, "{said:?}");
        until_active(&agent, "a");
        let waited = allowed.elapsed();
        println!("active again after {:.1} s", waited.as_secs_f64());
        assert!(waited >= RETURN, "{waited:?}");
        std::thread::sleep(millis(500));
        a.stop();
        until_active(&agent, "b");
        std::thread::sleep(millis(500));
        let (sent, lost) = train.finish();
        println!("undrained and stopped: {lost} of {sent} packets lost");
        assert_eq!(lost, 0);
    });
}

#[test]
fn targets_that_die_change_nothing() {
    on_a_steady_machine(|| {
        let hosts = Hosts::new();
        let _echo = Echo::start(&hosts.server);
        let (agent, _a, _b) = hosts.start("10.9.0.5", "3s");
        let train = Train::start(&hosts.edge, SERVER);
        let deaf = "table ip deaf { chain in { type filter hook input priority 0; \
                    ip protocol icmp drop; }; }";
        hosts.server.nft(deaf);
        eventually("the target is unreachable", secs(5), || {
            tunnels(&agent)[0]["gateway"]["targetsUnreachable"] == true
        });
        throughout("the same gateway is active", secs(3), || {
            active(&agent) == "a"
        });
        let (sent, lost) = train.finish();
        println!("{lost} of {sent} packets lost");
        assert_eq!(lost, 0);
    });
}

/// How the gateway sees the host, or another gateway.
fn peer(gateway: &Gateway<'_>, name: &str) -> Value {
    let list = gateway.kedge("tunnel list -o json").json();
    let items = list["items"].as_array().unwrap();
    let found = items.iter().find(|it| it["name"] == name);
    found.cloned().unwrap_or_default()
}

#[test]
fn answers_reach_a_host_that_moved_through_the_gateway_it_left() {
    on_a_machine_without_pauses(|| {
        let hosts = Hosts::with(false);
        let _echo = Echo::start(&hosts.server);
        let (agent, a, b) = hosts.start("", "3s");
        eventually("the gateways know each other", secs(10), || {
            let knows = |gateway, name| peer(gateway, name)["lastHandshake"].is_string();
            knows(&a, "gateway/b") && knows(&b, "gateway/a")
        });
        let train = Train::start(&hosts.edge, SERVER);
        std::thread::sleep(millis(500));
        assert_eq!(peer(&a, "site/edge")["gateway"]["active"], true);
        // The host loses its way to `a`, which all answers come to.
        let cut = "table ip cut { chain in { type filter hook input priority 0; \
                   ip saddr 10.20.14.21 drop; }; chain out { type filter hook output priority 0; \
                   ip daddr 10.20.14.21 drop; }; }";
        hosts.edge.nft(cut);
        until_active(&agent, "b");
        std::thread::sleep(millis(700));
        let (sent, outage) = train.outage();
        println!("{outage} ms without an answer, of {sent} ms");
        assert!(outage <= 500, "{outage} ms");
        let told = &peer(&a, "site/edge")["gateway"];
        assert_eq!(told["active"], false);
        assert_eq!(told["because"], "the host sends through gateway/b");
        let train = Train::start(&hosts.edge, SERVER);
        hosts.edge.nft("delete table ip cut");
        until_active(&agent, "a");
        std::thread::sleep(millis(500));
        let (sent, lost) = train.finish();
        println!("going back: {lost} of {sent} packets lost");
        assert_eq!(lost, 0);
        assert_eq!(peer(&a, "site/edge")["gateway"]["active"], true);
    });
}

#[test]
fn a_gateway_hears_where_a_host_went_although_the_first_word_of_it_is_lost() {
    on_a_steady_machine(|| {
        let hosts = Hosts::with(false);
        let (agent, a, b) = hosts.start("", "3s");
        let at_a = |gateway: &Gateway<'_>| peer(gateway, "site/edge")["gateway"]["active"] == true;
        eventually("the gateways agree where the host is", secs(10), || {
            let word = &peer(&b, "site/edge")["gateway"]["because"];
            at_a(&a) && word == "the host sends through gateway/a"
        });
        let lossy = "table ip lossy { chain in { type filter hook input priority 0; \
                     udp dport 51822 drop; }; }";
        hosts.a.nft(lossy);
        let cut = "table ip cut { chain in { type filter hook input priority 0; \
                   ip saddr 10.20.14.21 drop; }; chain out { type filter hook output priority 0; \
                   ip daddr 10.20.14.21 drop; }; }";
        hosts.edge.nft(cut);
        until_active(&agent, "b");
        eventually("the other gateway knows", secs(1), || at_a(&b));
        hosts.a.nft("delete table ip lossy");
        eventually("the gateway it left knows", millis(500), || !at_a(&a));
    });
}
