//! What may stand in `agent.yaml`. Every field is optional, so that a layer sets only what it
//! names.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    num::NonZeroU16,
    path::PathBuf,
    time::Duration,
};

use ipnet::IpNet;
use kedge_control::agent::DirectPath;
use kedge_core::{
    Name,
    vip::{AdvertInterval, Priority, Vrid},
};
use kedge_host::{enrol::ManagerUrl, layers::Auto, section, tunnel_keys::KeyRotation};
use kedge_tunnel_device::{backend::Mode, offload::Switch};
use kedge_tunnel_proto::noise::CoreName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{
    AdvertSpan, Attempts, AuthKeyId, BfdSpan, CertificatePin, Delay, DetectMultiplier, DomainName,
    HttpsUrl, InterfaceName, MinTtl, Mtu, ProbeSpan, ProcessName, ProxyUrl, ScriptSpan, TimeWindow,
    TrackWeight, UnitName, UserName, Version, VrrpVersion,
};

mod bgp;
mod peer;

pub use self::{
    bgp::{
        BgpDefaultsFile, BgpFile, BgpModeFile, BgpNeighborFile, FamilyFile, NextHopFile,
        TcpAoAlgorithmFile, TcpAoFile, ViaFile, VipBgpFile,
    },
    peer::PeerFile,
};

section! {
    /// The configuration file of `kedge agent`.
    AgentFile {
        /// The version of the format: 1.
        version: Version,
        /// The floating addresses this host takes part in, by name.
        vips: BTreeMap<Name, VipFile>,
        /// Links to the other hosts of the VIPs, beside advertisements.
        peer_link: PeerLinkFile,
        /// BFD: whether the paths to peers work, in both directions.
        bfd: BfdFile,
        /// BGP: routers are told of VIPs.
        bgp: BgpFile,
        /// The manager this host enrols at. Without it the agent works alone.
        manager: ManagerFile,
        /// The WireGuard tunnel to the gateways.
        tunnel: TunnelFile,
        /// The host itself.
        node: NodeFile,
        /// What is reported of the host's addresses.
        report: ReportFile,
        /// Metrics, for scrapers.
        metrics: kedge_host::local::MetricsFile,
    }
}

section! {
    /// A floating address.
    VipFile {
        /// The addresses, installed as /32 or /128. Those of the family of the first are
        /// advertised, the others go along: a VIP for IPv4 and IPv6.
        addresses: Vec<IpAddr>,
        /// Addresses that go along without being advertised.
        excluded_addresses: Vec<IpAddr>,
        /// How the network learns where it is: `[vrrp]`, one host holds it; `[vrrp, bgp]`, and routers are
        /// told which; or `[bgp]`, every healthy host has it and routers are told of all of them. That
        /// has no use for the keys of VRRP.
        via: Vec<ViaFile>,
        /// What routers are told of it.
        bgp: VipBgpFile,
        /// The VRRP version, the same on all members: 3, or 2 for IPv4 with others that speak
        /// nothing newer.
        version: VrrpVersion,
        /// The virtual router id: `auto` derives it from the first address, the same on every host.
        vrid: Auto<Vrid>,
        /// The priority while healthy: `auto`, 192 to 254 (with `members: mixed` 1 to 254), or 255
        /// for the owner of the address.
        priority: Auto<Priority>,
        /// The priority while not healthy, with `members: mixed`.
        unhealthy_priority: Priority,
        /// Who else takes part: `kedge`, or `mixed` with keepalived, FRR and others.
        members: MembersFile,
        /// What the time between advertisements is where `advert_interval` is left out: `fast` 10ms,
        /// `default` 100ms, `wan` 1s. The same on all members.
        profile: ProfileFile,
        /// The time between advertisements: 10ms to 40.95s in steps of 10ms. Below 50ms it is kept
        /// only by a host whose timers proved to be on time; others run at 100ms and say so.
        advert_interval: AdvertSpan,
        /// What decides whether this host is fit to hold the address: `auto` asks the API server
        /// on this host, `none` asks nobody.
        health: HealthFile,
        /// The interface; left out it is chosen by on-link prefix.
        interface: InterfaceName,
        /// The file with the password of version 2, 1 to 8 bytes, as keepalived's `auth_pass`. It
        /// travels in clear: it keeps groups apart, it protects from nobody.
        password_file: PathBuf,
        /// Keys with which advertisements are signed and verified, as keepalived's `auth_hmac`.
        auth: AuthFile,
        /// Whether a host of higher priority takes the address from a living one.
        preempt: bool,
        /// How long after start or link-up that counts: 0s to 1h.
        preempt_delay: Delay,
        /// How long a first claim waits at most for a frame from another station after start: 0s to
        /// 1h. Behind a switch port that does not forward yet a deaf host would be a second owner.
        startup_delay: Delay,
        /// The same after the link came up.
        link_up_delay: Delay,
        /// What else must be well on this host, by name.
        track: BTreeMap<Name, TrackFile>,
        /// The group of VIPs it moves together with: all those of that name are on one host.
        sync_group: Name,
        /// The other hosts, where adverts go to each of them and not to the group: for networks
        /// without multicast.
        unicast_peers: Vec<IpAddr>,
        /// The lowest TTL accepted from them: 255 is the same link.
        min_ttl: MinTtl,
        /// The source of adverts, an address of the interface; left out it is the one on the
        /// VIP's prefix, for IPv6 the link-local one.
        source: IpAddr,
        /// Whether the kernel silences this host, by nftables, when its advertisements cease. `false`
        /// where hosts that do not hold the address answer from it, as real servers behind
        /// LVS with direct routing do.
        fence: bool,
        /// Whether packets to the address are for this host. `false` is for a router that lends its
        /// address: it answers ARP and Neighbor Discovery, and nothing else. Needs the fence.
        accept: bool,
        /// Whether the address has the hardware address of the virtual router, 00:00:5e:00:01:VRID
        /// (for IPv6 00:00:5e:00:02:VRID), on every host that holds it, on a macvlan of its own. The
        /// same on all members. Needs the fence.
        virtual_mac: bool,
        /// The checksum form to send: `auto` learns it, `pseudo_header` (RFC 5798, as most
        /// send it), or `message` (RFC 9568 for IPv4, without the pseudo-header).
        checksum: ChecksumFile,
    }
}

