//! The desired state of hosts and gateway instances.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU16,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ipnet::IpNet;
use kedge_control::{
    agent::{
        self, GatewayConfig, HealthMode, HostConfig, Mesh, MeshConfig, MeshPeer, PeerConfig,
        TunnelConfig, VipConfig,
    },
    balance::{Listener, Member},
    frontend::ProxyProtocol,
};
use kedge_core::vip::AdvertInterval;
use kedge_crd::{
    EdgeGateway, EdgeHost,
    balancer::{Health, Mode},
    gateway::{DEFAULT_KEEPALIVE_SECONDS, DEFAULT_MTU, DEFAULT_PORT, Instance, PublicEndpoint},
    host::{ConfigMark, DirectPath, Topology},
};
use serde::Serialize;

use super::{
    Service, endpoint::ports, offered, overlay::gateway_of, share::Share, shortcut, slots,
};
use crate::{snapshot::Snapshot, store::Name};

/// What a host must do, but for the generation.
#[must_use]
pub fn host(snapshot: &Snapshot, services: &[Service], name: &Name, host: &EdgeHost) -> HostConfig {
    let mut vips: Vec<VipConfig> = services
        .iter()
        .filter_map(|service| vip(service, name, host))
        .collect();
    vips.sort_by(|a, b| a.name.cmp(&b.name));
    HostConfig {
        generation: 0,
        vips,
        tunnel: host_tunnel(snapshot, name, host),
        mesh: mesh(snapshot, name, host),
        shortcuts: shortcut::of(snapshot, services, name, host),
        ca_bundle: snapshot.ca_bundle.clone(),
    }
}

/// What a gateway instance must do, but for the generation.
#[must_use]
pub fn gateway(
    snapshot: &Snapshot,
    share: &Share,
    name: &Name,
    gateway: &EdgeGateway,
    instance: &Instance,
) -> GatewayConfig {
    let own = share.peers.get(name).into_iter().flatten();
    let peers = own.chain(snapshot.commons.peers(name, &snapshot.space));
    let mut peers: Vec<PeerConfig> = peers.cloned().collect();
    peers.sort_by(|one, other| one.name.cmp(&other.name));
    let address = listen_address(gateway, instance);
    let own = share.listeners.get(name).into_iter().flatten();
    let listeners = own.chain(snapshot.commons.listeners(name, &snapshot.space));
    let listeners = listeners.cloned();
    let mut listeners: Vec<Listener> = listeners
        .map(|listener| Listener {
            address,
            ..listener
        })
        .collect();
    listeners.sort();
    let own = share.meshes.get(name).into_iter().flatten();
    let meshes = own.chain(snapshot.commons.meshes(name, &snapshot.space));
    let mut meshes: Vec<Mesh> = meshes.cloned().collect();
    meshes.sort_by(|one, other| one.hosts.cmp(&other.hosts));
    let own = share.offers.get(name).into_iter().flatten();
    let parts = own.chain(snapshot.commons.offers(name, &snapshot.space));
    let mut offer = offered::at(parts, address);
    let proxy_protocol = gateway.spec.proxy_protocol.as_ref();
    offer.proxy_protocol = proxy_protocol.map(|it| ProxyProtocol {
        from: it.from.iter().map(IpNet::trunc).collect(),
    });
    GatewayConfig {
        generation: 0,
        tunnel: Some(TunnelConfig {
            addresses: instance.addresses.clone(),
            mtu: gateway.spec.tunnel.mtu.unwrap_or(DEFAULT_MTU).get(),
            peers,
        }),
        meshes,
        listeners,
        offer,
        ca_bundle: snapshot.ca_bundle.clone(),
    }
}

/// An enrolled host as a peer of its gateway.
#[must_use]
pub fn peer(name: &Name, host: &EdgeHost) -> Option<PeerConfig> {
    if host.spec.identity.is_none() || !host.spec.is_active() {
        return None;
    }
    Some(PeerConfig {
        name: peer_name(name),
        public_key: host.spec.tunnel.public_keys.first()?.clone(),
        next_public_key: host.spec.tunnel.public_keys.get(1).cloned(),
        endpoint: None,
        other_endpoint: None,
        tls_endpoint: None,
        tenant: String::new(),
        allowed_ips: host.spec.tunnel.addresses.clone(),
        keepalive_seconds: 0,
    })
}

