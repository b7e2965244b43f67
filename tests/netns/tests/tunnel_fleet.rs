//! A fleet with two gateways to one network: a manager over a directory, real gateways and agents that have
//! enrolled. Keys of hosts and of gateways change under a packet each millisecond, and a host that is banned
//! is heard by nobody behind the gateways, whichever of them restarts.
//!
//! ```text
//!   edge-a 10.1.0.2 ─┐                     ┌─ 203.0.113.7  gw-0  10.9.0.1 ─┐
//!   edge-b 10.1.0.3 ─┼─ 10.1.0.1  router ──┼─ 203.0.113.8  gw-1  10.9.0.2 ─┴─ 10.9.0.5 server
//!   edge-c 10.1.0.4 ─┘      203.0.113.1    └─ 203.0.113.9  manager
//! ```
//! The gateways masquerade towards the server, so that its answers come back the way they went.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use kedge_tests_netns::{
    agent::Agent,
    asked::Asked,
    eventually,
    gateway::Gateway,
    lan::{Host, Lan},
    manager::Manager,
    millis, on_a_steady_machine, secs, tenant,
    train::{Echo, Train},
};
use serde_json::Value;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 5);
const FAILOVER: &str = "tunnel: {failover: {prefixes: [10.9.0.0/24], gateways: [gw-0, gw-1], \
                        profile: fast, return_after: 1h}}\n";
const FLEET: &str = "\
apiVersion: kedge.dev/v1alpha1
kind: Tenant
metadata: {name: shop}
spec:
  namespace: shop
  enrollment: {}
  gatewayRef: {name: gw}
---
apiVersion: kedge.dev/v1alpha1
kind: EdgeGateway
metadata: {name: gw, namespace: kedge-system}
spec:
  tunnel:
    cidrs: [198.18.0.0/16]
    publicEndpoints:
    - {instance: gw-0, host: 203.0.113.7, port: 51820}
    - {instance: gw-1, host: 203.0.113.8, port: 51820}
";
/// A banned host's packets pass no longer than this.
const REVOKED: Duration = secs(5);

struct Site {
    _lan: Lan,
    edges: Vec<Host>,
    gateways: [Host; 2],
    manager: Host,
    server: Host,
    _router: Host,
}

/// All that runs.
struct Fleet<'a> {
    manager: Option<Manager<'a>>,
    gateways: [Gateway<'a>; 2],
    agents: Vec<Agent<'a>>,
}

impl Site {
    fn new(hosts: usize) -> Self {
        let lan = Lan::new();
        let router = tenant::router(&lan);
        let edges = ["edge-a", "edge-b", "edge-c"].into_iter().zip(2..);
        let edges = edges.take(hosts);
        let edges = edges.map(|(name, number)| tenant::edge(&lan, name, number));
        let edges = edges.collect();
        let gateways = [0, 1].map(|number| {
            let address = format!("203.0.113.{}/24", 7 + number);
            let gateway = lan.host(&format!("gw-{number}"), &address);
            gateway.add_address(&format!("10.9.0.{}/24", 1 + number));
            gateway.forwards();
            gateway.nft(
                "table ip way { chain out { type nat hook postrouting priority 100; \
                 ip saddr 198.18.0.0/16 oifname eth0 masquerade; }; }",
            );
            gateway
        });
        Self {
            manager: lan.host("manager", tenant::MANAGER),
            server: lan.host("server", "10.9.0.5/24"),
            _router: router,
            edges,
            gateways,
            _lan: lan,
        }
    }

    /// A manager, both gateways and the hosts, all enrolled, and every tunnel up.
    fn start(&self) -> Fleet<'_> {
        let manager = Manager::start(&self.manager, KEDGE, &[("fleet.yaml", FLEET)]);
        let gateways = [0, 1].map(|number| {
            let host = &self.gateways[number];
            let yaml = format!("name: gw-{number}\ntunnel: {{listen_port: 51820}}\n");
            tenant::gateway(&manager, host, KEDGE, &yaml)
        });
        eventually("both gateways are members", secs(20), || {
            gateways.iter().all(|gateway| {
                let status = gateway.kedge("status -o json").json();
                status["manager"]["connected"] == true
            })
        });
        let edges = self.edges.iter();
        let agents = edges.map(|edge| tenant::agent(&manager, edge, KEDGE, FAILOVER));
        let fleet = Fleet {
            agents: agents.collect(),
            manager: Some(manager),
            gateways,
        };
        for agent in &fleet.agents {
            both_up(agent);
        }
        fleet
    }

    fn edge(&self, name: &str) -> &Host {
        self.edges.iter().find(|edge| edge.name == name).unwrap()
    }
}

