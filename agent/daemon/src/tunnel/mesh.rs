//! The other hosts of a mesh: through the active gateway at once, and straight where that is proven.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use kedge_core::{Coded as _, Instant, Problem};
use kedge_tunnel_device::{
    PeerSpec,
    backend::Backend,
    direct::{Meeting, Met, Standing, Teller, Wish},
};
use kedge_tunnel_proto::direct::{Candidate, CandidateKind, PEERS, PLACES, Path, Refusal};
use tokio::sync::Notify;
use tracing::debug;

use crate::desired::{MeshWish, Neighbor, Peer, TunnelWish};

/// The mesh.
#[derive(Debug)]
pub(super) struct Mesh {
    pub wish: MeshWish,
    meeting: Option<Held>,
    /// The paths in force.
    paths: BTreeMap<String, Path>,
    /// Since when there are to be no direct paths, while packets of the other ends may still come on
    /// them.
    refused_at: Option<Instant>,
    problem: Option<Problem>,
}

/// The meeting, as long as it is on the right addresses of the right device.
#[derive(Debug)]
struct Held {
    meeting: Meeting,
    on: Vec<IpAddr>,
    opening: u64,
}

impl Mesh {
    pub fn new(wish: MeshWish) -> Self {
        Self {
            wish,
            meeting: None,
            paths: BTreeMap::new(),
            refused_at: None,
            problem: None,
        }
    }

    /// Wants it otherwise.
    pub fn want(&mut self, now: Instant, wish: MeshWish) {
        if self.wish.refusal.is_none() && wish.refusal.is_some() {
            // Packets go the other way at once; the other ends may take a moment.
            self.refused_at = Some(now);
            self.paths.clear();
        }
        self.wish = wish;
    }

    /// Leads packets for the other hosts through the gateway `active`, and takes theirs from each one.
    pub fn lead(&self, peer: &mut PeerSpec, active: Option<&str>) {
        for neighbor in &self.wish.peers {
            let through_it = self.path(neighbor) == Path::Gateway;
            if through_it && active == Some(peer.name.as_str()) {
                peer.allowed_ips.extend(&neighbor.addresses);
            } else if self.wish.refusal != Some(Refusal::Unsupported) {
                peer.accepts.extend(&neighbor.addresses);
            }
        }
    }

    /// The other hosts as peers of the device. Without any gateway their packets go nowhere else.
    pub fn specs(&self, now: Instant, active: Option<&str>) -> Vec<PeerSpec> {
        let lingers = |at: Instant| now.since(at) < LINGER;
        let refused = self.wish.refusal.is_some() && !self.refused_at.is_some_and(lingers);
        if refused {
            return Vec::new();
        }
        let spec = |neighbor: &Neighbor| {
            let owns = self.path(neighbor) == Path::Direct || active.is_none();
            let (allowed_ips, accepts) = if owns {
                (neighbor.addresses.clone(), Vec::new())
            } else {
                (Vec::new(), neighbor.addresses.clone())
            };
            PeerSpec {
                name: neighbor.name.clone(),
                public_key: neighbor.public_key,
                preshared_key: None,
                // It is called at many places, and is where it answers.
                endpoint: None,
                allowed_ips,
                keepalive: None,
                always_up: false,
                accepts,
                relays: false,
                realm: None,
                next_key: neighbor.next_key.map(Box::new),
            }
        };
        self.wish.peers.iter().take(PEERS).map(spec).collect()
    }

    /// Meets them through `device`.
    pub fn meet(
        &mut self,
        tunnel: &TunnelWish,
        device: Option<&dyn Backend>,
        opening: u64,
        active: Option<&str>,
        news: &Arc<Notify>,
    ) {
        self.problem = None;
        let Some(device) = device else {
            self.meeting = None;
            return;
        };
        let on: Vec<IpAddr> = tunnel.addresses.iter().map(IpNet::addr).collect();
        let port = device.device_stats().listen_port;
        let wish = self.to_meet(tunnel, port, active);
        let same = |held: &&Held| held.on == on && held.opening == opening;
        if let Some(held) = self.meeting.as_ref().filter(same) {
            held.meeting.want(wish);
            return;
        }
        self.meeting = None;
        let (handle, news) = (device.handle(), Arc::clone(news));
        match Meeting::start(handle, &tunnel.interface, &on, wish, news) {
            Ok(meeting) => {
                self.meeting = Some(Held {
                    meeting,
                    on,
                    opening,
                });
            }
            Err(err) => {
                let error = &err as &dyn std::error::Error;
                debug!(error, "the mesh is tried again");
                self.problem = Some(err.problem());
            }
        }
    }

    /// Ends it.
    /// Whether packets of a host take another path since the last time.
    pub fn has_turned(&mut self) -> bool {
        let path = |it: &Neighbor| (it.name.clone(), self.decided(it));
        let paths: BTreeMap<String, Path> = self.wish.peers.iter().map(path).collect();
        std::mem::replace(&mut self.paths, paths.clone()) != paths
    }

    /// What is known.
    pub fn standing(&self) -> Standing {
        let held = self.meeting.as_ref();
        held.map(|held| held.meeting.standing()).unwrap_or_default()
    }

    /// What is wrong.
    pub const fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    fn path(&self, neighbor: &Neighbor) -> Path {
        self.paths.get(&neighbor.name).copied().unwrap_or_default()
    }

