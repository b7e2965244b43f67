//! The tunnel of this host.

use std::{net::IpAddr, time::Duration};

use ipnet::IpNet;
use kedge_control::agent;
use kedge_core::{Code, Fix, Problem};
use kedge_tunnel_device::{
    backend::{Kind, Mode},
    mtu,
    offload::Allowed,
};
use kedge_tunnel_proto::{keys::PublicKey, noise::CoreName};

use super::{MeshWish, Source};
use crate::config::{
    DEFAULT_OVERLAY, Delay, Endpoint, FailoverConfig, FailoverProfile, TunnelConfig,
};

/// The tunnel as it is wanted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TunnelWish {
    /// The UDP port; 0 lets the kernel choose.
    pub listen_port: u16,
    /// The device's name.
    pub interface: String,
    /// Its MTU.
    pub mtu: u16,
    /// Whether it is found out what the way to each peer carries.
    pub finds_paths: bool,
    /// Whose handshakes and sessions its peers have.
    pub noise_core: CoreName,
    /// Who is to move its packets.
    pub data_plane: Mode,
    /// Whether WireGuard's tools may read it.
    pub wg_socket: bool,
    /// Up to which rate benches of peers are answered, in Mbit/s; 0 answers none.
    pub bench_mbps: u32,
    /// What may be left to the kernel.
    pub offload: Allowed,
    /// Its addresses.
    pub addresses: Vec<IpNet>,
    /// Its peers.
    pub peers: Vec<Peer>,
    /// What lies behind several of them.
    pub failover: Option<FailoverWish>,
    /// The other hosts of a mesh.
    pub mesh: Option<MeshWish>,
}

/// What lies behind several gateways, which are peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailoverWish {
    /// Their names, the preferred ones first.
    pub gateways: Vec<String>,
    /// What lies behind them.
    pub prefixes: Vec<IpNet>,
    /// The time between two packets of BFD.
    pub interval: Duration,
    /// What is asked through each of them.
    pub targets: Vec<IpAddr>,
    /// How long a preferred gateway must be well before it is active again.
    pub return_after: Duration,
}

/// A peer as it is wanted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Peer {
    /// Its name.
    pub name: String,
    /// Who wants it.
    pub source: Source,
    /// Its key.
    pub public_key: PublicKey,
    /// The key it goes over to.
    pub next_key: Option<PublicKey>,
    /// Where it is.
    pub endpoint: Option<Endpoint>,
    /// Where it is by another UDP port, for when UDP passes to that one alone.
    pub other_endpoint: Option<Endpoint>,
    /// Where it is over TLS, for when UDP does not reach it.
    pub tls_endpoint: Option<Endpoint>,
    /// Its prefixes.
    pub allowed_ips: Vec<IpNet>,
    /// Time between keepalives.
    pub keepalive: Option<Duration>,
    /// From where to where it is asked whether it lives: gateways answer, static peers need not.
    pub echo: Option<(IpAddr, IpAddr)>,
}

impl Peer {
    /// The key it has, and the one it goes over to.
    pub fn keys(&self) -> [Option<PublicKey>; 2] {
        [Some(self.public_key), self.next_key]
    }
}

impl TunnelWish {
    /// From where to where peers can be asked anything in the tunnel.
    pub fn ends(&self) -> impl Iterator<Item = (&Peer, Option<(IpAddr, IpAddr)>)> {
        let ends = |peer: &Peer| echo(&self.addresses, &peer.allowed_ips);
        self.peers.iter().map(move |peer| (peer, ends(peer)))
    }
}

