//! The planner's turn: find what is due, plan it, write it, hand it out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, mpsc::sync_channel},
    thread::scope,
    time::Instant,
};

use kedge_core::Problem;
use kedge_crd::{EdgeGatewaySpec, Resource as _, meta};
use tokio::{sync::OwnedMutexGuard, task::spawn_blocking};
use tracing::info;

use super::{
    World,
    member::{Members, members},
};
use crate::{
    events::{self, Notice},
    fleet::Fleet,
    plan::Plan,
    snapshot::{Hearing, HostLive, Live, Snapshot},
    store::{ObjectKey, Write, outcome::Outcome, stock::Taken},
};

/// A namespace as it is about to be planned.
struct Space {
    name: String,
    taken: Taken,
    live: (Live, Hearing),
    refused: BTreeMap<ObjectKey, Problem>,
}

/// A namespace that was planned.
struct Planned {
    name: String,
    plan: Plan,
    members: Members,
    /// What there is to tell once it is written.
    notices: Vec<Notice>,
    is_empty: bool,
}

impl World {
    pub(super) async fn turn(self: &Arc<Self>, files: bool, dirty: bool) {
        // It may have come late: then the store is another manager's.
        if self.store.is_closed() {
            return;
        }
        let changed = files && self.store.refresh().await;
        let mut fleet = Arc::clone(&self.fleet).lock_owned().await;
        for space in std::mem::take(&mut self.state().await.again) {
            fleet.touch(&space);
        }
        self.gather(&mut fleet).await;
        if dirty || changed || !fleet.is_settled() {
            self.settle_all(fleet).await;
        }
    }

    /// The first plans. On a cluster, what they write comes after the manager serves: an API server
    /// takes minutes for a large fleet's first statuses, and what stands already is handed out.
    pub(super) async fn open(self: &Arc<Self>) {
        if !self.store.is_slow() {
            return self.settle().await;
        }
        let mut fleet = Arc::clone(&self.fleet).lock_owned().await;
        self.gather(&mut fleet).await;
        loop {
            let spaces = fleet.next(BATCH);
            if spaces.is_empty() {
                break;
            }
            fleet = self.settle_some(fleet, spaces, false).await;
        }
        let left = std::mem::take(&mut self.state().await.again);
        for space in &left {
            fleet.touch(space);
        }
        self.metrics.queued(fleet.due());
        drop(fleet);
        let state = self.state().await;
        let (endpoints, enrolled) = (state.endpoints().count(), state.members().len());
        drop(state);
        info!(endpoints, enrolled, "the fleet was looked at");
        self.version.send_modify(|version| *version += 1);
        self.touch();
    }

    /// Plans what is due, writes, and hands out what was planned. What cannot be written is not
    /// handed out.
    pub async fn settle(self: &Arc<Self>) {
        let mut fleet = Arc::clone(&self.fleet).lock_owned().await;
        self.gather(&mut fleet).await;
        self.settle_all(fleet).await;
    }

    /// Finds what is due: what changed in the store, who is heard or not any more, whose moment
    /// has come, and what was refused and may be tried again.
    async fn gather(&self, fleet: &mut Fleet) {
        let changes = self.store.changes();
        let mut state = self.state().await;
        let now = Instant::now();
        let news = state.tracker.news(now);
        let is_all = std::mem::take(&mut state.is_all_due);
        if is_all || changes.all || news.is_none() || state.follows_now(self.store.leads()) {
            fleet.touch_all();
        }
        let again = state.retries(now);
        drop(state);
        let news = news.unwrap_or_default();
        for space in changes.spaces.iter().chain(&news).chain(&again) {
            fleet.touch(space);
        }
        fleet.wake(|| self.clock.timestamp());
        self.metrics.queued(fleet.due());
    }

    async fn settle_all(self: &Arc<Self>, mut fleet: OwnedMutexGuard<Fleet>) {
        // What is due because of what was done now comes in the next round: by then the writes are
        // answered. A fleet that never comes to rest must not keep the planner from the clock.
        for _ in 0..ROUNDS {
            let mut is_first = true;
            loop {
                let spaces = fleet.next(BATCH);
                if spaces.is_empty() {
                    break;
                }
                is_first = false;
                fleet = self.settle_some(fleet, spaces, true).await;
            }
            if is_first {
                break;
            }
            self.gather(&mut fleet).await;
        }
        drop(fleet);
        self.version.send_modify(|version| *version += 1);
        self.drop_tokens().await;
    }

