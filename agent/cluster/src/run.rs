//! The agent: it watches, plans and carries out, as long as it leads.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::{Timestamp, Unit};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Secret, networking::v1::Ingress};
use kedge_api_lease::Leader;
use kedge_core::{Code, Fix, Problem, lease::Terms};
use kedge_crd::{Condition, HttpLoadBalancerSpec, TcpLoadBalancerSpec};
use kube::{Api, Client};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use crate::{
    apply::Kind,
    beside::{put_beside, take_away},
    certificates::{Certificates, LACKING},
    hands::{Hands, NotWritten},
    health::{self, Health},
    identity::Identity,
    place::{Place, connect, keeps_ip_mode, unusable},
    plan::{Plan, http, plan, status::Note},
    seen::Seen,
    snapshot::{Config, Key, ManagerRefusal, Offered, Snapshot},
    speaker::{Speaker, Unheard},
};

/// How an agent runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster.
    pub place: Place,
    /// The namespace of its Lease and its Secret; the place's own where it is left out.
    pub namespace: Option<String>,
    /// A name of this run.
    pub me: String,
    /// Who it is to the manager.
    pub identity: Identity,
    /// Which Services are ours.
    pub config: Config,
    /// The terms of the Lease.
    pub terms: Terms,
    /// How often the manager is asked while nothing happens, and while something is awaited.
    pub poll: Poll,
    /// Whether more than half of what is offered may go although nobody saw its Services being deleted.
    pub confirm: bool,
    /// Where a kubelet asks how it is, if one does.
    pub health: Option<SocketAddr>,
}

/// How often the manager is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// While nothing happens.
    pub idle: Duration,
    /// While something is awaited.
    pub busy: Duration,
    /// How old what is known of a certificate may be.
    pub certificates: Duration,
}

impl Default for Poll {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(15),
            busy: Duration::from_secs(1),
            certificates: Duration::from_secs(60),
        }
    }
}

/// Runs an agent until `stop` comes; then it gives its Lease back, and what is offered stays so.
///
/// # Errors
///
/// The cluster cannot be reached at all, or health cannot be served.
pub async fn run(options: &Options, stop: impl Future<Output = ()>) -> Result<(), Problem> {
    let listener = health::listen(options.health).await?;
    let (client, around) = connect(&options.place).await?;
    let version = client.apiserver_version().await;
    let version = version.map_err(|error| unusable(&options.place, &error))?;
    let namespace = options.namespace.clone().unwrap_or(around);
    let changed = Arc::new(Notify::new());
    let seen = Arc::new(Seen::new(Arc::clone(&changed)));
    let health = Health::new(Arc::clone(&seen), TURN);
    let agent = Agent {
        leases: Api::namespaced(client.clone(), &namespace),
        secrets: Api::namespaced(client.clone(), &namespace),
        leader: Leader::new(options.terms, options.me.clone(), LEASE),
        seen,
        health: Arc::clone(&health),
        config: Config {
            ip_mode: keeps_ip_mode(&version.major, &version.minor),
            ..options.config.clone()
        },
        changed,
        client,
        options,
    };
    tokio::select! {
        () = agent.leader.run(&agent.leases, &agent.changed) => {}
        () = agent.seen.watch(&agent.client) => {}
        () = agent.work() => {}
        () = health::serve(listener, health) => {}
        () = stop => {}
    }
    agent.leader.release(&agent.leases).await;
    Ok(())
}

/// An agent while it runs.
struct Agent<'a> {
    options: &'a Options,
    config: Config,
    client: Client,
    leases: Api<Lease>,
    secrets: Api<Secret>,
    leader: Leader,
    seen: Arc<Seen>,
    health: Arc<Health>,
    changed: Arc<Notify>,
}

/// What the manager refused, by name, and when.
type Refused<S = TcpLoadBalancerSpec> = BTreeMap<String, (ManagerRefusal<S>, Instant)>;

