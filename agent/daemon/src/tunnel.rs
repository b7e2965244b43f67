//! The tunnel of this host: the device as it is wanted, and whether the gateways answer.
//!
//! Whatever fails here is a problem that is told and tried again: the VIPs do not depend on it.

mod fallback;
mod gateways;
mod keys;
mod mesh;
mod names;
mod opinion;
mod paths;
mod place;
mod problems;
mod targets;
mod tools;
mod view;
mod ways;

use std::{collections::BTreeMap, net::IpAddr, path::Path, sync::Arc, time::SystemTime};

use kedge_control::{
    local::{DataPlane, TunnelList, TunnelState},
    report::ReportedTunnel,
};
use kedge_core::{Coded as _, Instant, Problem};
use kedge_host::wall;
use kedge_net::{
    clock,
    wireguard::module::{self, Module},
};
use kedge_tunnel_device::{
    PeerSpec, Workers,
    backend::Kind,
    echo::{Client, Config, Report},
    keeper::{Keeper, Wish},
};
use kedge_tunnel_proto::{
    echo::Claim,
    keys::{PrivateKey, PublicKey},
    memory::Memory,
};
use kedge_vip_speaker::bfd::Levels;
use tokio::sync::Notify;
use tracing::debug;

use self::{
    fallback::Fallbacks,
    gateways::{Gateways, Known},
    keys::Keys,
    mesh::Mesh,
    names::Names,
    opinion::opinion,
    targets::Targets,
    tools::Tools,
    ways::Ways,
};
pub(crate) use self::{fallback::Proxy, gateways::sessions};
use crate::desired::{Peer, TunnelWish};

/// The tunnel.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// Which data plane it is of; another one is another tunnel, with another key.
    pub kind: Kind,
    /// How the kernel stands to WireGuard.
    module: Module,
    keeper: Keeper,
    keys: Keys,
    wish: Option<TunnelWish>,
    names: Names,
    echoes: BTreeMap<String, Echo>,
    echo_problem: Option<Problem>,
    tools: Tools,
    /// The opening of the device that the echoes belong to.
    opening: u64,
    peers: BTreeMap<String, Life>,
    gateway: Option<String>,
    gateway_since: Option<SystemTime>,
    /// Where several gateways lead to the same.
    gateways: Option<Gateways>,
    /// The other hosts of its mesh.
    mesh: Option<Mesh>,
    /// What the BFD sessions of this host say.
    levels: Levels,
    targets: Targets,
    ways: Ways,
    /// Where UDP does not pass.
    fallbacks: Fallbacks,
    /// What this host says of the gateway it sends through.
    claim: Option<Claim>,
    epoch: u64,
    epoch_is_new: bool,
}

#[derive(Debug)]
struct Echo {
    /// Whoever has one of them is the same peer.
    keys: [Option<PublicKey>; 2],
    ends: (IpAddr, IpAddr),
    client: Client,
}

/// What is said of a peer, and since when.
#[derive(Clone, Debug, PartialEq)]
struct Life {
    state: TunnelState,
    since: SystemTime,
    /// When somebody began to wait for it.
    since_boottime: Instant,
    because: String,
    report: Option<Report>,
}

impl Tunnel {
    /// No tunnel yet, of that data plane, whose key it is; `memory` is what an earlier process learned of
    /// its peers.
    pub fn new(kind: Kind, key: PrivateKey, memory: Memory) -> Self {
        let targets = Targets::default();
        Self {
            fallbacks: Fallbacks::with_news(targets.news()),
            ways: Ways::with_news(targets.news()),
            kind,
            module: module::standing(Path::new("/")),
            keys: Keys::of(key.public()),
            keeper: Keeper::of(kind, key, memory),
            wish: None,
            names: Names::default(),
            echoes: BTreeMap::new(),
            echo_problem: None,
            tools: Tools::default(),
            opening: 0,
            peers: BTreeMap::new(),
            gateway: None,
            gateway_since: None,
            gateways: None,
            mesh: None,
            levels: Levels::default(),
            targets,
            claim: None,
            epoch: 0,
            epoch_is_new: false,
        }
    }