    async fn settle_some(
        self: &Arc<Self>,
        mut fleet: OwnedMutexGuard<Fleet>,
        names: Vec<String>,
        may_write: bool,
    ) -> OwnedMutexGuard<Fleet> {
        // Another manager may lead between this look and the writes that follow from it.
        let reign = match may_write {
            true => self.store.reign().await,
            false => Ok(None),
        };
        let (mut spaces, began) = (Vec::new(), Instant::now());
        // What is left alone now is left alone by the plan and by its writes.
        let waiting = {
            let mut state = self.state().await;
            let now = Instant::now();
            for name in names {
                state.forget_fresh(&name);
                let live = state.tracker.live_in(&name, now);
                let refused = state.refused_in(&name, now);
                let taken = self.store.space(&name);
                spaces.push(Space {
                    name,
                    taken,
                    live,
                    refused,
                });
            }
            state.waiting(now)
        };
        // A plan of a large namespace takes its time on a thread of its own.
        let world = Arc::clone(self);
        let objects = spaces.iter().map(|space| space.taken.len()).sum();
        let planning = spawn_blocking(move || {
            let planned = world.plan(&mut fleet, spaces);
            (fleet, planned)
        });
        let (fleet, mut planned) = match planning.await {
            Ok(planned) => planned,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends.
                Err(_) => std::future::pending().await,
            },
        };
        self.metrics.reconciled("plan", began);
        self.metrics.looked_at(objects);
        let mut state = self.state().await;
        for one in &mut planned {
            state.know(&one.name, std::mem::take(&mut one.members));
        }
        drop(state);
        let unwritten = planned.iter().filter(|one| !one.plan.writes.is_empty());
        let unwritten: Vec<String> = unwritten.map(|one| one.name.clone()).collect();
        let writes: Vec<Write> = planned
            .iter_mut()
            .flat_map(|one| std::mem::take(&mut one.plan.writes))
            .collect();
        let (began, writes_something) = (Instant::now(), !writes.is_empty());
        let is_left = matches!(reign, Ok(None));
        let outcome = match reign {
            Ok(Some(reign)) => self.store.carry_out(writes, &waiting, reign).await,
            // Another manager writes it; until then it is not there.
            Ok(None) => Outcome::left_to_another(&writes),
            Err(problem) if writes_something => Outcome::broken_by(problem),
            Err(_) => Outcome::default(),
        };
        if writes_something && may_write {
            self.metrics.reconciled("write", began);
        }
        let mut state = self.state().await;
        if !may_write {
            state.again.extend(unwritten);
        } else if is_left {
            state.followed();
        }
        let names: BTreeSet<String> = planned.iter().map(|one| one.name.clone()).collect();
        let leads = may_write && self.store.leads();
        state.took(&names, &outcome, leads, Instant::now());
        for one in planned {
            let Planned {
                name,
                plan,
                is_empty,
                mut notices,
                ..
            } = one;
            notices.retain(|notice| !outcome.held.contains(&notice.key));
            self.store.tell(notices);
            state.publish(&name, plan, &outcome, is_empty);
        }
        drop(state);
        self.metrics.queued(fleet.due());
        fleet
    }

    fn plan(&self, fleet: &mut Fleet, spaces: Vec<Space>) -> Vec<Planned> {
        let (now, bundle) = (self.clock.text(), self.authority.bundle());
        let bundle = bundle.as_str();
        let (names, kubeconfigs) = (self.resolver.answers(), self.access.known());
        // Of the namespaces that are planned now as well as of those that come later, and one at a
        // time: unpacked they are many times as large.
        let fresh = spaces.iter().map(|space| space.name.clone());
        let fresh: Vec<String> = fresh.filter(|space| !fleet.knows(space)).collect();
        let is_shared = self.store.has_kind(meta::GROUP, EdgeGatewaySpec::KIND);
        for space in fleet.unknown().into_iter().chain(fresh) {
            if !is_shared {
                fleet.meet(&space);
                continue;
            }
            let objects = Arc::new(self.store.space(&space).open());
            let mut snapshot = Snapshot::of(objects, Live::default(), bundle, &now);
            snapshot.space = space;
            fleet.seed(&snapshot);
        }
        let environment = self.store.environment();
        let open = |space: Space| {
            let is_empty = space.taken.is_empty();
            let objects = Arc::new(space.taken.open());
            let mut snapshot =
                Snapshot::of(objects, space.live.0, bundle, &now).within(environment.clone());
            snapshot.space.clone_from(&space.name);
            snapshot.refused = space.refused;
            snapshot.names = Some(Arc::clone(&names));
            let here = kubeconfigs.iter();
            let here = here.filter(|(cluster, _)| cluster.namespace == space.name);
            snapshot.certificates = self.certificates.of_space(&space.name);
            snapshot.kubeconfigs = here.map(|(name, to)| (name.clone(), to.clone())).collect();
            listen(&mut snapshot, space.live.1);
            (snapshot, is_empty)
        };
        let mut planned = Vec::new();
        let mut settle = |(mut snapshot, is_empty): (Snapshot, bool)| {
            if let Some(plan) = fleet.plan(&mut snapshot) {
                planned.push(Planned {
                    members: members(&snapshot),
                    notices: events::notices(&snapshot.objects, &plan.writes),
                    name: snapshot.space,
                    plan,
                    is_empty,
                });
            }
        };
        if spaces.len() < SEVERAL {
            spaces.into_iter().map(open).for_each(settle);
        } else {
            // To unpack and type the next one takes as long as to plan this one.
            let (opened, next) = sync_channel(1);
            scope(|scope| {
                scope.spawn(move || {
                    for space in spaces {
                        if opened.send(open(space)).is_err() {
                            return;
                        }
                    }
                });
                next.into_iter().for_each(&mut settle);
            });
        }
        for one in planned.iter().filter(|one| one.is_empty) {
            fleet.forget(&one.name);
        }
        planned
    }
}

/// Who is enrolled is heard, or is not; nobody else is listened to.
fn listen(snapshot: &mut Snapshot, unheard: Hearing) {
    let enrolled: BTreeSet<_> = snapshot
        .hosts
        .iter()
        .filter(|(_, host)| host.spec.identity.is_some())
        .map(|(name, _)| name.clone())
        .collect();
    let live = &mut snapshot.live.hosts;
    live.retain(|name, _| enrolled.contains(name));
    for name in enrolled {
        live.entry(name).or_insert(HostLive {
            hearing: unheard,
            report: None,
            is_contested: false,
        });
    }
}

/// How many namespaces are planned before their plans are written.
const BATCH: usize = 16;
/// From how many on they are unpacked beside the one that is planned.
const SEVERAL: usize = 3;
/// How often what follows from what was just written is planned before anything else is looked at.
const ROUNDS: usize = 4;
