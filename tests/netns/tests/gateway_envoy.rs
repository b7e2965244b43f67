//! A whole gateway that has Envoy carry its clients' connections to hosts behind tunnels.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use kedge_control::{
    agent::{GatewayConfig, PeerConfig, TunnelConfig},
    balance::{Listener, Member},
};
use kedge_host::Role;
use kedge_tests_netns::{
    agent::Agent,
    answers::{Answers, ask},
    asked::Asked as _,
    envoy::executable,
    eventually,
    gateway::{Gateway, tunnel_key},
    lan::{Host, Lan},
    ready, secs,
};
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
    let mut agents = edges.map(|(host, name, number)| {
        let _ = Answers::start(host, BACKEND, name, 0);
        let yaml = format!(
            "tunnel: {{addresses: [198.18.0.{number}/32], peers: {{gw: {{public_key: '{}', \
             endpoint: '10.20.14.21:51820', keepalive: 1s, allowed_ips: [198.18.0.1/32]}}}}}}\n",
            gateway.key()
        );
        Agent::new(host, KEDGE, &yaml)
    });
    let peers = edges
        .iter()
        .zip(&agents)
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
    let member = |(_, name, number): &(&Host, &str, i32)| Member {
        host: format!("site/{name}"),
        address: format!("198.18.0.{number}").parse().unwrap(),
        port: BACKEND,
    };
    gateway.remember(&GatewayConfig {
        generation: 1,
        tunnel: Some(TunnelConfig {
            addresses: vec!["198.18.0.1/32".parse().unwrap()],
            mtu: 1420,
            peers: peers.collect(),
        }),
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
