//! What the ways to hosts carry.

use std::{collections::BTreeMap, net::IpAddr};

use kedge_control::local;
use kedge_tunnel_device::{
    PeerSpec,
    backend::Paths,
    keeper::{Keeper, Wish},
    paths::{PathFinder, Peer, by_name},
};

use kedge_tunnel_proto::realm::Realm;

use crate::{bounds::Plan, tenants::path_of};

/// The ways to all peers of the tunnel: hosts, and other gateways.
#[derive(Debug, Default)]
pub(crate) struct Ways(BTreeMap<Option<Realm>, PathFinder>);

impl Ways {
    /// Looks at the ways, and has the device keep to what they carry.
    pub fn tend(&mut self, plan: &Plan, keeper: &mut Keeper) {
        let finds = plan.tunnel.as_ref().filter(|_| plan.finds_paths);
        let peers = finds.into_iter().flat_map(|wish| {
            wish.peers.iter().map(|peer| {
                let ends = ends(wish, peer);
                let name = peer.name.clone();
                (peer.realm, Peer { name, ends })
            })
        });
        let mut by_realm: BTreeMap<Option<Realm>, Vec<Peer>> = BTreeMap::new();
        by_realm.entry(None).or_default();
        for (realm, peer) in peers {
            by_realm.entry(realm).or_default().push(peer);
        }
        self.0.retain(|realm, _| by_realm.contains_key(realm));
        let device = keeper.device().filter(|_| finds.is_some());
        let stats = device.map(|device| device.stats()).unwrap_or_default();
        let stats = by_name(&stats);
        for (realm, peers) in by_realm {
            let finder = self.0.entry(realm).or_insert_with(|| {
                let finder = PathFinder::default();
                match path_of(plan, realm) {
                    Some(path) => finder.within(path.to_owned()),
                    None => finder,
                }
            });
            finder.tend_known(device, keeper.openings(), &peers, &stats);
        }
        keeper.lead(match finds {
            Some(_) => self.paths(),
            None => Default::default(),
        });
    }

    /// Whether a route may have changed since it was looked at, or more is known of a way than is kept to.
    pub fn are_due(&self) -> bool {
        let mut all = self.0.values();
        all.any(|finder| finder.is_due() || finder.has_news())
    }

    /// What all of them carry.
    fn paths(&self) -> Paths {
        let mut all = Paths::default();
        for finder in self.0.values() {
            let paths = finder.paths();
            all.device = all.device.max(paths.device);
            all.peers.extend(paths.peers);
        }
        all
    }

    /// What is known of the way to a peer.
    pub fn view(&self, peer: &str) -> Option<local::PathMtu> {
        let known = self.0.values().find_map(|finder| finder.of(peer))?;
        Some(local::PathMtu {
            mtu: known.mtu,
            source: known.because.word().to_owned(),
            because: known.because.to_string(),
            most: known.most,
        })
    }

    /// The MTU of the device where ways are looked at: the most of all.
    pub fn device_mtu(&self, plan: &Plan) -> Option<u16> {
        self.paths().device.filter(|_| plan.finds_paths)
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
