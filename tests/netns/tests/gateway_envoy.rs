//! A whole gateway that has Envoy carry its clients' connections to hosts behind tunnels.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    collections::BTreeSet, fs, os::unix::fs::MetadataExt as _, path::Path, process::Command,
};

use kedge_control::{
    agent::{GatewayConfig, PeerConfig, TunnelConfig},
    balance::{Listener, Member},
    frontend::{Offer, Pool, PoolMember},
    site::{Action, Certificate, HeaderChange, Match, Rewrite, Route, RouteBackend, Site},
};
use kedge_host::Role;
use kedge_tests_netns::{
    agent::Agent,
    answers::{Answers, ask},
    asked::Asked as _,
    browser::{Answer, Browser},
    envoy::executable,
    eventually,
    gateway::{Gateway, tunnel_key},
    lan::{Host, Lan},
    ready, secs, web,
};
use rcgen::{CertificateParams, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");

#[test]
fn envoy_carries_clients_to_hosts_behind_tunnels_and_leaves_out_those_that_are_dead() {
    let Some(envoy) = executable().filter(|_| ready()) else {
        return;
    };
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let gateway_host = lan.host("gateway", "10.20.14.21/24");
    let client = lan.host("client", "10.20.14.2/24");
    let yaml = format!("proxy: {{engine: envoy, envoy: '{}'}}\n", envoy.display());
    let mut gateway = Gateway::new(&gateway_host, KEDGE, &yaml);
    let edges = [(&a, "a", 10), (&b, "b", 11)];
    let mut agents = edges.map(|edge| {
        let _ = Answers::start(edge.0, BACKEND, edge.1, 0);
        agent(&edge, &gateway)
    });
    let member = |(_, name, number): &Edge<'_>| Member {
        host: format!("site/{name}"),
        address: format!("198.18.0.{number}").parse().unwrap(),
        port: BACKEND,
    };
    gateway.remember(&GatewayConfig {
        generation: 1,
        tunnel: Some(tunnel(&edges, &agents)),
        listeners: vec![Listener {
            name: "site/api/6443".to_owned(),
            address: gateway_host.address().into(),
            port: PORT,
            members: edges.iter().map(member).collect(),
        }],
        ..GatewayConfig::default()
    });
    gateway.start();
    agents.iter_mut().for_each(Agent::start);
    let name = || ask(&client, gateway_host.address().into(), PORT, b"").map(|asked| asked.name);
    let both = |what: &str| {
        let mut heard = BTreeSet::new();
        eventually(what, secs(15), || {
            heard.extend(name());
            heard.len() == 2
        });
    };
    both("both hosts answer through Envoy");

    let listener = || {
        let status = gateway.kedge("status -o json").json();
        status["listeners"][0].clone()
    };
    eventually("what Envoy counted is shown", secs(15), || {
        listener()["accepted"].as_u64() > Some(0)
    });
    assert_eq!(listener()["bound"], true);
    assert_eq!(problems(&gateway), BTreeSet::new());

    // A host that is gone without a word is left out once the tunnel says so.
    lan.unplug(&b);
    eventually("the member is dead", secs(10), || {
        let listener = listener();
        let members = listener["members"].as_array().unwrap();
        members.iter().any(|member| member["alive"] == false)
    });
    for _ in 0..50 {
        assert_eq!(name().as_deref(), Some("a"));
    }
    lan.plug(&b);
    both("it is back");

    // Envoy crashes, and is there again.
    let envoy = running(gateway.root()).unwrap();
    assert!(
        Command::new("kill")
            .args(["-9", &envoy.to_string()])
            .status()
            .unwrap()
            .success()
    );
    eventually("it is said that Envoy ended", secs(5), || {
        problems(&gateway).contains("KEDGE-GW-0005")
    });
    both("another Envoy serves");
    assert_ne!(running(gateway.root()).unwrap(), envoy);

    // Another configuration: Envoy is started with it, and told the same.
    let envoy = running(gateway.root());
    gateway.configure(&format!(
        "{}, max_connections: 400}}\n",
        yaml.trim_end().trim_end_matches('}')
    ));
    gateway.reload();
    eventually("Envoy is started anew", secs(5), || {
        running(gateway.root()).is_some_and(|id| Some(id) != envoy)
    });
    both("it serves the same");
    gateway.stop();
    eventually("Envoy ends with the gateway", secs(5), || {
        running(gateway.root()).is_none()
    });
}

