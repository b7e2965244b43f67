//! What the plans of namespaces know of each other.
//!
//! A plan looks at one namespace. What namespaces have in common are gateways: their ports, their
//! overlay addresses, and what they serve. Each plan leaves its [`Share`] of that; [`Commons`] are
//! the shares of all, and a [`Face`] is a gateway of another namespace as far as it matters here.
//! Of a snapshot of everything the commons are empty: then a plan sees it all by itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use ipnet::IpNet;
use kedge_control::{
    agent::{Mesh, PeerConfig},
    balance::Listener,
};
use kedge_crd::EdgeGateway;

use super::{
    Because, Case, Decided, Service, config,
    http::{self, Held},
    ledger,
    ledger::Ledger,
    offered::Offered,
    overlay,
    ports::{Owner, Port, Seat},
    tcp,
};
use crate::{
    snapshot::{Hearing, Snapshot},
    store::Name,
};

/// What one namespace has of the gateways, its own and others'.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    /// The gateways its objects name, whether they exist or not.
    pub uses: BTreeSet<Name>,
    /// Those of which it wants something that is used up.
    pub starved: BTreeSet<Name>,
    /// The ports it has.
    pub ports: BTreeMap<Name, BTreeSet<Port>>,
    /// The names whose requests are its tenants'.
    pub names: BTreeMap<Name, BTreeSet<Held>>,
    /// The overlay addresses it has.
    pub addresses: BTreeSet<IpAddr>,
    /// Those of its gateways' instances among them.
    pub instances: BTreeSet<IpAddr>,
    /// Its hosts, as peers.
    pub peers: BTreeMap<Name, Vec<PeerConfig>>,
    /// Its hosts that are told of each other.
    pub meshes: BTreeMap<Name, Vec<Mesh>>,
    /// Its listeners; each instance binds an address of its own.
    pub listeners: BTreeMap<Name, Vec<Listener>>,
    /// What gateways serve of its TCPLoadBalancers and HTTPLoadBalancers.
    pub offers: BTreeMap<Name, Vec<Offered>>,
    /// Its own gateways.
    pub gateways: BTreeMap<Name, Face>,
}

/// A gateway as the plans of other namespaces see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Face {
    /// The gateway, in force.
    pub gateway: EdgeGateway,
    /// Which instances are heard.
    pub hearing: BTreeMap<String, Hearing>,
}

/// The shares of all namespaces, put together.
#[derive(Clone, Debug, Default)]
pub struct Commons {
    ports: BTreeMap<Name, BTreeSet<Port>>,
    names: BTreeMap<Name, BTreeMap<String, Vec<Held>>>,
    addresses: Owned,
    instances: Owned,
    peers: BTreeMap<Name, BTreeMap<String, Vec<PeerConfig>>>,
    meshes: BTreeMap<Name, BTreeMap<String, Vec<Mesh>>>,
    listeners: BTreeMap<Name, BTreeMap<String, Vec<Listener>>>,
    offers: BTreeMap<Name, BTreeMap<String, Vec<Offered>>>,
}

impl Commons {
    /// Puts a namespace's share in the place of its last one.
    pub fn replace(&mut self, space: &str, last: &Share, share: &Share) {
        for (gateway, ports) in &last.ports {
            if let Some(all) = self.ports.get_mut(gateway) {
                all.retain(|port| !ports.contains(port));
            }
        }
        for (gateway, ports) in &share.ports {
            let all = self.ports.entry(gateway.clone()).or_default();
            all.extend(ports.iter().cloned());
        }
        own(
            &mut self.addresses,
            space,
            &last.addresses,
            &share.addresses,
        );
        own(
            &mut self.instances,
            space,
            &last.instances,
            &share.instances,
        );
        put(&mut self.peers, space, &last.peers, &share.peers);
        put(&mut self.meshes, space, &last.meshes, &share.meshes);
        put(
            &mut self.listeners,
            space,
            &last.listeners,
            &share.listeners,
        );
        put(&mut self.offers, space, &last.offers, &share.offers);
        let listed = |share: &Share| {
            let names = share.names.iter();
            let names =
                names.map(|(gateway, all)| (gateway.clone(), all.iter().cloned().collect()));
            names.collect::<BTreeMap<Name, Vec<Held>>>()
        };
        if last.names != share.names {
            put(&mut self.names, space, &listed(last), &listed(share));
        }
    }

