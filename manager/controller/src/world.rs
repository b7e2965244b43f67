//! The one place where everything meets: the store, who is heard of, and the plan in force.
//!
//! ```text
//! files changed ─► rescan ─┐
//! report, enrolment ───────┼─► snapshot ─► plan ─► write ─► publish ─► waiting requests
//! clock (liveness) ────────┘
//! ```

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use kedge_core::{Problem, Severity};
use kedge_crd::{EdgeGatewaySpec, EdgeHostSpec, host::Identity};
use tokio::{
    sync::{Mutex, MutexGuard, Notify, watch},
    task::spawn_blocking,
    time::{Instant as TokioInstant, sleep, timeout_at},
};
use tracing::{info, warn};

use crate::{
    clock::Clock,
    live::Tracker,
    pki::Authority,
    plan::{Plan, plan},
    sampled::Sampled,
    snapshot::{Live, Snapshot, key},
    store::{Name, directory::Directory},
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
    dirty: Notify,
    version: watch::Sender<u64>,
    state: Mutex<State>,
}

/// What one task at a time may change.
#[derive(Debug)]
pub struct State {
    /// The store.
    pub store: Directory,
    /// Who is heard of.
    pub tracker: Tracker,
    /// The plan in force: written, and handed out.
    pub plan: Plan,
    /// The enrolled, by uid.
    pub members: BTreeMap<String, Member>,
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
    #[must_use]
    pub fn new(
        store: Directory,
        authority: Arc<Authority>,
        clock: Clock,
        (trust_domain, certificate_life): (&str, Duration),
    ) -> Self {
        let state = State {
            store,
            tracker: Tracker::new(Instant::now()),
            plan: Plan::default(),
            members: BTreeMap::new(),
            stuck: None,
            live: Live::default(),
        };
        let world = Self {
            authority,
            clock,
            trust_domain: trust_domain.to_owned(),
            certificate_life,
            files_changed: Arc::new(Notify::new()),
            refusals: Sampled::default(),
            dirty: Notify::new(),
            version: watch::Sender::new(0),
            state: Mutex::new(state),
        };
        if let Ok(mut state) = world.state.try_lock() {
            world.settle(&mut state);
        }
        world
    }

