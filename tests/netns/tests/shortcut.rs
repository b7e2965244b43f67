//! A site that loses its gateway, and a worker that reaches a control plane by the endpoint all the same.
//!
//! ```text
//!   worker 10.20.14.21 ─┐
//!   a      10.20.14.11 ─┼─ 10.20.14.1 router 203.0.113.1 ── 203.0.113.7 gateway, endpoint :30001 ─► a
//!   b      10.20.14.12 ─┘
//! ```
//! The gateway leads to `a` alone and the shortcut to `b` alone, so that who answers says which way was taken. The
//! manager is never there: what it said stands on the disks.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{net::IpAddr, process::Command};

use kedge_control::{
    agent::{GatewayConfig, HostConfig, PeerConfig, ShortcutConfig, ShortcutPort, ShortcutTarget},
    balance::{Listener, Member},
};
use kedge_host::{Role, Root, state::Store};
use kedge_net::{detour, link::Links};
use kedge_tests_netns::{
    agent::Agent,
    answers::{Answers, Asked as Client, ask},
    asked::Asked,
    enrolled::Authority,
    eventually,
    gateway::Gateway,
    lan::{Host, Lan},
    plain, ready, secs, throughout,
};
use serde_json::Value;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");
const MANAGER: &str =
    "manager: {url: 'https://203.0.113.250:9443', token_file: /etc/kedge/token}\n";
const ENDPOINT: &str = "203.0.113.7";
const PORT: u16 = 30_001;
const API: u16 = 6_443;

struct Site {
    _lan: Lan,
    router: Host,
    gateway: Host,
    a: Host,
    b: Host,
    worker: Host,
    authority: Authority,
}

impl Site {
    fn new() -> Self {
        let lan = Lan::new();
        let router = lan.host("router", "203.0.113.1/24");
        router.add_address("10.20.14.1/24");
        router.forwards();
        router.nft(
            "table ip way { chain out { type nat hook postrouting priority 100; \
             ip saddr 10.20.14.0/24 ip daddr 203.0.113.0/24 masquerade; }; }",
        );
        let host = |name: &str, net: &str| {
            let host = lan.host(name, net);
            host.run(|| {
                let (to, via) = ("0.0.0.0/0", "10.20.14.1");
                let (to, via) = (to.parse().unwrap(), via.parse().unwrap());
                Links::open().unwrap().add_route(to, via).unwrap();
            });
            host
        };
        Self {
            router,
            gateway: lan.host("gateway", "203.0.113.7/24"),
            a: host("a", "10.20.14.11/24"),
            b: host("b", "10.20.14.12/24"),
            worker: host("worker", "10.20.14.21/24"),
            authority: Authority::new(),
            _lan: lan,
        }
    }

    /// An agent that is a member, with what the manager said last of its tunnel and its endpoint.
    fn agent<'a>(&'a self, host: &'a Host, own: u8, gateway: &Gateway<'_>) -> Agent<'a> {
        let agent = Agent::new(host, KEDGE, MANAGER);
        self.authority
            .enrol(agent.root(), Role::Agent, &own.to_string());
        let number = |port: u16| port.try_into().unwrap();
        let gateway = PeerConfig {
            endpoint: Some(format!("{ENDPOINT}:51820")),
            keepalive_seconds: 25,
            ..plain::keyed("gw-0", gateway.key().to_string(), 1)
        };
        let wished = HostConfig {
            generation: 1,
            tunnel: Some(plain::tunnel(own, vec![gateway])),
            shortcuts: vec![ShortcutConfig {
                name: "site/edge".to_owned(),
                addresses: vec![address()],
                ports: vec![ShortcutPort {
                    port: number(PORT),
                    target_port: number(API),
                }],
                targets: vec![ShortcutTarget {
                    host: "site/b".to_owned(),
                    address: self.b.address().into(),
                }],
            }],
            ..HostConfig::default()
        };
        let store = Store::new(Root::new(agent.root()).state_dir(Role::Agent));
        store.save("desired", &wished).unwrap();
        agent
    }

    fn cut(&self) {
        self.router.nft(
            "table ip cut { chain way { type filter hook forward priority 0; \
             ip daddr 203.0.113.0/24 drop; }; }",
        );
    }

    fn mend(&self) {
        self.router.nft("delete table ip cut");
    }

    /// A client on the worker.
    fn ask(&self) -> Option<Client> {
        ask(&self.worker, address(), PORT, b"ping")
    }

    fn answers(&self, name: &str) -> bool {
        self.ask().is_some_and(|it| it.name == name)
    }

    /// What `ip` says on the worker.
    fn ip(&self, line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        self.worker.run(move || {
            let output = Command::new("ip").args(words).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        })
    }

    /// Whether the kernel of the worker has anything of a shortcut.
    fn has_detour(&self) -> bool {
        self.ip("rule").contains(&PORT.to_string()) || self.ip("link").contains(detour::LINK)
    }
}

