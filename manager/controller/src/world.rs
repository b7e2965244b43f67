//! The one place where everything meets: the store, who is heard of, and the plan in force.
//!
//! ```text
//! files changed ─► refresh ─┐
//! report, enrolment ────────┼─► snapshot ─► plan ─► members ─► write ─► publish ─► waiting requests
//! clock (liveness) ─────────┘    state      -       state       -       state
//! ```
//!
//! Below each step stands the lock it holds: none while it is planned and written, so that a slow
//! disk or API server holds up no request but those that write themselves. The order is law: who
//! is served is known before anything is written (a ban does not wait for the disk), and nothing
//! is handed out before it is written. What changes between snapshot and publication wakes the
//! next plan; a member that came or went meanwhile is kept as it is, not as the snapshot had it.
//!
//! Requests that look at records and then write them take [`World::change`] first, one at a time:
//! of two racers for the last use of a token one is refused. The order of locks is change, state.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use kedge_core::{Problem, Severity};
use kedge_crd::{
    EdgeGatewaySpec, EdgeHostSpec,
    host::{HostRef, Identity},
};
use tokio::{
    sync::{Mutex, MutexGuard, Notify, watch},
    task::spawn_blocking,
    time::{Instant as TokioInstant, sleep, timeout_at},
};
use tracing::{info, warn};

use crate::{
    access::Access,
    api::buckets::Limits,
    clock::Clock,
    events,
    live::Tracker,
    metrics::Metrics,
    pki::{Authority, Peer, request::key_hash},
    plan::{Plan, plan},
    resolver::Resolver,
    sampled::Sampled,
    snapshot::{Live, Snapshot, key},
    store::{Name, Store},
    token,
};

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
    version: watch::Sender<u64>,
    changes: Mutex<()>,
    state: Mutex<State>,
}

/// What one task at a time may change.
#[derive(Debug)]
pub struct State {
    /// The store, to read.
    pub store: Store,
    /// Who is heard of.
    pub tracker: Tracker,
    /// The plan in force: written, and handed out.
    pub plan: Plan,
    /// The enrolled, by uid.
    members: BTreeMap<String, Member>,
    /// Who came or went since the last snapshot.
    fresh: BTreeMap<String, Option<Member>>,
    /// Why the last plan could not be written.
    pub stuck: Option<Problem>,
    live: Live,
}

/// Somebody enrolled.
#[derive(Clone, Debug)]
pub struct Member {
    /// Who.
    pub party: Party,
    /// The identity as it is kept.
    pub identity: Identity,
    /// Whether it is served.
    pub active: bool,
    /// The tenant, for hosts.
    pub tenant: String,
    /// The WireGuard keys, base64; the first is in use.
    pub tunnel_keys: Vec<String>,
    /// The machine it stands for.
    pub host_ref: Option<HostRef>,
}

/// A host or a gateway instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// An EdgeHost.
    Host(Name),
    /// An instance of an EdgeGateway.
    Instance(Name, String),
}