#[test]
fn a_site_is_served_by_the_hosts_that_are_alive_and_one_that_cannot_be_is_told() {
    let Some(envoy) = executable().filter(|_| ready()) else {
        return;
    };
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let gateway_host = lan.host("gateway", "10.20.14.21/24");
    let client = lan.host("client", "10.20.14.2/24");
    let yaml = format!("proxy: {{engine: envoy, envoy: '{}'}}\n", envoy.display());
    let mut gateway = Gateway::new(&gateway_host, KEDGE, &yaml);
    let edges = [(&a, "a", 10), (&b, "b", 11)];
    let mut agents = edges.map(|edge| {
        web::serve(edge.0, BACKEND, edge.1, false);
        agent(&edge, &gateway)
    });
    let key = KeyPair::generate().unwrap();
    let certified = CertificateParams::new(vec!["web.example".to_owned()]);
    let certified = certified.unwrap().self_signed(&key).unwrap();
    let site = Site {
        name: "shop/web".to_owned(),
        tenant: "shop".to_owned(),
        address: gateway_host.address().into(),
        http: Some(8080.try_into().unwrap()),
        https: Some(8443.try_into().unwrap()),
        hosts: vec!["web.example".to_owned()],
        certificates: vec![Certificate {
            hosts: vec!["web.example".to_owned()],
            chain: certified.pem(),
            key: key.serialize_pem(),
        }],
        redirect: false,
        routes: vec![Route {
            hosts: Vec::new(),
            matches: Match::default(),
            action: Action::Forward {
                backends: vec![RouteBackend {
                    pool: "web".to_owned(),
                    weight: 1,
                }],
                rewrite: Rewrite::default(),
                timeout_milliseconds: 0,
                backend_timeout_milliseconds: 0,
                retries: 1,
            },
            request_headers: HeaderChange::default(),
            response_headers: HeaderChange::default(),
        }],
    };
    let mut broken = Site {
        name: "shop/broken".to_owned(),
        hosts: vec!["broken.example".to_owned()],
        ..site.clone()
    };
    broken.certificates[0].key = KeyPair::generate().unwrap().serialize_pem();
    let member = |(_, name, number): &Edge<'_>| PoolMember {
        host: format!("site/{name}"),
        address: format!("198.18.0.{number}").parse().unwrap(),
        port: BACKEND.try_into().unwrap(),
        weight: 1,
    };
    gateway.remember(&GatewayConfig {
        generation: 1,
        tunnel: Some(tunnel(&edges, &agents)),
        offer: Offer {
            sites: vec![broken, site],
            pools: vec![Pool {
                name: "web".to_owned(),
                tenant: "shop".to_owned(),
                members: edges.iter().map(member).collect(),
                ..Pool::default()
            }],
            ..Offer::default()
        },
        ..GatewayConfig::default()
    });
    gateway.start();
    agents.iter_mut().for_each(Agent::start);
    let mut browser = Browser::new(&client, gateway_host.address().into());
    browser.trust(certified.der().clone());
    let plain = || browser.plain(8080, "web.example", "GET /", "");
    let tls = || browser.tls(8443, "web.example", "web.example", "GET /");
    let both = |what: &str, ask: &dyn Fn() -> Option<Answer>| {
        let mut heard = BTreeSet::new();
        eventually(what, secs(15), || {
            let answer = ask().filter(|answer| answer.status == 200);
            heard.extend(answer.map(|answer| answer.name().to_owned()));
            heard.len() == 2
        });
    };
    both("both hosts answer through Envoy", &plain);
    both("both hosts answer over TLS", &tls);
    let heard = tls().unwrap().said;
    let from = client.address().to_string();
    assert_eq!(heard["headers"]["x-forwarded-for"], *from);

    let status = gateway.kedge("status -o json").json();
    let problems = status["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0]["code"], "KEDGE-GW-0004");
    let problem = problems[0].to_string();
    assert!(problem.contains("shop/broken") && problem.contains("not that of its certificate"));

    // A host that is gone without a word is left out once the tunnel says so. Until then requests that
    // cannot reach it are asked of the other one.
    lan.unplug(&b);
    let mut answers = 0;
    eventually("a hundred answers of the other one", secs(20), || {
        answers = match plain() {
            Some(answer) if answer.name() == "a" => answers + 1,
            _ => 0,
        };
        answers == 100
    });
    lan.plug(&b);
    both("it is back", &plain);
    let envoy = running(gateway.root()).unwrap();
    kill_process(Pid::from_raw(envoy.cast_signed()).unwrap(), Signal::KILL).unwrap();
    both("another Envoy serves", &tls);

    // Nobody else reads the keys.
    let mut folders = vec![gateway.root().to_owned()];
    let mut with_key = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file()
                && fs::read_to_string(entry.path()).is_ok_and(|text| text.contains("PRIVATE KEY"))
            {
                with_key += 1;
                assert_eq!(
                    entry.metadata().unwrap().mode() & 0o777,
                    0o600,
                    "{:?}",
                    entry.path()
                );
            }
        }
    }
    assert!(with_key > 0, "the desired state is kept");
    assert!(!gateway.log().contains("PRIVATE KEY"));
    gateway.stop();
}

