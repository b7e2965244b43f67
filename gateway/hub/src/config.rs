//! The gateway's configuration.

mod proxy;
mod tenants;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use ipnet::IpNet;
use kedge_core::{Code, Fix, Name, Problem};
use kedge_host::{
    Role,
    enrol::ManagerUrl,
    layers::{Auto, Origins, RoleFile},
    local::MetricsFile,
    section,
    tunnel_keys::KeyRotation,
};
use kedge_tunnel_device::offload::{Allowed, Switch};
use kedge_tunnel_proto::keys::PublicKey;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub use proxy::{Engine, ProxyConfig, ProxyFile};
pub use tenants::{Isolation, TenantsConfig, TenantsFile};

section! {
    /// The configuration file of `kedge gateway`.
    GatewayFile {
        /// The version of the format: 1.
        version: Number<1, 1>,
        /// The name of this instance; left out it is the host's name.
        name: Name,
        /// The manager this instance enrols at.
        manager: ManagerFile,
        /// The WireGuard hub.
        tunnel: TunnelFile,
        /// What carries the connections of clients to hosts.
        proxy: ProxyFile,
        /// How far tenants are kept apart.
        tenants: TenantsFile,
        /// Metrics, for scrapers.
        metrics: MetricsFile,
    }
}

section! {
    /// The way to the manager.
    ManagerFile {
        /// Its URL, such as `https://203.0.113.9:9443`.
        url: ManagerUrl,
        /// The file with the enrolment token, needed once.
        token_file: PathBuf,
    }
}

section! {
    /// The WireGuard hub.
    TunnelFile {
        /// The UDP port hosts call.
        listen_port: Number<1, 65535>,
        /// Another UDP port beside it, for hosts whose UDP passes to that one alone: 443, which most firewalls
        /// let pass. Left out there is none.
        other_port: Number<1, 65535>,
        /// The TCP port at which hosts call over TLS whose UDP does not reach this gateway; left out, nobody
        /// can. It needs the certificate of a manager.
        tls_port: Number<1, 65535>,
        /// Up to which rate benches of hosts (`kedge tunnel bench`) are answered, in Mbit/s; 0, as when left
        /// out, answers none.
        bench_mbps: u16,
        /// The device's name.
        interface: InterfaceName,
        /// The largest packet in the tunnel: `auto` finds out what the way to each host carries, unless the
        /// manager gives another number than 1420; or a fixed number, 1280 to 9000.
        mtu: Auto<Number<1280, 9000>>,
        /// Whether the kernel is given and gives many packets in one piece: `auto`, as far as it goes
        /// along, or `off`.
        offload: Switch,
        /// The same for what this gateway sends.
        offload_send: Switch,
        /// The same for what this gateway receives.
        offload_receive: Switch,
        /// How old the key of this gateway becomes before another one follows it, without a packet lost:
        /// 1h to 365d, or `off`.
        key_rotation: KeyRotation,
        /// How many threads move packets, 1 to 4: `auto` is one for each processor. Each has some of the hosts.
        workers: Auto<Number<1, 4>>,
        /// The other gateways that hosts may be at, by name: packets for a host that is at one of them go
        /// there.
        gateways: BTreeMap<Name, NeighborFile>,
        /// The prefixes that lie behind the gateways: from there may come what another gateway passes on.
        #[schemars(with = "Option<Vec<String>>")]
        behind: Vec<IpNet>,
    }
}

section! {
    /// Another gateway.
    NeighborFile {
        /// Its public key, base64.
        public_key: PublicKey,
        /// The key it goes over to, base64: accepted beside the other one, and tried.
        next_public_key: PublicKey,
        /// Where it is, `address:port`; left out where it calls this one.
        #[schemars(with = "Option<String>")]
        endpoint: SocketAddr,
        /// Its addresses in the tunnel.
        addresses: Vec<IpAddr>,
    }
}