pub(super) fn plan(
    config: &TunnelConfig,
    wish: Option<&agent::TunnelConfig>,
    meshed: bool,
    problems: &mut Vec<Problem>,
) -> Option<TunnelWish> {
    let mut addresses = config.addresses.clone();
    let wished = wish.map_or(&[][..], |wish| wish.addresses.as_slice());
    for address in wished {
        if is_allowed(config, *address) {
            if !addresses.contains(address) {
                addresses.push(*address);
            }
        } else {
            problems.push(outside("tunnel", &format!("the address {address}"), config));
        }
    }
    let mut peers: Vec<Peer> = config
        .peers
        .iter()
        .map(|(name, peer)| Peer {
            name: name.to_string(),
            source: Source::Local,
            public_key: peer.public_key,
            next_key: peer.next_public_key,
            endpoint: peer.endpoint.clone(),
            other_endpoint: peer.other_endpoint.clone(),
            tls_endpoint: peer.tls_endpoint.clone(),
            allowed_ips: peer.allowed_ips.clone(),
            keepalive: peer.keepalive,
            echo: None,
        })
        .collect();
    for peer in wish.map_or(&[][..], |wish| wish.peers.as_slice()) {
        if let Some(peer) = accept(peer, &peers, &addresses, config, problems) {
            peers.push(peer);
        }
    }
    if peers.is_empty() && addresses.is_empty() {
        return None;
    }
    // What goes to other hosts goes through the gateway that is active.
    let of_mesh = (meshed && config.data_plane.kind() == Kind::Userspace).then(|| FailoverConfig {
        prefixes: Vec::new(),
        gateways: Vec::new(),
        interval: FailoverProfile::default().interval(),
        targets: Vec::new(),
        return_after: Delay::RETURN.duration(),
    });
    let failover = config.failover.as_ref().or(of_mesh.as_ref());
    let failover = failover.and_then(|it| failover_of(it, &addresses, &mut peers, problems));
    let mtu = match (config.mtu, wish) {
        (Some(mtu), _) => mtu,
        (None, Some(wish)) => mtu::wished(wish.mtu, problems),
        (None, None) => mtu::DEFAULT,
    };
    Some(TunnelWish {
        listen_port: config.listen_port,
        interface: config.interface.clone(),
        mtu,
        finds_paths: config.mtu.is_none() && mtu == mtu::DEFAULT,
        noise_core: config.noise_core,
        data_plane: config.data_plane,
        wg_socket: config.wg_socket,
        bench_mbps: config.bench_mbps,
        offload: config.offload,
        addresses,
        peers,
        failover,
        mesh: None,
    })
}

/// The gateways that lead to what lies behind several of them. Each is asked whether it lives.
fn failover_of(
    config: &FailoverConfig,
    addresses: &[IpNet],
    peers: &mut [Peer],
    problems: &mut Vec<Problem>,
) -> Option<FailoverWish> {
    let mut named: Vec<String> = config.gateways.iter().map(ToString::to_string).collect();
    if named.is_empty() {
        let managed = peers.iter().filter(|peer| peer.source == Source::Manager);
        named.extend(managed.map(|peer| peer.name.clone()));
        named.sort();
    }
    let mut gateways = Vec::new();
    for name in named {
        let peer = peers.iter_mut().find(|peer| peer.name == name);
        let ends = peer.map(|peer| (echo(addresses, &peer.allowed_ips), peer));
        let why = match ends {
            Some((Some(ends), peer)) => {
                peer.echo = Some(ends);
                if !gateways.contains(&name) {
                    gateways.push(name);
                }
                continue;
            }
            Some((None, _)) => "no single address of it and none of this host are of one family",
            None => "no peer has that name",
        };
        problems.push(
            Problem::warning(
                Code::ConfigRule,
                format!("{name} cannot be one of several gateways"),
            )
            .object(format!("tunnels/{name}"))
            .evidence(why)
            .consequence("nothing is sent through it to what lies behind the gateways")
            .fix(
                Fix::text("give both ends an address of their own in the tunnel")
                    .command("kedge config view --origins  # tunnel.failover.gateways"),
            ),
        );
    }
    (!gateways.is_empty()).then(|| FailoverWish {
        gateways,
        prefixes: config.prefixes.clone(),
        interval: config.interval,
        targets: config.targets.clone(),
        return_after: config.return_after,
    })
}

