//! The one place where everything meets: the store, who is heard of, and the plans in force.
//!
//! ```text
//! files changed ─► refresh ─┐
//! report, enrolment ────────┼─► due ─► snapshot ─► plan ─► members ─► write ─► publish ─► requests
//! clock (liveness) ─────────┘  state     -          -       state       -       state
//! ```
//!
//! Below each step stands the lock it holds: none while it is planned and written, so that a slow
//! disk or API server holds up no request but those that write themselves. The order is law: who
//! is served is known before anything is written (a ban does not wait for the disk), and nothing
//! is handed out before it is written. What changes between snapshot and publication wakes the
//! next plan; a member that came or went meanwhile is kept as it is, not as the snapshot had it.
//!
//! What is due is a set of namespaces ([`Fleet`]): a change costs as much as its namespace holds,
//! not as the fleet does.
//!
//! Requests that look at records and then write them take [`World::change`] first, one at a time:
//! of two racers for the last use of a token one is refused. The order of locks is fleet, change,
//! state.

mod mind;
mod part;
mod state;
mod tell;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicBool, mpsc::sync_channel},
    thread::scope,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kedge_crd::{EdgeGatewaySpec, LoadBalancerSpec, Resource as _, meta};
use tokio::{
    sync::{Mutex, MutexGuard, Notify, OwnedMutexGuard, watch},
    task::spawn_blocking,
    time::{Instant as TokioInstant, sleep, timeout_at},
};
use tracing::{info, warn};

use crate::{
    access::Access,
    api::buckets::Limits,
    clock::Clock,
    events::{self, Notice},
    fleet::Fleet,
    metrics::Metrics,
    pki::Authority,
    plan::Plan,
    resolver::Resolver,
    sampled::Sampled,
    snapshot::{Hearing, HostLive, Live, Snapshot},
    store::{Store, Write, outcome::Outcome, stock::Taken},
    token,
};

pub use part::Part;
pub use state::{Member, Party, State};

/// What the manager's tasks share.
#[derive(Debug)]
pub struct World {
    /// The certificate authority.
    pub authority: Arc<Authority>,
    /// The time.
    pub clock: Clock,
    /// The trust domain of identities.
    pub trust_domain: String,
    /// The life of a certificate.
    pub certificate_life: Duration,
    /// Wakes the planner after files changed.
    pub files_changed: Arc<Notify>,
    /// Refused enrolments: whoever reaches the port can cause one.
    pub refusals: Sampled,
    /// What is counted.
    pub metrics: Metrics,
    /// What the names of endpoints resolve to.
    pub resolver: Resolver,
    /// The kubeconfigs that lead through a gateway.
    pub access: Access,
    /// How often somebody may be refused, or a tenant enrol.
    pub limits: Limits,
    /// The store.
    pub store: Store,
    dirty: Notify,
    /// Whether it was told that the clock is behind.
    is_late: AtomicBool,
    version: watch::Sender<u64>,
    changes: Mutex<()>,
    state: Mutex<State>,
    fleet: Arc<Mutex<Fleet>>,
}

/// A namespace as it is about to be planned.
struct Space {
    name: String,
    taken: Taken,
    live: (Live, Hearing),
    refused: BTreeMap<crate::store::ObjectKey, kedge_core::Problem>,
}

/// A namespace that was planned.
struct Planned {
    name: String,
    plan: Plan,
    members: BTreeMap<String, Member>,
    /// What there is to tell once it is written.
    notices: Vec<Notice>,
    is_empty: bool,
}

impl World {
    /// A world around a store; the first plan is made and written at once.
    pub async fn start(
        store: Store,
        authority: Arc<Authority>,
        clock: Clock,
        (trust_domain, certificate_life): (&str, Duration),
    ) -> Arc<Self> {
        let world = Arc::new(Self {
            authority,
            clock,
            trust_domain: trust_domain.to_owned(),
            certificate_life,
            files_changed: Arc::new(Notify::new()),
            refusals: Sampled::default(),
            metrics: store.metrics(),
            resolver: Resolver::default(),
            access: Access::default(),
            limits: Limits::default(),
            dirty: Notify::new(),
            is_late: AtomicBool::new(false),
            version: watch::Sender::new(0),
            changes: Mutex::new(()),
            state: Mutex::new(State::new(store.clone())),
            fleet: Arc::default(),
            store,
        });
        {
            let mut fleet = world.fleet.lock().await;
            for space in world.store.spaces() {
                fleet.touch(&space);
            }
        }
        world.settle().await;
        world.learn_time().await;
        world
    }

