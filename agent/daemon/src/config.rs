//! The agent's configuration: what stands in files ([`AgentFile`]) and what it means
//! ([`AgentConfig`]).

mod bgp;
pub(crate) mod check;
mod defaults;
mod file;
mod values;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use ipnet::IpNet;
use kedge_control::{agent::DirectPath, enrol::HostRef};
use kedge_core::{
    Name,
    vip::{AdvertInterval, Priority, Vrid},
};
use kedge_host::enrol::ManagerUrl;
use kedge_tunnel_device::{backend, offload::Allowed};
use kedge_tunnel_proto::{keys::PublicKey, noise::CoreName};
use kedge_vip_proto::vrrp::{ChecksumPolicy, Members};
use kedge_vip_speaker::{
    VipSpec,
    auth::{KeyId, Mode, Window},
    bfd::BfdSpec,
};

pub use bgp::{Announced, AoConfig, BgpConfig, BgpMode, NeighborConfig, Via};
pub(crate) use check::own_session;
pub use check::{DEFAULT_OVERLAY, check_vip};
pub use file::{
    AgentFile, AuthFile, AuthModeFile, BfdFile, BfdSessionFile, BgpDefaultsFile, BgpFile,
    BgpModeFile, BgpNeighborFile, ChecksumFile, DnsFile, FailoverFile, FailoverProfile, FamilyFile,
    HealthFile, HostRefFile, ManagerFile, MembersFile, NextHopFile, NodeFile, PeerFile,
    PeerLinkFile, ProbeFile, ReportFile, TcpAoAlgorithmFile, TcpAoFile, TrackFile, TunnelFile,
    ViaFile, VipBgpFile, VipFile,
};
pub use values::{
    AdvertSpan, Attempts, AuthKeyId, BfdSpan, CertificatePin, Delay, DetectMultiplier, DomainName,
    Endpoint, GracefulSpan, HttpsUrl, InterfaceName, Keepalive, MaxPrefixes, MinTtl, Mtu, Prepend,
    ProbeSpan, ProcessName, ProxyUrl, RetrySpan, RouteTable, RoutersBetween, ScriptSpan,
    SilenceSpan, TimeWindow, TrackWeight, UnitName, UserName, Version, VrrpVersion,
};

/// The agent's configuration, checked, defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentConfig {
    /// The VIPs, by name.
    pub vips: BTreeMap<Name, VipConfig>,
    /// Links to the other hosts of the VIPs, where they are wanted.
    pub peer_link: Option<PeerLinkConfig>,
    /// The BFD sessions, by name.
    pub bfd: Vec<BfdSpec>,
    /// BGP, where it is wanted.
    pub bgp: Option<BgpConfig>,
    /// The manager, if there is one.
    pub manager: Option<ManagerConfig>,
    /// The tunnel.
    pub tunnel: TunnelConfig,
    /// The host's name where the kernel's is not the one to use.
    pub node_name: Option<Name>,
    /// Units that are stopped while the host is drained.
    pub drain_stops: Vec<UnitName>,
    /// What is reported of the host's addresses.
    pub report: ReportConfig,
    /// Where metrics are told beside the control socket.
    pub metrics: Option<SocketAddr>,
}

/// Links to the other hosts of the VIPs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerLinkConfig {
    /// The file with the key.
    pub key_file: PathBuf,
    /// The TCP port.
    pub port: u16,
}