impl World {
    /// A world around a store; the first plan is made and written at once.
    pub async fn start(
        store: Store,
        authority: Arc<Authority>,
        clock: Clock,
        (trust_domain, certificate_life): (&str, Duration),
    ) -> Arc<Self> {
        let state = State {
            store: store.clone(),
            tracker: Tracker::new(Instant::now()),
            plan: Plan::default(),
            members: BTreeMap::new(),
            fresh: BTreeMap::new(),
            stuck: None,
            live: Live::default(),
        };
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
            store,
            dirty: Notify::new(),
            version: watch::Sender::new(0),
            changes: Mutex::new(()),
            state: Mutex::new(state),
        });
        world.settle().await;
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

    /// Follows the plan in force.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Wakes every waiting request to look again.
    pub fn nudge(&self) {
        self.version.send_modify(|version| *version += 1);
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
        loop {
            let mut differs = self.resolver.look(&self.store.objects()).await;
            let wanted = self.state().await.plan.kubeconfigs.clone();
            differs |= self.access.carry_out(&self.store, &wanted).await;
            if differs {
                self.touch();
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
        let due = {
            let state = self.state().await;
            let wake = state.plan.wake.earliest();
            let is_time = wake.is_some_and(|wake| wake <= self.clock.timestamp());
            dirty || changed || is_time || state.stuck.is_some() || state.live_now() != state.live
        };
        if due {
            self.settle().await;
        }
    }

    /// Plans, writes, and hands out what was planned. What cannot be written is not handed out.
    pub async fn settle(self: &Arc<Self>) {
        let (objects, live) = {
            let mut state = self.state().await;
            state.fresh.clear();
            (self.store.objects(), state.live_now())
        };
        let (began, before) = (Instant::now(), Arc::clone(&objects));
        // A plan of a large fleet takes its time on a thread of its own.
        let (world, heard) = (Arc::clone(self), live.clone());
        let planning = spawn_blocking(move || {
            let bundle = world.authority.bundle();
            let snapshot = Snapshot::observe(&objects, heard, bundle, &world.clock.text())
                .within(world.store.environment());
            let snapshot = Snapshot {
                names: Some(BTreeMap::clone(&world.resolver.answers())),
                kubeconfigs: world.access.known(),
                ..snapshot
            };
            (plan(&snapshot), members(&snapshot))
        });
        let (planned, members) = match planning.await {
            Ok(planned) => planned,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => return,
            },
        };
        self.metrics.reconciled("plan", began);
        self.state().await.know(members);
        let began = Instant::now();
        let written = self.store.write(planned.writes.clone()).await;
        if !planned.writes.is_empty() {
            self.metrics.reconciled("write", began);
        }
        let mut state = self.state().await;
        if let Err(problem) = written {
            if state.stuck.as_ref() != Some(&problem) {
                warn!(KEDGE_CODE = %problem.code, %problem, "a plan cannot be written");
            }
            state.stuck = Some(problem);
            return;
        }
        state.stuck = None;
        state.live = live;
        self.store.tell(events::notices(&before, &planned.writes));
        tell(&state.plan, &planned);
        state.plan = planned;
        drop(state);
        self.nudge();
        self.drop_tokens().await;
    }

    /// Forgets the tokens that expired long ago. They admit nobody: what fails is tried at the next
    /// plan.
    async fn drop_tokens(&self) {
        let removals = token::removals(&self.store.objects(), self.clock.timestamp());
        if removals.is_empty() {
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

impl State {
    /// Every problem there is.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let endpoints = self.plan.endpoints.iter().flat_map(|item| &item.problems);
        let all = self
            .stuck
            .iter()
            .chain(&self.plan.problems)
            .chain(endpoints);
        all.cloned().collect()
    }

    /// The enrolled, by uid.
    #[must_use]
    pub const fn members(&self) -> &BTreeMap<String, Member> {
        &self.members
    }

    /// Somebody enrolled, or its identity changed.
    pub fn admit(&mut self, member: Member) {
        let uid = member.identity.uid.clone();
        self.fresh.insert(uid.clone(), Some(member.clone()));
        self.members.insert(uid, member);
    }

    /// Somebody left.
    pub fn dismiss(&mut self, uid: &str) {
        self.fresh.insert(uid.to_owned(), None);
        self.members.remove(uid);
    }

    /// The enrolled as a snapshot has them, and those who came or went since.
    fn know(&mut self, members: BTreeMap<String, Member>) {
        self.members = members;
        for (uid, member) in &self.fresh {
            match member {
                Some(member) => {
                    self.members.insert(uid.clone(), member.clone());
                }
                None => {
                    self.members.remove(uid);
                }
            }
        }
    }

    fn live_now(&self) -> Live {
        let hosts = self
            .members
            .values()
            .filter_map(|member| match &member.party {
                Party::Host(name) => Some(name.clone()),
                Party::Instance(..) => None,
            });
        self.tracker.live(Instant::now(), hosts)
    }
}

impl Member {
    /// Whether a certificate is for the identity's key.
    #[must_use]
    pub fn holds(&self, peer: &Peer) -> bool {
        key_hash(&self.identity.public_key).is_some_and(|own| own == peer.key_hash)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.party {
            Party::Host(name) => &name.name,
            Party::Instance(_, name) => name,
        }
    }
}

impl Party {
    /// The key of the object the party is kept in.
    #[must_use]
    pub fn key(&self) -> crate::store::ObjectKey {
        match self {
            Self::Host(name) => key::<EdgeHostSpec>(name),
            Self::Instance(gateway, _) => key::<EdgeGatewaySpec>(gateway),
        }
    }
}

fn members(snapshot: &Snapshot) -> BTreeMap<String, Member> {
    let hosts = snapshot.hosts.iter().filter_map(|(name, host)| {
        let identity = host.spec.identity.clone()?;
        let member = Member {
            party: Party::Host(name.clone()),
            active: host.spec.is_active(),
            tenant: host.spec.tenant.clone(),
            tunnel_keys: host.spec.tunnel.public_keys.clone(),
            host_ref: host.spec.host_ref.clone(),
            identity,
        };
        Some((member.identity.uid.clone(), member))
    });
    let instances = snapshot.gateways.iter().flat_map(|(name, gateway)| {
        gateway.spec.instances.iter().map(move |instance| {
            let member = Member {
                party: Party::Instance(name.clone(), instance.name.clone()),
                active: true,
                tenant: String::new(),
                tunnel_keys: instance.public_keys.clone(),
                host_ref: None,
                identity: instance.identity.clone(),
            };
            (member.identity.uid.clone(), member)
        })
    });
    hosts
        .chain(instances)
        .filter(|(uid, _)| !uid.is_empty())
        .collect()
}

/// Tells the journal what an operator cares about.
fn tell(before: &Plan, after: &Plan) {
    for item in &after.endpoints {
        let same = |last: &&kedge_control::local::FleetEndpoint| {
            last.namespace == item.namespace && last.cluster == item.cluster
        };
        let last = before.endpoints.iter().find(same);
        let from = last
            .and_then(|last| last.endpoint.as_deref())
            .unwrap_or("none");
        let to = item.endpoint.as_deref().unwrap_or("none");
        let cluster = format!("{}/{}", item.namespace, item.cluster);
        if from != to {
            info!(
                cluster,
                from,
                to,
                mode = item.mode,
                because = item.because,
                "an endpoint changed"
            );
        } else if last.is_none_or(|last| last.because != item.because) {
            info!(
                cluster,
                endpoint = to,
                because = item.because,
                "an endpoint was looked at"
            );
        }
        let owner = last.map(|last| last.owner.as_str()).unwrap_or_default();
        if owner != item.owner {
            info!(
                cluster,
                from = owner,
                to = item.owner,
                "who serves an endpoint changed"
            );
        }
    }
    let known: Vec<&Problem> = problems(before).collect();
    for problem in problems(after).filter(|problem| !known.contains(problem)) {
        if problem.severity == Severity::Error {
            warn!(KEDGE_CODE = %problem.code, object = problem.object, %problem, "a problem appeared");
        }
    }
}

fn problems(plan: &Plan) -> impl Iterator<Item = &Problem> {
    let endpoints = plan.endpoints.iter().flat_map(|item| &item.problems);
    plan.problems.iter().chain(endpoints)
}

const TICK: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