/// What is known of the manager while this agent leads.
#[derive(Default)]
struct Reign {
    number: u64,
    speaker: Option<Speaker>,
    offered: Option<Offered>,
    refused: Refused,
    refused_http: Refused<HttpLoadBalancerSpec>,
    refused_certificates: Option<String>,
    /// The Services whose companions the cluster did not take, and when.
    refused_companions: BTreeMap<Key, (String, Instant)>,
    /// The Secrets that Ingresses name.
    certificates: Certificates,
    /// What was told in events, by the uid of the object, and when.
    told: BTreeMap<String, (Vec<Note>, Instant)>,
    /// How many turns failed in a row.
    failures: u32,
    /// What was last wrong, so that it is told once.
    problem: Option<Problem>,
}

impl Agent<'_> {
    /// Works for good, while this agent leads.
    async fn work(&self) {
        let mut reign = Reign::default();
        loop {
            if self.leader.remaining().is_none() {
                reign = Reign::default();
                self.changed.notified().await;
                continue;
            }
            if reign.number != self.leader.reign() {
                reign = Reign {
                    number: self.leader.reign(),
                    ..Reign::default()
                };
            }
            // Whatever does not come back is begun anew: the Lease is renewed meanwhile.
            self.health.begins();
            let done = timeout(TURN, self.turn(&mut reign)).await;
            self.health.ends();
            let done = done.unwrap_or_else(|_| Err(stuck()));
            self.tell(&mut reign, done.as_ref().err());
            let Poll { idle, busy, .. } = self.options.poll;
            let pause = match done {
                Ok(true) if reign.certificates.lacks() => idle.min(LACKING),
                Ok(true) => idle,
                Ok(false) => busy,
                // Who is refused again and again is left alone by the manager.
                Err(_) => (busy * (1 << reign.failures.min(8))).min(idle),
            };
            reign.failures = match done {
                Ok(_) => 0,
                Err(_) => reign.failures.saturating_add(1),
            };
            // An event, but not each of a burst.
            _ = timeout(pause, self.changed.notified()).await;
            sleep(CALM).await;
        }
    }

    /// Asks the manager, plans, and carries plans out until nothing is left that can be done; says
    /// whether nothing is awaited.
    async fn turn(&self, reign: &mut Reign) -> Result<bool, Problem> {
        let asked = self.ask(reign).await;
        // Without the manager what is refused here is told all the same.
        let hands = Hands::new(
            self.client.clone(),
            &self.options.me,
            &self.leader,
            &self.seen,
        );
        for _ in 0..ROUNDS {
            let Some(plan) = self.plan(reign).await else {
                return Ok(false);
            };
            let is_told = reign
                .speaker
                .as_ref()
                .is_none_or(|speaker| speaker.is_told(&plan));
            if is_told && plan.is_settled() {
                let awaits = reign.offered.as_ref().is_none_or(is_awaited);
                return asked.map(|()| !awaits);
            }
            if plan.companions.is_first() {
                let refused = self.made(put_beside(&hands, &plan.companions).await)?;
                let refused = refused.unwrap_or_default().into_iter();
                let refused = refused.map(|(key, because)| (key, (because, Instant::now())));
                reign.refused_companions.extend(refused);
                // Their node ports are known when they are seen.
                return Ok(false);
            }
            self.carry_out(reign, &hands, &plan).await?;
        }
        // What never settles must not take everything: it goes on at the next turn.
        Ok(false)
    }

    /// Learns what is offered by now; begins to speak where that is still to be done.
    async fn ask(&self, reign: &mut Reign) -> Result<(), Problem> {
        let Some(speaker) = &mut reign.speaker else {
            // Nobody speaks of a cluster that was not seen whole.
            if !self.seen.is_whole() {
                return Ok(());
            }
            let identity = &self.options.identity;
            let begun = Speaker::begin(identity, &self.secrets, self.options.confirm).await;
            let (speaker, offered) = begun?;
            self.leader.tell(EPOCH, &speaker.epoch().to_string());
            reign.offered = Some(offered);
            reign.speaker = Some(speaker);
            return Ok(());
        };
        speaker.ensure(&self.secrets).await?;
        match speaker.offered().await {
            Ok(offered) => {
                reign.offered = Some(offered);
                Ok(())
            }
            Err(unheard) => Err(self.unheard(reign, unheard).await),
        }
    }

    async fn plan(&self, reign: &mut Reign) -> Option<Plan> {
        let mut snapshot = Snapshot::default();
        if !self.seen.fill(&mut snapshot) {
            return None;
        }
        let secrets = http::secrets(&snapshot);
        let every = self.options.poll.certificates;
        reign.certificates.ask(&self.client, &secrets, every).await;
        if let Some(ingresses) = &snapshot.ingresses {
            let uids: BTreeSet<&String> = ingresses.all.values().filter_map(uid).collect();
            // Events are gone after an hour: what is wrong is told again before.
            let is_due = |notes: &[Note], since: &Instant| {
                since.elapsed() >= TOLD_AGAIN && notes.iter().any(|note| note.is_warning)
            };
            let told = &mut reign.told;
            told.retain(|uid, (notes, since)| uids.contains(uid) && !is_due(notes, since));
        }
        forget(&mut reign.refused);
        forget(&mut reign.refused_http);
        forget(&mut reign.refused_companions);
        snapshot.config = self.config.clone();
        snapshot.certificates = reign.certificates.known();
        snapshot.offered.clone_from(&reign.offered);
        snapshot.refused = current(&reign.refused);
        snapshot.refused_http = current(&reign.refused_http);
        snapshot
            .refused_certificates
            .clone_from(&reign.refused_certificates);
        snapshot.companions_refused = current(&reign.refused_companions);
        snapshot.told = current(&reign.told);
        snapshot.now = now();
        Some(plan(&snapshot))
    }

    async fn carry_out(
        &self,
        reign: &mut Reign,
        hands: &Hands<'_>,
        plan: &Plan,
    ) -> Result<(), Problem> {
        let routes = plan.routes.clone().unwrap_or_default();
        for target in &plan.guard {
            self.made(hands.guard(Kind::Service, target, true).await)?;
        }
        for (kind, target) in &routes.guard {
            self.made(hands.guard(*kind, target, true).await)?;
        }
        self.tell_manager(reign, plan).await?;
        for show in &plan.show {
            self.made(hands.show(show).await)?;
        }
        for show in &routes.show {
            self.made(hands.show_ingress(show).await)?;
        }
        for say in &routes.say {
            self.made(hands.say(say).await)?;
        }
        for tell in routes.tell {
            hands.tell(Kind::Ingress, &tell.target, &tell.fresh).await;
            let told = (tell.all, Instant::now());
            reign.told.insert(tell.target.uid, told);
        }
        for target in &plan.release {
            self.made(hands.guard(Kind::Service, target, false).await)?;
        }
        for (kind, target) in &routes.release {
            self.made(hands.guard(*kind, target, false).await)?;
        }
        self.made(take_away(hands, &plan.companions).await)?;
        Ok(())
    }

    async fn tell_manager(&self, reign: &mut Reign, plan: &Plan) -> Result<(), Problem> {
        let Some(speaker) = &mut reign.speaker else {
            return Ok(());
        };
        if self.leader.remaining().is_none() {
            return Ok(());
        }
        let told = match speaker.tell(plan).await {
            Ok(told) => told,
            Err(unheard) => return Err(self.unheard(reign, unheard).await),
        };
        let since = Instant::now();
        let refused = told.refused.into_iter();
        reign
            .refused
            .extend(refused.map(|(name, refusal)| (name, (refusal, since))));
        let refused = told.refused_http.into_iter();
        reign
            .refused_http
            .extend(refused.map(|(name, refusal)| (name, (refusal, since))));
        reign.refused_certificates = speaker
            .refuses()
            .then(|| {
                told.refused_certificates
                    .or(reign.refused_certificates.take())
            })
            .flatten();
        if told.changed {
            match speaker.offered().await {
                Ok(offered) => reign.offered = Some(offered),
                Err(unheard) => return Err(self.unheard(reign, unheard).await),
            }
        }
        told.held.map_or(Ok(()), Err)
    }

    /// What follows from an answer that did not come, or was another than hoped for.
    async fn unheard(&self, reign: &mut Reign, unheard: Unheard) -> Problem {
        match unheard {
            Unheard::Later(problem) => problem,
            Unheard::Fenced(problem) => {
                // Whoever speaks holds the Lease, unless it is an agent of another cluster: it is
                // looked at before anything is said again.
                reign.speaker = None;
                reign.offered = None;
                self.leader.look(&self.leases).await;
                problem
            }
        }
    }

    fn made<T>(&self, written: Result<T, NotWritten>) -> Result<Option<T>, Problem> {
        match written {
            Ok(written) => Ok(Some(written)),
            Err(NotWritten::NotLeading) => Ok(None),
            Err(error) if error.is_forbidden() => Err(forbidden(&error)),
            Err(error) => Err(unusable(&self.options.place, &error)),
        }
    }

    /// Logs what is wrong once, and that it is not any more.
    fn tell(&self, reign: &mut Reign, problem: Option<&Problem>) {
        if reign.problem.as_ref() == problem {
            return;
        }
        match problem {
            Some(problem) => {
                let (code, what) = (problem.code, &problem.what);
                let evidence = problem.evidence.join("; ");
                warn!(KEDGE_CODE = %code, what, evidence, "Services are not offered as they should be");
            }
            None => info!("Services are offered as they should be"),
        }
        reign.problem = problem.cloned();
    }
}