fn address() -> IpAddr {
    ENDPOINT.parse().unwrap()
}

fn shortcut(agent: &Agent<'_>) -> Value {
    agent.kedge("status -o json").json()["shortcuts"][0].clone()
}

fn until(agent: &Agent<'_>, state: &str) {
    eventually(&format!("the endpoint is {state}"), secs(40), || {
        shortcut(agent)["state"] == state
    });
}

#[test]
fn a_site_without_its_gateway_answers_for_its_endpoint_and_leaves_it_to_the_gateway_again() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let _a = Answers::start(&site.a, API, "a", 4);
    let _b = Answers::start(&site.b, API, "b", 4);
    let mut gateway = Gateway::new(&site.gateway, KEDGE, "tunnel: {listen_port: 51820}\n");
    let mut a = site.agent(&site.a, 11, &gateway);
    let mut worker = site.agent(&site.worker, 21, &gateway);
    gateway.remember(&GatewayConfig {
        generation: 1,
        tunnel: Some(plain::tunnel(
            1,
            vec![
                plain::peer("site/a", &a, 11),
                plain::peer("site/worker", &worker, 21),
            ],
        )),
        listeners: vec![Listener {
            name: "site/edge/api".to_owned(),
            address: address(),
            port: PORT,
            members: vec![Member {
                host: "site/a".to_owned(),
                address: "198.18.0.11".parse().unwrap(),
                port: API,
                draining: false,
            }],
        }],
        ..GatewayConfig::default()
    });
    gateway.start();
    a.start();
    worker.start();
    eventually("the endpoint leads to a by the gateway", secs(20), || {
        site.answers("a")
    });
    until(&worker, "gateway");
    assert!(!site.has_detour());

    site.cut();
    eventually("the endpoint leads to b over the LAN", secs(30), || {
        site.answers("b")
    });
    let told = shortcut(&worker);
    assert_eq!(told["state"], "standing", "{told}");
    let text = worker.kedge("status").out;
    assert!(text.contains("THIS HOST ANSWERS"), "{text}");
    println!("{text}");
    // The address is nobody's here: the tunnel's packets go where they went, and no neighbour is answered.
    assert!(!site.ip("address").contains(ENDPOINT));
    let tunnel = site.ip(&format!("route get {ENDPOINT} ipproto udp dport 51820"));
    assert!(tunnel.contains("via 10.20.14.1 dev eth0"), "{tunnel}");
    let neighbour = site.b.run(|| {
        let line = ["-w", "1", "-c", "1", "-I", "eth0", ENDPOINT];
        Command::new("arping").args(line).output()
    });
    if let Ok(output) = neighbour {
        assert!(!output.status.success(), "nobody answers ARP for it");
    }

    // What runs over the shortcut goes on when new connections go by the gateway again.
    let mut running = site.ask().unwrap();
    assert_eq!(running.name, "b");
    site.mend();
    until(&worker, "gateway");
    assert!(site.answers("a"), "at once, by the gateway");
    assert!(running.lives(), "what ran goes on");
    drop(running);
    eventually("nothing of it is left", secs(5), || !site.has_detour());
    assert!(site.answers("a"));

    // An agent that is killed leaves no detour, and the next one takes it without a manager.
    site.cut();
    until(&worker, "standing");
    worker.kill();
    assert!(!site.ip("link").contains(detour::LINK));
    let way = site.ip(&format!("route get {ENDPOINT} ipproto tcp dport {PORT}"));
    assert!(way.contains("via 10.20.14.1 dev eth0"), "{way}");
    worker.start();
    eventually("the endpoint leads to b again", secs(30), || {
        site.answers("b")
    });
    worker.stop();
    assert!(!site.has_detour(), "it goes with the agent");
}

#[test]
fn an_endpoint_on_the_lan_is_left_to_who_has_it_there() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let gateway = Gateway::new(&site.gateway, KEDGE, "tunnel: {listen_port: 51820}\n");
    site.worker.add_address("203.0.113.77/24");
    let mut worker = site.agent(&site.worker, 21, &gateway);
    worker.start();
    until(&worker, "refused");
    let status = worker.kedge("status -o json").json();
    let problems = status["problems"].as_array().unwrap();
    let told = problems.iter().find(|it| it["code"] == "KEDGE-TUN-0050");
    let told = told.unwrap().to_string();
    assert!(told.contains("203.0.113.0/24"), "{told}");
    throughout("it is not taken either", secs(9), || !site.has_detour());
}