/// The gateway's configuration, checked, defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayConfig {
    /// The name of this instance, where it is not the host's.
    pub name: Option<Name>,
    /// The manager. Without it the last desired state is served.
    pub manager: Option<ManagerConfig>,
    /// The WireGuard hub.
    pub tunnel: TunnelConfig,
    /// What carries the connections of clients.
    pub proxy: ProxyConfig,
    /// How far tenants are kept apart.
    pub tenants: TenantsConfig,
    /// Where metrics are told beside the control socket.
    pub metrics: Option<SocketAddr>,
}

/// The way to the manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerConfig {
    /// Its URL.
    pub url: ManagerUrl,
    /// The file with the enrolment token.
    pub token_file: Option<PathBuf>,
}

/// The WireGuard hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelConfig {
    /// The UDP port.
    pub listen_port: u16,
    /// Another one beside it; `None` is none.
    pub other_port: Option<u16>,
    /// The TCP port of the fallback over TLS; `None` is none.
    pub tls_port: Option<u16>,
    /// Up to which rate benches of hosts are answered, in Mbit/s; 0 answers none.
    pub bench_mbps: u32,
    /// The device's name.
    pub interface: String,
    /// The device's MTU; `None` finds out what each way carries, unless the manager gives a number.
    pub mtu: Option<u16>,
    /// What may be left to the kernel.
    pub offload: Allowed,
    /// How old this end's key becomes before another one follows; `None` keeps it.
    pub key_rotation: Option<Duration>,
    /// How many threads move packets; `None` is one for each processor, up to 4.
    pub workers: Option<u8>,
    /// The other gateways that hosts may be at.
    pub gateways: BTreeMap<Name, NeighborConfig>,
    /// What lies behind the gateways.
    pub behind: Vec<IpNet>,
}

/// Another gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighborConfig {
    /// Its public key.
    pub public_key: PublicKey,
    /// The key it goes over to.
    pub next_public_key: Option<PublicKey>,
    /// Where it is; absent where it calls this one.
    pub endpoint: Option<SocketAddr>,
    /// Its addresses in the tunnel.
    pub addresses: Vec<IpAddr>,
}

impl RoleFile for GatewayFile {
    const ROLE: Role = Role::Gateway;
    type Config = GatewayConfig;

    fn filled(mut self) -> Self {
        self.version.get_or_insert(Number(1));
        let tunnel = self.tunnel.get_or_insert_default();
        tunnel.listen_port.get_or_insert(Number(LISTEN_PORT));
        tunnel
            .interface
            .get_or_insert_with(|| InterfaceName(INTERFACE.to_owned()));
        tunnel.mtu.get_or_insert_default();
        tunnel.key_rotation.get_or_insert_default();
        tunnel.offload.get_or_insert_default();
        tunnel.offload_send.get_or_insert_default();
        tunnel.offload_receive.get_or_insert_default();
        tunnel.workers.get_or_insert_default();
        tunnel.gateways.get_or_insert_default();
        tunnel.behind.get_or_insert_default();
        self.proxy.get_or_insert_default().fill();
        self.tenants.get_or_insert_default().fill();
        self
    }

    fn check(self, origins: &Origins) -> Result<GatewayConfig, Vec<Problem>> {
        let manager = match self.manager {
            None => None,
            Some(ManagerFile {
                url: Some(url),
                token_file,
            }) => Some(ManagerConfig { url, token_file }),
            Some(ManagerFile { url: None, .. }) => {
                let mut problem = Problem::new(Code::ConfigRule, "the manager needs a url")
                    .object("manager.url")
                    .fix(Fix::text("say where it is").command("url: https://203.0.113.9:9443"));
                if let Some(origin) = origins.get("manager") {
                    problem = problem.evidence(origin);
                }
                return Err(vec![problem]);
            }
        };
        let proxy = self.proxy.unwrap_or_default().check(origins)?;
        let tunnel = self.tunnel.unwrap_or_default();
        let gateways = neighbors(tunnel.gateways.unwrap_or_default())?;
        let tenants = self.tenants.unwrap_or_default();
        let tenants = tenants.check(!gateways.is_empty(), origins)?;
        Ok(GatewayConfig {
            name: self.name,
            manager,
            metrics: self.metrics.and_then(|metrics| metrics.listen),
            proxy,
            tenants,
            tunnel: TunnelConfig {
                listen_port: tunnel.listen_port.map_or(LISTEN_PORT, |port| port.0),
                other_port: tunnel.other_port.map(|port| port.0),
                tls_port: tunnel.tls_port.map(|port| port.0),
                bench_mbps: tunnel.bench_mbps.unwrap_or_default().into(),
                interface: tunnel
                    .interface
                    .map_or_else(|| INTERFACE.to_owned(), |name| name.0),
                mtu: tunnel.mtu.and_then(Auto::value).map(|mtu| mtu.0),
                offload: Allowed::switched(
                    tunnel.offload.unwrap_or_default(),
                    tunnel.offload_send.unwrap_or_default(),
                    tunnel.offload_receive.unwrap_or_default(),
                ),
                key_rotation: tunnel.key_rotation.and_then(KeyRotation::every),
                workers: tunnel
                    .workers
                    .and_then(Auto::value)
                    .and_then(|workers| u8::try_from(workers.0).ok()),
                gateways,
                behind: tunnel.behind.unwrap_or_default(),
            },
        })
    }
}