    /// Wants `wish` from here on.
    pub fn want(&mut self, wish: Option<TunnelWish>) {
        let now = clock::now();
        let failover = wish.as_ref().and_then(|wish| wish.failover.clone());
        match (&mut self.gateways, failover) {
            (Some(gateways), Some(failover)) if gateways.are(&failover) => {}
            (Some(gateways), Some(failover)) => gateways.want(now, failover),
            (gateways, failover) => *gateways = failover.map(|it| Gateways::new(now, it)),
        }
        match (&mut self.mesh, wish.as_ref().and_then(|it| it.mesh.clone())) {
            (Some(mesh), Some(wish)) => mesh.want(now, wish),
            (mesh, wish) => *mesh = wish.map(Mesh::new),
        }
        self.wish = wish;
        self.bring_about();
    }

    /// Takes what the BFD sessions of this host say, and all that is known of gateways. Another one may
    /// be active at once.
    pub fn steer(&mut self, levels: &Levels) {
        self.levels = Levels::clone(levels);
        if self.ways.are_due() {
            self.ways.tend(self.wish.as_ref(), &mut self.keeper);
        }
        let elsewhere = self.fall_back();
        let turned = self.mesh.as_mut().is_some_and(Mesh::has_turned) || !elsewhere.is_empty();
        if self.weigh() {
            self.equip();
            self.meet();
            self.ask();
            self.say_where();
            self.choose_gateway(SystemTime::now());
        } else if turned {
            self.equip();
        }
        self.greet(&elsewhere);
    }

    /// Hears when something behind a gateway begins or ceases to answer.
    pub fn news(&self) -> Arc<Notify> {
        self.targets.news()
    }

    /// When something is due before anything happens.
    pub fn deadline(&self) -> Option<Instant> {
        let gateways = self.gateways.as_ref().and_then(Gateways::deadline);
        gateways.into_iter().chain(self.fallbacks.deadline()).min()
    }

    /// What is due about once a second.
    pub fn tend(&mut self) {
        self.bring_about();
    }

    /// The path may have changed: asks every gateway at once.
    pub fn ask(&mut self) {
        self.fallbacks.ask();
        for echo in self.echoes.values() {
            echo.client.ask();
        }
    }

    /// The tunnel's part of the report.
    pub fn report(&self) -> ReportedTunnel {
        ReportedTunnel {
            public_key: self.keys.current.to_string(),
            next_public_key: self.keys.next(),
            gateway: self.gateway.clone(),
            last_transition: self.gateway_since.map(wall::rfc3339).unwrap_or_default(),
        }
    }

    /// Every peer, as people see it.
    pub fn list(&self) -> TunnelList {
        let stats = self.keeper.device().map(|device| device.stats());
        let list = view::list(
            self.wish.as_ref(),
            &stats.unwrap_or_default(),
            &self.peers,
            self.gateways.as_ref(),
            &self.ways,
            &self.fallbacks,
        );
        let plane = self.wish.as_ref().map(|wish| DataPlane {
            mode: wish.data_plane.kind().to_string(),
            because: wish.data_plane.because(self.module).to_owned(),
            repairs: self.keeper.repairs(),
        });
        let mut list = TunnelList {
            public_key: self.keys.current.to_string(),
            data_plane: plane,
            problems: self.device_problem().cloned().into_iter().collect(),
            ..list
        };
        if let Some(device) = self.keeper.device().filter(|_| self.wish.is_some()) {
            device.device_stats().tell(&mut list);
        }
        list
    }

    /// How many peers are up, of how many.
    pub fn up(&self) -> (usize, usize) {
        let up = self
            .peers
            .values()
            .filter(|life| life.state == TunnelState::Up);
        (up.count(), self.peers.len())
    }

    /// What is wrong with the device itself.
    pub fn device_problem(&self) -> Option<&Problem> {
        self.keeper.problem()
    }

