//! Hosts of a tenant behind a router that translates addresses, and what they enrol with: a manager at
//! 203.0.113.9, and gateways on its side of the router.

use std::net::Ipv4Addr;

use kedge_net::link::Links;

use crate::{
    agent::Agent,
    gateway::Gateway,
    lan::{Host, Lan},
    manager::Manager,
};

/// The manager's address and length.
pub const MANAGER: &str = "203.0.113.9/24";
/// What hosts and gateways are told of the manager.
const TOLD: &str = "manager: {url: 'https://203.0.113.9:9443', token_file: /etc/kedge/token}\n";

/// The router between 10.1.0.0/24 and 203.0.113.0/24.
#[must_use]
pub fn router(lan: &Lan) -> Host {
    let router = lan.host("router", "203.0.113.1/24");
    router.add_address("10.1.0.1/24");
    router.forwards();
    router.nft(
        "table ip way { chain out { type nat hook postrouting priority 100; \
         ip saddr 10.1.0.0/24 ip daddr 203.0.113.0/24 masquerade; }; }",
    );
    router
}

/// A host behind it, 10.1.0.`number`.
#[must_use]
pub fn edge(lan: &Lan, name: &str, number: u8) -> Host {
    let edge = lan.host(name, &format!("10.1.0.{number}/24"));
    edge.run(|| {
        let to = "203.0.113.0/24".parse().unwrap();
        let via = Ipv4Addr::new(10, 1, 0, 1);
        Links::open().unwrap().add_route(to, via.into()).unwrap();
    });
    edge
}

/// A gateway that begins to enrol with the EdgeGateway `gw`.
#[must_use]
pub fn gateway<'a>(
    manager: &Manager<'_>,
    host: &'a Host,
    executable: &str,
    yaml: &str,
) -> Gateway<'a> {
    let mut gateway = Gateway::new(host, executable, &format!("{yaml}{TOLD}"));
    manager.token(gateway.root(), "--gateway gw");
    gateway.start();
    gateway
}

/// An agent that begins to enrol with the tenant `shop`.
#[must_use]
pub fn agent<'a>(manager: &Manager<'_>, host: &'a Host, executable: &str, yaml: &str) -> Agent<'a> {
    agent_of("shop", manager, host, executable, yaml)
}

/// An agent that begins to enrol with a tenant.
#[must_use]
pub fn agent_of<'a>(
    tenant: &str,
    manager: &Manager<'_>,
    host: &'a Host,
    executable: &str,
    yaml: &str,
) -> Agent<'a> {
    let yaml = format!("node: {{name: {}}}\n{TOLD}{yaml}", host.name);
    let mut agent = Agent::new(host, executable, &yaml);
    manager.token(agent.root(), &format!("--tenant {tenant}"));
    agent.start();
    agent
}
