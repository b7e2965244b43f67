//! What the ways to hosts carry.

use std::net::IpAddr;

use kedge_control::local;
use kedge_tunnel_device::{
    PeerSpec,
    keeper::{Keeper, Wish},
    paths::{PathFinder, Peer},
};

use crate::bounds::Plan;

/// The ways to all peers of the tunnel: hosts, and other gateways.
#[derive(Debug, Default)]
pub(crate) struct Ways(PathFinder);

impl Ways {
    /// Looks at the ways, and has the device keep to what they carry.
    pub fn tend(&mut self, plan: &Plan, keeper: &mut Keeper) {
        let finds = plan.tunnel.as_ref().filter(|_| plan.finds_paths);
        let peers = finds.into_iter().flat_map(|wish| {
            wish.peers.iter().map(|peer| Peer {
                name: peer.name.clone(),
                ends: ends(wish, peer),
            })
        });
        let peers: Vec<Peer> = peers.collect();
        let device = keeper.device().filter(|_| finds.is_some());
        self.0.tend(device, keeper.openings(), &peers);
        keeper.lead(match finds {
            Some(_) => self.0.paths(),
            None => Default::default(),
        });
    }

    /// Whether a route may have changed since it was looked at, or more is known of a way than is kept to.
    pub fn are_due(&self) -> bool {
        self.0.is_due() || self.0.has_news()
    }

    /// What is known of the way to a peer.
    pub fn view(&self, peer: &str) -> Option<local::PathMtu> {
        let known = self.0.of(peer)?;
        Some(local::PathMtu {
            mtu: known.mtu,
            source: known.because.word().to_owned(),
            because: known.because.to_string(),
            most: known.most,
        })
    }

    /// The MTU of the device where ways are looked at: the most of all.
    pub fn device_mtu(&self, plan: &Plan) -> Option<u16> {
        self.0.paths().device.filter(|_| plan.finds_paths)
    }
}

/// The first pair of single addresses of one family.
fn ends(wish: &Wish, peer: &PeerSpec) -> Option<(IpAddr, IpAddr)> {
    let single = peer
        .allowed_ips
        .iter()
        .filter(|net| net.prefix_len() == net.max_prefix_len());
    single.map(ipnet::IpNet::addr).find_map(|remote| {
        let mut own = wish.addresses.iter().map(ipnet::IpNet::addr);
        let local = own.find(|local| local.is_ipv4() == remote.is_ipv4())?;
        Some((local, remote))
    })
}