/// Whether something is to come of what is offered soon.
fn is_awaited(offered: &Offered) -> bool {
    let pending = |conditions: Option<&Vec<Condition>>| {
        conditions.is_none_or(|all| all.iter().any(|it| it.reason == "Pending"))
    };
    let mut items = offered.items.values();
    let mut http = offered.http.values();
    items.any(|it| pending(it.status.as_ref().map(|status| &status.conditions)))
        || http.any(|it| pending(it.status.as_ref().map(|status| &status.conditions)))
}

fn uid(ingress: &Ingress) -> Option<&String> {
    ingress.metadata.uid.as_ref()
}

/// Forgets what is to be asked again.
fn forget<K: Ord, T>(refused: &mut BTreeMap<K, (T, Instant)>) {
    refused.retain(|_, (_, since)| since.elapsed() < ASKED_AGAIN);
}

fn current<K: Ord + Clone, T: Clone>(all: &BTreeMap<K, (T, Instant)>) -> BTreeMap<K, T> {
    let each = all.iter();
    each.map(|(name, (it, _))| (name.clone(), it.clone()))
        .collect()
}

fn stuck() -> Problem {
    let what = format!("a turn took more than {} s", TURN.as_secs());
    Problem::new(Code::K8sUnreachable, what)
        .consequence("it is begun anew; what is offered stays offered")
        .fix(Fix::text("see whether cluster and manager answer").command("kedge k8s status"))
}