section! {
    /// Signed advertisements (HMAC-SHA256, as keepalived 2.4.2 and later).
    AuthFile {
        /// The number of the key that signs.
        active_key: AuthKeyId,
        /// The files of the keys by their number, 1 to 255: 32 to 64 bytes, or `hex:` and digits.
        keys: BTreeMap<AuthKeyId, PathBuf>,
        /// What is asked of the others: `enforce`, or on the way there `receive_only` (verify what
        /// is signed, sign nothing), then `permissive` (sign, and accept what is not).
        mode: AuthModeFile,
        /// How far clocks may differ: 1s to 5m. Left out it is three intervals, at least 5s.
        time_window: TimeWindow,
    }
}

section! {
    /// A health probe over HTTPS.
    ProbeFile {
        /// What to ask; 200 is healthy.
        url: HttpsUrl,
        /// The CA that signed the server's certificate, PEM.
        ca_file: PathBuf,
        /// The SHA-256 of the server's public key, base64.
        pin: CertificatePin,
        /// The time between probes: 100ms to 60s.
        interval: ProbeSpan,
        /// How long an answer may take: 50ms to 60s.
        timeout: ProbeSpan,
        /// Successes in a row that prove health after a failure: 1 to 100.
        rise: Attempts,
        /// Failures in a row that disprove it: 1 to 100.
        fall: Attempts,
    }
}

section! {
    /// Something that must be well on this host: exactly one of `interface`, `process`, `file`,
    /// `script`, `bfd` and `unit`, and exactly one of `weight` and `critical`.
    TrackFile {
        /// An interface that must have a carrier.
        interface: InterfaceName,
        /// A process that must run: the name of its program, as `ps -o comm` shows it.
        process: ProcessName,
        /// A file that must be there.
        file: PathBuf,
        /// A program that must end with 0, and its arguments: no shell reads them.
        script: Vec<String>,
        /// A BFD session of `bfd.sessions` that must not lose its peer. One that was never up, or whose
        /// peer was told to stop, is no failure.
        bfd: Name,
        /// What its failure takes from the priority: -1 to -253.
        weight: TrackWeight,
        /// Whether this host must not hold the address while it fails.
        critical: bool,
        /// A unit of systemd that must be active, such as k3s.service.
        unit: UnitName,
        /// The time between two runs of a script: 100ms to 1h.
        interval: ScriptSpan,
        /// How long a script may take before it is killed: 100ms to 1h.
        timeout: ScriptSpan,
        /// Successes in a row of a script that count after a failure: 1 to 100.
        rise: Attempts,
        /// Failures in a row of a script that count: 1 to 100.
        fall: Attempts,
        /// Whom a script runs as: a name of `/etc/passwd` or a number. Left out it is `nobody`.
        user: UserName,
    }
}

