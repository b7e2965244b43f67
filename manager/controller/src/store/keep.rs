//! One type for every store. What it holds is read at once; writing takes its time, and whoever
//! writes waits without holding anybody else up.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kedge_core::Problem;
use serde_json::Value;
use tokio::{sync::Notify, task::spawn_blocking};

use super::{
    Layers, ObjectKey, Objects, Reign, Write,
    directory::Directory,
    kubernetes::{Cluster, layers::Seen},
    outcome::Outcome,
    stock::{Changes, Stock, Taken},
    work::{ended, finish},
};
use crate::{
    events::Notice,
    metrics::Metrics,
    snapshot::{Environment, Kubeconfig},
};

/// A store.
#[derive(Clone, Debug)]
pub enum Store {
    /// A directory of YAML files.
    Directory(Folder),
    /// A Kubernetes cluster.
    Kubernetes(Cluster),
}

/// A directory that several tasks use: its files are waited for on threads of their own.
#[derive(Clone, Debug)]
pub struct Folder {
    directory: Arc<Mutex<Directory>>,
    /// What it held after the last change, so that readers need not wait for the disk.
    shown: Arc<Mutex<Shown>>,
}

/// Who of several managers writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// This one.
    Me,
    /// Another, which serves the agent API there, where it says so.
    Other(Option<SocketAddr>),
}

/// An object as it is right now, to be written over.
#[derive(Clone, Debug, Default)]
pub struct Current {
    /// Its layers; none where there is no such object.
    pub layers: Layers,
    pub(super) seen: Option<Seen>,
}

#[derive(Debug)]
struct Shown {
    stock: Stock,
    closed: bool,
    name: String,
}

/// What work on a directory touched.
enum Touched {
    All,
    Keys(BTreeSet<ObjectKey>),
}

impl From<Cluster> for Store {
    fn from(cluster: Cluster) -> Self {
        Self::Kubernetes(cluster)
    }
}

impl From<Directory> for Store {
    fn from(directory: Directory) -> Self {
        let mut stock = Stock::default();
        stock.replace(directory.objects());
        let shown = Shown {
            stock,
            closed: directory.is_closed(),
            name: format!("directory {}", directory.root().display()),
        };
        Self::Directory(Folder {
            directory: Arc::new(Mutex::new(directory)),
            shown: Arc::new(Mutex::new(shown)),
        })
    }
}

impl Store {
    /// Everything it holds. That takes as long as there are objects: who wants one asks for one.
    #[must_use]
    pub fn objects(&self) -> Arc<Objects> {
        Arc::new(self.look(Stock::take_all).open())
    }