/// The name of a host's peer and member at its gateway: unique over all tenants.
#[must_use]
pub fn peer_name(host: &Name) -> String {
    host.to_string()
}

/// The mark of a desired state: the generation grows when the content differs from the last one.
pub fn mark(last: Option<&ConfigMark>, config: &impl Serialize) -> ConfigMark {
    let text = serde_json::to_vec(config).unwrap_or_default();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &text);
    let digest = URL_SAFE_NO_PAD.encode(digest.as_ref());
    match last {
        Some(last) if last.digest == digest => last.clone(),
        last => ConfigMark {
            generation: last.map_or(0, |last| last.generation) + 1,
            digest,
        },
    }
}

/// A VIP's name on its hosts: the LoadBalancer's, made to fit.
#[must_use]
pub fn vip_name(balancer: &Name) -> String {
    let fits = balancer.name.parse::<kedge_core::Name>().is_ok();
    if fits {
        return balancer.name.clone();
    }
    let plain = balancer.name.replace('.', "-");
    let mut name = format!("vip-{plain}");
    name.truncate(63);
    name
}

fn vip(service: &Service, name: &Name, host: &EdgeHost) -> Option<VipConfig> {
    let spec = &service.balancer.spec;
    let vip = spec.vip.as_ref().filter(|_| spec.mode == Some(Mode::Vip))?;
    let (address, vrid) = (vip.address?, vip.vrid?);
    let serving = service.targets.iter().filter_map(|target| target.serving());
    if !serving.into_iter().any(|target| target == name) {
        return None;
    }
    let interval = vip
        .advert_interval_seconds
        .map_or(AdvertInterval::DEFAULT, |seconds| seconds.interval());
    let wished = host.spec.vrrp.as_ref().and_then(|vrrp| vrrp.priority);
    let slot = vip.slots.get(&name.name).copied().unwrap_or(0);
    Some(VipConfig {
        name: vip_name(&service.balancer.name),
        addresses: vec![address],
        vrid,
        priority: wished.unwrap_or_else(|| slots::priority(slot, interval)),
        advert_interval_seconds: f64::from(interval.centis()) / 100.0,
        interface: vip.interface.clone(),
        health: match vip.health.unwrap_or_default() {
            Health::Auto => HealthMode::Auto,
            Health::None => HealthMode::None,
        },
    })
}

fn host_tunnel(snapshot: &Snapshot, name: &Name, host: &EdgeHost) -> Option<TunnelConfig> {
    let gateway = snapshot.gateway(&gateway_of(snapshot, name, host)?)?;
    let tunnel = &gateway.spec.tunnel;
    let peers = gateway.spec.instances.iter().filter_map(|instance| {
        Some(PeerConfig {
            name: instance.name.clone(),
            public_key: instance.public_keys.first()?.clone(),
            next_public_key: instance.public_keys.get(1).cloned(),
            endpoint: public_endpoint(gateway, instance),
            other_endpoint: beside(gateway, instance, gateway.spec.tunnel.other_port),
            tls_endpoint: beside(gateway, instance, gateway.spec.tunnel.tls_port),
            tenant: String::new(),
            allowed_ips: instance.addresses.clone(),
            keepalive_seconds: tunnel
                .keepalive_seconds
                .unwrap_or(DEFAULT_KEEPALIVE_SECONDS),
        })
    });
    Some(TunnelConfig {
        addresses: host.spec.tunnel.addresses.clone(),
        mtu: tunnel.mtu.unwrap_or(DEFAULT_MTU).get(),
        peers: peers.collect(),
    })
}

/// Whether a host has a part in the mesh of its namespace.
#[must_use]
pub fn is_meshed(host: &EdgeHost) -> bool {
    host.spec.tunnel.topology == Some(Topology::Mesh)
}

