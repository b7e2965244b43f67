//! The Lease: one agent of several writes to the cluster.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kedge_core::{
    Instant,
    lease::{Observed, Record, Terms, Verdict},
};
use kube::{Api, api::PostParams};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tracing::{info, warn};

/// One agent's part in the election.
#[derive(Debug)]
pub struct Leader {
    terms: Terms,
    me: String,
    name: String,
    born: std::time::Instant,
    observed: Mutex<Observed>,
    /// How often it began to lead.
    reigns: AtomicU64,
    /// The manager's epoch it speaks with, told in the Lease.
    epoch: AtomicU64,
}

impl Leader {
    /// Nobody leads yet.
    #[must_use]
    pub fn new(terms: Terms, me: String, name: &str) -> Self {
        Self {
            terms,
            me,
            name: name.to_owned(),
            born: std::time::Instant::now(),
            observed: Mutex::default(),
            reigns: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
        }
    }

    /// How long this agent may still write; `None` while another leads, or nobody.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let now = self.now();
        match self.observed().evaluate(self.terms, &self.me, now) {
            Verdict::Lead { until, .. } => Some(until.since(now)),
            Verdict::Follow { .. } | Verdict::Acquire => None,
        }
    }

    /// The time of leading: another number whenever somebody else may have led in between.
    #[must_use]
    pub fn reign(&self) -> u64 {
        self.reigns.load(Ordering::Relaxed)
    }

    /// Tells the epoch with the next renewal.
    pub fn speaks_with(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// Takes part in the election for good; `changed` is told when this agent begins or ends to lead.
    pub async fn run(&self, leases: &Api<Lease>, changed: &Notify) {
        let mut led = false;
        loop {
            let now = self.now();
            let verdict = self.observed().evaluate(self.terms, &self.me, now);
            let leads = matches!(verdict, Verdict::Lead { .. });
            if leads != led {
                info!(
                    lease = self.name,
                    me = self.me,
                    leads,
                    "who speaks for the cluster changed"
                );
                changed.notify_one();
                led = leads;
            }
            match verdict {
                Verdict::Lead { renew_at, .. } if now < renew_at => {
                    sleep(renew_at.since(now)).await;
                }
                Verdict::Follow { retry_at } => {
                    self.look(leases).await;
                    sleep(retry_at.since(now).min(self.terms.retry)).await;
                }
                Verdict::Lead { .. } | Verdict::Acquire => {
                    if !self.take(leases).await {
                        self.look(leases).await;
                        sleep(self.terms.retry / 4).await;
                    }
                }
            }
        }
    }

    /// Gives the Lease back, so that another need not wait.
    pub async fn release(&self, leases: &Api<Lease>) {
        if self.remaining().is_none() {
            return;
        }
        let held = self.observed().record().cloned();
        self.observed().saw(None, self.now());
        let Some(held) = held else { return };
        let given = timeout(self.terms.renew_deadline / 2, self.give(leases, held)).await;
        if !matches!(given, Ok(true)) {
            warn!(lease = self.name, "the Lease could not be given back");
        }
    }

    /// Gives the Lease back; says whether it is nobody's, or another's. A renewal whose answer nobody
    /// waited for may have been written after what was seen: it is our own word that is in the way then.
    async fn give(&self, leases: &Api<Lease>, mut held: Record) -> bool {
        for _ in 0..GIVES {
            let free = self.lease(&held, String::new());
            match leases
                .replace(&self.name, &PostParams::default(), &free)
                .await
            {
                Ok(_) => return true,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(_) => return false,
            }
            match leases.get(&self.name).await.map(|lease| record(&lease)) {
                Ok(newer) if newer.holder == self.me => held = newer,
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
        false
    }

    /// Looks at the Lease.
    pub async fn look(&self, leases: &Api<Lease>) {
        let read = timeout(self.terms.retry, leases.get_opt(&self.name)).await;
        if let Ok(Ok(lease)) = read {
            let record = lease.as_ref().map(record);
            self.observed().saw(record, self.now());
        }
    }

    /// Writes the Lease over what was seen; says whether it was.
    async fn take(&self, leases: &Api<Lease>) -> bool {
        let began = self.now();
        let last = self.observed().record().cloned();
        let lease = self.lease(&last.clone().unwrap_or_default(), self.me.clone());
        let params = PostParams::default();
        let written = async {
            match last {
                Some(_) => leases.replace(&self.name, &params, &lease).await,
                None => leases.create(&params, &lease).await,
            }
        };
        match timeout(self.terms.renew_deadline / 2, written).await {
            Ok(Ok(lease)) => {
                // Before it may write.
                if self.remaining().is_none() {
                    self.reigns.fetch_add(1, Ordering::Relaxed);
                }
                self.observed().renewed(record(&lease), began);
                true
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => false,
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                warn!(error, lease = self.name, "the Lease cannot be written");
                false
            }
            Err(_) => {
                warn!(lease = self.name, "the Lease is not answered");
                false
            }
        }
    }

    fn lease(&self, last: &Record, holder: String) -> Lease {
        let now = MicroTime(Timestamp::now());
        let changes_hands = last.holder != holder;
        let seconds = i32::try_from(self.terms.duration.as_secs().max(1)).unwrap_or(i32::MAX);
        let epoch = self.epoch.load(Ordering::Relaxed);
        let told = (epoch > 0).then(|| BTreeMap::from([(EPOCH.to_owned(), epoch.to_string())]));
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                resource_version: (!last.resource_version.is_empty())
                    .then(|| last.resource_version.clone()),
                annotations: told,
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder),
                lease_duration_seconds: Some(seconds),
                lease_transitions: Some(last.transitions.saturating_add(i32::from(changes_hands))),
                acquire_time: changes_hands.then(|| now.clone()),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        }
    }

    fn now(&self) -> Instant {
        let nanos = self.born.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn observed(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        duration: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
        resource_version: lease.metadata.resource_version.clone().unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or_default(),
        address: String::new(),
    }
}

/// The annotation with the manager's epoch the holder speaks with.
pub const EPOCH: &str = "kedge.dev/epoch";
/// How often a Lease is given back: one renewal of ours can be in the way, not several.
const GIVES: usize = 3;