/// The other gateways, each with a key and an address.
fn neighbors(
    files: BTreeMap<Name, NeighborFile>,
) -> Result<BTreeMap<Name, NeighborConfig>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut neighbors = BTreeMap::new();
    for (name, file) in files {
        let object = format!("tunnel.gateways.{name}");
        let addresses = file.addresses.unwrap_or_default();
        match file.public_key {
            Some(public_key) if !addresses.is_empty() => {
                let neighbor = NeighborConfig {
                    public_key,
                    next_public_key: file.next_public_key,
                    endpoint: file.endpoint,
                    addresses,
                };
                neighbors.insert(name, neighbor);
            }
            _ => problems.push(
                Problem::new(
                    Code::ConfigRule,
                    "another gateway needs its public_key and its addresses in the tunnel",
                )
                .object(object)
                .fix(Fix::text("see what it says of itself").command("kedge tunnel list")),
            ),
        }
    }
    if problems.is_empty() {
        Ok(neighbors)
    } else {
        Err(problems)
    }
}

/// A whole number within a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "u16")]
pub struct Number<const LOW: u16, const HIGH: u16>(u16);

impl<const LOW: u16, const HIGH: u16> TryFrom<i64> for Number<LOW, HIGH> {
    type Error = String;

    fn try_from(value: i64) -> Result<Self, String> {
        match u16::try_from(value) {
            Ok(number) if (LOW..=HIGH).contains(&number) => Ok(Self(number)),
            _ if LOW == HIGH => Err(format!("must be {LOW}, not {value}")),
            _ => Err(format!("must be {LOW} to {HIGH}, not {value}")),
        }
    }
}

impl<const LOW: u16, const HIGH: u16> From<Number<LOW, HIGH>> for u16 {
    fn from(number: Number<LOW, HIGH>) -> Self {
        number.0
    }
}

impl<const LOW: u16, const HIGH: u16> JsonSchema for Number<LOW, HIGH> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Number{LOW}To{HIGH}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": LOW, "maximum": HIGH })
    }
}

/// The name of a network interface, 1 to 15 characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct InterfaceName(#[schemars(length(min = 1, max = 15))] String);

impl TryFrom<String> for InterfaceName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'/';
        let fits = (1..=15).contains(&text.len()) && text.bytes().all(plain);
        if fits && text != "." && text != ".." {
            return Ok(Self(text));
        }
        let shown: String = text.escape_debug().take(40).collect();
        Err(format!(
            "`{shown}` is not an interface name: 1 to 15 characters without / and spaces"
        ))
    }
}

impl From<InterfaceName> for String {
    fn from(name: InterfaceName) -> Self {
        name.0
    }
}

const LISTEN_PORT: u16 = 51820;
const INTERFACE: &str = "kedge0";

#[cfg(test)]
mod tests {
    use kedge_host::layers::{Sources, load_from};

    use super::*;