section! {
    /// Links to the other hosts of the VIPs: the one that stands by calls the one that is Active. What
    /// they add: `kedge vip move NAME HOST`, and a sooner take-over when a whole agent is killed.
    PeerLinkFile {
        /// The file with the key all of them have: 32 to 64 bytes, or `hex:` and digits.
        key_file: PathBuf,
        /// The TCP port, the same on all of them: 7112 when left out.
        port: NonZeroU16,
    }
}

section! {
    /// BFD (RFC 5880).
    BfdFile {
        /// The sessions, by name. VIPs track them: `vips.NAME.track.TRACK.bfd`.
        sessions: BTreeMap<Name, BfdSessionFile>,
    }
}

section! {
    /// A BFD session. The keys are FRR's, with which most peers are configured.
    BfdSessionFile {
        /// The peer's address.
        peer: IpAddr,
        /// The interface the peer is on; left out the routes say so. Link-local peers need it.
        interface: InterfaceName,
        /// The source of packets, an address of this host; left out the kernel chooses it.
        source: IpAddr,
        /// Whether there are routers in between (RFC 5883, port 4784), which the peer must know too.
        multihop: bool,
        /// With `multihop` the lowest TTL accepted: 254 is one router in between.
        min_ttl: MinTtl,
        /// The shortest interval at which to send: 10ms to 60s. Below 50ms it is kept only by a host
        /// whose timers proved to be on time; others run at 100ms and say so.
        transmit_interval: BfdSpan,
        /// The shortest interval at which to take packets: 10ms to 60s. Times the peer's multiplier
        /// it is the time after which a silent peer is lost.
        receive_interval: BfdSpan,
        /// How many packets of this host may be missing before the peer calls it lost: 1 to 255.
        detect_multiplier: DetectMultiplier,
        /// Whether to wait for the peer to speak first.
        passive: bool,
        /// Whether the session is kept down, and the peer told that this is no failure.
        shutdown: bool,
    }
}

section! {
    /// The way to the manager.
    ManagerFile {
        /// Its URL, such as `https://203.0.113.9:9443`.
        url: ManagerUrl,
        /// The file with the enrolment token, needed once.
        token_file: PathBuf,
        /// The name to enrol with; left out it is the host's name.
        name: Name,
        /// The object that stands for the same machine, such as an ElementalHost.
        host_ref: HostRefFile,
        /// The pin of the manager's CA, as it stands at the end of a token: with it a host without a
        /// token enrols by the key it registered with at Elemental.
        ca_pin: String,
    }
}

section! {
    /// An object that stands for the same machine.
    HostRefFile {
        /// Its API group.
        api_group: String,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    }
}

section! {
    /// The WireGuard tunnel.
    TunnelFile {
        /// The UDP port; 0 lets the kernel choose.
        listen_port: u16,
        /// The device's name.
        interface: InterfaceName,
        /// The largest packet in the tunnel: `auto` finds out what the way to each peer carries, unless the
        /// manager gives another number than 1420; or a fixed number, 1280 to 9000.
        mtu: Auto<Mtu>,
        /// Whose handshakes and sessions peers have: `boringtun`, or Kedge's `own`.
        noise_core: CoreName,
        /// Who moves the packets: `userspace`, Kedge's own engine; `kernel`, the kernel's WireGuard, with a
        /// key of its own; or `auto`, which is `userspace`.
        data_plane: Mode,
        /// How old the key of this end becomes before another one follows it, without a packet lost: 1h to
        /// 365d, or `off`.
        key_rotation: KeyRotation,
        /// Whether `wg show` and other tools may read the device, without its keys, at
        /// /var/run/wireguard/INTERFACE.sock. What it is they cannot change.
        wg_socket: bool,
        /// Up to which rate benches of peers (`kedge tunnel bench`) are answered, in Mbit/s; 0 answers none.
        bench_mbps: u16,
        /// The HTTP proxy through which gateways are called over TLS, `http://host:port`, or `none`; left out it is
        /// what HTTPS_PROXY in the environment says, but for hosts in NO_PROXY.
        proxy: ProxyUrl,
        /// The file with the proxy's `name:password`, where it wants one. It is read with each call.
        proxy_auth_file: PathBuf,
        /// Whether the kernel is given and gives many packets in one piece: `auto`, as far as it goes
        /// along, or `off`.
        offload: Switch,
        /// The same for what this host sends.
        offload_send: Switch,
        /// The same for what this host receives.
        offload_receive: Switch,
        /// Addresses of this end, beside those the manager gives.
        #[schemars(with = "Option<Vec<String>>")]
        addresses: Vec<IpNet>,
        /// Static peers, beside those the manager gives.
        peers: BTreeMap<Name, PeerFile>,
        /// The prefixes a manager may route into the tunnel; anything else is refused and reported.
        #[schemars(with = "Option<Vec<String>>")]
        allowed: Vec<IpNet>,
        /// Names that are asked about through the tunnel.
        dns: DnsFile,
        /// What lies behind several gateways, and which of them leads there.
        failover: FailoverFile,
        /// Whether packets for other hosts of its mesh may go without a gateway between: `auto`, where
        /// such a path is proven and no slower, or `never`. What the manager forbids stays forbidden.
        direct_path: DirectPath,
        /// Where other hosts may call this one beside its own addresses, such as a forwarded port,
        /// `address:port`: ten at most. They count where a gateway sees this host at the same address, or
        /// where they are private.
        #[schemars(with = "Option<Vec<String>>")]
        direct_endpoints: Vec<SocketAddr>,
    }
}

