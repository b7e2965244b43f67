//! The desired state the manager hands to hosts and gateways.
//!
//! `GET <own path>/config?wait=30` with `If-None-Match: "<generation>"`: 200 with a
//! [`HostConfig`] or [`GatewayConfig`] as soon as its generation differs, 304 after the wait.
//! The `ETag` is the generation.

use std::{net::IpAddr, num::NonZeroU16};

use ipnet::IpNet;
use kedge_core::vip::{Priority, Vrid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{balance::Listener, frontend::Offer};

/// What one host must do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostConfig {
    /// Grows with every change.
    pub generation: u64,
    /// The VIPs this host takes part in.
    #[serde(default)]
    pub vips: Vec<VipConfig>,
    /// The host's tunnel, absent while there is no gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<TunnelConfig>,
    /// The other hosts it exchanges packets with, absent where there are none to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh: Option<MeshConfig>,
    /// Endpoints at a gateway that it answers for itself while no gateway is reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortcuts: Vec<ShortcutConfig>,
    /// The CA certificates to trust, PEM.
    #[serde(default)]
    pub ca_bundle: String,
}

/// What one gateway instance must do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayConfig {
    /// Grows with every change.
    pub generation: u64,
    /// The hub's tunnel: its addresses and its peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<TunnelConfig>,
    /// Hosts that are told of each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meshes: Vec<Mesh>,
    /// What the data plane serves.
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// What it serves of tenants' TCPLoadBalancers. A frontend's address is one that this instance
    /// binds.
    #[serde(default, skip_serializing_if = "Offer::is_empty")]
    pub offer: Offer,
    /// The CA certificates to trust, PEM.
    #[serde(default)]
    pub ca_bundle: String,
}

/// Hosts that may know where each other are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mesh {
    /// Their names as peers.
    pub hosts: Vec<String>,
}

/// The other hosts of a host's mesh.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MeshConfig {
    /// Whether packets may go to them without a gateway between.
    #[serde(default)]
    pub direct_path: DirectPath,
    /// The other hosts.
    #[serde(default)]
    pub peers: Vec<MeshPeer>,
}

/// Whether packets may go to another host without a gateway between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DirectPath {
    /// Where such a path is proven and no slower.
    #[default]
    Auto,
    /// They never do.
    Never,
}

/// Another host of the mesh.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MeshPeer {
    /// Its name as a peer.
    pub name: String,
    /// Its public key, base64.
    pub public_key: String,
    /// The key it goes over to, base64: accepted beside the other one, and tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_public_key: Option<String>,
    /// Its overlay addresses.
    #[schemars(with = "Vec<String>")]
    pub addresses: Vec<IpNet>,
}

/// An endpoint at a gateway, and the hosts of this one's site that serve what is behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShortcutConfig {
    /// The LoadBalancer, as `NAMESPACE/NAME`.
    pub name: String,
    /// The endpoint's addresses.
    pub addresses: Vec<IpAddr>,
    /// Its ports.
    pub ports: Vec<ShortcutPort>,
    /// The hosts of the site that serve it.
    #[serde(default)]
    pub targets: Vec<ShortcutTarget>,
}

/// A port of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShortcutPort {
    /// The port at the endpoint.
    pub port: NonZeroU16,
    /// The port on the hosts.
    pub target_port: NonZeroU16,
}

/// A host that serves what is behind an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShortcutTarget {
    /// The EdgeHost.
    pub host: String,
    /// Its address on the site's network.
    pub address: IpAddr,
}

/// One VIP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipConfig {
    /// The VIP's name on the host.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its virtual router id.
    pub vrid: Vrid,
    /// This host's priority.
    pub priority: Priority,
    /// The advertisement interval.
    pub advert_interval_seconds: f64,
    /// The interface, or `None` to choose it by on-link prefix.
    #[serde(default)]
    pub interface: Option<String>,
    /// What decides whether this host is fit to hold it.
    #[serde(default)]
    pub health: HealthMode,
}

/// Where health comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthMode {
    /// The API server on this host: `https://127.0.0.1:6443/readyz`.
    #[default]
    Auto,
    /// Nothing: every host is fit.
    None,
}

/// A WireGuard device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TunnelConfig {
    /// The overlay addresses of this end.
    #[schemars(with = "Vec<String>")]
    pub addresses: Vec<IpNet>,
    /// The device's MTU in bytes.
    pub mtu: u16,
    /// The peers.
    #[serde(default)]
    pub peers: Vec<PeerConfig>,
}

/// A WireGuard peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerConfig {
    /// The peer's name: a gateway instance, or an EdgeHost.
    pub name: String,
    /// The peer's public key, base64.
    pub public_key: String,
    /// The key it goes over to, base64: accepted beside the other one, and tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_public_key: Option<String>,
    /// `host:port`; absent where the peer calls us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Where the peer is by another UDP port, `host:port`, for hosts whose UDP passes to that one alone; absent
    /// where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_endpoint: Option<String>,
    /// Where the peer is over TLS, `host:port`, for hosts whose UDP does not reach it; absent where it is
    /// not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_endpoint: Option<String>,
    /// The prefixes that belong to the peer.
    #[serde(rename = "allowedIPs")]
    #[schemars(with = "Vec<String>")]
    pub allowed_ips: Vec<IpNet>,
    /// Seconds between keepalives; 0 is off.
    #[serde(default)]
    pub keepalive_seconds: u16,
    /// The tenant whose host it is, for gateways: where tenants are kept apart, the prefixes are the peer's
    /// among those of its tenant. Empty for gateways, and for hosts of nobody.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
}