    /// The ports of a gateway that other namespaces have.
    pub fn ports<'a>(
        &'a self,
        gateway: &Name,
        own: &'a str,
    ) -> impl Iterator<Item = &'a Port> + use<'a> {
        let all = self.ports.get(gateway).into_iter().flatten();
        all.filter(move |(_, owner)| owner.name.namespace != own)
    }

    /// The names of a gateway that other namespaces have.
    pub fn names<'a>(
        &'a self,
        gateway: &Name,
        own: &'a str,
    ) -> impl Iterator<Item = &'a Held> + use<'a> {
        others(&self.names, gateway, own)
    }

    /// Whether another namespace has the overlay address.
    #[must_use]
    pub fn has_address(&self, address: IpAddr, own: &str) -> bool {
        is_anothers(&self.addresses, address, own)
    }

    /// Whether an instance of another namespace's gateway has the overlay address.
    #[must_use]
    pub fn has_instance(&self, address: IpAddr, own: &str) -> bool {
        is_anothers(&self.instances, address, own)
    }

    /// The peers a gateway has of other namespaces.
    pub fn peers<'a>(
        &'a self,
        gateway: &Name,
        own: &'a str,
    ) -> impl Iterator<Item = &'a PeerConfig> + use<'a> {
        others(&self.peers, gateway, own)
    }

    /// The meshes a gateway has of other namespaces.
    pub fn meshes<'a>(
        &'a self,
        gateway: &Name,
        own: &'a str,
    ) -> impl Iterator<Item = &'a Mesh> + use<'a> {
        others(&self.meshes, gateway, own)
    }

    /// The listeners a gateway has of other namespaces.
    pub fn listeners<'a>(
        &'a self,
        gateway: &Name,
        own: &'a str,
    ) -> impl Iterator<Item = &'a Listener> + use<'a> {
        others(&self.listeners, gateway, own)
    }

    /// What a gateway serves of other namespaces' TCPLoadBalancers and HTTPLoadBalancers.
    pub fn offers<'a>(
        &'a self,
        gateway: &Name,
        own: &'a str,
    ) -> impl Iterator<Item = &'a Offered> + use<'a> {
        others(&self.offers, gateway, own)
    }
}

type Parts<T> = BTreeMap<Name, BTreeMap<String, Vec<T>>>;

/// Addresses, and the namespaces that have them.
type Owned = BTreeSet<(IpAddr, Arc<str>)>;

fn own(all: &mut Owned, space: &str, last: &BTreeSet<IpAddr>, share: &BTreeSet<IpAddr>) {
    if last == share {
        return;
    }
    let owner: Arc<str> = space.into();
    for address in last.difference(share) {
        all.remove(&(*address, Arc::clone(&owner)));
    }
    for address in share.difference(last) {
        all.insert((*address, Arc::clone(&owner)));
    }
}

fn is_anothers(all: &Owned, address: IpAddr, own: &str) -> bool {
    let owners = all.range((address, Arc::from(""))..);
    let mut owners = owners.take_while(|(of, _)| *of == address);
    owners.any(|(_, owner)| **owner != *own)
}

fn put<T: Clone + PartialEq>(
    all: &mut Parts<T>,
    space: &str,
    last: &BTreeMap<Name, Vec<T>>,
    share: &BTreeMap<Name, Vec<T>>,
) {
    for gateway in last.keys().filter(|gateway| !share.contains_key(*gateway)) {
        if let Some(parts) = all.get_mut(gateway) {
            parts.remove(space);
        }
    }
    for (gateway, part) in share {
        if last.get(gateway) != Some(part) {
            let parts = all.entry(gateway.clone()).or_default();
            parts.insert(space.to_owned(), part.clone());
        }
    }
}