section! {
    /// Names of the load-balancing cluster: systemd-resolved asks `servers` about what is below `domains`
    /// through the tunnel, and about nothing else. Taken back when the agent ends.
    DnsFile {
        /// Servers that are reached through the tunnel.
        servers: Vec<IpAddr>,
        /// Domains, such as lb.example.com.
        domains: Vec<DomainName>,
    }
}

section! {
    /// Several gateways to the same prefixes. Sessions to all of them are up at the same time, BFD runs
    /// in each, and one is active.
    FailoverFile {
        /// The prefixes that lie behind them. Without any there is no failover.
        #[schemars(with = "Option<Vec<String>>")]
        prefixes: Vec<IpNet>,
        /// The gateways by the names of their peers, the preferred ones first; left out, the manager's
        /// by name. Each has an address of its own in the tunnel.
        gateways: Vec<Name>,
        /// How soon a gateway is lost: `fast` asks each 100 ms, `fleet` each 300 ms; three misses count.
        profile: FailoverProfile,
        /// Addresses behind the gateways that are asked (ICMP echo) through each of them: a gateway that
        /// forwards nothing is left though it answers. Two or more, so that none of them counts alone.
        targets: Vec<IpAddr>,
        /// How long a preferred gateway must be well before it is active again: 0s to 1h.
        return_after: Delay,
    }
}

section! {
    /// The host itself.
    NodeFile {
        /// Its name where the kernel's is not the one to use.
        name: Name,
        /// Units that are stopped while the host is drained, in this order, once it holds no VIP; and
        /// started again after, in the other one.
        drain_stops: Vec<UnitName>,
    }
}

section! {
    /// What is reported of the host's addresses.
    ReportFile {
        /// The address to report as primary.
        primary: IpAddr,
        /// Prefixes whose addresses are not reported.
        #[schemars(with = "Option<Vec<String>>")]
        exclude: Vec<IpNet>,
        /// Interfaces whose addresses are not reported.
        exclude_interfaces: Vec<InterfaceName>,
    }
}

/// Who else takes part in a VIP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MembersFile {
    /// Kedge only.
    #[default]
    Kedge,
    /// Other VRRP implementations too.
    Mixed,
}

/// What is asked of the other members' advertisements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthModeFile {
    /// Verify what is signed, accept what is not, sign nothing.
    ReceiveOnly,
    /// Sign, and accept what is not signed.
    Permissive,
    /// Sign, and accept nothing that is not.
    #[default]
    Enforce,
}

/// How soon a dead host is noticed, and what that asks of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileFile {
    /// 10 ms: for hosts with real-time scheduling on a quiet LAN.
    Fast,
    /// 100 ms.
    #[default]
    Default,
    /// 1 s: for members that are far apart, or a network that loses packets.
    Wan,
}

impl ProfileFile {
    /// The time between advertisements.
    #[must_use]
    pub const fn interval(self) -> AdvertInterval {
        match self {
            Self::Fast => AdvertInterval::FAST,
            Self::Default => AdvertInterval::DEFAULT,
            Self::Wan => AdvertInterval::WAN,
        }
    }
}

/// How soon a gateway is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailoverProfile {
    /// Three times 100 ms.
    Fast,
    /// Three times 300 ms.
    #[default]
    Fleet,
}

impl FailoverProfile {
    /// The time between two packets.
    #[must_use]
    pub const fn interval(self) -> Duration {
        match self {
            Self::Fast => Duration::from_millis(100),
            Self::Fleet => Duration::from_millis(300),
        }
    }
}

/// The checksum of advertisements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChecksumFile {
    /// Learned from the LAN.
    #[default]
    Auto,
    /// Over the message alone.
    Message,
    /// Over pseudo-header and message.
    PseudoHeader,
}

/// What decides whether this host is fit to hold a VIP.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum HealthFile {
    /// The API server on this host.
    #[default]
    Auto,
    /// Nothing.
    None,
    /// A probe.
    Probe(Box<ProbeFile>),
}