    /// An object.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Layers> {
        let packed = self.look(|stock| stock.packed(key).cloned());
        packed.map(|packed| packed.open())
    }

    /// One owned layer of an object.
    #[must_use]
    pub fn owned(&self, key: &ObjectKey, manager: &str) -> Option<Value> {
        self.get(key)?.owned.remove(manager)
    }

    /// The objects of a kind, in one namespace or in all.
    #[must_use]
    pub fn of_kind(&self, group: &str, kind: &str, space: Option<&str>) -> Objects {
        self.look(|stock| stock.take_kind(group, kind, space))
            .open()
    }

    /// The objects of that kind and name, in whatever namespace.
    #[must_use]
    pub fn named(&self, group: &str, kind: &str, name: &str) -> Objects {
        self.look(|stock| stock.take_named(group, kind, name))
            .open()
    }

    /// The namespaces that objects belong to.
    #[must_use]
    pub fn spaces(&self) -> BTreeSet<String> {
        self.look(Stock::spaces)
    }

    /// What belongs to a namespace.
    #[must_use]
    pub fn space(&self, space: &str) -> Taken {
        self.look(|stock| stock.take(space))
    }

    /// Whether it holds an object of a kind.
    #[must_use]
    pub fn has_kind(&self, group: &str, kind: &str) -> bool {
        self.look(|stock| stock.has_kind(group, kind))
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.look(Stock::len)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Grows with every change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.look(Stock::version)
    }

    /// What could not be read.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        match self {
            Self::Directory(_) => self.look(|stock| stock.problems().to_vec()),
            Self::Kubernetes(cluster) => cluster.problems(),
        }
    }

    /// What changed since this was last asked, by whomever.
    #[must_use]
    pub fn changes(&self) -> Changes {
        match self {
            Self::Directory(folder) => lock(&folder.shown).stock.changes(),
            Self::Kubernetes(cluster) => cluster.changes(),
        }
    }

    fn look<T>(&self, look: impl FnOnce(&Stock) -> T) -> T {
        match self {
            Self::Directory(folder) => look(&lock(&folder.shown).stock),
            Self::Kubernetes(cluster) => cluster.look(look),
        }
    }

    /// Looks for what others changed; says whether anything differs.
    pub async fn refresh(&self) -> bool {
        match self {
            Self::Directory(folder) => {
                let looked = folder.on_disk(|directory| (directory.rescan(), Touched::All));
                looked.await.unwrap_or(false)
            }
            Self::Kubernetes(cluster) => cluster.refresh(),
        }
    }

    /// Told when others changed something, where the store itself hears of it.
    #[must_use]
    pub fn changed(&self) -> Option<Arc<Notify>> {
        match self {
            Self::Directory(_) => None,
            Self::Kubernetes(cluster) => Some(cluster.changed()),
        }
    }

    /// Carries out the writes in order. What could be written stands and is seen at once, also
    /// where another one fails.
    ///
    /// # Errors
    ///
    /// Something cannot be written: the first of it.
    pub async fn write(&self, writes: Vec<Write>) -> Result<(), Problem> {
        // Who does not lead is refused write by write.
        let reign = match (self.reign().await?, self) {
            (Some(reign), _) => reign,
            (None, Self::Directory(_)) => Reign::default(),
            (None, Self::Kubernetes(cluster)) => cluster.reign_now(),
        };
        let store = self.clone();
        let done = finish(async move { store.carry_out(writes, &BTreeSet::new(), reign).await });
        let outcome = done.await?;
        let refused = outcome.refused.into_values().next();
        match outcome.broken.or(refused) {
            Some(problem) => Err(problem),
            None => Ok(()),
        }
    }

    /// The time of leading that begins to be looked at: what a plan decides from here on is carried
    /// out in it. `None` while another manager leads.
    ///
    /// # Errors
    ///
    /// What the last leader wrote has not been seen yet.
    pub async fn reign(&self) -> Result<Option<Reign>, Problem> {
        match self {
            Self::Directory(_) => Ok(self.leads().then(Reign::default)),
            Self::Kubernetes(cluster) => cluster.reign().await,
        }
    }

    /// Carries out the writes in order, in the reign they were decided in. What is refused holds
    /// back what depends on it, and nothing else; `waiting` are the objects that were refused lately
    /// and are not to be tried now.
    pub async fn carry_out(
        &self,
        writes: Vec<Write>,
        waiting: &BTreeSet<ObjectKey>,
        reign: Reign,
    ) -> Outcome {
        let mut outcome = Outcome::new(waiting);
        if writes.is_empty() {
            return outcome;
        }
        match self {
            Self::Directory(folder) => {
                let done = folder.on_disk(move |directory| {
                    let mut touched = BTreeSet::new();
                    for write in writes {
                        if outcome.holds(&write) {
                            continue;
                        }
                        let written = directory.write(std::slice::from_ref(&write));
                        touched.insert(write.key.clone());
                        if let Err(problem) = written {
                            outcome.refuse(&write, problem);
                        }
                    }
                    (outcome, Touched::Keys(touched))
                });
                done.await.unwrap_or_else(Outcome::broken_by)
            }
            Self::Kubernetes(cluster) => cluster.write(writes, outcome, reign).await,
        }
    }

    /// Leads the kubeconfig of a cluster to a server; `None` where nothing was learnt. A directory
    /// holds no Secret of it.
    pub async fn lead(&self, cluster: &super::Name, server: &str) -> Option<Kubeconfig> {
        match self {
            Self::Directory(_) => None,
            Self::Kubernetes(store) => store.lead(cluster, server).await,
        }
    }

    /// Creates an owned document unless there is one; answers with the one that is there.
    ///
    /// # Errors
    ///
    /// It cannot be written or read back.
    pub async fn create(
        &self,
        key: ObjectKey,
        manager: &'static str,
        content: Value,
    ) -> Result<Value, Problem> {
        match self {
            Self::Directory(folder) => {
                let made = folder.on_disk(move |directory| {
                    let made = directory.create(&key, manager, &content);
                    (made, Touched::Keys(BTreeSet::from([key])))
                });
                made.await.unwrap_or_else(Err)
            }
            Self::Kubernetes(cluster) => {
                let cluster = cluster.clone();
                finish(async move { cluster.create(&key, manager, &content).await }).await?
            }
        }
    }

    /// The object as it is right now: asked for, not remembered. A manager that began to lead may
    /// not have heard of its predecessor's last writes.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub async fn current(&self, key: &ObjectKey) -> Result<Current, Problem> {
        match self {
            Self::Directory(_) => Ok(Current {
                layers: self.get(key).unwrap_or_default(),
                seen: None,
            }),
            Self::Kubernetes(cluster) => cluster.current(key).await,
        }
    }

    /// Carries out a write over the object as it was read; says whether it was still so. Of two
    /// that read the same one writes.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub async fn write_over(&self, write: Write, current: &Current) -> Result<bool, Problem> {
        match self {
            Self::Directory(_) => self.write(vec![write]).await.map(|()| true),
            Self::Kubernetes(cluster) => {
                let (cluster, current) = (cluster.clone(), current.clone());
                finish(async move { cluster.write_over(&write, &current).await }).await?
            }
        }
    }

    /// Who of several managers writes now. A directory has one manager alone.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        match self {
            Self::Directory(_) => Leadership::Me,
            Self::Kubernetes(cluster) => cluster.leadership(),
        }
    }

    /// Who leads, as it stands in the lease; empty where nobody is known to.
    #[must_use]
    pub fn holder(&self) -> String {
        match self {
            Self::Directory(_) => String::new(),
            Self::Kubernetes(cluster) => cluster.inner.leader.holder(),
        }
    }

    /// Tells other managers where this one serves the agent API.
    pub fn publish(&self, address: SocketAddr) {
        if let Self::Kubernetes(cluster) = self {
            cluster.publish(address);
        }
    }

    /// Lets the store go: another manager may take it, and nothing is written by this one. Ends
    /// once what is being written is written.
    pub async fn close(&self) {
        match self {
            Self::Directory(folder) => {
                let _: Result<(), Problem> = folder
                    .on_disk(|directory| (directory.close(), Touched::Keys(BTreeSet::new())))
                    .await;
            }
            Self::Kubernetes(cluster) => cluster.close().await,
        }
    }

    /// Lets the store go as a crash does: at once, and nothing is given back.
    pub fn abandon(&self) {
        if let Self::Kubernetes(cluster) = self {
            cluster.abandon();
        }
    }

    /// Whether it was let go.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Directory(folder) => lock(&folder.shown).closed,
            Self::Kubernetes(cluster) => cluster.is_closed(),
        }
    }

    /// How long what others change takes to come to rest.
    #[must_use]
    pub const fn settling(&self) -> Duration {
        match self {
            Self::Directory(_) => Duration::from_millis(30),
            Self::Kubernetes(_) => Duration::from_millis(1),
        }
    }

    /// Whether writing takes so long that nobody is kept waiting for it.
    #[must_use]
    pub const fn is_slow(&self) -> bool {
        matches!(self, Self::Kubernetes(_))
    }

    /// What stands beside the manager.
    #[must_use]
    pub fn environment(&self) -> Environment {
        match self {
            Self::Directory(_) => Environment::Directory,
            Self::Kubernetes(cluster) => cluster.environment(),
        }
    }

    /// Whether this manager is the one that writes.
    #[must_use]
    pub fn leads(&self) -> bool {
        match self {
            Self::Directory(_) => !self.is_closed(),
            Self::Kubernetes(cluster) => cluster.leads(),
        }
    }

    /// What is counted of it.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        match self {
            Self::Directory(_) => Metrics::default(),
            Self::Kubernetes(cluster) => cluster.metrics().clone(),
        }
    }

    /// Tells what there is to tell about objects, where there is somebody to tell: a directory has
    /// the journal alone.
    pub fn tell(&self, notices: Vec<Notice>) {
        if let Self::Kubernetes(cluster) = self {
            cluster.tell(notices);
        }
    }

    /// What it is, for people.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Directory(folder) => lock(&folder.shown).name.clone(),
            Self::Kubernetes(cluster) => cluster.name().to_owned(),
        }
    }
}

impl Folder {
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Directory) -> (T, Touched) + Send + 'static,
    ) -> Result<T, Problem> {
        let folder = self.clone();
        let done = spawn_blocking(move || {
            let mut directory = lock(&folder.directory);
            let (done, touched) = work(&mut directory);
            let mut shown = lock(&folder.shown);
            match touched {
                Touched::All => shown.stock.replace(directory.objects()),
                Touched::Keys(keys) => {
                    for key in &keys {
                        match directory.objects().get(key) {
                            Some(layers) => {
                                shown.stock.put(key, layers);
                            }
                            None => shown.stock.remove(key),
                        }
                    }
                }
            }
            shown.closed = directory.is_closed();
            done
        });
        ended(done).await
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