/// A VIP.
#[derive(Clone, Debug, PartialEq)]
pub struct VipConfig {
    /// Its addresses; those of the family of the first are advertised.
    pub addresses: Vec<IpAddr>,
    /// Addresses that go along without being advertised.
    pub excluded: Vec<IpAddr>,
    /// How the network learns where it is.
    pub via: Via,
    /// What routers are told of it.
    pub announced: Announced,
    /// The protocol version.
    pub version: kedge_vip_speaker::Version,
    /// The file with the password of version 2.
    pub password_file: Option<PathBuf>,
    /// The keys of signed advertisements.
    pub auth: Option<AuthConfig>,
    /// The other routers, where adverts are not sent to the group.
    pub unicast_peers: Vec<IpAddr>,
    /// The lowest TTL accepted from them.
    pub min_ttl: u8,
    /// The source of adverts, if it is not to be chosen.
    pub source: Option<IpAddr>,
    /// Its virtual router id.
    pub vrid: Vrid,
    /// Whether the VRID was derived from the first address.
    pub vrid_derived: bool,
    /// Its base priority; `None` derives it from the host's own address.
    pub priority: Option<Priority>,
    /// The other members.
    pub members: Members,
    /// The advertisement interval.
    pub interval: AdvertInterval,
    /// The interface; `None` chooses it by on-link prefix.
    pub interface: Option<String>,
    /// Whether a better Backup takes over from a living Active.
    pub preempt: bool,
    /// How long after start or link-up that counts.
    pub preempt_delay: Duration,
    /// The checksum form.
    pub checksum: ChecksumPolicy,
    /// Whether the kernel silences this host when its advertisements cease.
    pub fence: bool,
    /// Whether packets to it are for this host.
    pub accept: bool,
    /// Whether it has the virtual router's hardware address.
    pub virtual_mac: bool,
    /// What decides whether this host is fit to hold it; `None`: nothing.
    pub health: Option<ProbeConfig>,
    /// What else must be well on this host, by name.
    pub tracks: BTreeMap<Name, TrackConfig>,
    /// The group it moves together with.
    pub sync_group: Option<Name>,
    /// How long a first claim waits at most for a frame after start.
    pub startup_delay: Duration,
    /// The same after the link came up.
    pub link_up_delay: Duration,
}

/// How advertisements are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthConfig {
    /// The key that signs.
    pub active_key: KeyId,
    /// The files of the keys, this one among them.
    pub keys: BTreeMap<KeyId, PathBuf>,
    /// Whether others must sign too.
    pub mode: Mode,
    /// How old an advertisement may be; `None` derives it from the interval.
    pub time_window: Option<Window>,
}

impl VipConfig {
    /// Every address it holds.
    pub fn held(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.addresses.iter().chain(&self.excluded).copied()
    }

    /// Whether its adverts go over IPv6: as its first address is.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.addresses.first().is_some_and(IpAddr::is_ipv6)
    }

    /// What the speaker is asked for.
    #[must_use]
    pub fn spec(&self, name: Name, priority: Priority) -> VipSpec {
        VipSpec {
            excluded: self.excluded.clone(),
            version: self.version,
            unicast_peers: self.unicast_peers.clone(),
            min_ttl: self.min_ttl,
            source: self.source,
            owner: self.priority == Some(Priority::OWNER),
            interval: self.interval,
            interface: self.interface.clone(),
            preempt: self.preempt,
            preempt_delay: self.preempt_delay,
            members: self.members,
            fence: self.fence,
            accept: self.accept,
            virtual_mac: self.virtual_mac,
            checksum: self.checksum,
            gated: self.health.is_some(),
            tracked: !self.tracks.is_empty(),
            sync_group: self.sync_group.clone(),
            startup_delay: Some(self.startup_delay),
            link_up_delay: Some(self.link_up_delay),
            ..VipSpec::new(name, self.addresses.clone(), self.vrid, priority)
        }
    }
}

/// A health probe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeConfig {
    /// What is asked.
    pub url: HttpsUrl,
    /// What the server's certificate must match.
    pub trust: Trust,
    /// From one probe to the next.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Successes in a row that prove health after a failure.
    pub rise: u32,
    /// Failures in a row that disprove it.
    pub fall: u32,
    /// Whether this is `health: auto`.
    pub auto: bool,
}

/// Something that must be well on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackConfig {
    /// What.
    pub what: Tracked,
    /// What its failure means.
    pub failure: Failure,
}

/// What is tracked; equal ones are watched once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tracked {
    /// An interface that must have a carrier.
    Interface(String),
    /// A process that must run.
    Process(String),
    /// A file that must be there.
    File(PathBuf),
    /// A program that must end with 0.
    Script(ScriptConfig),
    /// A BFD session that must not lose its peer.
    Bfd(Name),
    /// A unit of systemd that must be active.
    Unit(String),
}

/// What the failure of a track means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The priority is lower by this.
    Costs(u16),
    /// This host must not hold the VIP.
    Bars,
}

/// A tracked script.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScriptConfig {
    /// The program, an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Whom it runs as.
    pub user: String,
    /// From the start of one run to that of the next.
    pub interval: Duration,
    /// How long it may take.
    pub timeout: Duration,
    /// Successes in a row that count after a failure.
    pub rise: u32,
    /// Failures in a row that count.
    pub fall: u32,
}

