//! The link to the manager, kept up: enrols when it must, reports what changed, and follows the
//! desired state, which it keeps on disk.
//!
//! ```text
//!  role ── report ──►  reporter ── PATCH ──►            the last one wins; a heartbeat besides
//!  role ◄─ desired ◄── follower ◄─ GET ?wait= ──        starts with what the disk holds
//! ```

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use kedge_control::{
    agent::{GatewayConfig, HostConfig},
    local::ManagerLink,
};
use kedge_core::{Coded as _, Problem};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{debug, info, warn};

use crate::{
    enrol::{Backoff, Client, ClientError},
    saver::Saver,
    state::{Restored, Store},
    wall,
};

/// A desired state.
pub trait Desired: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Grows with every change.
    fn generation(&self) -> u64;

    /// The CA certificates to trust, PEM.
    fn ca_bundle(&self) -> &str;
}

/// A report.
pub trait Report: Clone + PartialEq + Serialize + Send + Sync + 'static {}

impl<R: Clone + PartialEq + Serialize + Send + Sync + 'static> Report for R {}

/// How patient the link is.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// The longest time between two reports.
    pub heartbeat: Duration,
    /// Changes within this time are one report.
    pub settle: Duration,
    /// How long one question for the desired state may wait for a change.
    pub wait: Duration,
    /// The longest pause after a failure.
    pub retry: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(10),
            settle: Duration::from_millis(50),
            wait: Duration::from_secs(30),
            retry: Duration::from_secs(15),
        }
    }
}

/// The link to one manager, until dropped.
#[derive(Debug)]
pub struct Link<R, C> {
    client: Client,
    report: watch::Sender<Option<R>>,
    desired: watch::Receiver<Option<Arc<C>>>,
    standing: watch::Receiver<Standing>,
    task: JoinHandle<()>,
}

/// What can be said of the link: as much as can be said of the worse of its two directions.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Whether the last request of each direction was answered.
    pub connected: bool,
    /// Since when.
    pub since: SystemTime,
    /// Why not, or what was last exchanged.
    pub because: String,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
    reports: Way,
    follows: Way,
}

impl<R: Report, C: Desired> Link<R, C> {
    /// Keeps up the link of `client`. The desired state on the disk is there at once.
    ///
    /// Must be called inside a tokio runtime.
    #[must_use]
    pub fn start(client: Client, store: &Store, patience: Patience) -> Self {
        let restored = remembered::<C>(store);
        let (report, wanted) = watch::channel(None);
        let (publish, desired) = watch::channel(restored.value.map(Arc::new));
        let (tell, standing) = watch::channel(Standing {
            connected: false,
            since: SystemTime::now(),
            because: "the manager was not asked yet".to_owned(),
            problems: restored.problems,
            reports: Way::Unasked,
            follows: Way::Unasked,
        });
        let saver = Saver::start(store.clone(), STATE);
        let asking = client.clone();
        let task = tokio::spawn(async move {
            let telling = |direction| Teller {
                direction,
                standing: &tell,
            };
            let reporting = telling(Direction::Reports);
            let following = telling(Direction::Follows);
            let reports = keep_reporting(&asking, wanted, patience, &reporting);
            let follows = keep_following(&asking, publish, &saver, patience, &following);
            tokio::join!(reports, follows);
        });
        Self {
            client,
            report,
            desired,
            standing,
            task,
        }
    }

    /// Wants `report` to be the manager's picture. The same again is not sent again.
    pub fn report(&self, report: R) {
        self.report.send_if_modified(|known| {
            let news = known.as_ref() != Some(&report);
            *known = Some(report);
            news
        });
    }

    /// The client whose link it is.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Follows the desired state.
    #[must_use]
    pub fn desired(&self) -> watch::Receiver<Option<Arc<C>>> {
        self.desired.clone()
    }

    /// Follows the link's standing.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// The link as people see it; `applied` is the generation in force.
    #[must_use]
    pub fn status(&self, applied: u64) -> ManagerLink {
        let standing = self.standing.borrow().clone();
        let member = self.client.member();
        ManagerLink {
            url: self.client.url().to_string(),
            enrolled: member.is_some(),
            record: member.as_ref().map_or_else(String::new, |member| {
                member
                    .path
                    .trim_start_matches("/kedge/v1/")
                    .trim_start_matches('/')
                    .to_owned()
            }),
            connected: standing.connected,
            since: wall::rfc3339(standing.since),
            because: standing.because,
            applied_generation: applied,
            certificate_expires: member.map(|member| wall::rfc3339(member.expires)),
        }
    }
}

