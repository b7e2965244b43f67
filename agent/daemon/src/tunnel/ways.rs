//! What the ways to peers carry, and answers to peers that ask the same of theirs.

use std::{net::IpAddr, sync::Arc};

use kedge_control::local;
use kedge_core::{Code, Fix, Problem};
use kedge_tunnel_device::{
    backend::Backend,
    bench::{Benches, Wanted},
    echo::Responder,
    keeper::Keeper,
    paths::{Because, PathFinder, PathMtu, Peer},
};
use tokio::sync::Notify;
use tracing::debug;

use crate::desired::TunnelWish;

/// The ways to all peers.
#[derive(Debug, Default)]
pub(super) struct Ways {
    finder: PathFinder,
    news: Arc<Notify>,
    answering: Option<Answering>,
    benches: Benches,
}

/// The echo, as long as it is on the right addresses of the right device.
#[derive(Debug)]
struct Answering {
    on: Vec<IpAddr>,
    opening: u64,
    _responder: Responder,
}

impl Ways {
    /// Has `news` hear when [they are due](Self::are_due).
    pub fn with_news(news: Arc<Notify>) -> Self {
        Self {
            finder: PathFinder::default().with_news(Arc::clone(&news)),
            news,
            ..Self::default()
        }
    }

    /// Whether a route may have changed since it was looked at, or more is known than is kept to.
    pub fn are_due(&self) -> bool {
        self.finder.is_due() || self.finder.has_news()
    }

    /// Looks at the ways, and has the device keep to what they carry.
    pub fn tend(&mut self, wish: Option<&TunnelWish>, keeper: &mut Keeper) {
        self.answer(wish, keeper.device(), keeper.openings());
        let finds = wish.filter(|wish| wish.finds_paths);
        let peers: Vec<Peer> = finds
            .into_iter()
            .flat_map(TunnelWish::ends)
            .map(|(peer, ends)| Peer {
                name: peer.name.clone(),
                ends,
            })
            .collect();
        let device = keeper.device().filter(|_| finds.is_some());
        self.finder.tend(device, keeper.openings(), &peers);
        keeper.lead(match finds {
            Some(_) => self.finder.paths(),
            None => Default::default(),
        });
    }

    /// Asks and answers nobody any more.
    pub fn clear(&mut self) {
        *self = Self::with_news(Arc::clone(&self.news));
    }

    /// What is known of the way to a peer.
    pub fn view(&self, peer: &str) -> Option<local::PathMtu> {
        self.finder.of(peer).map(view)
    }

    /// The MTU of the device where ways are looked at: the most of all.
    pub fn device_mtu(&self) -> Option<u16> {
        self.finder.paths().device
    }

    /// Ways that carry too little.
    pub fn problems<'a>(&'a self, wish: Option<&'a TunnelWish>) -> impl Iterator<Item = Problem> {
        let peers = wish.into_iter().flat_map(|wish| &wish.peers);
        peers.filter_map(|peer| {
            let known = self.finder.of(&peer.name)?;
            (known.because == Because::Floor).then(|| too_small(&peer.name, known))
        })
    }

    fn answer(&mut self, wish: Option<&TunnelWish>, device: Option<&dyn Backend>, opening: u64) {
        let wanted: Vec<IpAddr> = match (wish, device) {
            (Some(wish), Some(_)) => wish.addresses.iter().map(ipnet::IpNet::addr).collect(),
            _ => Vec::new(),
        };
        self.benches.tend(wish.map(|wish| Wanted {
            ifname: wish.interface.clone(),
            on: wanted.clone(),
            opening,
            mbps: wish.bench_mbps,
        }));
        let stays = |now: &Answering| now.on == wanted && now.opening == opening;
        if self.answering.as_ref().is_some_and(stays) {
            return;
        }
        self.answering = None;
        if wanted.is_empty() {
            return;
        }
        match Responder::start(&wanted) {
            Ok(responder) => {
                self.answering = Some(Answering {
                    on: wanted,
                    opening,
                    _responder: responder,
                });
            }
            // Who asks goes by its route; it is tried again.
            Err(err) => {
                let error = &err as &dyn std::error::Error;
                debug!(error, "peers that ask are not answered yet");
            }
        }
    }
}

fn view(known: PathMtu) -> local::PathMtu {
    local::PathMtu {
        mtu: known.mtu,
        source: known.because.word().to_owned(),
        because: known.because.to_string(),
        most: known.most,
    }
}

fn too_small(peer: &str, known: PathMtu) -> Problem {
    Problem::warning(
        Code::TunSmallPath,
        format!(
            "the way to {peer} carries less than {} bytes in one piece",
            known.mtu
        ),
    )
    .object(format!("tunnels/{peer}"))
    .evidence("short probes through the tunnel are answered, and padded ones are not")
    .consequence(
        "larger packets are cut on the way, if routers do that, and lost where they do not",
    )
    .fix(
        Fix::text("find the hop that carries so little: PPPoE, another tunnel, a wrong MTU")
            .command("tracepath -n ENDPOINT"),
    )
}
