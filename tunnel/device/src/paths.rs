//! What the ways to peers carry in one piece: asked through the tunnel where that proves something,
//! and what the route says elsewhere.

mod finder;
mod watcher;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use kedge_core::Instant;
use kedge_net::{
    clock,
    underlay::{self, Underlay},
};
use kedge_tunnel_proto::fallback::is_lane;
pub use kedge_tunnel_proto::pmtu::{Config, Standing};
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use self::{
    finder::{Finder, Told},
    watcher::Watcher,
};
use crate::{
    PeerStats, State,
    backend::{Backend, Capability, Kind, Paths},
    mtu,
};

/// The ways to all peers of a device.
#[derive(Debug)]
pub struct PathFinder {
    config: Config,
    underlay: Option<Underlay>,
    ways: BTreeMap<String, Way>,
    finder: Option<Finder>,
    watcher: Option<Watcher>,
    news: Arc<Notify>,
    within: Option<PathBuf>,
    /// The opening of the device that all of this belongs to.
    opening: u64,
}

/// A peer whose way is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// From where to where it is asked; `None` where either end has no address of its own.
    pub ends: Option<(IpAddr, IpAddr)>,
}

/// What is known of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// The largest inner packet that is sent there, in bytes.
    pub mtu: u16,
    /// The largest that the first link takes.
    pub most: u16,
    /// Why it is that.
    pub because: Because,
}

/// Why it is that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// A packet of that size arrived, and larger ones are being tried.
    Searching,
    /// A packet of that size arrived, and no larger one.
    Probed,
    /// A packet of that size arrived, and the first link takes no larger one.
    ProbedToTheMost,
    /// From the route: what is asked is not answered yet.
    Unasked,
    /// From the route: the peer answers no question.
    Unanswered,
    /// From the route: nobody can be asked.
    NoEnds,
    /// From the route: the data plane cannot ask.
    DataPlane(&'static str),
    /// Not even the least arrives in one piece.
    Floor,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    endpoint: SocketAddr,
    looked_at: Instant,
    /// How it began when it was looked at last and began at all.
    begins: Option<underlay::Way>,
    /// How often it began another way.
    turns: u64,
    most: u16,
    start: u16,
    known: PathMtu,
    /// What was told of it last.
    told: PathMtu,
    holes: u64,
}

impl Default for PathFinder {
    fn default() -> Self {
        Self::new(Config::default())
    }
}