/// A host, its name, and the last part of its overlay address.
type Edge<'a> = (&'a Host, &'a str, i32);

/// An agent whose tunnel ends at the gateway.
fn agent<'a>((host, _, number): &Edge<'a>, gateway: &Gateway<'_>) -> Agent<'a> {
    let yaml = format!(
        "tunnel: {{addresses: [198.18.0.{number}/32], peers: {{gw: {{public_key: '{}', \
         endpoint: '10.20.14.21:51820', keepalive: 1s, allowed_ips: [198.18.0.1/32]}}}}}}\n",
        gateway.key()
    );
    Agent::new(host, KEDGE, &yaml)
}

/// The gateway's end of it.
fn tunnel(edges: &[Edge<'_>], agents: &[Agent<'_>]) -> TunnelConfig {
    let peers = edges
        .iter()
        .zip(agents)
        .map(|((_, name, number), agent)| PeerConfig {
            name: format!("site/{name}"),
            public_key: tunnel_key(agent.root(), Role::Agent).to_string(),
            next_public_key: None,
            endpoint: None,
            other_endpoint: None,
            tls_endpoint: None,
            allowed_ips: vec![format!("198.18.0.{number}/32").parse().unwrap()],
            keepalive_seconds: 0,
        });
    TunnelConfig {
        addresses: vec!["198.18.0.1/32".parse().unwrap()],
        mtu: 1420,
        peers: peers.collect(),
    }
}

/// The codes of what is wrong with the gateway.
fn problems(gateway: &Gateway<'_>) -> BTreeSet<String> {
    let status = gateway.kedge("status -o json").json();
    let problems = status["problems"].as_array().cloned().unwrap_or_default();
    let code = |problem: &Value| problem["code"].as_str().unwrap().to_owned();
    problems.iter().map(code).collect()
}

/// The process that runs with the gateway's configuration of Envoy.
fn running(root: &Path) -> Option<u32> {
    let config = root.join("run/kedge/envoy/envoy.json");
    let config = config.to_str().unwrap();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.find(|id| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|word| word == config.as_bytes())
    })
}

const PORT: u16 = 30000;
const BACKEND: u16 = 6443;