/// Holds a peer of the manager to the host's bounds; what is left of it.
fn accept(
    wish: &agent::PeerConfig,
    peers: &[Peer],
    addresses: &[IpNet],
    config: &TunnelConfig,
    problems: &mut Vec<Problem>,
) -> Option<Peer> {
    let name: String = wish.name.escape_debug().take(80).collect();
    let object = format!("tunnels/{name}");
    if let Some(known) = peers.iter().find(|peer| peer.name == wish.name) {
        problems.push(
            Problem::warning(
                Code::ConfigRule,
                format!("the tunnel peer {name} is known already ({})", known.source),
            )
            .object(object)
            .consequence("the manager's peer of that name is not taken up")
            .fix(Fix::text("give one of them another name")),
        );
        return None;
    }
    let public_key = match wish.public_key.parse::<PublicKey>() {
        Ok(key) if peers.iter().all(|peer| peer.public_key != key) => key,
        outcome => {
            let why = outcome.err().map_or_else(
                || "another peer has the same key".to_owned(),
                |error| error.to_string(),
            );
            problems.push(
                Problem::new(
                    Code::TunKey,
                    format!("the key of the peer {name} cannot be used"),
                )
                .object(object)
                .evidence(why)
                .consequence("the peer is not reached")
                .fix(Fix::text("look at the peer's record at the manager")),
            );
            return None;
        }
    };
    let mut allowed_ips = Vec::new();
    for prefix in &wish.allowed_ips {
        let taken = peers.iter().find(|peer| peer.allowed_ips.contains(prefix));
        if !is_allowed(config, *prefix) {
            problems.push(outside(&object, &format!("the prefix {prefix}"), config));
        } else if let Some(other) = taken {
            problems.push(
                Problem::new(
                    Code::TunOutsideBounds,
                    format!(
                        "the prefix {prefix} belongs to the peer {} already",
                        other.name
                    ),
                )
                .object(object.clone())
                .consequence(format!("packets for it do not go to {name}"))
                .fix(Fix::text("give it to one of the two")),
            );
        } else if !allowed_ips.contains(prefix) {
            allowed_ips.push(*prefix);
        }
    }
    if allowed_ips.is_empty() {
        return None;
    }
    let consequence = "the peer is reached only when it calls this host";
    let endpoint = endpoint(wish.endpoint.as_deref(), &name, consequence, problems);
    let consequence = "the peer is not reached where UDP passes to that port alone";
    let other = wish.other_endpoint.as_deref();
    let other_endpoint = self::endpoint(other, &name, consequence, problems);
    let consequence = "the peer is not reached where UDP does not pass";
    let tls_endpoint = self::endpoint(wish.tls_endpoint.as_deref(), &name, consequence, problems);
    let keepalive = Duration::from_secs(u64::from(wish.keepalive_seconds));
    Some(Peer {
        name: wish.name.clone(),
        source: Source::Manager,
        public_key,
        next_key: next_key(wish.next_public_key.as_deref()),
        endpoint,
        other_endpoint,
        tls_endpoint,
        keepalive: (!keepalive.is_zero()).then_some(keepalive),
        echo: echo(addresses, &allowed_ips),
        allowed_ips,
    })
}

/// The key that a peer goes over to, if it can be used: without it the peer is what it was.
pub(super) fn next_key(text: Option<&str>) -> Option<PublicKey> {
    text.and_then(|text| text.parse().ok())
}

/// Where a peer is by the manager's word, if that can be used.
fn endpoint(
    text: Option<&str>,
    name: &str,
    consequence: &str,
    problems: &mut Vec<Problem>,
) -> Option<Endpoint> {
    let why: String = match text?.parse() {
        Ok(endpoint) => return Some(endpoint),
        Err(why) => why,
    };
    let what = format!("the endpoint of the peer {name} cannot be used");
    problems.push(
        Problem::new(Code::ConfigOutOfRange, what)
            .object(format!("tunnels/{name}"))
            .evidence(why)
            .consequence(consequence)
            .fix(Fix::text(
                "correct the gateway's public endpoint at the manager",
            )),
    );
    None
}

/// The first pair of single addresses of one family.
pub(super) fn echo(own: &[IpNet], theirs: &[IpNet]) -> Option<(IpAddr, IpAddr)> {
    theirs
        .iter()
        .filter(|net| is_single(**net))
        .find_map(|remote| {
            let remote = remote.addr();
            let local = own
                .iter()
                .find(|local| local.addr().is_ipv4() == remote.is_ipv4())?;
            Some((local.addr(), remote))
        })
}

/// Single addresses of the overlay; whole prefixes only where the host's own configuration
/// allows them.
pub(super) fn is_allowed(config: &TunnelConfig, prefix: IpNet) -> bool {
    let inside = config.allowed.iter().any(|net| net.contains(&prefix));
    inside && (is_single(prefix) || config.allowed != DEFAULT_OVERLAY)
}

fn is_single(net: IpNet) -> bool {
    net.prefix_len() == net.max_prefix_len()
}

pub(super) fn outside(object: &str, what: &str, config: &TunnelConfig) -> Problem {
    let allowed: Vec<String> = config.allowed.iter().map(ToString::to_string).collect();
    let kind = if config.allowed == DEFAULT_OVERLAY {
        "single addresses within "
    } else {
        ""
    };
    Problem::new(
        Code::TunOutsideBounds,
        format!("the manager wants {what} in the tunnel, which this host does not allow"),
    )
    .object(object)
    .evidence(format!("allowed: {kind}{}", allowed.join(", ")))
    .consequence("it is not taken up; everything else is")
    .fix(
        Fix::text("correct it at the manager, or allow it here")
            .command("kedge config view --origins  # tunnel.allowed"),
    )
}
