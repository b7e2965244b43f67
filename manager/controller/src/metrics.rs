//! What the manager counts, in the format scrapers read.
//!
//! Gauges say what the plan in force says and are set when somebody asks; counters and durations
//! grow where things happen. Nothing here is looked at by a decision.

mod described;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kedge_core::{Code, Problem};
use kedge_crd::balancer::TargetState;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

pub use described::Described;
use described::described;

use crate::world::{Part, World};

/// Everything that is counted. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    reconciles: Family<Controller, Histogram>,
    watch_restarts: Family<OfKind, Counter>,
    enrolments: Family<Outcome, Counter>,
    renewals: Family<Outcome, Counter>,
    conflicts: Counter,
    events: Counter,
    leader: Gauge,
    events_lost: Family<Because, Counter>,
    queue: Gauge,
    frontends: Family<State, Gauge>,
    members: Family<State, Gauge>,
    endpoints: Family<State, Gauge>,
    hosts: Family<State, Gauge>,
    problems: Gauge,
    objects: Gauge,
    looked_at: Counter,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was granted.
    Granted,
    /// It was refused.
    Refused,
}

/// Why an event was not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Too many waited.
    Full,
    /// The API server refused it.
    Refused,
    /// The API server did not answer in time.
    Unanswered,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Because {
    because: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let reconciles = Family::new_with_constructor(durations as fn() -> Histogram);
        let mut metrics = Self {
            registry: Arc::default(),
            reconciles,
            watch_restarts: Family::default(),
            enrolments: Family::default(),
            renewals: Family::default(),
            conflicts: Counter::default(),
            events: Counter::default(),
            events_lost: Family::default(),
            queue: Gauge::default(),
            leader: Gauge::default(),
            frontends: Family::default(),
            members: Family::default(),
            endpoints: Family::default(),
            hosts: Family::default(),
            problems: Gauge::default(),
            objects: Gauge::default(),
            looked_at: Counter::default(),
        };
        metrics.registry = Arc::new(metrics.registered());
        metrics.begin();
        metrics
    }
}

impl Metrics {
    /// Whatever can be counted is there from the start, so that its first increase is seen.
    fn begin(&self) {
        for controller in ["plan", "write"] {
            _ = self.reconciles.get_or_create(&Controller { controller });
        }
        for ended in [Ended::Granted, Ended::Refused] {
            _ = self.enrolments.get_or_create(&ended.label());
            _ = self.renewals.get_or_create(&ended.label());
        }
        for lost in [Lost::Full, Lost::Refused, Lost::Unanswered] {
            _ = self.events_lost.get_or_create(&lost.label());
        }
    }

    fn registered(&self) -> Registry {
        let mut all = Registry::with_prefix("kedge");
        macro_rules! register {
            ($($metric:ident $name:literal, $help:literal;)*) => {
                $(all.register($name, $help, self.$metric.clone());)*
            };
        }
        register! {
            reconciles "controller_reconcile_duration_seconds",
                "From a change to what follows from it, by step: plan, write";
            watch_restarts "store_watch_restarts",
                "Watches of the store that were cut off and begun again";
            enrolments "enrolments", "Requests to enrol";
            renewals "renewals", "Requests to renew or recover an identity";
            conflicts "identity_conflicts", "Identities that were seen to be used twice";
            events "events", "Events that were told about objects";
            events_lost "events_lost",
                "Events that were not told: too many waited, or the API server refused or did not answer";
            queue "controller_queue_depth",
                "Namespaces that wait to be planned, or are planned right now";
            leader "leader", "Whether this manager writes";
            frontends "lb_frontends",
                "Listeners of gateway instances, by whether a member can take traffic";
            members "lb_members", "Targets of LoadBalancers, by state";
            endpoints "endpoints", "Control-plane endpoints of clusters";
            hosts "hosts", "Enrolled hosts";
            problems "problems", "Problems the manager shows";
            objects "objects", "Objects of the store";
            looked_at "reconciled_objects", "Objects that plans looked at, again and again";
        }
        all
    }

    /// A step of a reconciliation took so long.
    pub fn reconciled(&self, controller: &'static str, began: Instant) {
        let step = self.reconciles.get_or_create(&Controller { controller });
        step.observe(began.elapsed().as_secs_f64());
    }

    /// A plan looked at so many objects.
    pub fn looked_at(&self, objects: usize) {
        self.looked_at
            .inc_by(u64::try_from(objects).unwrap_or(u64::MAX));
    }

