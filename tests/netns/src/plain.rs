//! Hosts and gateways that a test configures itself: no manager, no names, one tunnel each.

use kedge_control::agent::{PeerConfig, TunnelConfig};
use kedge_host::Role;

use crate::{
    agent::Agent,
    gateway::{Gateway, tunnel_key},
};

/// The configuration of a host with that number in the tunnel, whose gateway is `10.20.14.21`. It asks the gateway
/// nothing through the tunnel.
#[must_use]
pub fn host(number: u8, gateway: &Gateway<'_>) -> String {
    format!(
        "tunnel: {{addresses: [198.18.0.{number}/32], peers: {{gw: {{public_key: '{}', \
         endpoint: '10.20.14.21:51820', keepalive: 1s, allowed_ips: [198.18.0.1/32]}}}}}}\n",
        gateway.key()
    )
}

/// A peer with that number in the tunnel, whose agent it is, as its gateway is told of it.
#[must_use]
pub fn peer(name: &str, agent: &Agent<'_>, number: u8) -> PeerConfig {
    let key = tunnel_key(agent.root(), Role::Agent).to_string();
    keyed(name, key, number)
}

/// The same by its key.
///
/// # Panics
///
/// Never.
#[must_use]
pub fn keyed(name: &str, public_key: String, number: u8) -> PeerConfig {
    PeerConfig {
        name: name.to_owned(),
        public_key,
        next_public_key: None,
        endpoint: None,
        other_endpoint: None,
        tls_endpoint: None,
        tenant: String::new(),
        allowed_ips: vec![format!("198.18.0.{number}/32").parse().unwrap()],
        keepalive_seconds: 0,
    }
}

/// The end of a gateway, or of a host, with that number in the tunnel.
///
/// # Panics
///
/// Never.
#[must_use]
pub fn tunnel(number: u8, peers: Vec<PeerConfig>) -> TunnelConfig {
    TunnelConfig {
        addresses: vec![format!("198.18.0.{number}/32").parse().unwrap()],
        mtu: 1420,
        peers,
    }
}
