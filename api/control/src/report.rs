//! What hosts and gateways tell the manager: `PATCH <own path>`.

use std::net::IpAddr;

use kedge_core::{Problem, vip::RouterState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most addresses, VIPs or problems of one report: a manager refuses a report with more.
pub const MAX_ITEMS: usize = 64;

/// A host's report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostReport {
    /// The kernel's boot id.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    /// `/etc/machine-id`.
    #[serde(rename = "machineID")]
    pub machine_id: String,
    /// Kedge's version.
    pub version: String,
    /// The generation of the desired state in force.
    pub applied_generation: u64,
    /// The host's addresses, best first.
    #[serde(default)]
    pub addresses: Vec<ReportedAddress>,
    /// The host's VIPs.
    #[serde(default)]
    pub vips: Vec<ReportedVip>,
    /// The host's tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<ReportedTunnel>,
    /// Units of Kubernetes that systemd has on the host; none where it cannot be asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<ReportedUnit>,
    /// What the host could not do with the desired state.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

/// Cluster API's address types.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum AddressType {
    /// A host name.
    Hostname,
    /// An address reachable from elsewhere.
    ExternalIP,
    /// An address of the site's network.
    InternalIP,
    /// A name reachable from elsewhere.
    ExternalDNS,
    /// A name of the site's network.
    InternalDNS,
}

/// One address, and why it is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportedAddress {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: AddressType,
    /// The address or name.
    pub address: String,
    /// The interface that carries it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Whether it is the one to use.
    #[serde(default)]
    pub primary: bool,
    /// Why it was chosen.
    #[serde(default)]
    pub because: String,
}

/// One VIP as the host sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportedVip {
    /// The VIP's name.
    pub name: String,
    /// Its first address.
    pub address: IpAddr,
    /// What the host's router is doing.
    pub state: RouterState,
    /// Since when, RFC 3339.
    pub since: String,
    /// Why.
    pub because: String,
    /// Whether the host's own server behind the VIP answers its health probe; absent without a
    /// probe, and until one has answered since the host booted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<bool>,
}

/// The tunnel as the host sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportedTunnel {
    /// The WireGuard public key in use, base64.
    pub public_key: String,
    /// The key it goes over to, base64, which it accepts already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_public_key: Option<String>,
    /// The gateway instance that answers, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Since when the above holds, RFC 3339.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_transition: String,
}

/// A unit of the host, in systemd's own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportedUnit {
    /// Its name, such as `kubelet.service`.
    pub name: String,
    /// `active`, `activating`, `failed`.
    pub active: String,
    /// More of it, such as `running` or `auto-restart`.
    pub sub: String,
}

/// A gateway instance's report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayReport {
    /// The kernel's boot id.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    /// Kedge's version.
    pub version: String,
    /// The generation of the desired state in force.
    pub applied_generation: u64,
    /// The WireGuard public key, base64.
    pub public_key: String,
    /// The key it goes over to, which it accepts already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_key: Option<NextKey>,
    /// The WireGuard port.
    pub listen_port: u16,
    /// The hosts that are alive in the tunnel, and those that are not.
    #[serde(default)]
    pub peers: Vec<ReportedPeer>,
    /// The frontends and sites of the desired state in force that are not served; whichever is not named is. Absent
    /// where a gateway does not know frontends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unserved: Option<Vec<Unserved>>,
    /// The backends of the desired state in force that are being left, and what is still open to each. Absent
    /// where a gateway cannot leave backends: it goes on sending clients there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining: Option<Vec<Draining>>,
    /// Whether it knows frontends that let in some clients alone. One that does not never hears of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tells_clients_apart: bool,
    /// What the gateway could not do.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

/// A backend that is being left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Draining {
    /// The EdgeHost.
    pub host: String,
    /// The host's overlay address.
    pub address: IpAddr,
    /// The port on the host.
    pub port: u16,
    /// The gateway's open connections there, and sessions of datagrams; absent where it cannot count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<u32>,
}

/// A frontend or a site that a gateway does not serve.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unserved {
    /// Its name.
    pub frontend: String,
    /// Why, as a word.
    pub reason: UnservedReason,
    /// Why, as a sentence.
    #[serde(default)]
    pub message: String,
}

/// Why a frontend or a site is not served.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum UnservedReason {
    /// It is not served yet.
    Pending,
    /// Somebody else has its address and port.
    PortInUse,
    /// The gateway's data plane does not do that.
    Unsupported,
    /// A value in it, or in its pool, is none that can be served.
    Invalid,
    /// Envoy refuses it.
    EnvoyRefused,
}

impl UnservedReason {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::PortInUse => "PortInUse",
            Self::Unsupported => "Unsupported",
            Self::Invalid => "Invalid",
            Self::EnvoyRefused => "EnvoyRefused",
        }
    }
}

/// A WireGuard key that follows another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextKey {
    /// The public key, base64.
    pub public_key: String,
    /// From when on it is accepted, RFC 3339.
    pub since: String,
    /// Until when the one before it is accepted at most, RFC 3339.
    pub until: String,
}

/// A host as a gateway sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportedPeer {
    /// The EdgeHost.
    pub name: String,
    /// Whether authenticated data arrived within the liveness bound.
    pub alive: bool,
    /// Since when, RFC 3339.
    pub since: String,
}

/// The answer to a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportAnswer {
    /// The generation the manager wants in force.
    pub generation: u64,
}
