//! What routers are told by this agent, in the order that loses no packet: an address stands before
//! its route is told, and goes after it was taken back.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    time::{Duration, SystemTime},
};

use kedge_core::{Coded as _, Name, Problem, bgp::SessionState, vip::RouterState};
use kedge_net::{
    clock,
    standing::Standing,
    table::{Route, Tables},
};
use kedge_vip_proto::vrrp::Verdict;
use kedge_vip_speaker::{
    Tracks as Told,
    bgp::{BgpEvent, Offers, Prefix},
};
use tokio::time::sleep;
use tracing::{info, warn};

use super::Agent;
use crate::{
    announce,
    anycast::{Anycasts, Moved},
    bgp::{self, Neighbors},
    config::BgpMode,
    ownership::Ownership,
    secrets::Secrets,
};

/// What routers are told, and what stands in the kernel for it.
pub(crate) struct Announcing {
    pub neighbors: Neighbors,
    pub anycast: Anycasts,
    /// What VRRP's routers are, by the last that was heard of each.
    pub ownership: Ownership,
    /// What neighbours are told of, or what stands in the table.
    pub offered: Offers,
    /// The addresses of VIPs that every healthy host has.
    addresses: Standing,
    table: InTable,
    refused: Vec<Problem>,
}

impl Announcing {
    pub fn new() -> Self {
        Self {
            neighbors: Neighbors::new(),
            anycast: Anycasts::default(),
            ownership: Ownership::default(),
            offered: Offers::new(),
            addresses: Standing::new(),
            table: InTable::default(),
            refused: Vec::new(),
        }
    }

    /// Everything that is wrong.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.neighbors.problems();
        problems.extend(self.refused.iter().cloned());
        problems
    }
}

impl Agent {
    /// Wants neighbours and VIPs as they are configured and planned.
    pub(super) fn want_bgp(&mut self, secrets: &Secrets) {
        let config = self.live.config().bgp.clone();
        let mut refused = Vec::new();
        let neighbors = config.as_ref().map_or_else(Vec::new, |config| {
            announce::neighbors(config, &self.desired, secrets, &mut refused)
        });
        let now = clock::now();
        let graceful = self.graceful();
        let telling = &mut self.announcing;
        let moved = telling.anycast.want(now, &self.desired.anycast, graceful);
        self.record(&moved);
        // A new neighbour is told of what is so, not of what was.
        self.announce();
        self.announcing
            .neighbors
            .want(config.as_ref(), neighbors, refused);
        self.want_sessions();
        self.follow_paths();
    }

    /// What BFD says of the paths to neighbours.
    pub(crate) fn follow_paths(&self) {
        let levels = self.bfd.levels().borrow().clone();
        self.announcing.neighbors.follow(&levels);
    }

    /// Takes what a health gate says of a VIP that every healthy host has; whether it is one.
    pub(super) fn judge_anycast(&mut self, vip: &Name, verdict: Verdict, because: &str) -> bool {
        let telling = &mut self.announcing;
        if !telling.anycast.has(vip) {
            return false;
        }
        let moved = telling.anycast.judge(clock::now(), vip, verdict, because);
        self.record(&moved);
        self.announce();
        true
    }

    /// The same of what it tracks.
    pub(super) fn heed_anycast(&mut self, vip: &Name, told: &Told) -> bool {
        let telling = &mut self.announcing;
        if !telling.anycast.has(vip) {
            return false;
        }
        let moved = telling.anycast.heed(clock::now(), vip, &told.failing);
        self.record(&moved);
        self.announce();
        true
    }

    /// Waits until time alone changes what routers are told.
    pub(crate) fn routes_are_due(&self) -> impl Future<Output = ()> + use<> {
        let telling = &self.announcing;
        let goes = telling.ownership.deadline(clock::now());
        let due = telling.anycast.deadline().into_iter().chain(goes).min();
        async move {
            match due {
                Some(due) => sleep(due.since(clock::now())).await,
                None => std::future::pending().await,
            }
        }
    }

    fn record(&mut self, moved: &[Moved]) {
        for Moved {
            name,
            from,
            to,
            because,
        } in moved
        {
            let (vip, from, to) = (name.as_str(), from.word(), to.word());
            info!(vip, from, to, because, "an anycast VIP moved on");
            let (at, now) = (SystemTime::now(), clock::now());
            let what = format!("{from} -> {to}: {because}");
            self.history.ordered(vip, at, now, what);
        }
    }

    /// Takes what became of a session with a neighbour.
    pub(crate) fn hear_neighbor(&mut self, event: &BgpEvent) {
        bgp::log(event);
        let (from, to) = (event.from, event.to);
        if from == SessionState::Established || to == SessionState::Established {
            let name = &event.name;
            let what = format!("BGP {name}: {from} -> {to}: {}", event.because);
            self.history.ordered("", event.at, clock::now(), what);
        }
    }

    /// Looks after what no event tells.
    pub(super) fn tend_bgp(&mut self) {
        self.announcing.neighbors.tend();
        self.announcing.table.doubt();
        self.announce();
    }

