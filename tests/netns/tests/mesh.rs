//! Two hosts behind NATs, two gateways: real agents, and what a packet each millisecond sees of the
//! changes of their path.
//!
//! ```text
//!   edge-a 10.1.0.2 ── 10.1.0.1 NAT 203.0.113.1 ──┬── 203.0.113.7 gw-a
//!   edge-b 10.2.0.2 ── 10.2.0.1 NAT 203.0.113.2 ──┴── 203.0.113.8 gw-b
//! ```
//! All of it is one segment with three subnets, which only the routers connect. In the tunnel the hosts
//! are 198.18.0.10 and .11.
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

use kedge_control::agent::{
    DirectPath, GatewayConfig, HostConfig, Mesh, MeshConfig, MeshPeer, PeerConfig, TunnelConfig,
};
use kedge_host::{Role, Root, state::Store};
use kedge_net::link::{Links, sysctl};
use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    eventually,
    gateway::{Gateway, tunnel_key},
    lan::{Host, Lan},
    millis, on_a_steady_machine, secs, throughout,
    train::{Echo, Train},
};
use serde_json::Value;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const EDGE_B: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 11);
const MANAGER: &str =
    "manager: {url: 'https://203.0.113.250:9443', token_file: /etc/kedge/token}\n";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nat {
    /// A port stays the same for everybody, as long as it is free.
    Cone,
    /// Another port for each destination.
    Symmetric,
}

struct Site {
    _lan: Lan,
    edges: [Host; 2],
    gateways: [Host; 2],
    routers: [Host; 2],
}

impl Site {
    /// Both hosts behind routers of their own, or behind the first one.
    fn new(nat: Nat, together: bool) -> Self {
        Self::with(nat, together, "drop")
    }

    /// What nobody asked for is met with `stranger` by the routers.
    fn with(nat: Nat, together: bool, stranger: &str) -> Self {
        let lan = Lan::new();
        let routers = [1, 2].map(|number| {
            let router = lan.host(&format!("r{number}"), &format!("203.0.113.{number}/24"));
            router.add_address(&format!("10.{number}.0.1/24"));
            router.forwards();
            let random = match nat {
                Nat::Cone => "",
                Nat::Symmetric => "fully-random",
            };
            // Routers of homes and shops drop what nobody asked for.
            router.nft(format!(
                "table ip way {{ chain out {{ type nat hook postrouting priority 100; \
                     ip saddr 10.{number}.0.0/24 ip daddr 203.0.113.0/24 masquerade {random}; }}; \
                     chain in {{ type filter hook input priority 0; ip daddr 203.0.113.{number} \
                     meta l4proto udp {stranger}; }}; }}"
            ));
            router
        });
        let second = if together {
            "10.1.0.3/24"
        } else {
            "10.2.0.2/24"
        };
        let edges = [
            lan.host("edge-a", "10.1.0.2/24"),
            lan.host("edge-b", second),
        ];
        for edge in &edges {
            let [ten, site, zero, _] = edge.address().octets();
            let via = Ipv4Addr::new(ten, site, zero, 1);
            edge.run(move || {
                let to = "203.0.113.0/24".parse().unwrap();
                Links::open().unwrap().add_route(to, via.into()).unwrap();
            });
        }
        let gateways = [
            lan.host("gw-a", "203.0.113.7/24"),
            lan.host("gw-b", "203.0.113.8/24"),
        ];
        for gateway in &gateways {
            gateway.run(|| sysctl("ipv4/ip_forward", "1").unwrap());
        }
        Self {
            _lan: lan,
            edges,
            gateways,
            routers,
        }
    }