fn forbidden(error: &NotWritten) -> Problem {
    Problem::new(
        Code::K8sForbidden,
        "the agent may not write to Services and Ingresses of the cluster",
    )
    .caused_by(error)
    .consequence("their statuses are not written, and deleted ones are not let go")
    .fix(
        Fix::text("give its ServiceAccount the ClusterRole of the manifests")
            .command("kubectl apply -k packaging/kubernetes/kustomize/services"),
    )
}

/// The time as a condition has it: in whole seconds.
fn now() -> String {
    let now = Timestamp::now();
    now.round(Unit::Second).unwrap_or(now).to_string()
}

/// The name of the Lease.
pub const LEASE: &str = "kedge-services";
/// The annotation of the Lease with the manager's epoch that its holder speaks with.
pub const EPOCH: &str = "kedge.dev/epoch";
/// Between two turns at least.
const CALM: Duration = Duration::from_millis(50);
/// How long a turn may take: some hundred writes.
const TURN: Duration = Duration::from_secs(120);
/// More than any way through takes.
const ROUNDS: usize = 8;
/// When the manager is asked again for what it refused.
const ASKED_AGAIN: Duration = Duration::from_secs(60);
/// When what is wrong with an Ingress is told again.
const TOLD_AGAIN: Duration = Duration::from_secs(30 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_tell_whole_seconds() {
        let now = now();
        assert_eq!(now.len(), "2026-01-02T03:04:05Z".len(), "{now}");
    }
}