    /// The state, for one task at a time.
    pub async fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().await
    }

    /// The right to look at records and then write them; taken before the state.
    pub async fn change(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().await
    }

    /// Wakes the planner: something a plan looks at has changed.
    pub fn touch(&self) {
        self.dirty.notify_one();
    }

    /// Follows the plans in force, all of them.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Plans whenever something changed, for good.
    pub async fn run(self: Arc<Self>, rescan: Duration) {
        let mut next_rescan = TokioInstant::now() + rescan;
        loop {
            let tick = TokioInstant::now() + TICK;
            let woken = async {
                tokio::select! {
                    () = self.files_changed.notified() => true,
                    () = self.dirty.notified() => false,
                }
            };
            let woken = timeout_at(tick.min(next_rescan), woken).await;
            let files = woken == Ok(true) || TokioInstant::now() >= next_rescan;
            if woken == Ok(true) {
                // An editor writes in several steps, and events come in bursts. Outside of the time
                // limit, which would forget the word that came just before it.
                sleep(self.store.settling()).await;
            }
            let began = TokioInstant::now();
            if files {
                next_rescan = began + rescan;
            }
            self.turn(files, woken == Ok(false)).await;
            // A large fleet's requests get as much time as its plans.
            sleep(began.elapsed().min(TICK)).await;
        }
    }

    /// Looks at what lies beyond the store, for good: names, and where kubeconfigs lead.
    pub async fn look_around(self: Arc<Self>) {
        let mut looked = None;
        loop {
            let (version, now) = (self.store.version(), TokioInstant::now());
            let is_same = |(last, at): (u64, TokioInstant)| last == version && now < at + LOOK;
            if !looked.is_some_and(is_same) {
                looked = Some((version, now));
                let balancers = self
                    .store
                    .of_kind(meta::GROUP, LoadBalancerSpec::KIND, None);
                let mut differs = self.resolver.look(&balancers).await;
                let wanted = self.state().await.kubeconfigs();
                differs |= self.access.carry_out(&self.store, &wanted).await;
                if differs {
                    self.state().await.is_all_due = true;
                    self.touch();
                }
            }
            sleep(TICK).await;
        }
    }

    async fn turn(self: &Arc<Self>, files: bool, dirty: bool) {
        // It may have come late: then the store is another manager's.
        if self.store.is_closed() {
            return;
        }
        let changed = files && self.store.refresh().await;
        let mut fleet = Arc::clone(&self.fleet).lock_owned().await;
        for space in std::mem::take(&mut self.state().await.unwritten) {
            fleet.touch(&space);
        }
        self.gather(&mut fleet).await;
        if dirty || changed || !fleet.is_settled() {
            self.settle_all(fleet).await;
        }
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
        self.metrics.due(fleet.due());
    }

    async fn settle_all(self: &Arc<Self>, mut fleet: OwnedMutexGuard<Fleet>) {
        // What is due because of what was done now comes in the next round: by then the writes are
        // answered. A fleet that never comes to rest must not keep the planner from the clock.
        for _ in 0..ROUNDS {
            let mut is_first = true;
            loop {
                self.metrics.waiting(fleet.waiting());
                let spaces = fleet.next(BATCH);
                if spaces.is_empty() {
                    break;
                }
                is_first = false;
                fleet = self.settle_some(fleet, spaces).await;
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
    ) -> OwnedMutexGuard<Fleet> {
        // Another manager may lead between this look and the writes that follow from it.
        let reign = self.store.reign().await;
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
        let writes: Vec<Write> = planned
            .iter_mut()
            .flat_map(|one| std::mem::take(&mut one.plan.writes))
            .collect();
        let (began, writes_something) = (Instant::now(), !writes.is_empty());
        let outcome = match reign {
            Ok(Some(reign)) => self.store.carry_out(writes, &waiting, reign).await,
            // Another manager writes it; until then it is not there.
            Ok(None) => Outcome::left_to_another(&writes),
            Err(problem) if writes_something => Outcome::broken_by(problem),
            Err(_) => Outcome::default(),
        };
        if writes_something {
            self.metrics.reconciled("write", began);
        }
        let mut state = self.state().await;
        let names: BTreeSet<String> = planned.iter().map(|one| one.name.clone()).collect();
        state.took(&names, &outcome, self.store.leads(), Instant::now());
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
        self.metrics.due(fleet.due());
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
            snapshot.names = Some(BTreeMap::clone(&names));
            let here = kubeconfigs.iter();
            let here = here.filter(|(cluster, _)| cluster.namespace == space.name);
            snapshot.kubeconfigs = here.map(|(name, to)| (name.clone(), to.clone())).collect();
            listen(&mut snapshot, space.live.1);
            (snapshot, is_empty)
        };
        let mut planned = Vec::new();
        let mut settle = |(mut snapshot, is_empty): (Snapshot, bool)| {
            if let Some(plan) = fleet.plan(&mut snapshot) {
                planned.push(Planned {
                    members: state::members(&snapshot),
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

    /// Forgets the tokens that expired long ago. They admit nobody: what fails is tried at the next
    /// plan.
    async fn drop_tokens(&self) {
        let now: Timestamp = self.clock.timestamp();
        let mut state = self.state().await;
        if state
            .tokens_looked_at
            .is_some_and(|last| now.duration_since(last).unsigned_abs() < TOKENS_EVERY)
        {
            return;
        }
        state.tokens_looked_at = Some(now);
        drop(state);
        let secrets = self.store.of_kind("", "Secret", None);
        let removals = token::removals(&secrets, now);
        if removals.is_empty() || !self.store.leads() {
            return;
        }
        let tokens = removals.len();
        match self.store.write(removals).await {
            Ok(()) => info!(tokens, because = "they expired long ago", "tokens removed"),
            Err(problem) => {
                warn!(KEDGE_CODE = %problem.code, %problem, "an expired token cannot be removed");
            }
        }
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

/// How often names and kubeconfigs are looked at where no object changes.
const LOOK: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(500);
/// How many namespaces are planned before their plans are written.
const BATCH: usize = 16;
/// From how many on they are unpacked beside the one that is planned.
const SEVERAL: usize = 3;
/// How often what follows from what was just written is planned before anything else is looked at.
const ROUNDS: usize = 4;
const TOKENS_EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
