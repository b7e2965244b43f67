//! A cluster as a store: its cache, its watches, and the writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use kedge_api_lease::Leader;
use kedge_core::{Code, Problem};
use kedge_crd::meta::SYSTEM_NAMESPACE;
use kube::{Api, Client, Config, api::PostParams, core::ApiResource};
use serde_json::{Value, json};
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    blind::Blind,
    cache::Cache,
    catchup::CatchUp,
    dial::Shared,
    events::{Teller, publish},
    fields,
    kinds::Kind,
    layers::{Seen, is_secret, split, with_text},
    lease::Terms,
    problems::{behind, leaving, not_written, refused, unanswered},
    raw::Raw,
    steps::{Step, removal, step},
    watches::Watches,
};
use crate::{
    events::Notice,
    managers,
    metrics::Metrics,
    snapshot::{Contract, Environment},
    store::{
        Layer, ObjectKey, Reign, Write,
        outcome::{Outcome, wave},
        stock::{Changes, Stock},
    },
};

/// A cluster as a store.
#[derive(Clone)]
pub struct Cluster {
    pub(in crate::store) inner: Arc<Inner>,
}

/// What the tasks of a cluster share.
pub(in crate::store) struct Inner {
    pub client: Client,
    pub changed: Arc<Notify>,
    pub kinds: Mutex<BTreeMap<(String, String), Kind>>,
    cache: Mutex<Cache>,
    pub leader: Leader,
    caught_up: CatchUp,
    /// The kinds that the API server does not let us see.
    pub blind: Blind,
    tasks: Mutex<Option<JoinSet<()>>>,
    name: String,
    /// The clients of tenants' watches.
    pub shared: Shared,
    metrics: Metrics,
    teller: Teller,
}

/// How a cluster is used.
#[derive(Clone, Debug)]
pub struct Access {
    /// Who this manager is among others.
    pub me: String,
    /// The terms of the lease.
    pub terms: Terms,
    /// What it is called, for people.
    pub name: String,
    /// How it is reached, for watches that share connections; without it they do not.
    pub config: Option<Config>,
}

impl Cluster {
    /// Connects: every kind is watched, and everything there is was heard once.
    ///
    /// # Errors
    ///
    /// The cluster does not answer, or it does not know our kinds.
    pub async fn connect(client: Client, access: Access) -> Result<Self, Problem> {
        let metrics = Metrics::default();
        let (teller, to_tell) = Teller::new(metrics.clone());
        let me = access.me.clone();
        let inner = Arc::new(Inner {
            client,
            changed: Arc::new(Notify::new()),
            kinds: Mutex::default(),
            cache: Mutex::default(),
            caught_up: CatchUp::default(),
            blind: Blind::default(),
            leader: Leader::new(access.terms, access.me, LEASE),
            tasks: Mutex::default(),
            name: access.name,
            shared: Shared::new(access.config),
            metrics,
            teller,
        });
        let cluster = Self { inner };
        let mut watches = Watches::start(&cluster).await?;
        // What Clusters refer to is looked for while a long list of hosts still arrives.
        let heard = async {
            loop {
                let is_complete = cluster.cache().is_complete();
                if watches.look(&cluster).await && is_complete {
                    break;
                }
                sleep(GLANCE).await;
            }
        };
        timeout(PATIENCE, heard).await.map_err(|_| {
            unanswered(&cluster.inner.name).evidence("not every kind could be listed in time")
        })?;
        let leases = Api::namespaced(cluster.inner.client.clone(), SYSTEM_NAMESPACE);
        cluster.inner.leader.begin(&leases).await;
        let mut tasks = JoinSet::new();
        let watcher = cluster.clone();
        tasks.spawn(async move { watches.run(&watcher).await });
        let client = cluster.inner.client.clone();
        tasks.spawn(publish(cluster.clone(), client, me, to_tell));
        let inner = Arc::clone(&cluster.inner);
        tasks.spawn(async move {
            inner.leader.run(&leases, &inner.changed).await;
        });
        *lock(&cluster.inner.tasks) = Some(tasks);
        Ok(cluster)
    }

    /// Looks at what it holds.
    pub fn look<T>(&self, look: impl FnOnce(&Stock) -> T) -> T {
        look(self.cache().stock())
    }

    /// Whether anything changed that nobody has asked for yet.
    #[must_use]
    pub fn refresh(&self) -> bool {
        self.cache().stock().is_changed()
    }

    /// What changed since this was last asked.
    #[must_use]
    pub fn changes(&self) -> Changes {
        self.cache().stock_mut().changes()
    }