impl<R, C> Drop for Link<R, C> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Desired for HostConfig {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn ca_bundle(&self) -> &str {
        &self.ca_bundle
    }
}

impl Desired for GatewayConfig {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn ca_bundle(&self) -> &str {
        &self.ca_bundle
    }
}

/// The last desired state, as the disk remembers it.
#[must_use]
pub fn remembered<C: Desired>(store: &Store) -> Restored<C> {
    store.load(STATE)
}

/// One direction of the link.
#[derive(Clone, Debug, PartialEq)]
enum Way {
    Unasked,
    Answered,
    Failed { because: String, problem: Problem },
}

#[derive(Clone, Copy)]
enum Direction {
    Reports,
    Follows,
}

impl Standing {
    fn way(&mut self, direction: Direction) -> &mut Way {
        match direction {
            Direction::Reports => &mut self.reports,
            Direction::Follows => &mut self.follows,
        }
    }

    /// Shows the worse direction; `said` is what there is to say when neither failed.
    fn judge(&mut self, said: String) {
        let ways = [&self.reports, &self.follows];
        let mut because = None;
        let mut problems: Vec<Problem> = Vec::new();
        for way in ways {
            let Way::Failed {
                because: why,
                problem,
            } = way
            else {
                continue;
            };
            because.get_or_insert_with(|| why.clone());
            if !problems.contains(problem) {
                problems.push(problem.clone());
            }
        }
        let connected = because.is_none() && ways.contains(&&Way::Answered);
        let because = because.unwrap_or(said);
        if self.connected != connected {
            let word = |connected| {
                if connected {
                    "connected"
                } else {
                    "not connected"
                }
            };
            let (from, to) = (word(self.connected), word(connected));
            info!(from, to, because, "manager");
            self.since = SystemTime::now();
        }
        self.connected = connected;
        self.because = because;
        self.problems = problems;
    }
}

/// Tells how one direction fares.
struct Teller<'a> {
    direction: Direction,
    standing: &'a watch::Sender<Standing>,
}

impl Teller<'_> {
    fn answered(&self, because: impl Into<String>) {
        self.tell(Way::Answered, because.into());
    }

    /// What went wrong is over, and nothing was asked since.
    fn recovered(&self) {
        self.tell(Way::Unasked, "the host is enrolled".to_owned());
    }

    fn failed(&self, error: &ClientError) {
        let problem = error.problem();
        let repeated = self.standing.borrow().problems.contains(&problem);
        let (code, chain) = (problem.code, error as &dyn std::error::Error);
        if repeated {
            debug!(KEDGE_CODE = %code, error = chain, "the manager is still out of reach");
        } else {
            warn!(KEDGE_CODE = %code, error = chain, "the manager is out of reach");
        }
        let because = error.to_string();
        self.tell(Way::Failed { because, problem }, String::new());
    }

    /// Waits before it is tried again; no longer than until the other direction finds the manager,
    /// unless the manager itself said how long.
    async fn rest(&self, backoff: &mut Backoff, error: &ClientError) {
        let told = error.retry_after();
        let wait = backoff.wait_after(told);
        if told.is_some() {
            return sleep(wait).await;
        }
        let other = |standing: &Standing| match self.direction {
            Direction::Reports => standing.follows == Way::Answered,
            Direction::Follows => standing.reports == Way::Answered,
        };
        let mut standing = self.standing.subscribe();
        let found = other(&standing.borrow());
        if found {
            sleep(wait).await;
        } else {
            // Either way it is time to try.
            let _ = timeout(wait, standing.wait_for(other)).await;
        }
    }

    fn tell(&self, way: Way, said: String) {
        self.standing.send_modify(|standing| {
            *standing.way(self.direction) = way;
            standing.judge(said);
        });
    }
}