    fn decided(&self, neighbor: &Neighbor) -> Path {
        let held = self
            .meeting
            .as_ref()
            .filter(|_| self.wish.refusal.is_none());
        held.map(|held| held.meeting.path(&neighbor.name))
            .unwrap_or_default()
    }

    fn to_meet(&self, tunnel: &TunnelWish, port: u16, active: Option<&str>) -> Wish {
        let met = |it: &Neighbor| Met {
            name: it.name.clone(),
            key: it.public_key,
            ends: it.ends,
        };
        let teller = |it: &Peer| {
            Some(Teller {
                name: it.name.clone(),
                ends: it.echo?,
            })
        };
        let hosts = self.wish.hosts.iter().map(|ip| Candidate {
            kind: CandidateKind::Host,
            at: SocketAddr::new(*ip, port),
        });
        let endpoints = self.wish.endpoints.iter().map(|at| Candidate {
            kind: CandidateKind::Configured,
            at: *at,
        });
        let inside = tunnel.peers.iter().flat_map(|it| &it.allowed_ips);
        let shared = tunnel.failover.iter().flat_map(|it| &it.prefixes);
        let mesh = self.wish.peers.iter().flat_map(|it| &it.addresses);
        Wish {
            peers: self.wish.peers.iter().map(met).collect(),
            // Who is asked whether it lives is a gateway.
            gateways: tunnel.peers.iter().filter_map(teller).collect(),
            active: active.map(str::to_owned),
            refusal: self.wish.refusal,
            // What is configured is worth more than the last of many addresses.
            candidates: endpoints.chain(hosts).take(PLACES).collect(),
            inside: inside.chain(shared).chain(mesh).copied().collect(),
        }
    }
}

/// For how long packets are taken on a direct path after this host was told to have none.
const LINGER: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use kedge_net::clock;
    use kedge_tunnel_proto::{
        directory::Directory,
        keys::{PrivateKey, PublicKey},
    };

    use super::*;

    fn key(number: u8) -> PublicKey {
        PrivateKey::from_random([number; 32]).public()
    }

    fn net(number: u8) -> IpNet {
        format!("198.18.0.{number}/32").parse().unwrap()
    }

    fn wanted(refusal: Option<Refusal>) -> Mesh {
        let neighbor = |number: u8| Neighbor {
            name: format!("site/{number}"),
            public_key: key(number),
            next_key: None,
            addresses: vec![net(number)],
            ends: (net(10).addr(), net(number).addr()),
        };
        Mesh::new(MeshWish {
            peers: vec![neighbor(11), neighbor(12)],
            refusal,
            hosts: Vec::new(),
            endpoints: Vec::new(),
        })
    }

    fn gateway(number: u8) -> PeerSpec {
        PeerSpec {
            name: format!("gw-{number}"),
            public_key: key(number),
            preshared_key: None,
            endpoint: None,
            allowed_ips: vec![net(number)],
            keepalive: None,
            always_up: true,
            accepts: Vec::new(),
            relays: false,
            realm: None,
            next_key: None,
        }
    }

    /// All peers of the device, of which `gw-1` is the active gateway.
    fn specs(mesh: &Mesh, now: Instant) -> Vec<PeerSpec> {
        let mut all = vec![gateway(1), gateway(2)];
        for spec in &mut all {
            mesh.lead(spec, Some("gw-1"));
        }
        all.extend(mesh.specs(now, Some("gw-1")));
        // They go together.
        Directory::new(key(99)).plan(all.clone()).unwrap();
        all
    }

    fn owner(specs: &[PeerSpec], prefix: IpNet) -> (&str, Vec<&str>) {
        let names = |of: fn(&PeerSpec) -> &Vec<IpNet>| -> Vec<&str> {
            let with = specs.iter().filter(|it| of(it).contains(&prefix));
            with.map(|it| it.name.as_str()).collect()
        };
        let owners = names(|it| &it.allowed_ips);
        assert_eq!(owners.len(), 1, "{owners:?}");
        (owners[0], names(|it| &it.accepts))
    }

    #[test]
    fn packets_for_a_host_go_one_way_and_come_from_all() {
        let mut mesh = wanted(None);
        let now = clock::now();
        let all = specs(&mesh, now);
        assert_eq!(owner(&all, net(11)), ("gw-1", vec!["gw-2", "site/11"]));
        mesh.paths.insert("site/11".to_owned(), Path::Direct);
        let all = specs(&mesh, now);
        assert_eq!(owner(&all, net(11)), ("site/11", vec!["gw-1", "gw-2"]));
        assert_eq!(owner(&all, net(12)), ("gw-1", vec!["gw-2", "site/12"]));
        // Told to have none, it sends through the gateway at once, and listens for a while.
        let wish = wanted(Some(Refusal::Ordered)).wish;
        mesh.want(now, wish);
        let all = specs(&mesh, now);
        assert_eq!(owner(&all, net(11)), ("gw-1", vec!["gw-2", "site/11"]));
        let all = specs(&mesh, now + LINGER);
        assert_eq!(owner(&all, net(11)), ("gw-1", vec!["gw-2"]));
    }

    #[test]
    fn the_kernels_data_plane_has_one_owner_for_a_prefix_and_no_direct_peers() {
        let all = specs(&wanted(Some(Refusal::Unsupported)), clock::now());
        assert_eq!(owner(&all, net(11)), ("gw-1", vec![]));
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn without_a_gateway_nothing_leaves_the_tunnel() {
        let all = wanted(None).specs(clock::now(), None);
        assert_eq!(owner(&all, net(12)), ("site/12", vec![]));
    }
}