fn others<'a, T>(
    all: &'a Parts<T>,
    gateway: &Name,
    own: &'a str,
) -> impl Iterator<Item = &'a T> + use<'a, T> {
    let parts = all.get(gateway).into_iter().flatten();
    parts
        .filter(move |(space, _)| *space != own)
        .flat_map(|(_, part)| part)
}

impl Share {
    /// What a namespace has by what was decided and written earlier: known before it is planned,
    /// so that nobody who is planned first takes it.
    #[must_use]
    pub fn observed(snapshot: &Snapshot) -> Self {
        let mut share = Self {
            addresses: addresses(snapshot),
            instances: overlay::instances(snapshot).collect(),
            ..Self::default()
        };
        for (name, layers) in &snapshot.balancers {
            let Some(kept) = &layers.kept else { continue };
            let gateway = ledger::gateway_of(snapshot, name, kept);
            for (port_name, port) in &kept.listeners {
                if let Some(gateway) = &gateway {
                    let ports = share.ports.entry(gateway.clone()).or_default();
                    ports.insert((Seat::own_tcp(*port), Owner::balancer(name, port_name)));
                }
            }
        }
        for found in tcp::found(snapshot) {
            for (gateway, seat, owner) in tcp::held(snapshot, &found) {
                let ports = share.ports.entry(gateway).or_default();
                ports.insert((seat, owner));
            }
        }
        for found in http::found(snapshot) {
            for (gateway, held) in http::held(snapshot, &found) {
                share.names.entry(gateway).or_default().insert(held);
            }
            for (gateway, seat, owner) in http::seats(snapshot, &found) {
                let ports = share.ports.entry(gateway).or_default();
                ports.insert((seat, owner));
            }
        }
        share
    }

    /// What a namespace has once it was planned.
    #[must_use]
    pub fn of(
        snapshot: &Snapshot,
        cases: &[Case],
        decided: &[Decided],
        services: &[Service],
        ledger: &Ledger,
    ) -> Self {
        let mut share = Self {
            addresses: addresses(snapshot),
            instances: overlay::instances(snapshot).collect(),
            ports: ledger.ports.of_space(&snapshot.space),
            ..Self::default()
        };
        for (name, host) in &snapshot.hosts {
            let Some(gateway) = overlay::gateway_of(snapshot, name, host) else {
                continue;
            };
            if host.spec.identity.is_some() && host.spec.tunnel.addresses.is_empty() {
                share.starved.insert(gateway.clone());
            }
            if let Some(mut peer) = config::peer(name, host) {
                let tenant = snapshot.tenant_of(&name.namespace);
                peer.tenant = tenant.map_or_else(String::new, |it| it.metadata.name.clone());
                if config::is_meshed(host) {
                    share.mesh(&gateway, name, &peer.name);
                }
                let peers = share.peers.entry(gateway.clone()).or_default();
                peers.push(peer);
            }
            share.uses.insert(gateway);
        }
        for (case, decided) in cases.iter().zip(decided) {
            let Ok(balancer) = &case.asked else { continue };
            share
                .uses
                .extend(ledger::gateway_of(snapshot, &balancer.name, &balancer.spec));
            let used = decided
                .gateway
                .iter()
                .filter_map(|used| used.as_ref().err());
            let all = [Some(decided.plan.because()), decided.missing.as_ref()];
            for because in all.into_iter().flatten().chain(used) {
                if let Because::PortsExhausted { gateway, .. } = because {
                    share.starved.insert(gateway.clone());
                }
            }
        }
        for service in services {
            if let Some(Ok(used)) = &service.decided.gateway {
                let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
                let found = config::listeners(snapshot, service, &used.name, nowhere);
                if !found.is_empty() {
                    let listeners = share.listeners.entry(used.name.clone()).or_default();
                    listeners.extend(found);
                }
            }
        }
        share
    }