/// Becomes a member, whatever that takes; whether it took no more than one try.
async fn become_member(client: &Client, patience: Patience, tell: &Teller<'_>) -> bool {
    let mut backoff = Backoff::new(FIRST_RETRY, patience.retry);
    let mut at_once = true;
    loop {
        match client.ensure().await {
            Ok(()) => break,
            // Renewal failed, but the certificate still holds.
            Err(error) if client.holds() && !error.voids_identity() => {
                let error = &error as &dyn std::error::Error;
                warn!(
                    error,
                    "the certificate is not renewed, the old one still holds"
                );
                break;
            }
            Err(error) => {
                at_once = false;
                tell.failed(&error);
                tell.rest(&mut backoff, &error).await;
            }
        }
    }
    if !at_once {
        tell.recovered();
    }
    at_once
}

/// Follows the desired state of a link there may not be.
#[derive(Debug)]
pub struct Following<C>(Option<watch::Receiver<Option<Arc<C>>>>);

impl<C> Following<C> {
    /// Follows `link`, or nothing.
    #[must_use]
    pub fn link<R>(link: Option<&Link<R, C>>) -> Self {
        Self(link.map(|link| link.desired.clone()))
    }

    /// The next one, after what the link started with; never where there is no link, or it has ended.
    pub async fn next(&mut self) -> Option<Arc<C>> {
        if let Some(receiver) = &mut self.0
            && receiver.changed().await.is_ok()
        {
            return receiver.borrow_and_update().clone();
        }
        std::future::pending().await
    }
}

async fn keep_reporting<R: Report>(
    client: &Client,
    mut wanted: watch::Receiver<Option<R>>,
    patience: Patience,
    tell: &Teller<'_>,
) {
    let mut backoff = Backoff::new(FIRST_RETRY, patience.retry);
    loop {
        become_member(client, patience, tell).await;
        let report = wanted.borrow_and_update().clone();
        if let Some(report) = report {
            match client.report(&report).await {
                Ok(_) => {
                    backoff.reset();
                    tell.answered("the last report was taken");
                }
                Err(error) => {
                    tell.failed(&error);
                    tell.rest(&mut backoff, &error).await;
                    continue;
                }
            }
        }
        // A closed channel means that the link is being dropped, and this task with it.
        match timeout(patience.heartbeat, wanted.changed()).await {
            Ok(Err(_)) => return,
            Ok(Ok(())) => sleep(patience.settle).await,
            Err(_) => {}
        }
    }
}

async fn keep_following<C: Desired>(
    client: &Client,
    publish: watch::Sender<Option<Arc<C>>>,
    saver: &Saver<C>,
    patience: Patience,
    tell: &Teller<'_>,
) {
    let mut backoff = Backoff::new(FIRST_RETRY, patience.retry);
    // A generation says nothing across a failure: the manager may be another one, or have come
    // back from a backup, or hold another record of this host, and count anew. So what is known
    // is asked for once more as if it were not.
    let mut sure = false;
    loop {
        sure &= become_member(client, patience, tell).await;
        let known = publish.borrow().clone();
        let have = known.as_ref().filter(|_| sure);
        let have = have.map(|desired| desired.generation());
        let asked = Instant::now();
        let answer = client.config::<C>(have, patience.wait).await;
        sure = answer.is_ok();
        match answer {
            Ok(Some(desired)) if !known.is_some_and(|known| same(&*known, &desired)) => {
                backoff.reset();
                info!(generation = desired.generation(), "desired state");
                tell.answered(format!("generation {} arrived", desired.generation()));
                client.adopt_ca(desired.ca_bundle());
                saver.save(desired.clone());
                publish.send_replace(Some(Arc::new(desired)));
            }
            Ok(_) => {
                backoff.reset();
                tell.answered("the desired state is unchanged");
                if have.is_some() {
                    // A manager that does not wait must not be asked without a pause.
                    sleep_until(asked + patience.wait.min(LEAST_WAIT)).await;
                }
            }
            Err(error) => {
                tell.failed(&error);
                tell.rest(&mut backoff, &error).await;
            }
        }
    }
}

/// Whether two desired states are the same in every word.
fn same<C: Desired>(one: &C, other: &C) -> bool {
    let text = |desired: &C| serde_json::to_vec(desired).ok();
    one.generation() == other.generation() && text(one) == text(other)
}

const STATE: &str = "desired";
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LEAST_WAIT: Duration = Duration::from_secs(1);
