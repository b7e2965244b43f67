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

use crate::desired::{MeshWish, Neighbor, Peer, Source, TunnelWish};

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
        let gateways = tunnel
            .peers
            .iter()
            .filter(|it| it.source == Source::Manager);
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
            gateways: gateways.filter_map(teller).collect(),
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