    /// A watch was cut off.
    pub fn watch_restarted(&self, kind: &str) {
        let kind = kind.to_owned();
        self.watch_restarts.get_or_create(&OfKind { kind }).inc();
    }

    /// A request to enrol ended.
    pub fn enrolled(&self, ended: Ended) {
        self.enrolments.get_or_create(&ended.label()).inc();
    }

    /// A request to renew or recover ended.
    pub fn renewed(&self, ended: Ended) {
        self.renewals.get_or_create(&ended.label()).inc();
    }

    /// An identity was seen to be used twice.
    pub fn conflicted(&self) {
        self.conflicts.inc();
    }

    /// An event was told.
    pub fn told(&self) {
        self.events.inc();
    }

    /// An event was not told.
    pub fn lost(&self, because: Lost) {
        self.events_lost.get_or_create(&because.label()).inc();
    }

    /// So many namespaces wait to be planned, or are planned right now.
    pub fn queued(&self, namespaces: usize) {
        self.queue.set(count(namespaces));
    }

    /// How many namespaces wait to be planned, or are planned right now.
    pub fn due(&self) -> u64 {
        u64::try_from(self.queue.get()).unwrap_or_default()
    }

    /// Everything, as scrapers read it.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub async fn text(&self, world: &World) -> Result<String, Problem> {
        self.leader.set(i64::from(world.store.leads()));
        self.objects.set(count(world.store.len()));
        {
            let state = world.state().await;
            self.problems.set(count(state.problems().len()));
            let parts: Vec<&Part> = state.parts().map(|(_, part)| part).collect();
            self.take(&parts);
        }
        let mut text = String::new();
        encode(&mut text, &self.registry).map_err(|error| {
            Problem::new(Code::SysUnexpected, "the metrics cannot be written").caused_by(&error)
        })?;
        Ok(text)
    }

    /// What there is to read, each with its labels, by the registry itself.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn reference() -> Result<Vec<Described>, std::fmt::Error> {
        let metrics = Self::default();
        // As a manager that has seen nothing yet.
        let kind = "Cluster".to_owned();
        _ = metrics.watch_restarts.get_or_create(&OfKind { kind });
        metrics.take(&[]);
        let mut text = String::new();
        encode(&mut text, &metrics.registry)?;
        Ok(described(&text))
    }

    fn take(&self, parts: &[&Part]) {
        let parts = || parts.iter().copied();
        let hosts: usize = parts().map(Part::hosts).sum();
        let alive: usize = parts().map(Part::alive).sum();
        set(&self.hosts, "alive", alive);
        set(&self.hosts, "silent", hosts.saturating_sub(alive));
        let endpoints = || parts().flat_map(Part::endpoints);
        let all = endpoints().count();
        let filled = endpoints().filter(|it| it.endpoint.is_some());
        let filled = filled.count();
        set(&self.endpoints, "filled", filled);
        set(&self.endpoints, "blank", all - filled);
        let gateways = || parts().flat_map(Part::gateways);
        let listeners = || gateways().flat_map(|config| &config.listeners);
        let all = listeners().count();
        let served = listeners().filter(|listener| !listener.members.is_empty());
        let served = served.count();
        set(&self.frontends, "served", served);
        set(&self.frontends, "empty", all - served);
        for state in TargetState::ALL {
            let of_state = parts().filter_map(|part| part.targets().get(&state));
            set(&self.members, state.as_str(), of_state.sum());
        }
    }
}

impl Lost {
    const fn label(self) -> Because {
        let because = match self {
            Self::Full => "full",
            Self::Refused => "refused",
            Self::Unanswered => "unanswered",
        };
        Because { because }
    }
}

impl Ended {
    /// How a result ended.
    #[must_use]
    pub const fn of<T, E>(result: &Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Granted,
            Err(_) => Self::Refused,
        }
    }

    const fn label(self) -> Outcome {
        let outcome = match self {
            Self::Granted => "granted",
            Self::Refused => "refused",
        };
        Outcome { outcome }
    }
}

fn set(family: &Family<State, Gauge>, state: &str, value: usize) {
    let state = state.to_owned();
    family.get_or_create(&State { state }).set(count(value));
}

fn count(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// From half a millisecond to half a minute.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 16))
}

/// How long a manager may take to answer before it counts as hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);