/// What a probed server's certificate must match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Nothing: the server is on this host.
    Local,
    /// A CA in this file.
    CaFile(PathBuf),
    /// The SHA-256 of its public key.
    Pin(CertificatePin),
}

/// The way to the manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerConfig {
    /// Its URL.
    pub url: ManagerUrl,
    /// The file with the enrolment token; needed once.
    pub token_file: Option<PathBuf>,
    /// The object that stands for the same machine.
    pub host_ref: Option<HostRef>,
    /// The pin of the manager's CA; with it the host enrols by its Elemental key where it has no
    /// token.
    pub ca_pin: Option<String>,
}

/// The tunnel.
#[derive(Clone, Debug, PartialEq)]
pub struct TunnelConfig {
    /// The UDP port; 0 lets the kernel choose.
    pub listen_port: u16,
    /// The device's name.
    pub interface: String,
    /// The device's MTU; `None` finds out what each way carries, unless the manager gives a number.
    pub mtu: Option<u16>,
    /// Whose handshakes and sessions peers have.
    pub noise_core: CoreName,
    /// Who moves the packets.
    pub data_plane: backend::Mode,
    /// How old this end's key becomes before another one follows; `None` keeps it.
    pub key_rotation: Option<Duration>,
    /// Whether WireGuard's tools may read the device.
    pub wg_socket: bool,
    /// The HTTP proxy through which gateways are called over TLS; `None` leaves it to the environment.
    pub proxy: Option<ProxyUrl>,
    /// The file with its `name:password`.
    pub proxy_auth_file: Option<PathBuf>,
    /// Up to which rate benches of peers are answered, in Mbit/s; 0 answers none.
    pub bench_mbps: u32,
    /// What may be left to the kernel.
    pub offload: Allowed,
    /// Addresses of this end that do not come from the manager.
    pub addresses: Vec<IpNet>,
    /// Peers that do not come from the manager.
    pub peers: BTreeMap<Name, PeerConfig>,
    /// The prefixes a manager may route into the tunnel.
    pub allowed: Vec<IpNet>,
    /// Names that are asked about through the tunnel.
    pub dns: Option<DnsConfig>,
    /// What lies behind several gateways.
    pub failover: Option<FailoverConfig>,
    /// Whether packets for other hosts may go without a gateway between.
    pub direct_path: DirectPath,
    /// Where this host may be called, beside its own addresses.
    pub direct_endpoints: Vec<SocketAddr>,
}

/// Names that are asked about through the tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsConfig {
    /// Who is asked.
    pub servers: Vec<IpAddr>,
    /// About what is below these.
    pub domains: Vec<String>,
}

/// What lies behind several gateways, and which of them leads there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverConfig {
    /// What lies behind them.
    pub prefixes: Vec<IpNet>,
    /// The gateways, the preferred ones first; none means those of the manager.
    pub gateways: Vec<Name>,
    /// The time between two packets of BFD.
    pub interval: Duration,
    /// What is asked through each of them.
    pub targets: Vec<IpAddr>,
    /// How long a preferred gateway must be well before it is active again.
    pub return_after: Duration,
}

/// A static tunnel peer.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerConfig {
    /// Its public key.
    pub public_key: PublicKey,
    /// The key it goes over to.
    pub next_public_key: Option<PublicKey>,
    /// Where it is; absent where it calls us.
    pub endpoint: Option<Endpoint>,
    /// Where it is by another UDP port.
    pub other_endpoint: Option<Endpoint>,
    /// Where it is over TLS, for when UDP does not reach it.
    pub tls_endpoint: Option<Endpoint>,
    /// The prefixes that belong to it.
    pub allowed_ips: Vec<IpNet>,
    /// Time between keepalives.
    pub keepalive: Option<Duration>,
}

/// What is reported of the host's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportConfig {
    /// The address to report as primary.
    pub primary: Option<IpAddr>,
    /// Prefixes whose addresses are not reported.
    pub exclude: Vec<IpNet>,
    /// Interfaces whose addresses are not reported.
    pub exclude_interfaces: Vec<String>,
}

#[cfg(test)]
pub(crate) mod tests;