    /// What was learned of peers and must outlive the process, if there is more of it than the last
    /// time.
    pub fn learned(&mut self) -> Option<&Memory> {
        self.keeper.learned()
    }

    /// Leaves the device to the agent that comes next, as far as it can be left.
    pub fn leave(&mut self) {
        self.echoes.clear();
        self.fallbacks.clear();
        self.ways.clear();
        self.mesh = None;
        self.tools = Tools::default();
        self.keeper.leave();
    }

    /// Takes the device down.
    pub fn close(&mut self) {
        self.echoes.clear();
        self.fallbacks.clear();
        self.targets.clear();
        self.ways.clear();
        self.mesh = None;
        self.tools = Tools::default();
        self.keeper.close();
    }

    fn bring_about(&mut self) {
        let endpoints = self.wish.iter().flat_map(|wish| &wish.peers);
        self.names.want(
            endpoints.flat_map(|peer| [&peer.endpoint, &peer.other_endpoint].into_iter().flatten()),
        );
        let elsewhere = self.fall_back();
        self.weigh();
        if let Some(mesh) = &mut self.mesh {
            mesh.has_turned();
        }
        self.equip();
        self.greet(&elsewhere);
        self.meet();
        let readable = self.wish.as_ref().filter(|wish| wish.wg_socket);
        self.tools
            .offer(readable.map(|wish| wish.interface.as_str()), &self.keeper);
        self.ask_gateways();
        self.say_where();
        self.targets
            .want(self.wish.as_ref(), self.keeper.device(), self.opening);
        self.ways.tend(self.wish.as_ref(), &mut self.keeper);
        self.judge();
    }

    /// Forms an opinion of all gateways. Whether another one is active since.
    fn weigh(&mut self) -> bool {
        let Some(gateways) = &mut self.gateways else {
            return false;
        };
        let device = self.keeper.device().map(|device| device.handle());
        let (echoes, targets, fallbacks) = (&self.echoes, &self.targets, &self.fallbacks);
        gateways.see(clock::now(), &self.levels, |name| Known {
            answers: echoes.get(name).and_then(|echo| echo.client.report().up),
            heard: device.as_ref().and_then(|device| device.heard(name)),
            target: targets.through(name),
            over_tls: fallbacks.is_over_tls(name),
        })
    }

    /// Has the device as it is wanted.
    fn equip(&mut self) {
        let (now, active) = (clock::now(), self.active_gateway());
        let mesh = self.mesh.iter();
        let hosts: Vec<PeerSpec> = mesh.flat_map(|mesh| mesh.specs(now, active)).collect();
        let wish = self.wish.as_ref().map(|wish| Wish {
            ifname: wish.interface.clone(),
            listen_port: wish.listen_port,
            other_port: None,
            mtu: wish.mtu,
            noise_core: wish.noise_core,
            offload: wish.offload,
            workers: Workers::ONE,
            addresses: wish.addresses.clone(),
            peers: wish
                .peers
                .iter()
                .map(|peer| self.spec(peer, active))
                .chain(hosts)
                .collect(),
            realms: BTreeMap::new(),
        });
        self.keeper.want(wish);
    }

    /// Hears of the other hosts, and has them hear of this one.
    fn meet(&mut self) {
        let active = self.active_gateway().map(str::to_owned);
        if let Some((mesh, wish)) = self.mesh.as_mut().zip(self.wish.as_ref()) {
            let (device, opening) = (self.keeper.device(), self.keeper.openings());
            let news = self.targets.news();
            mesh.meet(wish, device, opening, active.as_deref(), &news);
        }
    }