impl PathFinder {
    /// Knows no way yet, and asks as patiently as `config` says.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            underlay: None,
            ways: BTreeMap::new(),
            finder: None,
            watcher: None,
            news: Arc::default(),
            within: None,
            opening: 0,
        }
    }

    /// Hears answers in the network namespace at that path, which is that of its peers' interface.
    #[must_use]
    pub fn within(self, path: PathBuf) -> Self {
        Self {
            within: Some(path),
            ..self
        }
    }

    /// Has `news` hear when [it is due](Self::is_due) or [has news](Self::has_news).
    #[must_use]
    pub fn with_news(self, news: Arc<Notify>) -> Self {
        Self { news, ..self }
    }

    /// Whether routes or links changed, so that ways have to be looked at before long.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.watcher.as_ref().is_some_and(Watcher::is_due)
    }

    /// Whether more is known of a way than is kept to yet.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.finder.as_ref().is_some_and(Finder::has_news)
    }

    /// Looks at the ways to `peers`; call it about once a second and whenever [it is due](Self::is_due), in
    /// the device's network namespace.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn tend(&mut self, device: Option<&dyn Backend>, opening: u64, peers: &[Peer]) {
        let stats = device.map(|device| device.stats()).unwrap_or_default();
        self.tend_known(device, opening, peers, &by_name(&stats));
    }

    /// The same for whoever has the device's peers at hand.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn tend_known(
        &mut self,
        device: Option<&dyn Backend>,
        opening: u64,
        peers: &[Peer],
        stats: &BTreeMap<&str, &PeerStats>,
    ) {
        let Some(device) = device else {
            self.finder = None;
            self.watcher = None;
            self.ways.clear();
            return;
        };
        if self.opening != opening {
            self.opening = opening;
            self.finder = None;
            self.ways.clear();
        }
        let wanted: BTreeSet<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
        self.ways.retain(|name, _| wanted.contains(name.as_str()));
        let now = clock::now();
        let watcher = Watcher::watching(&mut self.watcher, &self.news);
        let changed = watcher.is_some_and(|watcher| watcher.take(now));
        for peer in peers {
            let endpoint = stats.get(peer.name.as_str()).and_then(|it| it.endpoint);
            match endpoint {
                // A stream carries any packet, and says nothing of the way that is come back to.
                Some(endpoint) if is_lane(endpoint) => {}
                Some(endpoint) => self.look(now, &peer.name, endpoint, changed),
                None => drop(self.ways.remove(&peer.name)),
            }
        }
        if let Some(watcher) = self.watcher.as_mut().filter(|_| changed) {
            watcher.took(now, clock::now());
        }
        let cannot = device.kind().lacks(Capability::PathMtu);
        if device.kind() == Kind::Userspace {
            let told = peers.iter().filter_map(|peer| {
                let stats = stats.get(peer.name.as_str())?;
                let way = self.ways.get(&peer.name)?;
                // Asking must not make a session where nobody needs one.
                let asked = stats.state == State::Connected && !stats.endpoint.is_some_and(is_lane);
                let ends = peer.ends.filter(|_| asked)?;
                Some(Told {
                    name: peer.name.clone(),
                    ends,
                    endpoint: way.endpoint,
                    most: way.most,
                    start: way.start,
                    turns: way.turns,
                    sent: stats.tx_bytes,
                })
            });
            let told: Vec<Told> = told.collect();
            let news = Arc::clone(&self.news);
            let finder = self.finder.get_or_insert_with(|| {
                let within = self.within.clone();
                Finder::start(device.handle(), self.config, news, within)
            });
            finder.look();
            finder.tell(told);
        }
        for peer in peers {
            self.conclude(peer, cannot);
        }
    }

    /// What is known, for the device.
    #[must_use]
    pub fn paths(&self) -> Paths {
        let known = self.ways.iter();
        let peers: BTreeMap<String, u16> = known
            .map(|(name, way)| (name.clone(), way.known.mtu))
            .collect();
        // No peer is sent more than its own route says, so that the interface's is only ever a bound.
        let device = peers.values().copied().chain([mtu::DEFAULT]).max();
        Paths { device, peers }
    }

    /// What is known of the way to a peer.
    #[must_use]
    pub fn of(&self, peer: &str) -> Option<PathMtu> {
        self.ways.get(peer).map(|way| way.known)
    }

    /// What the first link on the way carries.
    fn look(&mut self, now: Instant, name: &str, endpoint: SocketAddr, changed: bool) {
        let known = self.ways.get(name).copied();
        let same = known.filter(|way| way.endpoint == endpoint);
        if same.is_some_and(|way| !changed && now.since(way.looked_at) < LOOK) {
            return;
        }
        let begins = self.begins(endpoint);
        let (most, start) = carried(begins.map(|way| way.mtu), endpoint.is_ipv4());
        let before = same.and_then(|way| way.begins);
        let turned = before.zip(begins).is_some_and(|(before, begins)| {
            (before.link, before.router) != (begins.link, begins.router)
        });
        if turned {
            let (from, to) = (before.map(|it| it.router), begins.map(|it| it.router));
            debug!(
                peer = name,
                ?from,
                ?to,
                "the way to a peer begins another way"
            );
        }
        let unasked = PathMtu {
            mtu: start,
            most,
            because: Because::Unasked,
        };
        let way = Way {
            endpoint,
            looked_at: now,
            begins: begins.or(before),
            turns: known.map_or(0, |way| way.turns) + u64::from(turned),
            most,
            start,
            known: known.map_or(unasked, |way| way.known),
            told: known.map_or(unasked, |way| way.told),
            holes: known.map_or(0, |way| way.holes),
        };
        self.ways.insert(name.to_owned(), way);
    }

    fn begins(&mut self, to: SocketAddr) -> Option<underlay::Way> {
        if self.underlay.is_none() {
            self.underlay = Underlay::open().ok();
        }
        match self.underlay.as_mut()?.way(to) {
            Ok(way) => Some(way),
            Err(err) => {
                let error = &err as &dyn std::error::Error;
                debug!(error, "how the way to a peer begins is not known");
                None
            }
        }
    }

    fn conclude(&mut self, peer: &Peer, cannot: Option<&'static str>) {
        let Some(way) = self.ways.get_mut(&peer.name) else {
            return;
        };
        let report = self.finder.as_ref().and_then(|it| it.report(&peer.name));
        let from_route = |because| PathMtu {
            mtu: way.start,
            most: way.most,
            because,
        };
        let known = match (cannot, peer.ends, report) {
            (Some(cannot), ..) => from_route(Because::DataPlane(cannot)),
            (None, None, _) => from_route(Because::NoEnds),
            // A session that pauses says nothing of the way.
            (None, Some(_), None) => PathMtu {
                most: way.most,
                mtu: way.known.mtu.min(way.most),
                ..way.known
            },
            (None, Some(_), Some(report)) => PathMtu {
                mtu: report.mtu,
                most: report.most,
                because: match report.standing {
                    Standing::Unasked => Because::Unasked,
                    Standing::Unanswered => Because::Unanswered,
                    Standing::Probed if !report.settled => Because::Searching,
                    Standing::Probed if report.mtu == report.most => Because::ProbedToTheMost,
                    Standing::Probed => Because::Probed,
                    Standing::Floor => Because::Floor,
                },
            },
        };
        let holes = report.map_or(0, |report| report.holes);
        way.known = known;
        let hole = holes > std::mem::replace(&mut way.holes, holes);
        let settled = report.is_none_or(|report| report.settled);
        if way.told == known || !(settled || hole) {
            return;
        }
        let before = std::mem::replace(&mut way.told, known);
        let because = known.because.to_string();
        let (peer, from, to) = (&peer.name, before.mtu, known.mtu);
        if known.because == Because::Floor {
            warn!(peer, from, to, because, "tunnel path MTU");
        } else {
            info!(
                peer,
                from,
                to,
                because,
                black_hole = hole,
                "tunnel path MTU"
            );
        }
    }
}

