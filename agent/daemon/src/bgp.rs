//! The BGP neighbours of this host: started with the first, told of the VIPs, left with the agent.

mod view;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    time::{Duration, Instant as Uptime},
};

use kedge_core::{Code, Name, Problem, bfd::Liveness, bgp::SessionState};
use kedge_net::holder;
use kedge_vip_speaker::{
    bfd::{BfdSpec, Levels},
    bgp::{Bgp, BgpEvent, BgpSpec, Offers, PORT, Text},
};
use tokio::sync::watch;
use tracing::{info, warn};

pub(crate) use self::view::Direction;
use crate::config::{BgpConfig, own_session};

/// Every neighbour, and what is known of them beside themselves.
pub(crate) struct Neighbors {
    bgp: Bgp,
    offers: Offers,
    /// Which session of BFD each of them follows.
    paths: BTreeMap<Name, Name>,
    /// Those that are whichever router there is on a link, and have a session of BFD with it.
    on_link: Vec<BgpSpec>,
    /// The neighbours that could not be taken up.
    refused: Vec<Problem>,
    /// Who has the port.
    holder: Option<String>,
    looked: Option<Uptime>,
}

impl Neighbors {
    /// No neighbour yet.
    pub fn new() -> Self {
        Self {
            bgp: Bgp::new(PORT),
            offers: Offers::new(),
            paths: BTreeMap::new(),
            on_link: Vec::new(),
            refused: Vec::new(),
            holder: None,
            looked: None,
        }
    }

    /// Makes `neighbors` all there are. What did not change notices nothing.
    pub fn want(
        &mut self,
        config: Option<&BgpConfig>,
        neighbors: Vec<BgpSpec>,
        refused: Vec<Problem>,
    ) {
        let all = config.into_iter().flat_map(|config| &config.neighbors);
        let paths = all.filter_map(|it| Some((it.spec.name.clone(), it.bfd.clone()?)));
        self.paths = paths.collect();
        let on_link = neighbors.iter().filter(|it| it.peer.is_none());
        let on_link = on_link.filter(|it| self.paths.contains_key(&it.name));
        self.on_link = on_link.cloned().collect();
        for problem in refused.iter().filter(|it| !self.refused.contains(it)) {
            let (code, object) = (problem.code, &problem.object);
            warn!(KEDGE_CODE = %code, object, what = problem.what, "a BGP neighbour is left out");
        }
        self.refused = refused;
        self.bgp.apply(neighbors);
    }

    /// Makes `offers` all that neighbours are told of.
    pub fn offer(&mut self, offers: Offers) {
        if self.offers != offers {
            self.offers = offers;
            self.bgp.offer(self.offers.clone());
        }
    }

    /// Takes what BFD says of the paths to them.
    pub fn follow(&self, levels: &Levels) {
        let liveness = |(neighbor, session): (&Name, &Name)| {
            let level = levels.get(session)?;
            Some((neighbor.clone(), level.liveness))
        };
        let all: BTreeMap<Name, Liveness> = self.paths.iter().filter_map(liveness).collect();
        self.bgp.follow(all);
    }

    /// The sessions of BFD with routers that were found on links.
    pub fn paths_found(&self) -> Vec<BfdSpec> {
        let found = self.bgp.found().borrow().clone();
        let of = |spec: &BgpSpec| Some(own_session(spec, *found.get(&spec.name)?));
        self.on_link.iter().filter_map(of).collect()
    }

    /// Waits for routers to be found on links, or for others in their place.
    pub fn found(&self) -> watch::Receiver<BTreeMap<Name, IpAddr>> {
        self.bgp.found()
    }

    /// Waits for something to happen.
    pub async fn event(&mut self) -> BgpEvent {
        match self.bgp.event().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Looks after what no event tells.
    pub fn tend(&mut self) {
        let is_taken = |it: &Problem| it.code == Code::BgpPortInUse;
        if !self.bgp.problems().iter().any(is_taken) {
            (self.holder, self.looked) = (None, None);
        } else if self.looked.is_none_or(|at| at.elapsed() > LOOK) {
            self.looked = Some(Uptime::now());
            self.holder = holder::of_tcp_port(PORT);
        }
    }

    /// Everything that is wrong.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.bgp.problems();
        for problem in &mut problems {
            if problem.code == Code::BgpPortInUse
                && let Some(holder) = &self.holder
            {
                problem.evidence.push(format!("it is that of {holder}"));
            }
        }
        let snapshot = self.bgp.snapshot();
        let of_sessions = snapshot.iter().flat_map(|it| it.problems.iter().cloned());
        problems.extend(of_sessions);
        problems.extend(self.refused.iter().cloned());
        problems
    }

    /// Has every neighbour know that no VIP is here any more, and leaves it. Returns when that was
    /// said, or cannot be said in time.
    pub async fn leave(&mut self, text: &str, graceful: Duration) {
        self.bgp.shutdown(Text::new(text), graceful + LEAVE).await;
    }
}

/// Writes what happened into the log.
pub(crate) fn log(event: &BgpEvent) {
    let BgpEvent {
        name,
        from,
        to,
        because,
        ..
    } = event;
    let neighbor = name.as_str();
    let was_up = *from == SessionState::Established;
    let (is_up, from, to) = (
        *to == SessionState::Established,
        from.to_string(),
        to.to_string(),
    );
    if was_up && !is_up {
        warn!(neighbor, from, to, because, "a BGP session ended");
    } else if is_up && !was_up {
        info!(neighbor, from, to, because, "a BGP session is established");
    } else {
        tracing::debug!(neighbor, from, to, because, "a BGP session changed");
    }
}

/// How often the processes of the host are searched for the one that has the port.
const LOOK: Duration = Duration::from_secs(60);
/// How long neighbours may take to hear the last word.
const LEAVE: Duration = Duration::from_millis(500);