    fn spec(&self, peer: &Peer, active: Option<&str>) -> PeerSpec {
        let mut spec = PeerSpec {
            name: peer.name.clone(),
            public_key: peer.public_key,
            preshared_key: None,
            endpoint: self.fallbacks.place(&peer.name).or_else(|| {
                let endpoint = peer.endpoint.as_ref()?;
                self.names.address(endpoint)
            }),
            allowed_ips: peer.allowed_ips.clone(),
            keepalive: peer.keepalive,
            always_up: peer.echo.is_some(),
            accepts: Vec::new(),
            relays: false,
            realm: None,
            next_key: peer.next_key.map(Box::new),
        };
        if let Some(gateways) = &self.gateways {
            gateways.lead(&mut spec);
        }
        if let Some(mesh) = self.mesh.as_ref().filter(|_| peer.echo.is_some()) {
            mesh.lead(&mut spec, active);
        }
        spec
    }

    fn ask_gateways(&mut self) {
        self.echo_problem = None;
        let Some(device) = self.keeper.device() else {
            self.echoes.clear();
            return;
        };
        if self.opening != self.keeper.openings() {
            self.opening = self.keeper.openings();
            self.echoes.clear();
        }
        let peers = self.wish.as_ref().map_or(&[][..], |wish| &wish.peers);
        self.echoes.retain(|name, echo| {
            let named = peers.iter().find(|peer| peer.name == *name);
            named.is_some_and(|peer| {
                let before = std::mem::replace(&mut echo.keys, peer.keys());
                let known = echo.keys.iter().flatten();
                let same = known.into_iter().any(|key| before.contains(&Some(*key)));
                same && peer.echo == Some(echo.ends)
            })
        });
        for peer in peers {
            let Some(ends) = peer.echo.filter(|_| !self.echoes.contains_key(&peer.name)) else {
                continue;
            };
            let (handle, name) = (device.handle(), peer.name.clone());
            match Client::start(handle, name.clone(), ends.0, ends.1, Config::default()) {
                Ok(client) => {
                    let keys = peer.keys();
                    self.echoes.insert(name, Echo { keys, ends, client });
                }
                Err(err) => {
                    let error = &err as &dyn std::error::Error;
                    debug!(peer = name, error, "the echo is tried again");
                    self.echo_problem = Some(err.problem());
                }
            }
        }
    }

    /// Forms an opinion of every peer.
    fn judge(&mut self) {
        let stats = self
            .keeper
            .device()
            .map(|device| device.stats())
            .unwrap_or_default();
        let (now, wall) = (clock::now(), SystemTime::now());
        let before = std::mem::take(&mut self.peers);
        for peer in self.wish.iter().flat_map(|wish| &wish.peers) {
            let report = self.echoes.get(&peer.name).map(|echo| echo.client.report());
            let stats = stats.iter().find(|stats| stats.name == peer.name);
            let old = before.get(&peer.name);
            let opinion = opinion(peer, stats, report.as_ref(), now);
            // A peer that was up once is down, not connecting.
            let known = old.is_some_and(|old| old.state != TunnelState::Connecting);
            let state = match opinion.0 {
                TunnelState::Connecting if known => TunnelState::Down,
                state => state,
            };
            let same = old.filter(|old| old.state == state);
            self.peers.insert(
                peer.name.clone(),
                Life {
                    state,
                    since: same.map_or(wall, |old| old.since),
                    since_boottime: same.map_or(now, |old| old.since_boottime),
                    because: opinion.1,
                    report,
                },
            );
        }
        self.choose_gateway(wall);
    }

    /// The gateway that is reported as answering: the same as long as it does.
    fn choose_gateway(&mut self, wall: SystemTime) {
        let answers = |name: &String| {
            let up = self
                .peers
                .get(name)
                .is_some_and(|life| life.state == TunnelState::Up);
            up && self.echoes.contains_key(name)
        };
        let active = self.gateways.as_ref().and_then(Gateways::active);
        let active = active.map(str::to_owned).filter(answers);
        let stays = active.or_else(|| self.gateway.clone().filter(answers));
        let next = stays.or_else(|| self.peers.keys().find(|name| answers(name)).cloned());
        if next != self.gateway {
            self.gateway = next;
            self.gateway_since = Some(wall);
        }
    }
}

#[cfg(test)]
mod tests;