/// The other hosts of its namespace that have a part in the mesh, at the same gateway.
fn mesh(snapshot: &Snapshot, name: &Name, host: &EdgeHost) -> Option<MeshConfig> {
    let gateway = gateway_of(snapshot, name, host).filter(|_| is_meshed(host))?;
    let others = snapshot.hosts.iter().filter(|(other, it)| {
        let same_place = other.namespace == name.namespace && *other != name;
        same_place && is_meshed(it) && gateway_of(snapshot, other, it).as_ref() == Some(&gateway)
    });
    let peers = others.filter_map(|(other, it)| {
        let PeerConfig {
            name,
            public_key,
            next_public_key,
            allowed_ips,
            ..
        } = peer(other, it)?;
        Some(MeshPeer {
            name,
            public_key,
            next_public_key,
            addresses: allowed_ips,
        })
    });
    Some(MeshConfig {
        direct_path: match host.spec.tunnel.direct_path.unwrap_or_default() {
            DirectPath::Auto => agent::DirectPath::Auto,
            DirectPath::Never => agent::DirectPath::Never,
        },
        peers: peers.collect(),
    })
}

/// Where hosts reach an instance: the endpoint that names it, else the one that names none.
fn endpoint_of<'a>(gateway: &'a EdgeGateway, instance: &Instance) -> Option<&'a PublicEndpoint> {
    let all = &gateway.spec.tunnel.public_endpoints;
    let named = |endpoint: &&PublicEndpoint| endpoint.instance.as_ref() == Some(&instance.name);
    all.iter()
        .find(named)
        .or_else(|| all.iter().find(|endpoint| endpoint.instance.is_none()))
}

fn public_endpoint(gateway: &EdgeGateway, instance: &Instance) -> Option<String> {
    let endpoint = endpoint_of(gateway, instance)?;
    let reported = gateway
        .status
        .instances
        .iter()
        .find(|status| status.name == instance.name)
        .map(|status| status.listen_port)
        .filter(|port| *port != 0);
    let port = endpoint
        .port
        .map(u16::from)
        .or(reported)
        .unwrap_or(DEFAULT_PORT.get());
    Some(at(&endpoint.host, port))
}

/// Where hosts reach an instance by another port than its first.
fn beside(gateway: &EdgeGateway, instance: &Instance, port: Option<NonZeroU16>) -> Option<String> {
    let endpoint = endpoint_of(gateway, instance)?;
    Some(at(&endpoint.host, port?.get()))
}

fn at(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// The address on which an instance listens for clients.
#[must_use]
pub fn listen_address(gateway: &EdgeGateway, instance: &Instance) -> IpAddr {
    let endpoint = endpoint_of(gateway, instance);
    let address =
        endpoint.and_then(|endpoint| endpoint.listen.or_else(|| endpoint.host.parse().ok()));
    address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// The listeners of a LoadBalancer at a gateway, at that address.
#[must_use]
pub fn listeners(
    snapshot: &Snapshot,
    service: &Service,
    gateway: &Name,
    address: IpAddr,
) -> Vec<Listener> {
    let uses = match &service.decided.gateway {
        Some(Ok(used)) => used.name == *gateway,
        _ => false,
    };
    if !uses {
        return Vec::new();
    }
    let name = &service.balancer.name;
    let spec = &service.balancer.spec;
    let ports = ports(spec, None).into_iter().filter_map(|port| {
        let listener = spec.listeners.get(&port.name)?;
        let target = port.target_port.unwrap_or(port.port).get();
        Some(Listener {
            name: format!("{name}/{}", port.name),
            address,
            port: listener.get(),
            members: members(snapshot, service, gateway, target),
        })
    });
    ports.collect()
}

/// The hosts behind a listener, the present holder of the VIP first.
pub fn members(snapshot: &Snapshot, service: &Service, gateway: &Name, port: u16) -> Vec<Member> {
    let taking = service.targets.iter().filter_map(|target| {
        let host = target.host.as_ref()?;
        (target.serves || target.draining).then_some((host, target.draining))
    });
    let mut members: BTreeMap<(bool, &Name), Member> = BTreeMap::new();
    for (name, draining) in taking {
        let Some(host) = snapshot.hosts.get(name) else {
            continue;
        };
        let address = host.spec.tunnel.addresses.first().map(IpNet::addr);
        let reachable = gateway_of(snapshot, name, host).as_ref() == Some(gateway);
        if let (Some(address), true) = (address, reachable) {
            let member = Member {
                host: peer_name(name),
                address,
                port,
                draining,
            };
            members.insert((service.holder.as_ref() != Some(name), name), member);
        }
    }
    members.into_values().collect()
}