    /// The state, for one task at a time.
    pub async fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().await
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
                // An editor writes in several steps. Outside of the time limit, which would
                // forget the word that came just before it.
                sleep(SETTLE).await;
            }
            let began = TokioInstant::now();
            if files {
                next_rescan = began + rescan;
            }
            // The disk is waited for on a thread of its own: connections and timers go on.
            let (world, dirty) = (Arc::clone(&self), woken == Ok(false));
            if let Err(error) = spawn_blocking(move || world.turn(files, dirty)).await {
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
                return;
            }
            // A large fleet's requests get as much time as its plans.
            sleep(began.elapsed().min(TICK)).await;
        }
    }

    fn turn(&self, files: bool, dirty: bool) {
        let mut state = self.state.blocking_lock();
        // It may have come late: then the directory is another manager's.
        if state.store.is_closed() {
            return;
        }
        let mut due = dirty || state.stuck.is_some();
        if files {
            due |= state.store.rescan();
        }
        due |= state.live_now() != state.live;
        if due {
            self.settle(&mut state);
        }
    }

    /// Plans, writes, and hands out what was planned. What cannot be written is not handed out.
    pub fn settle(&self, state: &mut State) {
        let live = state.live_now();
        let bundle = self.authority.bundle();
        let snapshot = Snapshot::observe(
            state.store.objects(),
            live.clone(),
            bundle,
            &self.clock.text(),
        );
        let planned = plan(&snapshot);
        state.members = members(&snapshot);
        if let Err(problem) = state.store.write(&planned.writes) {
            if state.stuck.as_ref() != Some(&problem) {
                warn!(KEDGE_CODE = %problem.code, %problem, "a plan cannot be written");
            }
            state.stuck = Some(problem);
            return;
        }
        state.stuck = None;
        state.live = live;
        tell(&state.plan, &planned);
        state.plan = planned;
        self.nudge();
        self.drop_tokens(state);
    }

    /// Forgets the tokens that expired long ago. They admit nobody: what fails is tried at the next
    /// plan.
    fn drop_tokens(&self, state: &mut State) {
        let removals = token::removals(state.store.objects(), self.clock.timestamp());
        if removals.is_empty() {
            return;
        }
        match state.store.write(&removals) {
            Ok(()) => info!(
                tokens = removals.len(),
                because = "they expired long ago",
                "tokens removed"
            ),
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
const SETTLE: Duration = Duration::from_millis(30);

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        time::SystemTime,
    };

    use jiff::Timestamp;
    use kedge_control::identity::Role;

    use super::*;
    use crate::token::{GRACE, Record};

    #[test]
    fn an_expired_token_is_told_for_a_while_and_then_removed() {
        let root = tempfile::tempdir().unwrap();
        let mut store = Directory::open(root.path()).unwrap();
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let clock = Clock::new(move || now.into());
        let authority = Arc::new(Authority::load_or_create(&mut store, &clock).unwrap());
        let second = jiff::SignedDuration::from_secs(1);
        let record = |expires| {
            let scope = ("ns", "t");
            let made = Record::create(Role::Host, scope, None, (expires, 1), authority.pin());
            made.unwrap().1
        };
        let usable = record(now + second);
        let told = record(now - GRACE + second);
        let outdated = record(now - GRACE);
        let unreadable = Record {
            expires: "never".to_owned(),
            ..record(now)
        };
        let records = [&usable, &told, &outdated, &unreadable];
        let writes: Vec<_> = records.iter().map(|record| record.write()).collect();
        store.write(&writes).unwrap();
        let secrets = || walk(&root.path().join("owned/core/Secret/ns"));
        assert_eq!(secrets(), 4);

        let life = Duration::from_secs(60);
        let world = World::new(store, authority, clock, ("kedge.local", life));
        let state = world.state.try_lock().unwrap();
        let left = token::all(state.store.objects());
        assert_eq!(left.len(), 3);
        assert!(!left.contains_key(&outdated.id));
        assert_eq!(left[&told.id].summary(now).state, "expired");
        assert_eq!(secrets(), 3, "on the disk as well");
        assert!(state.plan.problems.is_empty());
    }

    #[tokio::test]
    async fn a_plan_that_waits_leaves_connections_and_timers_alone() {
        // The clock stands for the disk: it is asked in the middle of a plan, and here it takes
        // its time. The runtime has one thread.
        let (entered, mut inside) = tokio::sync::mpsc::unbounded_channel();
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let (gate, slow) = (
            std::sync::Mutex::new(gate),
            Arc::new(AtomicBool::new(false)),
        );
        let is_slow = Arc::clone(&slow);
        let clock = Clock::new(move || {
            if is_slow.swap(false, Ordering::SeqCst) {
                let waited = gate.lock().unwrap();
                entered.send(None).unwrap();
                let opened = waited.recv_timeout(Duration::from_secs(5)).is_ok();
                entered.send(Some(opened)).unwrap();
            }
            SystemTime::UNIX_EPOCH
        });
        let root = tempfile::tempdir().unwrap();
        let mut store = Directory::open(root.path()).unwrap();
        let authority = Arc::new(Authority::load_or_create(&mut store, &clock).unwrap());
        let life = Duration::from_secs(60);
        let world = Arc::new(World::new(store, authority, clock, ("kedge.local", life)));
        let mut version = world.follow();
        slow.store(true, Ordering::SeqCst);
        world.touch();
        let planner = tokio::spawn(Arc::clone(&world).run(life));
        assert_eq!(inside.recv().await, Some(None));
        assert!(world.state.try_lock().is_err(), "the plan is under way");
        open.send(()).unwrap();
        assert_eq!(inside.recv().await, Some(Some(true)), "we ran meanwhile");
        version.changed().await.unwrap();
        planner.abort();
    }

    fn walk(folder: &std::path::Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }
}