    /// Puts back what somebody took from the loopback interface.
    pub(super) fn observe_standing(&mut self) {
        let lo = self.facts.links.iter().filter(|link| link.name == "lo");
        let there = lo.flat_map(|link| &link.addresses).map(|it| it.net.addr());
        self.announcing.addresses.seen(&there.collect());
        self.announce();
    }

    /// Goes on with what is due.
    pub(crate) fn settle_routes(&mut self) {
        let moved = self.announcing.anycast.settle(clock::now());
        self.record(&moved);
        self.announce();
    }

    /// Takes what became of a VRRP router.
    pub(super) fn moved(&mut self, vip: &Name, to: RouterState) {
        let interval = self
            .desired
            .vip(vip)
            .map(|vip| vip.spec.interval.duration());
        let spans = [self.graceful(), interval.unwrap_or_default()];
        let ownership = &mut self.announcing.ownership;
        ownership.moved(clock::now(), vip, to, spans);
        self.announce();
    }

    /// Has neighbours, or the table, know what is here.
    pub(crate) fn announce(&mut self) {
        let mode = self.live.config().bgp.as_ref().map(|config| config.mode);
        let telling = &mut self.announcing;
        let (names, now) = (&self.desired.vips, clock::now());
        telling
            .ownership
            .retain(|name| names.iter().any(|vip| vip.spec.name == *name));
        let standing: BTreeSet<IpAddr> = telling.anycast.addresses().collect();
        let mut refused = telling.addresses.raise(now, &standing);
        let mut routes = announce::owned(&self.desired, now, &telling.ownership);
        routes.extend(telling.anycast.routes());
        let mut offers = match mode {
            Some(_) => announce::offers(&routes),
            None => Offers::new(),
        };
        // Who has no address answers nobody.
        offers.retain(|prefix, _| {
            let address = prefix.address();
            !standing.contains(&address) || telling.addresses.stands(address)
        });
        telling.offered.clone_from(&offers);
        let told = match mode {
            Some(BgpMode::Table(table)) => {
                refused.extend(telling.table.fit(Some(table), &offers));
                Offers::new()
            }
            Some(BgpMode::Own) | None => {
                refused.extend(telling.table.fit(None, &Offers::new()));
                offers
            }
        };
        telling.neighbors.offer(told);
        refused.extend(telling.addresses.lower(&standing));
        for problem in refused.iter().filter(|it| !telling.refused.contains(it)) {
            warn!(KEDGE_CODE = %problem.code, what = problem.what, "the kernel refuses");
        }
        telling.refused = refused;
    }

    /// How long routes say that they go away before they do: as long as the neighbour that wants most.
    pub(crate) fn graceful(&self) -> Duration {
        let config = self.live.config().bgp.as_ref();
        let all = config.into_iter().flat_map(|config| &config.neighbors);
        let all = all.map(|neighbor| neighbor.spec.config.graceful);
        all.max().unwrap_or_default()
    }
}

impl Announcing {
    /// Takes every route back and leaves the neighbours, before any address goes.
    pub async fn leave(&mut self, text: &str, graceful: Duration) {
        if let Some(problem) = self.table.fit(None, &Offers::new()) {
            warn!(KEDGE_CODE = %problem.code, what = problem.what, "a route stays");
        }
        self.neighbors.leave(text, graceful).await;
    }

    /// Takes the addresses away that only routes lead to: what routers sent meanwhile was answered.
    pub async fn lower(&mut self) {
        if self.addresses.is_empty() {
            return;
        }
        sleep(LAST).await;
        for problem in self.addresses.lower(&BTreeSet::new()) {
            warn!(KEDGE_CODE = %problem.code, what = problem.what, "an address stays");
        }
    }
}

/// The routes of `route_table_only`.
#[derive(Debug, Default)]
struct InTable {
    tables: Option<Tables>,
    /// Whether what an earlier process left is gone.
    swept: bool,
}

impl InTable {
    /// Has the kernel's table of that number hold exactly these routes, and no other one any of ours.
    fn fit(&mut self, number: Option<u32>, offers: &Offers) -> Option<Problem> {
        if number.is_none() && self.swept && self.tables.is_none() {
            return None;
        }
        let tables = match &mut self.tables {
            Some(tables) => tables,
            None => match Tables::open() {
                Ok(opened) => self.tables.insert(opened),
                Err(error) => return Some(error.problem()),
            },
        };
        let route = |prefix: &Prefix| Some((number?, prefix.address(), prefix.length()));
        let routes: BTreeSet<Route> = offers.keys().filter_map(route).collect();
        if let Err(error) = tables.fit(&routes) {
            return Some(error.problem());
        }
        self.swept = true;
        if number.is_none() {
            self.tables = None;
        }
        None
    }

    /// Looks at the kernel the next time.
    fn doubt(&mut self) {
        if let Some(tables) = &mut self.tables {
            tables.doubt();
        }
    }
}

/// How long packets may be under way when the agent ends.
const LAST: Duration = Duration::from_millis(200);
