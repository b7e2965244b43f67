//! The tunnel of the configuration.

use std::collections::BTreeMap;

use ipnet::IpNet;
use kedge_core::{Fix, Name, Problem};
use kedge_host::{layers::Auto, tunnel_keys::KeyRotation};
use kedge_tunnel_device::{
    backend::{Capability, Kind},
    offload::{Allowed, Switch},
};
use kedge_tunnel_proto::{direct::PLACES, noise::CoreName};

use super::{DEFAULT_OVERLAY, keep, range, rule};
use crate::config::{
    Delay, DnsConfig, DnsFile, DomainName, FailoverConfig, FailoverFile, Mtu, PeerConfig, PeerFile,
    TunnelConfig, TunnelFile,
};

pub(super) fn check(file: &TunnelFile) -> Result<TunnelConfig, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut peers: BTreeMap<Name, PeerConfig> = BTreeMap::new();
    for (name, peer) in file.peers.iter().flatten() {
        let key = format!("tunnel.peers.{name}");
        let Some(checked) = keep(check_peer(&key, peer), &mut problems) else {
            continue;
        };
        for (other, known) in &peers {
            if known.public_key == checked.public_key {
                problems.push(rule(
                    &format!("{key}.public_key"),
                    format!("{other} has the same public key"),
                ));
            }
            for prefix in &checked.allowed_ips {
                if known.allowed_ips.contains(prefix) {
                    problems.push(rule(
                        &format!("{key}.allowed_ips"),
                        format!("{prefix} belongs to {other} already"),
                    ));
                }
            }
        }
        peers.insert(name.clone(), checked);
    }
    for address in file.addresses.iter().flatten() {
        let ip = address.addr();
        if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
            problems.push(range(
                "tunnel.addresses",
                format!("{address} cannot be the address of a device"),
            ));
        }
    }
    for prefix in file
        .allowed
        .iter()
        .flatten()
        .filter(|net| net.prefix_len() == 0)
    {
        problems.push(
            rule(
                "tunnel.allowed",
                format!("{prefix} would let a manager take every packet"),
            )
            .fix(Fix::text("name the overlay's prefixes")),
        );
    }
    let endpoints = file.direct_endpoints.iter().flatten();
    if endpoints.count() > PLACES {
        problems.push(range(
            "tunnel.direct_endpoints",
            format!("a host is called at {PLACES} places at most"),
        ));
    }
    if file.data_plane.unwrap_or_default().kind() == Kind::Kernel {
        check_kernel(file, &mut problems);
    }
    let dns = file.dns.as_ref();
    let dns = dns.and_then(|file| check_dns(file, &mut problems));
    let failover = file.failover.as_ref();
    let failover = failover.and_then(|file| check_failover(file, &peers, &mut problems));
    if !problems.is_empty() {
        return Err(problems);
    }
    let interface = file.interface.as_ref().map(ToString::to_string);
    Ok(TunnelConfig {
        listen_port: file.listen_port.unwrap_or_default(),
        interface: interface.unwrap_or_else(|| "kedge0".to_owned()),
        mtu: file.mtu.and_then(Auto::value).map(Mtu::get),
        noise_core: file.noise_core.unwrap_or_default(),
        data_plane: file.data_plane.unwrap_or_default(),
        key_rotation: file.key_rotation.and_then(KeyRotation::every),
        wg_socket: file.wg_socket.unwrap_or_default(),
        proxy: file.proxy.clone(),
        proxy_auth_file: file.proxy_auth_file.clone(),
        bench_mbps: file.bench_mbps.unwrap_or_default().into(),
        offload: Allowed::switched(
            file.offload.unwrap_or_default(),
            file.offload_send.unwrap_or_default(),
            file.offload_receive.unwrap_or_default(),
        ),
        addresses: file.addresses.clone().unwrap_or_default(),
        peers,
        allowed: file
            .allowed
            .clone()
            .unwrap_or_else(|| DEFAULT_OVERLAY.to_vec()),
        dns,
        failover,
        direct_path: file.direct_path.unwrap_or_default(),
        direct_endpoints: file.direct_endpoints.clone().unwrap_or_default(),
    })
}

