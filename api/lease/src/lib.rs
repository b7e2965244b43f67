//! A Lease that says who of several processes may write: read and written by the verdict of
//! [`kedge_core::lease`].

mod versions;

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

use versions::Versions;

/// Whether this process may write, and until when.
#[derive(Debug)]
pub struct Leader {
    terms: Terms,
    me: String,
    name: String,
    born: std::time::Instant,
    observed: Mutex<Observed>,
    versions: Versions,
    /// How often the Lease was taken from another, or from nobody.
    reigns: AtomicU64,
    /// What it tells others with the Lease.
    told: Mutex<BTreeMap<String, String>>,
    /// Told when that is to be read at once.
    retold: Notify,
}

impl Leader {
    /// A process that does not write yet: `me` among those that want the Lease `name`.
    #[must_use]
    pub fn new(terms: Terms, me: String, name: &str) -> Self {
        Self {
            terms,
            me,
            name: name.to_owned(),
            born: std::time::Instant::now(),
            observed: Mutex::default(),
            versions: Versions::default(),
            reigns: AtomicU64::new(0),
            told: Mutex::default(),
            retold: Notify::new(),
        }
    }

    /// How often the API server went back in time: it was restored from a backup. A watch does not
    /// notice, it waits for versions that are yet to come; a leader writes the Lease every few
    /// seconds.
    #[must_use]
    pub fn returns(&self) -> u64 {
        self.versions.returns()
    }

    /// A watch showed this version of something.
    pub fn saw_version(&self, version: Option<&str>) {
        self.versions.saw(version);
    }

    /// The time of leading: another number whenever somebody else may have led in between.
    #[must_use]
    pub fn reign(&self) -> u64 {
        self.reigns.load(Ordering::Relaxed)
    }

    /// How long this process may still write; `None` while another leads, or nobody.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let now = self.now();
        match self.observed().evaluate(self.terms, &self.me, now) {
            Verdict::Lead { until, .. } => Some(until.since(now)),
            Verdict::Follow { .. } | Verdict::Acquire => None,
        }
    }

    /// Who holds the Lease, as far as is known.
    #[must_use]
    pub fn holder(&self) -> String {
        let holder = self.observed().record().map(|record| record.holder.clone());
        holder.unwrap_or_default()
    }

    /// Tells others something with the Lease, as an annotation of it, from the next renewal on.
    pub fn tell(&self, key: &str, value: &str) {
        self.told().insert(key.to_owned(), value.to_owned());
    }

    /// Tells it at once, if it leads.
    pub fn tell_now(&self, key: &str, value: &str) {
        self.tell(key, value);
        self.retold.notify_one();
    }

    /// What the holder tells with the Lease, while another holds it.
    #[must_use]
    pub fn told_by_other(&self, key: &str) -> Option<String> {
        let now = self.now();
        let observed = self.observed();
        match observed.evaluate(self.terms, &self.me, now) {
            Verdict::Follow { .. } => observed.record()?.told.get(key).cloned(),
            Verdict::Lead { .. } | Verdict::Acquire => None,
        }
    }

    /// Looks at the Lease once and takes it where it is free, before anything is planned: what is
    /// planned as a follower is planned again as the leader. Whoever is not answered at once goes
    /// on without.
    pub async fn begin(&self, leases: &Api<Lease>) {
        let begun = async {
            self.look(leases).await;
            let verdict = self.observed().evaluate(self.terms, &self.me, self.now());
            if matches!(verdict, Verdict::Acquire) {
                self.take(leases).await;
            }
        };
        _ = timeout(self.terms.retry, begun).await;
    }

    /// Takes part in the election for good; `changed` is told when it begins or ends to lead.
    pub async fn run(&self, leases: &Api<Lease>, changed: &Notify) {
        let mut led = false;
        loop {
            let now = self.now();
            let verdict = self.observed().evaluate(self.terms, &self.me, now);
            let leads = matches!(verdict, Verdict::Lead { .. });
            if leads != led {
                info!(lease = self.name, me = self.me, leads, "leadership changed");
                changed.notify_one();
                led = leads;
            }
            match verdict {
                Verdict::Lead { renew_at, .. } if now < renew_at => {
                    tokio::select! {
                        () = sleep(renew_at.since(now)) => {}
                        () = self.retold.notified() => {
                            self.take(leases).await;
                        }
                    }
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
        let given = timeout(self.terms.retry, self.give(leases, held)).await;
        if !matches!(given, Ok(Ok(()))) {
            warn!(lease = self.name, "the Lease could not be given back");
        }
    }

    /// Gives it back as it was last seen, and as it is by now if it was changed meanwhile: a renewal
    /// that was cut short by the end may have been written.
    async fn give(&self, leases: &Api<Lease>, mut held: Option<Record>) -> Result<(), kube::Error> {
        while let Some(last) = held.filter(|last| last.holder == self.me) {
            let free = self.lease(&last, String::new());
            let params = PostParams::default();
            match leases.replace(&self.name, &params, &free).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    let now = leases.get_opt(&self.name).await?;
                    held = now.as_ref().map(record);
                }
                replaced => return replaced.map(drop),
            }
        }
        Ok(())
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
        let newest = self.versions.newest();
        let last = self.observed().record().cloned();
        let lease = self.lease(&last.clone().unwrap_or_default(), self.me.clone());
        let params = PostParams::default();
        let written = async {
            match last {
                Some(_) => leases.replace(&self.name, &params, &lease).await,
                None => leases.create(&params, &lease).await,
            }
        };
        let written = timeout(self.terms.renew_deadline / 2, written).await;
        match written {
            Ok(Ok(lease)) => {
                let record = record(&lease);
                self.versions.wrote(&record.resource_version, newest);
                // Before it may write.
                if self.remaining().is_none() {
                    self.reigns.fetch_add(1, Ordering::Relaxed);
                }
                self.observed().renewed(record, began);
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
        let told = self.told().clone();
        let changes_hands = last.holder != holder;
        let seconds = i32::try_from(self.terms.duration.as_secs().max(1)).unwrap_or(i32::MAX);
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                resource_version: (!last.resource_version.is_empty())
                    .then(|| last.resource_version.clone()),
                annotations: (!told.is_empty()).then_some(told),
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

    fn told(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
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
        told: lease.metadata.annotations.clone().unwrap_or_default(),
    }
}