fn tunnels(asked: &impl Asked) -> Vec<Value> {
    let list = asked.kedge("tunnel list -o json").json();
    list["items"].as_array().cloned().unwrap_or_default()
}

fn both_up(agent: &Agent<'_>) {
    eventually("a host has both gateways, and BFD", secs(30), || {
        let all = tunnels(agent);
        let sessions = agent.kedge("bfd sessions -o json").json();
        let sessions = sessions["items"].as_array().cloned().unwrap_or_default();
        all.len() == 2
            && all.iter().all(|it| it["state"] == "Up")
            && sessions.len() == 2
            && sessions.iter().all(|it| it["state"] == "Up")
    });
}

fn active(agent: &Agent<'_>) -> String {
    let all = tunnels(agent);
    let active = all.iter().find(|it| it["gateway"]["active"] == true);
    active.map_or_else(String::new, |it| it["name"].as_str().unwrap().to_owned())
}

fn names(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    let mut names: Vec<_> = items.map(|it| it.as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    names
}

/// Who has gone over to the next key, and who has not.
fn standing(asked: &impl Asked, order: &str) -> (Vec<String>, Vec<String>) {
    let said = asked.kedge(&format!("{order} -o json"));
    assert_eq!(said.code, 0, "{said:?}");
    let key = said.json();
    (names(&key["moved"]), names(&key["waiting"]))
}

/// Changes a key while packets flow, waits until all of `peers` go by it, and says that nothing was lost.
fn rotate(site: &Site, asked: &impl Asked, order: &str, peers: &[&str]) {
    let train = Train::start(site.edge("edge-a"), SERVER);
    let begun = Instant::now();
    let (moved, waiting) = standing(asked, &format!("{order} --wait --timeout 60s"));
    let took = begun.elapsed();
    let (sent, lost) = train.finish();
    println!("{order}: {lost} of {sent} packets lost, gone over after {took:?}");
    assert_eq!((moved.as_slice(), waiting.len()), (&own(peers)[..], 0));
    assert_eq!(lost, 0);
}

fn own(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn keys_of_a_host_and_of_both_its_gateways_change_without_a_lost_packet() {
    on_a_steady_machine(|| {
        let site = Site::new(1);
        let _echo = Echo::start(&site.server);
        let fleet = site.start();
        let agent = &fleet.agents[0];
        assert_ne!(active(agent), "", "one of them leads");
        rotate(&site, agent, "tunnel rotate-key", &["gw-0", "gw-1"]);
        // Of a host that is in the middle of its own change the gateways change theirs, the standby too.
        for gateway in &fleet.gateways {
            rotate(&site, gateway, "gateway rotate-key", &["shop/edge-a"]);
        }
        let (moved, _) = standing(agent, "tunnel rotate-key --dry-run");
        assert_eq!(moved, ["gw-0", "gw-1"], "it is still in force");
    });
}

#[test]
fn a_gateway_that_was_away_goes_over_to_a_key_later_and_is_a_way_again() {
    on_a_steady_machine(|| {
        let site = Site::new(1);
        let _echo = Echo::start(&site.server);
        let mut fleet = site.start();
        let Fleet {
            gateways: [first, second],
            agents,
            ..
        } = &mut fleet;
        let agent = &agents[0];
        second.kill();
        let train = Train::start(site.edge("edge-a"), SERVER);
        let _ = standing(agent, "tunnel rotate-key");
        let at = "tunnel rotate-key --dry-run";
        eventually("the gateway that is there goes over", secs(30), || {
            standing(agent, at) == (own(&["gw-0"]), own(&["gw-1"]))
        });
        second.start();
        eventually("so does the other", secs(30), || {
            standing(agent, at) == (own(&["gw-0", "gw-1"]), Vec::new())
        });
        both_up(agent);
        let (sent, lost) = train.finish();
        println!("one gateway away meanwhile: {lost} of {sent} packets lost");
        assert_eq!(lost, 0);
        assert_eq!(active(agent), "gw-0");
        let train = Train::start(site.edge("edge-a"), SERVER);
        first.kill();
        eventually("the other is the way", secs(10), || active(agent) == "gw-1");
        thread::sleep(millis(300));
        let (sent, outage) = train.outage();
        println!("the active one killed: {outage} ms without an answer, of {sent} ms");
        assert!(outage <= 500, "{outage} ms");
    });
}

/// What the server hears of each host: how much, and when last.
#[derive(Clone, Copy, Debug)]
struct Heard {
    count: u64,
    last: Instant,
}

/// Hosts that send a packet each millisecond, whatever becomes of it.
struct Talk {
    over: Arc<AtomicBool>,
    heard: Arc<Mutex<Vec<Heard>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Talk {
    fn start(site: &Site) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let none = Heard {
            count: 0,
            last: Instant::now(),
        };
        let heard = Arc::new(Mutex::new(vec![none; site.edges.len()]));
        let to = SocketAddr::from((SERVER, PORT));
        let server = site.server.run(move || UdpSocket::bind(to).unwrap());
        server.set_read_timeout(Some(millis(20))).unwrap();
        let (all, end) = (Arc::clone(&heard), Arc::clone(&over));
        let listener = thread::spawn(move || {
            let mut number = [0; 1];
            while !end.load(Ordering::Relaxed) {
                if server.recv(&mut number).is_ok() {
                    let at = &mut all.lock().unwrap()[usize::from(number[0])];
                    *at = Heard {
                        count: at.count + 1,
                        last: Instant::now(),
                    };
                }
            }
        });
        let senders = site.edges.iter().zip(0_u8..).map(|(edge, number)| {
            let socket = edge.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap());
            let end = Arc::clone(&over);
            thread::spawn(move || {
                let begun = Instant::now();
                let mut due = Duration::ZERO;
                while !end.load(Ordering::Relaxed) {
                    // Without a way there it is refused, which is as good as lost.
                    let _ = socket.send_to(&[number], to);
                    due += millis(1);
                    thread::sleep(due.saturating_sub(begun.elapsed()));
                }
            })
        });
        let mut threads: Vec<_> = senders.collect();
        threads.push(listener);
        Self {
            over,
            heard,
            threads,
        }
    }

    fn of(&self, host: usize) -> Heard {
        self.heard.lock().unwrap()[host]
    }

    fn hears(&self, host: usize) {
        let before = self.of(host).count;
        eventually("the host is heard", secs(15), || {
            self.of(host).count > before + 20
        });
    }

    /// That nothing of it is heard for so long, although the last host is.
    fn silent(&self, host: usize, time: Duration) {
        let (before, other) = (self.of(host).count, self.heard.lock().unwrap().len() - 1);
        let others = self.of(other).count;
        thread::sleep(time);
        assert_eq!(self.of(host).count, before, "host {host} is heard");
        assert!(self.of(other).count > others, "host {other} is not");
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn ban(manager: &Manager<'_>, host: &str) {
    let text = format!(
        "apiVersion: kedge.dev/v1alpha1\nkind: EdgeHost\n\
         metadata: {{name: {host}, namespace: shop}}\nspec: {{access: Banned}}\n"
    );
    manager.write(&format!("{host}.yaml"), &text);
}

#[test]
fn a_banned_host_is_heard_by_nobody_whichever_gateway_restarts() {
    let site = Site::new(3);
    let mut fleet = site.start();
    let talk = Talk::start(&site);
    for host in 0..3 {
        talk.hears(host);
    }
    // While everything runs.
    let ordered = Instant::now();
    ban(fleet.manager.as_ref().unwrap(), "edge-a");
    thread::sleep(REVOKED);
    let passed = talk.of(0).last.saturating_duration_since(ordered);
    println!("banned: its packets passed for {} ms", passed.as_millis());
    talk.silent(0, secs(2));

    // While both gateways are down: they come back with what they knew before.
    for gateway in &mut fleet.gateways {
        gateway.kill();
    }
    ban(fleet.manager.as_ref().unwrap(), "edge-b");
    thread::sleep(millis(500));
    let begun = Instant::now();
    for gateway in &mut fleet.gateways {
        gateway.start();
    }
    talk.hears(2);
    thread::sleep(REVOKED.saturating_sub(begun.elapsed()));
    let passed = talk.of(1).last.saturating_duration_since(begun);
    println!(
        "banned while the gateways were down: its packets passed for {} ms after their start",
        passed.as_millis()
    );
    for host in [0, 1] {
        talk.silent(host, secs(2));
    }

    // Neither comes back with a gateway that finds no manager.
    fleet.manager = None;
    for number in [0, 1] {
        fleet.gateways[number].kill();
        fleet.gateways[number].start();
        talk.hears(2);
        for host in [0, 1] {
            talk.silent(host, secs(3));
        }
    }
    for gateway in &fleet.gateways {
        let peers = tunnels(gateway);
        let peers: Vec<_> = peers.iter().map(|it| it["name"].clone()).collect();
        assert_eq!(peers, ["shop/edge-c"]);
    }
}

const PORT: u16 = 7_008;