    /// Told when something changed.
    #[must_use]
    pub fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.inner.changed)
    }

    /// What stands beside the manager.
    #[must_use]
    pub fn environment(&self) -> Environment {
        let kinds = lock(&self.inner.kinds);
        let contracts: BTreeMap<(String, String), Contract> = kinds
            .iter()
            .filter_map(|(name, kind)| Some((name.clone(), kind.contract?)))
            .collect();
        let served = kinds.keys().cloned().collect();
        Environment::Kubernetes { contracts, served }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// Tells what there is to tell about objects.
    pub fn tell(&self, notices: Vec<Notice>) {
        self.inner.teller.tell(notices);
    }

    /// Group and version of an object's kind, as it is watched.
    #[must_use]
    pub fn api_version(&self, key: &ObjectKey) -> String {
        let kinds = lock(&self.inner.kinds);
        let kind = kinds.get(&(key.group.clone(), key.kind.clone()));
        kind.map_or_else(|| "v1".to_owned(), |kind| kind.resource.api_version.clone())
    }

    /// Whether this manager writes now: it holds the lease, and sees what it decides upon.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.inner.leader.remaining().is_some() && self.inner.blind.is_fit()
    }

    /// The time of leading that a plan is made in, from what it begins with on; `None` while
    /// another leads.
    ///
    /// # Errors
    ///
    /// What the last leader wrote has not been seen yet.
    pub async fn reign(&self) -> Result<Option<Reign>, Problem> {
        self.inner.caught_up.check(self).await
    }

    /// How long this manager may write, if it leads.
    pub(super) fn left(&self) -> Option<Duration> {
        let left = self.inner.leader.remaining();
        left.filter(|_| !self.is_closed() && self.inner.blind.is_fit())
    }

    /// What cannot be seen, and what would change that.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        self.inner.blind.problems()
    }

    /// The client.
    pub(super) fn client(&self) -> Client {
        self.inner.client.clone()
    }

    /// Carries out the writes: what was chosen first, what is published from it next, the status
    /// last; within each of these several objects at once, one object's in order.
    pub(in crate::store) async fn write(
        &self,
        writes: Vec<Write>,
        mut outcome: Outcome,
        reign: Reign,
    ) -> Outcome {
        if self.is_closed() {
            outcome.broken = Some(leaving(&self.inner.name));
            return outcome;
        }
        if self.reign_now() != reign {
            // Another may have led since: what it wrote was not looked at.
            outcome.broken = Some(behind(&self.inner.name));
            return outcome;
        }
        let spaces: BTreeSet<&String> = writes.iter().map(|it| &it.key.name.namespace).collect();
        for space in spaces {
            if self.look(|stock| self.inner.blind.hides(stock, space)) {
                outcome.stop(space);
            }
        }
        let mut waves: BTreeMap<u8, BTreeMap<ObjectKey, Vec<Write>>> = BTreeMap::new();
        for write in writes {
            let wave = waves.entry(wave(&write)).or_default();
            wave.entry(write.key.clone()).or_default().push(write);
        }
        for objects in waves.into_values() {
            let each: Vec<_> = objects
                .into_values()
                .filter_map(|mut writes| {
                    writes.retain(|write| !outcome.holds(write));
                    (!writes.is_empty()).then(|| self.clone().write_object(writes, reign))
                })
                .collect();
            let mut done = stream::iter(each).buffer_unordered(AT_ONCE);
            while let Some(done) = done.next().await {
                if let Err((write, problem)) = done {
                    outcome.refuse(&write, problem);
                }
            }
        }
        outcome
    }

    /// Creates a Secret unless there is one; answers with the one that is there. Of two managers
    /// one creates it: no lease is needed.
    ///
    /// # Errors
    ///
    /// It can be neither created nor read.
    pub async fn create(
        &self,
        key: &ObjectKey,
        manager: &str,
        content: &Value,
    ) -> Result<Value, Problem> {
        let told = |error: &kube::Error| refused(key, "create", error);
        let secrets = self.api(key)?;
        let found = secrets.get_opt(&key.name.name).await;
        if let Some(found) = found.map_err(|error| told(&error))? {
            return Ok(with_text(&found.object));
        }
        let object: Raw = serde_json::from_value(content.clone()).map_err(|error| {
            Problem::new(Code::SysUnexpected, format!("{key} is no object")).caused_by(&error)
        })?;
        let params = PostParams {
            field_manager: Some(manager.to_owned()),
            ..PostParams::default()
        };
        self.cache().begin(key);
        match secrets.create(&params, &object).await {
            Ok(made) => {
                let content = with_text(&made.object);
                self.made(key, manager, made);
                Ok(content)
            }
            Err(error) => {
                self.cache().gave_up(key);
                match &error {
                    kube::Error::Api(status) if status.code == 409 => {
                        let found = secrets.get(&key.name.name).await;
                        Ok(with_text(&found.map_err(|error| told(&error))?.object))
                    }
                    error => Err(told(error)),
                }
            }
        }
    }

    /// A Secret was created. A token is used the moment it is made, before a watch shows it; the
    /// authority's key is not watched, and nothing that plans look at.
    fn made(&self, key: &ObjectKey, manager: &str, made: Raw) {
        if manager != managers::TOKEN {
            self.cache().gave_up(key);
            return;
        }
        let write = Write {
            key: key.clone(),
            layer: Layer::Owned(manager.to_owned()),
            content: None,
        };
        let seen = self.inner.seen(key, made);
        self.cache().wrote(&write, seen, Instant::now());
    }

    /// Lets the cluster go: nothing is watched or written any more.
    pub async fn close(&self) {
        let tasks = lock(&self.inner.tasks).take();
        if let Some(mut tasks) = tasks {
            tasks.shutdown().await;
            let leases = Api::namespaced(self.inner.client.clone(), SYSTEM_NAMESPACE);
            self.inner.leader.release(&leases).await;
        }
    }

    /// Lets the cluster go as a crash does: the lease runs out.
    pub fn abandon(&self) {
        if let Some(mut tasks) = lock(&self.inner.tasks).take() {
            tasks.abort_all();
        }
    }

    /// Whether it was let go.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        lock(&self.inner.tasks).is_none()
    }

    pub(super) fn cache(&self) -> MutexGuard<'_, Cache> {
        lock(&self.inner.cache)
    }

    async fn write_object(self, writes: Vec<Write>, reign: Reign) -> Result<(), (Write, Problem)> {
        let Some(first) = writes.first() else {
            return Ok(());
        };
        let seen = self.cache().seen(&first.key);
        if let Some(step) = removal(&writes, seen.as_ref()) {
            let removed = self.carry_out(first, step, reign).await;
            removed.map_err(|problem| (first.clone(), problem))?;
            // Its finalizer may hold it.
            let marks = writes.iter().find(|write| write.layer == Layer::Marks);
            return match marks {
                Some(marks) => {
                    let written = self.write_one(marks, reign).await;
                    written.map_err(|problem| (marks.clone(), problem))
                }
                None => Ok(()),
            };
        }
        let mut writes = writes;
        if seen.is_none() {
            // What is not there yet is made by its spec, and marked then.
            writes.sort_by_key(|write| write.layer == Layer::Marks);
        }
        for write in writes {
            if let Err(problem) = self.write_one(&write, reign).await {
                return Err((write, problem));
            }
        }
        Ok(())
    }

    async fn write_one(&self, write: &Write, reign: Reign) -> Result<(), Problem> {
        let seen = self.cache().seen(&write.key);
        let step = step(write, seen.as_ref());
        self.carry_out(write, step, reign).await
    }

    async fn carry_out(&self, write: &Write, step: Step, reign: Reign) -> Result<(), Problem> {
        let key = &write.key;
        match step {
            Step::Nothing => {
                self.cache().agree(write);
                Ok(())
            }
            Step::Refuse(refusal) => Err(not_written(key).caused_by(&refusal)),
            step => {
                let sent = self.send(write, step, reign).await;
                sent.map_err(|failure| failure.problem(key))
            }
        }
    }

    pub(super) fn api(&self, key: &ObjectKey) -> Result<Api<Raw>, Problem> {
        let client = self.inner.client.clone();
        if is_secret(key) {
            let secrets = secrets();
            return Ok(Api::namespaced_with(client, &key.name.namespace, &secrets));
        }
        let kinds = lock(&self.inner.kinds);
        let kind = kinds.get(&(key.group.clone(), key.kind.clone()));
        let kind = kind.ok_or_else(|| {
            let unknown = format!("the cluster serves no kind {} of {}", key.kind, key.group);
            not_written(key).evidence(unknown)
        })?;
        Ok(if kind.namespaced {
            Api::namespaced_with(client, &key.name.namespace, &kind.resource)
        } else {
            Api::all_with(client, &kind.resource)
        })
    }
}

impl Inner {
    /// An object by its layers. The kind is put where an API server left it out, as in lists.
    pub fn seen(&self, key: &ObjectKey, mut raw: Raw) -> Seen {
        if raw.object.get("apiVersion").is_none_or(Value::is_null) {
            let api_version = match lock(&self.kinds).get(&(key.group.clone(), key.kind.clone())) {
                Some(kind) => kind.resource.api_version.clone(),
                None => "v1".to_owned(),
            };
            let types = json!({"apiVersion": api_version, "kind": key.kind});
            fields::put(&mut raw.object, types);
        }
        split(key, raw)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.inner.name;
        f.debug_struct("Cluster").field("name", name).finish()
    }
}

/// The kind of Secrets.
#[must_use]
pub fn secrets() -> ApiResource {
    ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        plural: "secrets".to_owned(),
    }
}

pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lease of the manager that writes.
pub const LEASE: &str = "kedge-manager";
const AT_ONCE: usize = 16;
pub(super) const ANSWER: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(10);