    /// Adds a host to the mesh of its namespace at a gateway.
    fn mesh(&mut self, gateway: &Name, host: &Name, peer: &str) {
        let meshes = self.meshes.entry(gateway.clone()).or_default();
        let prefix = format!("{}/", host.namespace);
        let of_it = |mesh: &&mut Mesh| mesh.hosts.iter().any(|it| it.starts_with(&prefix));
        match meshes.iter_mut().find(of_it) {
            Some(mesh) => mesh.hosts.push(peer.to_owned()),
            None => meshes.push(Mesh {
                hosts: vec![peer.to_owned()],
            }),
        }
    }

    /// Adds its own gateways, once they were configured.
    pub fn show(&mut self, snapshot: &Snapshot) {
        for (name, gateway) in &snapshot.gateways {
            let hearing = gateway.spec.instances.iter().filter_map(|instance| {
                let key = (name.clone(), instance.name.clone());
                let live = snapshot.live.gateways.get(&key)?;
                Some((instance.name.clone(), live.hearing))
            });
            let face = Face {
                hearing: hearing.collect(),
                gateway: gateway.clone(),
            };
            self.gateways.insert(name.clone(), face);
        }
    }
}

impl Face {
    /// The gateway as one namespace sees it: of its peers and frontends those of the namespace, and of its
    /// generations the one that namespace waits for. So a change elsewhere changes nothing here.
    #[must_use]
    pub fn seen_by(&self, space: &str, needed: &BTreeMap<String, u64>) -> Self {
        let mut face = self.clone_without_peers();
        for instance in &mut face.gateway.spec.instances {
            if let Some(mark) = &mut instance.config {
                let needed = needed.get(&instance.name).copied();
                mark.generation =
                    needed.map_or(mark.generation, |needed| mark.generation.min(needed));
                mark.digest = String::new();
            }
        }
        let prefix = format!("{space}/");
        for (seen, whole) in face
            .gateway
            .status
            .instances
            .iter_mut()
            .zip(&self.gateway.status.instances)
        {
            let from = whole
                .peers_alive
                .partition_point(|peer| peer.as_str() < prefix.as_str());
            let own = whole.peers_alive.iter().skip(from);
            let own = own.take_while(|peer| peer.starts_with(&prefix));
            seen.peers_alive = own.cloned().collect();
            let own = whole.unserved.iter();
            let own = own.filter(|unserved| unserved.name.starts_with(&prefix));
            seen.unserved = own.cloned().collect();
            let own = whole.draining.iter();
            let own = own.filter(|draining| draining.host.starts_with(&prefix));
            seen.draining = own.cloned().collect();
            if let Some(needed) = needed.get(&seen.name) {
                seen.config_generation = seen.config_generation.min(*needed);
            }
        }
        face.gateway.status.conditions.clear();
        face
    }

    fn clone_without_peers(&self) -> Self {
        let EdgeGateway {
            api_version,
            kind,
            metadata,
            spec,
            status,
        } = &self.gateway;
        let instances =
            status
                .instances
                .iter()
                .map(|instance| kedge_crd::gateway::InstanceStatus {
                    name: instance.name.clone(),
                    version: instance.version.clone(),
                    boot_id: instance.boot_id.clone(),
                    listen_port: instance.listen_port,
                    config_generation: instance.config_generation,
                    serves_frontends: instance.serves_frontends,
                    drains: instance.drains,
                    tells_clients_apart: instance.tells_clients_apart,
                    ..kedge_crd::gateway::InstanceStatus::default()
                });
        let status = kedge_crd::EdgeGatewayStatus {
            instances: instances.collect(),
            ..kedge_crd::EdgeGatewayStatus::default()
        };
        Self {
            gateway: EdgeGateway {
                api_version: api_version.clone(),
                kind: kind.clone(),
                metadata: metadata.clone(),
                spec: spec.clone(),
                status,
            },
            hearing: self.hearing.clone(),
        }
    }
}

fn addresses(snapshot: &Snapshot) -> BTreeSet<IpAddr> {
    let hosts = snapshot.hosts.values();
    let hosts = hosts.flat_map(|host| &host.spec.tunnel.addresses);
    let hosts = hosts.map(IpNet::addr);
    hosts.chain(overlay::instances(snapshot)).collect()
}