impl Because {
    /// One word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Searching | Self::Probed | Self::ProbedToTheMost => "probed",
            Self::Unasked | Self::Unanswered | Self::NoEnds | Self::DataPlane(_) => "route",
            Self::Floor => "floor",
        }
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Searching => {
                f.write_str("probed: packets of this size arrive, larger ones are being tried")
            }
            Self::Probed => f.write_str("probed: packets of this size arrive, larger ones do not"),
            Self::ProbedToTheMost => f.write_str(
                "probed: packets of this size arrive, and the first link takes no larger ones",
            ),
            Self::Unasked => f.write_str("from the route: not probed yet"),
            Self::Unanswered => f.write_str("from the route: the peer answers no probe"),
            Self::NoEnds => f.write_str(
                "from the route: not both ends have a single address of one family in the tunnel",
            ),
            Self::DataPlane(why) => write!(f, "from the route: {why}"),
            Self::Floor => f.write_str(
                "floor: not even packets of this size arrive in one piece, and IPv6 needs them",
            ),
        }
    }
}

/// What a link of so many bytes carries inside the tunnel, and what is used of it until it is proven: as
/// if the way were IPv6, and no more than is usual.
fn carried(link: Option<u32>, ipv4: bool) -> (u16, u16) {
    let link = link.map_or(USUAL, |mtu| u16::try_from(mtu).unwrap_or(u16::MAX));
    let around = if ipv4 { AROUND_V4 } else { AROUND_V6 };
    let within = |around: u16| {
        let inner = link.saturating_sub(around);
        inner.clamp(*mtu::BOUNDS.start(), *mtu::BOUNDS.end())
    };
    (within(around), within(AROUND_V6).min(mtu::DEFAULT))
}

/// A link nobody knows.
const USUAL: u16 = 1500;

/// Around a packet: IP, UDP (8), and WireGuard's head and tag (32).
const AROUND_V4: u16 = 20 + 8 + 32;
const AROUND_V6: u16 = 40 + 8 + 32;

/// How often the route to a peer is looked at though nobody said that it changed.
const LOOK: Duration = Duration::from_secs(5);

/// The peers of a device by their names.
#[must_use]
pub fn by_name(stats: &[PeerStats]) -> BTreeMap<&str, &PeerStats> {
    stats.iter().map(|it| (it.name.as_str(), it)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_carries_is_what_is_left_of_it() {
        for (link, ipv4, most, start) in [
            (Some(1500), true, 1440, 1420),
            (Some(1500), false, 1420, 1420),
            (Some(1492), true, 1432, 1412),
            (Some(1492), false, 1412, 1412),
            (Some(1400), true, 1340, 1320),
            (Some(1400), false, 1320, 1320),
            (Some(9000), true, 8940, 1420),
            (Some(9000), false, 8920, 1420),
            (Some(65_536), true, 9000, 1420),
            (Some(u32::MAX), false, 9000, 1420),
            (Some(1280), true, 1280, 1280),
            (Some(0), true, 1280, 1280),
            (None, true, 1440, 1420),
            (None, false, 1420, 1420),
        ] {
            assert_eq!(carried(link, ipv4), (most, start), "{link:?} {ipv4}");
        }
    }
}
