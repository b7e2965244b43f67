//! What a gateway offers: frontends, where clients come, and pools, where their connections go.
//!
//! A pool is a tenant's, and so is a frontend; a frontend leads to a pool of its own tenant.

use std::{net::IpAddr, num::NonZeroU16};

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::site::{HttpVersion, Site};

/// Everything one gateway offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    /// Where clients come.
    #[serde(default)]
    pub frontends: Vec<Frontend>,
    /// More frontends: those that let in some clients alone. A gateway that does not know of that must not serve
    /// them at all, and does not know this list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restricted: Vec<Frontend>,
    /// Names whose HTTP is served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<Site>,
    /// Where connections and requests go.
    #[serde(default)]
    pub pools: Vec<Pool>,
    /// Whom clients come through, if they do not come by themselves: this goes for all connections to the
    /// gateway's frontends, those of control planes included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
}

/// Load balancers before the gateway. A connection comes from one of them and begins with a header of the
/// PROXY protocol, version 1 or 2, or it is closed; the header says who the client is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyProtocol {
    /// Their addresses. Without any nobody is served.
    #[schemars(with = "Vec<String>")]
    pub from: Vec<IpNet>,
}

impl Offer {
    /// Whether nothing is offered.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.frontends.is_empty()
            && self.restricted.is_empty()
            && self.sites.is_empty()
            && self.pools.is_empty()
            && self.proxy_protocol.is_none()
    }

    /// What clients come to, by name: frontends, the restricted ones as well, and sites.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let frontends = self.frontends.iter().chain(&self.restricted);
        let sites = self.sites.iter().map(|site| &*site.name);
        frontends.map(|frontend| &*frontend.name).chain(sites)
    }
}

/// One way in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Frontend {
    /// A stable name, such as `TENANT/NAME/PORT`.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// The address clients use; the gateway need not have it yet.
    pub address: IpAddr,
    /// The port clients use.
    pub port: NonZeroU16,
    /// What it carries.
    pub protocol: Protocol,
    /// The pool it leads to.
    pub pool: String,
    /// Whether backends are told who the client is.
    #[serde(default)]
    pub client_ip: ClientIp,
    /// The addresses that clients may have; any without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub source_ranges: Vec<IpNet>,
}

/// What a frontend carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Protocol {
    /// TCP: the address and port are this frontend's alone.
    Tcp,
    /// UDP: the same.
    Udp,
    /// TLS that is passed through as it is, to whom the client names. Frontends of several names and
    /// tenants share an address and port.
    #[serde(rename_all = "camelCase")]
    TlsPassthrough {
        /// The names clients ask for (SNI), in lower case, at most with `*` as their first label: of two that
        /// fit the longer one decides.
        server_names: Vec<String>,
    },
}

/// Whether a client may name it: a DNS name in lower case, without a wildcard (RFC 1123 section 2.1).
#[must_use]
pub fn is_server_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_edge = label.starts_with('-') || label.ends_with('-');
        (1..=63).contains(&label.len()) && !is_edge && label.bytes().all(inner)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Whether backends are told who the client is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum ClientIp {
    /// No: they see the gateway.
    #[default]
    Hidden,
    /// By a line of text before the first byte (PROXY protocol version 1).
    ProxyV1,
    /// By a binary header before the first byte (PROXY protocol version 2).
    ProxyV2,
}

/// Backends that serve alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// A stable name.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// The backends.
    #[serde(default)]
    pub members: Vec<PoolMember>,
    /// How one is chosen.
    #[serde(default)]
    pub policy: Policy,
    /// Whether a client stays with one.
    #[serde(default)]
    pub affinity: Affinity,
    /// How they are checked beside what the tunnel says of their hosts; not at all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// What it takes at most.
    #[serde(default)]
    pub limits: Limits,
    /// What its members speak, where a site's requests are sent to them.
    #[serde(default)]
    pub http: HttpVersion,
}

/// A backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolMember {
    /// The EdgeHost, which is also the name of its tunnel peer.
    pub host: String,
    /// The host's overlay address.
    pub address: IpAddr,
    /// The port on the host.
    pub port: NonZeroU16,
    /// Its share among the members, 1 to 128.
    #[serde(default = "one")]
    pub weight: u8,
    /// Whether it is being left: its connections go on, and no new one comes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
}

const fn one() -> u8 {
    1
}

/// How a backend is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Policy {
    /// In turn.
    #[default]
    RoundRobin,
    /// The one with the fewest connections.
    LeastConnections,
    /// By a hash that moves few clients when backends change.
    Maglev,
}

/// Whether a client stays with a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Affinity {
    /// No.
    #[default]
    None,
    /// By its address.
    ClientIp,
}

/// How backends are checked: by a connection that is opened and closed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Between two checks, seconds.
    pub interval_seconds: f64,
    /// For one check, seconds.
    pub timeout_seconds: f64,
    /// Failures after which a backend is out.
    pub fall: u8,
    /// Successes after which it is back.
    pub rise: u8,
}

impl Eq for Health {}

/// What a pool takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Open connections.
    pub connections: u32,
    /// Seconds after which a connection without a byte is closed; 0 is never.
    pub idle_seconds: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            idle_seconds: 3_600,
        }
    }
}