    /// Both gateways and both agents, their packets going through a gateway. The first host may have no
    /// direct paths yet.
    fn start(&self) -> ([Agent<'_>; 2], [Gateway<'_>; 2]) {
        let agents = [0, 1].map(|index| {
            let yaml = if index == 0 { never() } else { auto() };
            Agent::new(&self.edges[index], KEDGE, &yaml)
        });
        let keys = [0, 1].map(|index| tunnel_key(agents[index].root(), Role::Agent).to_string());
        let mut gateways = [0, 1].map(|index| {
            Gateway::new(
                &self.gateways[index],
                KEDGE,
                "tunnel: {listen_port: 51820}\n",
            )
        });
        // Before anybody else makes them.
        let of_gateways = [0, 1].map(|index| gateways[index].key().to_string());
        let address = |number: usize| vec![format!("198.18.0.{number}/32").parse().unwrap()];
        for (index, gateway) in gateways.iter_mut().enumerate() {
            let peers = [0, 1].map(|host| PeerConfig {
                name: NAMES[host].to_owned(),
                public_key: keys[host].clone(),
                next_public_key: None,
                endpoint: None,
                other_endpoint: None,
                tls_endpoint: None,
                tenant: String::new(),
                allowed_ips: address(10 + host),
                keepalive_seconds: 0,
            });
            gateway.remember(&GatewayConfig {
                generation: 1,
                tunnel: Some(TunnelConfig {
                    addresses: address(1 + index),
                    mtu: 1420,
                    peers: peers.to_vec(),
                }),
                meshes: vec![Mesh {
                    hosts: NAMES.map(str::to_owned).to_vec(),
                }],
                ..GatewayConfig::default()
            });
            gateway.start();
        }
        let mut agents = agents;
        for (index, agent) in agents.iter_mut().enumerate() {
            let peers = [0, 1].map(|gateway| PeerConfig {
                name: ["gw-a", "gw-b"][gateway].to_owned(),
                public_key: of_gateways[gateway].clone(),
                next_public_key: None,
                endpoint: Some(format!("203.0.113.{}:51820", 7 + gateway)),
                other_endpoint: None,
                tls_endpoint: None,
                tenant: String::new(),
                allowed_ips: address(1 + gateway),
                keepalive_seconds: 25,
            });
            let other = 1 - index;
            let wished = HostConfig {
                generation: 1,
                tunnel: Some(TunnelConfig {
                    addresses: address(10 + index),
                    mtu: 1420,
                    peers: peers.to_vec(),
                }),
                mesh: Some(MeshConfig {
                    direct_path: DirectPath::Auto,
                    peers: vec![MeshPeer {
                        name: NAMES[other].to_owned(),
                        public_key: keys[other].clone(),
                        next_public_key: None,
                        addresses: address(10 + other),
                    }],
                }),
                ..HostConfig::default()
            };
            let store = Store::new(Root::new(agent.root()).state_dir(Role::Agent));
            store.save("desired", &wished).unwrap();
            agent.start();
        }
        eventually("both gateways see both hosts", secs(15), || {
            agents.iter().all(|agent| {
                let paths = paths(agent);
                let seen = paths.iter().filter(|it| it["seenAt"].is_string());
                seen.count() == 2
            })
        });
        eventually("each was told of the other", secs(10), || {
            reason(&agents[0]) == "ordered" && reason(&agents[1]) == "peer_ordered"
        });
        (agents, gateways)
    }
}

const NAMES: [&str; 2] = ["site/edge-a", "site/edge-b"];

fn auto() -> String {
    format!("{MANAGER}tunnel: {{direct_path: auto}}\n")
}

fn never() -> String {
    format!("{MANAGER}tunnel: {{direct_path: never}}\n")
}

fn paths(agent: &Agent<'_>) -> Vec<Value> {
    let list = agent.kedge("tunnel path -o json").json();
    list["items"].as_array().unwrap().clone()
}

/// The path to the other host.
fn path(agent: &Agent<'_>) -> Value {
    let all = paths(agent);
    let host = all.iter().find(|it| it["path"] != "udp");
    host.cloned().unwrap_or_default()
}