fn check_failover(
    file: &FailoverFile,
    peers: &BTreeMap<Name, PeerConfig>,
    problems: &mut Vec<Problem>,
) -> Option<FailoverConfig> {
    let prefixes: Vec<IpNet> = file.prefixes.iter().flatten().map(IpNet::trunc).collect();
    let targets = file.targets.clone().unwrap_or_default();
    for prefix in &prefixes {
        let key = "tunnel.failover.prefixes";
        if prefix.prefix_len() == 0 {
            let what = format!("{prefix} would lead the whole host into the tunnel");
            problems.push(rule(key, what).fix(Fix::text("name what lies behind the gateways")));
        }
        let owned = |(_, peer): &(&Name, &PeerConfig)| peer.allowed_ips.contains(prefix);
        if let Some((owner, _)) = peers.iter().find(owned) {
            let what = format!("{prefix} is in the allowed_ips of {owner}");
            let fix = Fix::text("leave it out there: what the gateways share stands here alone");
            problems.push(rule(key, what).fix(fix));
        }
    }
    for target in &targets {
        if !prefixes.iter().any(|prefix| prefix.contains(target)) {
            let what = format!("{target} is in none of the prefixes behind the gateways");
            let fix = Fix::text("ask something that lies behind them");
            problems.push(rule("tunnel.failover.targets", what).fix(fix));
        }
    }
    if prefixes.is_empty() {
        return None;
    }
    let return_after = file.return_after.as_ref();
    Some(FailoverConfig {
        prefixes,
        gateways: file.gateways.clone().unwrap_or_default(),
        interval: file.profile.unwrap_or_default().interval(),
        targets,
        return_after: return_after.map_or(Delay::RETURN.duration(), Delay::duration),
    })
}

/// What the kernel's data plane cannot do is refused, not ignored.
fn check_kernel(file: &TunnelFile, problems: &mut Vec<Problem>) {
    let off = |switch: Option<Switch>| switch == Some(Switch::Off);
    let own = file.noise_core == Some(CoreName::Own);
    for (key, set, capability) in [
        ("tunnel.noise_core", own, Capability::OwnCore),
        (
            "tunnel.failover",
            file.failover.is_some(),
            Capability::SeveralGateways,
        ),
        (
            "tunnel.offload",
            off(file.offload),
            Capability::OffloadSwitches,
        ),
        (
            "tunnel.offload_send",
            off(file.offload_send),
            Capability::OffloadSwitches,
        ),
        (
            "tunnel.offload_receive",
            off(file.offload_receive),
            Capability::OffloadSwitches,
        ),
    ] {
        if set && let Some(because) = Kind::Kernel.lacks(capability) {
            let what = format!("it does not go with `data_plane: kernel`: {because}");
            let fix = Fix::text("leave it out, or set `tunnel.data_plane: userspace`");
            problems.push(rule(key, what).fix(fix));
        }
    }
}

fn check_peer(key: &str, file: &PeerFile) -> Result<PeerConfig, Vec<Problem>> {
    let mut problems = Vec::new();
    let allowed_ips = file.allowed_ips.clone().unwrap_or_default();
    if allowed_ips.is_empty() {
        problems.push(rule(
            &format!("{key}.allowed_ips"),
            "a peer without allowed_ips gets no packet",
        ));
    }
    let Some(public_key) = file.public_key else {
        problems.push(rule(
            &format!("{key}.public_key"),
            "a peer needs its public key",
        ));
        return Err(problems);
    };
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(PeerConfig {
        public_key,
        next_public_key: file.next_public_key,
        endpoint: file.endpoint.clone(),
        other_endpoint: file.other_endpoint.clone(),
        tls_endpoint: file.tls_endpoint.clone(),
        allowed_ips,
        keepalive: file
            .keepalive
            .as_ref()
            .and_then(|keepalive| keepalive.duration()),
    })
}

fn check_dns(file: &DnsFile, problems: &mut Vec<Problem>) -> Option<DnsConfig> {
    let servers = file.servers.clone().unwrap_or_default();
    let domains = file.domains.iter().flatten();
    let domains: Vec<String> = domains.map(DomainName::to_string).collect();
    match (servers.is_empty(), domains.is_empty()) {
        (false, false) => return Some(DnsConfig { servers, domains }),
        // As without the section.
        (true, true) => {}
        (true, false) => problems.push(
            rule("tunnel.dns", "nobody is named who would be asked").fix(
                Fix::text("name a server that is reached through the tunnel")
                    .command("servers: [198.18.0.53]"),
            ),
        ),
        (false, true) => problems.push(
            rule(
                "tunnel.dns",
                "nothing says what the servers are asked about",
            )
            .fix(
                Fix::text("name domains: everything else is asked where it always was")
                    .command("domains: [lb.example.com]"),
            ),
        ),
    }
    None
}