    fn load(yaml: &str) -> Result<GatewayConfig, Vec<Problem>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.yaml");
        std::fs::write(&path, yaml).unwrap();
        let loaded = load_from::<GatewayFile>(&Sources::file(&path));
        loaded
            .map(|loaded| {
                let filled = loaded.file.filled().check(&loaded.origins).unwrap();
                assert_eq!(filled, loaded.config, "the defaults mean the same");
                loaded.config
            })
            .map_err(kedge_host::layers::ConfigError::into_problems)
    }

    #[test]
    fn defaults_and_every_key_are_understood() {
        let config = load("version: 1").unwrap();
        assert_eq!(config.tunnel.listen_port, 51820);
        assert_eq!(config.tunnel.interface, "kedge0");
        assert_eq!((config.manager, config.name), (None, None));
        let config = load(
            "name: gw-0\nmanager: {url: 'https://m', token_file: /t}\n\
             tunnel: {listen_port: 1, interface: wg9, mtu: 1400}",
        )
        .unwrap();
        assert_eq!(config.name.unwrap().as_str(), "gw-0");
        assert_eq!(config.manager.unwrap().url.to_string(), "https://m:9443");
        assert_eq!(
            (config.tunnel.listen_port, config.tunnel.mtu),
            (1, Some(1400))
        );
    }

    #[test]
    fn a_build_without_envoy_says_so() {
        let config = load("proxy: {engine: envoy, envoy: /usr/bin/envoy}");
        if cfg!(feature = "envoy") {
            let proxy = config.unwrap().proxy;
            assert_eq!(
                (proxy.engine, proxy.max_connections),
                (Engine::Envoy, 50_000)
            );
        } else {
            let problem = config.unwrap_err().remove(0);
            assert_eq!(problem.code, Code::ConfigRule);
        }
    }

    #[test]
    fn tenants_are_apart_where_that_is_said_and_no_other_gateway_passes_on() {
        assert_eq!(
            load("version: 1").unwrap().tenants.isolation,
            Isolation::Shared
        );
        let apart = "tenants: {isolation: namespace}\n";
        assert_eq!(load(apart).unwrap().tenants.isolation, Isolation::Namespace);
        let relayed = format!(
            "{apart}tunnel: {{gateways: {{b: {{public_key: '{}', addresses: ['198.18.0.2']}}}}}}",
            "tTpyVTmHt9KKrynwDulkOR1/XLh0MwK7k2eL7DHIjkk="
        );
        let problem = load(&relayed).unwrap_err().remove(0);
        assert_eq!(problem.code, Code::ConfigRule);
    }

    #[test]
    fn every_mistake_is_located_and_coded() {
        for (yaml, code, words) in [
            (
                "tunnel: {listen_port: 0}",
                Code::ConfigOutOfRange,
                "must be 1 to 65535, not 0",
            ),
            (
                "tunnel: {listen_port: 65536}",
                Code::ConfigOutOfRange,
                "not 65536",
            ),
            (
                "tunnel: {mtu: 1279}",
                Code::ConfigOutOfRange,
                "must be 1280 to 9000",
            ),
            (
                "tunnel: {interface: a/b}",
                Code::ConfigOutOfRange,
                "interface name",
            ),
            ("tunnel: {port: 1}", Code::ConfigUnknownKey, "port"),
            ("name: GW", Code::ConfigOutOfRange, "not a name"),
            ("manager: {token_file: /t}", Code::ConfigRule, "needs a url"),
            (
                "manager: {url: 'http://m'}",
                Code::ConfigOutOfRange,
                "not a manager's address",
            ),
            ("version: 7", Code::ConfigOutOfRange, "must be 1, not 7"),
            (
                "proxy: {engine: haproxy}",
                Code::ConfigOutOfRange,
                "haproxy",
            ),
        ] {
            let problem = load(yaml).unwrap_err().remove(0);
            let text = format!("{} {}", problem.what, problem.evidence.join(" "));
            assert_eq!(problem.code, code, "{yaml}: {text}");
            assert!(text.contains(words), "{yaml}: {text}");
            assert!(text.contains("gateway.yaml:1"), "{yaml}: {text}");
        }
    }
}
