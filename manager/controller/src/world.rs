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
//! of two racers for the last use of a token one is refused. What holds it is carried through though
//! whoever asked hangs up (`api/turn.rs`). The order of locks is fleet, change, state.

mod member;
mod mind;
mod part;
mod state;
mod tell;
mod turn;

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{
    sync::{Mutex, MutexGuard, Notify, OwnedMutexGuard, watch},
    time::{Instant as TokioInstant, sleep, timeout_at},
};
use tracing::{info, warn};

use crate::{
    access::Access, api::buckets::Limits, certificates::Certificates, clock::Clock, fleet::Fleet,
    metrics::Metrics, pki::Authority, resolver::Resolver, sampled::Sampled, store::Store, token,
};

pub use member::{Kept, Member, Party};
pub use part::Part;
pub use state::State;

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
    /// The certificates of sites.
    pub certificates: Certificates,
    /// How often somebody may be refused, or a tenant enrol.
    pub limits: Limits,
    /// The store.
    pub store: Store,
    dirty: Notify,
    /// Whether it was told that the clock is behind.
    is_late: AtomicBool,
    version: watch::Sender<u64>,
    changes: Arc<Mutex<()>>,
    state: Mutex<State>,
    fleet: Arc<Mutex<Fleet>>,
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
            certificates: Certificates::default(),
            limits: Limits::default(),
            dirty: Notify::new(),
            is_late: AtomicBool::new(false),
            version: watch::Sender::new(0),
            changes: Arc::default(),
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
        world.open().await;
        world.learn_time().await;
        world
    }

    /// The state, for one task at a time.
    pub async fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().await
    }

    /// The right to look at records and then write them; taken before the state.
    pub async fn change(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.changes).lock_owned().await
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

    /// Looks at what lies beyond the store, for good: names, where kubeconfigs lead, and certificates.
    pub async fn look_around(self: Arc<Self>) {
        let mut looked = None;
        loop {
            // What there is to look at follows from plans.
            let (version, now) = (*self.version.borrow(), TokioInstant::now());
            let is_same = |(last, at): (u64, TokioInstant)| last == version && now < at + LOOK;
            if !looked.is_some_and(is_same) {
                looked = Some((version, now));
                let (wanted, kubeconfigs, secrets) = {
                    let state = self.state().await;
                    (state.names(), state.kubeconfigs(), state.certificates())
                };
                // Gateways may wait for certificates: a manager that starts hands out none before.
                let certified = self.certificates.look(&self.store, &secrets).await;
                if !certified.is_empty() {
                    self.state().await.again.extend(certified);
                    self.touch();
                }
                let names = wanted.keys().cloned().collect();
                let names = self.resolver.look(&names).await;
                let clusters = self.access.carry_out(&self.store, &kubeconfigs).await;
                let spaces = names.iter().filter_map(|name| wanted.get(name)).flatten();
                let spaces: Vec<String> = spaces
                    .chain(clusters.iter().map(|cluster| &cluster.namespace))
                    .cloned()
                    .collect();
                if !spaces.is_empty() {
                    self.state().await.again.extend(spaces);
                    self.touch();
                }
            }
            sleep(TICK).await;
        }
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

/// How often names and kubeconfigs are looked at where no object changes.
const LOOK: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(500);
const TOKENS_EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