fn reason(agent: &Agent<'_>) -> String {
    path(agent)["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn both_are(agents: &[Agent<'_>; 2], way: &str) -> bool {
    agents.iter().all(|agent| path(agent)["path"] == way)
}

/// Lets the first host have direct paths, and says how long it took until both use one.
fn promote(agents: &[Agent<'_>; 2]) -> Duration {
    agents[0].configure(&auto());
    let begun = Instant::now();
    agents[0].reload();
    eventually("both take the direct path", secs(10), || {
        both_are(agents, "direct")
    });
    begun.elapsed()
}

#[test]
fn behind_cones_packets_go_through_the_gateway_at_once_and_straight_soon_and_none_is_lost() {
    on_a_steady_machine(|| {
        let site = Site::new(Nat::Cone, false);
        let (agents, _gateways) = site.start();
        let _echo = Echo::start(&site.edges[1]);
        let train = Train::start(&site.edges[0], EDGE_B);
        std::thread::sleep(millis(500));
        let took = promote(&agents);
        std::thread::sleep(millis(1_500));
        let (sent, lost) = train.finish();
        println!(
            "direct after {:.0} ms; promoted: {lost} of {sent} lost",
            took.as_secs_f64() * 1e3
        );
        assert!(took <= secs(3), "{took:?}");
        assert_eq!(lost, 0);
        let told = path(&agents[0]);
        println!("{told}");
        assert_eq!(
            told["endpoint"].as_str().unwrap().split(':').next(),
            Some("203.0.113.2")
        );
        assert_eq!(told["nat"], "cone");
        assert_eq!(told["reason"], "proven");
        println!("{}", agents[0].kedge("tunnel path").out);

        // The order: this host has no direct paths any more.
        let train = Train::start(&site.edges[0], EDGE_B);
        std::thread::sleep(millis(300));
        agents[0].configure(&never());
        let begun = Instant::now();
        agents[0].reload();
        eventually("both go through a gateway", secs(5), || {
            both_are(&agents, "gateway")
        });
        let took = begun.elapsed();
        std::thread::sleep(millis(500));
        let (sent, lost) = train.finish();
        println!(
            "demoted within {:.0} ms: {lost} of {sent} lost",
            took.as_secs_f64() * 1e3
        );
        assert_eq!(lost, 0);
        assert_eq!(reason(&agents[0]), "ordered");
        assert_eq!(reason(&agents[1]), "peer_ordered");
        // For ten seconds what the other end sends straight is taken still; then the peer goes.
        let train = Train::start(&site.edges[0], EDGE_B);
        std::thread::sleep(secs(11));
        let (sent, lost) = train.finish();
        println!("afterwards: {lost} of {sent} lost");
        assert_eq!(lost, 0);
    });
}

#[test]
fn a_direct_path_that_is_cut_is_left_within_three_and_a_half_seconds_and_taken_again() {
    on_a_steady_machine(|| {
        let site = Site::new(Nat::Cone, false);
        let (agents, _gateways) = site.start();
        let _echo = Echo::start(&site.edges[1]);
        promote(&agents);
        let cuts = std::env::var("KEDGE_CUTS").map_or(3, |it| it.parse().unwrap());
        for cut in 0..cuts {
            let train = Train::start(&site.edges[0], EDGE_B);
            std::thread::sleep(millis(400 + 310 * cut));
            let rules = "table ip cut { chain way { type filter hook forward priority 0; \
                         ip daddr 203.0.113.2 drop; ip saddr 203.0.113.2 drop; }; }";
            site.routers[0].nft(rules);
            eventually("both go through a gateway", secs(6), || {
                both_are(&agents, "gateway")
            });
            std::thread::sleep(millis(300));
            let (sent, outage) = train.outage();
            println!("cut {cut}: {outage} ms without an answer, of {sent} ms");
            assert!(outage <= 3_500, "{outage} ms");
            assert_eq!(reason(&agents[0]), "lost");
            let train = Train::start(&site.edges[0], EDGE_B);
            let begun = Instant::now();
            site.routers[0].nft("delete table ip cut");
            eventually("both take the direct path again", secs(8), || {
                both_are(&agents, "direct")
            });
            let took = begun.elapsed();
            std::thread::sleep(millis(300));
            let (sent, lost) = train.finish();
            let took = took.as_secs_f64() * 1e3;
            println!("healed: direct after {took:.0} ms, {lost} of {sent} lost");
            assert_eq!(lost, 0);
        }
    });
}

#[test]
fn behind_symmetric_nats_packets_stay_on_the_gateway_and_people_are_told_why() {
    on_a_steady_machine(|| {
        let site = Site::new(Nat::Symmetric, false);
        let (agents, _gateways) = site.start();
        let _echo = Echo::start(&site.edges[1]);
        let train = Train::start(&site.edges[0], EDGE_B);
        agents[0].configure(&auto());
        agents[0].reload();
        eventually("both know why", secs(5), || {
            agents.iter().all(|it| reason(it) == "symmetric_here")
        });
        throughout("they stay on the gateway", secs(4), || {
            both_are(&agents, "gateway")
        });
        let (sent, lost) = train.finish();
        let told = path(&agents[0]);
        println!("{lost} of {sent} lost; {told}");
        assert_eq!(lost, 0);
        assert!(told["because"].as_str().unwrap().contains("symmetric"));
        assert_eq!(
            agents[0].kedge("tunnel path -o json").json()["nat"],
            "symmetric"
        );
    });
}

#[test]
fn two_hosts_of_one_lan_meet_there_whatever_their_nat_does() {
    on_a_steady_machine(|| {
        for nat in [Nat::Cone, Nat::Symmetric] {
            let site = Site::new(nat, true);
            let (agents, _gateways) = site.start();
            let _echo = Echo::start(&site.edges[1]);
            let train = Train::start(&site.edges[0], EDGE_B);
            let took = promote(&agents);
            std::thread::sleep(millis(500));
            let (sent, lost) = train.finish();
            let told = path(&agents[0]);
            println!(
                "direct after {:.0} ms, {lost} of {sent} lost; {told}",
                took.as_secs_f64() * 1e3
            );
            assert_eq!(lost, 0);
            assert!(took <= secs(3), "{took:?}");
            let at = told["endpoint"].as_str().unwrap();
            assert!(at.starts_with("10.1.0.3:"), "{at}");
        }
    });
}

#[test]
fn gateways_that_die_take_no_packet_of_a_direct_path() {
    on_a_steady_machine(|| {
        let site = Site::new(Nat::Cone, false);
        let (agents, mut gateways) = site.start();
        let _echo = Echo::start(&site.edges[1]);
        promote(&agents);
        let train = Train::start(&site.edges[0], EDGE_B);
        for gateway in &mut gateways {
            std::thread::sleep(millis(700));
            gateway.kill();
        }
        throughout("the direct path stays", secs(4), || {
            both_are(&agents, "direct")
        });
        for gateway in &mut gateways {
            gateway.start();
        }
        eventually("a gateway answers again", secs(15), || {
            let list = agents[0].kedge("tunnel list -o json").json();
            let items = list["items"].as_array().unwrap();
            items.iter().any(|it| it["state"] == "Up")
        });
        let (sent, lost) = train.finish();
        println!("{lost} of {sent} lost");
        assert_eq!(lost, 0);
        assert!(both_are(&agents, "direct"));
    });
}

#[test]
fn a_host_whose_agent_starts_anew_is_reached_through_the_gateway_and_straight_again() {
    on_a_steady_machine(|| {
        let site = Site::new(Nat::Cone, false);
        let (mut agents, _gateways) = site.start();
        let _echo = Echo::start(&site.edges[1]);
        promote(&agents);
        let train = Train::start(&site.edges[0], EDGE_B);
        std::thread::sleep(millis(500));
        agents[1].kill();
        agents[1].start();
        let begun = Instant::now();
        eventually("both take the direct path again", secs(15), || {
            both_are(&agents, "direct")
        });
        let took = begun.elapsed().as_secs_f64() * 1e3;
        std::thread::sleep(millis(500));
        let (sent, outage) = train.outage();
        println!("direct after {took:.0} ms; {outage} ms without an answer, of {sent} ms");
        assert!(outage <= 3_500, "{outage} ms");
    });
}

/// Without delay between the routers the call of one host is always there before the other host's own,
/// and a Linux router that takes it in for itself has no room for the right mapping any more.
#[test]
fn routers_that_take_in_strangers_cost_no_packet_whatever_becomes_of_the_direct_path() {
    on_a_steady_machine(|| {
        let site = Site::with(Nat::Cone, false, "accept");
        let (agents, _gateways) = site.start();
        let _echo = Echo::start(&site.edges[1]);
        let train = Train::start(&site.edges[0], EDGE_B);
        agents[0].configure(&auto());
        agents[0].reload();
        eventually("all of it was tried", secs(20), || {
            agents
                .iter()
                .all(|it| ["proven", "unanswered"].contains(&reason(it).as_str()))
        });
        let (sent, lost) = train.finish();
        println!("{}: {lost} of {sent} lost", reason(&agents[0]));
        assert_eq!(lost, 0);
    });
}
