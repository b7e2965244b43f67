//! The watches of a cluster: our kinds, Cluster API's, whatever kinds those
//! refer to, and the token Secrets of our own and the tenants' namespaces, nowhere else.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use kedge_core::{Fix, Problem};
use kedge_crd::{capi, elemental, meta};
use kube::{
    Api,
    api::ListParams,
    core::Status,
    runtime::{
        WatchStreamExt as _,
        utils::Backoff,
        watcher::{self, Config, DefaultBackoff, Event, watcher},
    },
};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::timeout,
};
use tracing::{debug, info, warn};

use super::{
    cache::Realm,
    cluster::{ANSWER, Cluster, lock, secrets},
    kinds::{self, Kind},
    layers::Seen,
    problems::unanswered,
    raw::Raw,
    referred,
};
use crate::store::{Name, ObjectKey};

/// The running watches.
#[derive(Debug)]
pub(super) struct Watches {
    running: BTreeMap<Realm, Running>,
    tasks: JoinSet<()>,
    /// Whether the server streams lists, once that is known.
    streaming: Option<bool>,
    /// What was looked at, and when.
    looked: Option<(u64, Instant)>,
    /// What was asked for and is not served, and when.
    asked: Option<Vec<(String, String, bool)>>,
    asked_at: Instant,
    troubled: bool,
    /// The kinds that objects refer to or referred to.
    referred: BTreeSet<(String, String)>,
    /// How often the store went back in time when the watches were begun.
    returns: u64,
}

/// A running watch, and what it takes to begin it anew.
struct Running {
    task: AbortHandle,
    api: Api<Raw>,
    config: Config,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.task.fmt(f)
    }
}

impl Watches {
    /// Finds our kinds and Cluster API's and watches them.
    pub async fn start(cluster: &Cluster) -> Result<Self, Problem> {
        let mut watches = Self {
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
            streaming: None,
            looked: None,
            asked: None,
            asked_at: Instant::now(),
            troubled: false,
            referred: BTreeSet::new(),
            returns: 0,
        };
        let told = |error: &kube::Error| unanswered(cluster.name()).caused_by(error);
        for (group, kind) in ALL {
            let found = kinds::preferred(&cluster.inner.client, group, kind).await;
            match found.map_err(|error| told(&error))? {
                Some(found) => watches.keep(cluster, group, kind, found).await,
                None if group == meta::GROUP => {
                    let missing = format!("the cluster serves no {kind} of {group}");
                    let fix = Fix::text("install Kedge's custom resource definitions");
                    return Err(unanswered(cluster.name()).evidence(missing).fix(fix));
                }
                None => debug!(group, kind, "the cluster does not serve the kind"),
            }
        }
        Ok(watches)
    }

    /// Follows what is wanted, for good.
    pub async fn run(&mut self, cluster: &Cluster) {
        // Told by every watch as well, through the planner: here it is enough to look now and then.
        let mut every = tokio::time::interval(LOOK);
        loop {
            every.tick().await;
            self.follow_time(cluster);
            self.look(cluster).await;
        }
    }

    /// Begins every watch anew when the store went back in time.
    fn follow_time(&mut self, cluster: &Cluster) {
        let returns = cluster.inner.leader.returns();
        if returns == self.returns {
            return;
        }
        self.returns = returns;
        for (realm, running) in std::mem::take(&mut self.running) {
            running.task.abort();
            self.watch(cluster, realm, running.api, running.config);
        }
    }

    /// Begins the watches that objects ask for and ends those nobody asks for; says whether
    /// nothing had to be begun.
    pub async fn look(&mut self, cluster: &Cluster) -> bool {
        let (version, referring, mut namespaces) = {
            let mut cache = cluster.cache();
            let stock = cache.stock_mut();
            let is_same =
                |(last, at): (u64, Instant)| last == stock.version() && at.elapsed() < AGAIN;
            if self.looked.is_some_and(is_same) {
                return true;
            }
            let namespaces: BTreeSet<String> = stock.tenants().cloned().collect();
            (stock.version(), stock.referring(), namespaces)
        };
        self.looked = Some((version, Instant::now()));
        for space in referring {
            self.referred.extend(referred::kinds(&space.open()));
        }
        let mut is_settled = self.find_kinds(cluster).await;
        namespaces.insert(meta::SYSTEM_NAMESPACE.to_owned());
        for namespace in &namespaces {
            let realm = secrets_of(namespace);
            if !self.running.contains_key(&realm) {
                let api = Api::namespaced_with(cluster.inner.client.clone(), namespace, &secrets());
                let config = Config::default().fields(TOKENS);
                self.watch(cluster, realm, api, config);
                is_settled = false;
            }
        }
        let unwanted = self.running.keys().filter(|realm| {
            let namespace = realm.namespace.as_ref();
            namespace.is_some_and(|namespace| !namespaces.contains(namespace))
        });
        for realm in unwanted.cloned().collect::<Vec<_>>() {
            if let Some(running) = self.running.remove(&realm) {
                running.task.abort();
            }
            cluster.cache().forget(&realm);
            cluster.inner.blind.clear(&realm);
        }
        is_settled
    }

    /// Watches the kinds that are wanted and not watched yet, as soon as the cluster serves them:
    /// they may be installed long after the manager.
    async fn find_kinds(&mut self, cluster: &Cluster) -> bool {
        let mut missing: Vec<(String, String, bool)> = Vec::new();
        {
            let known = lock(&cluster.inner.kinds);
            let is_known =
                |group: &str, kind: &str| known.contains_key(&(group.to_owned(), kind.to_owned()));
            for (group, kind) in ALL {
                if !is_known(group, kind) {
                    missing.push((group.to_owned(), kind.to_owned(), false));
                }
            }
            for (group, kind) in &self.referred {
                if !is_known(group, kind) {
                    missing.push((group.clone(), kind.clone(), true));
                }
            }
        }
        // The same set is asked for again only so often: whoever installs a kind is not in a hurry,
        // and an API server without it need not be asked at every change.
        let asked = Some(missing.clone());
        if missing.is_empty() || (self.asked == asked && self.asked_at.elapsed() < AGAIN) {
            return true;
        }
        self.asked = asked;
        self.asked_at = Instant::now();
        let client = &cluster.inner.client;
        let served: BTreeSet<String> = match client.list_api_groups().await {
            Ok(groups) => groups.groups.into_iter().map(|group| group.name).collect(),
            Err(error) => {
                self.trouble(&error, "the groups of kinds cannot be looked up");
                return true;
            }
        };
        let mut is_settled = true;
        for (group, kind, is_referred) in missing {
            if !served.contains(&group) {
                continue;
            }
            let found = if is_referred {
                kinds::by_contract(client, &group, &kind).await
            } else {
                kinds::preferred(client, &group, &kind).await
            };
            match found {
                Ok(Some(found)) => {
                    info!(group, kind, contract = ?found.contract, "a kind is watched");
                    self.keep(cluster, &group, &kind, found).await;
                    is_settled = false;
                }
                Ok(None) => debug!(group, kind, "the cluster does not serve the kind"),
                Err(error) => self.trouble(&error, "a kind cannot be looked up"),
            }
        }
        self.troubled &= !is_settled;
        is_settled
    }

    /// Tells of trouble with the cluster, once until it works again.
    fn trouble(&mut self, error: &kube::Error, what: &str) {
        if !std::mem::replace(&mut self.troubled, true) {
            let error = error as &dyn std::error::Error;
            warn!(error, what, "kinds are looked for again later");
        }
    }

    async fn keep(&mut self, cluster: &Cluster, group: &str, kind: &str, found: Kind) {
        let api: Api<Raw> = Api::all_with(cluster.inner.client.clone(), &found.resource);
        if self.streaming.is_none() {
            self.streaming = streams(&api).await;
        }
        let name = (group.to_owned(), kind.to_owned());
        lock(&cluster.inner.kinds).insert(name, found);
        // Plans look at the contracts of kinds.
        cluster.cache().stock_mut().touch_all();
        self.watch(cluster, Realm::of(group, kind), api, Config::default());
    }

    fn watch(&mut self, cluster: &Cluster, realm: Realm, api: Api<Raw>, config: Config) {
        let how = if self.streaming == Some(true) {
            config.clone().streaming_lists()
        } else {
            config.clone()
        };
        let expected = Expected::new(cluster);
        let (own, with) = (realm.clone(), api.clone());
        let task = self
            .tasks
            .spawn(async move { follow(expected, own, with, how).await });
        let running = Running { task, api, config };
        self.running.insert(realm, running);
    }
}

/// A watch that has told nothing yet. However it ends, it is not waited for any more then.
struct Expected {
    cluster: Cluster,
    is_heard: bool,
}

impl Expected {
    fn new(cluster: &Cluster) -> Self {
        cluster.cache().expect();
        Self {
            cluster: cluster.clone(),
            is_heard: false,
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        if !self.is_heard {
            self.cluster.cache().heard();
        }
    }
}

async fn follow(mut expected: Expected, realm: Realm, api: Api<Raw>, config: Config) {
    let cluster = expected.cluster.clone();
    let mut events = std::pin::pin!(watcher(api, config).backoff(Pauses::default()));
    let mut listed = BTreeSet::new();
    let mut is_seen = false;
    let mut is_cut_off = false;
    while let Some(event) = events.next().await {
        let now = Instant::now();
        if event.is_ok() && std::mem::take(&mut is_cut_off) {
            info!(kind = realm.kind, "a watch goes on");
        }
        match event {
            Ok(Event::Init) => {
                listed.clear();
                cluster.cache().begins_anew(&realm);
                continue;
            }
            // Taken at once: a list of a large fleet need not lie here whole.
            Ok(Event::InitApply(object)) => {
                let (key, seen) = read(&cluster, &realm, object);
                cluster.cache().shows(&key, seen, now);
                listed.insert(key);
                if !expected.is_heard {
                    continue;
                }
            }
            Ok(Event::InitDone) => {
                let there = std::mem::take(&mut listed);
                let doubted = cluster.cache().has_shown(&realm, &there);
                for key in doubted {
                    ask(&cluster, &realm, &key).await;
                }
                let mut cache = cluster.cache();
                is_seen = true;
                if cluster.inner.blind.clear(&realm) {
                    info!(kind = realm.kind, "a kind can be read");
                    // What was left undone without it is due.
                    cache.stock_mut().touch_all();
                }
                if !expected.is_heard {
                    expected.is_heard = true;
                    cache.heard();
                }
            }
            Ok(Event::Apply(object)) => {
                let (key, seen) = read(&cluster, &realm, object);
                cluster.cache().shows(&key, seen, now);
            }
            Ok(Event::Delete(object)) => {
                let key = key_of(&cluster, &realm, &object);
                let uid = object.text("/metadata/uid");
                cluster.cache().gone(&key, uid.unwrap_or_default());
            }
            Err(error) => {
                let refused = forbidden(&error);
                if let Some(status) = refused {
                    cluster.inner.blind.refuse(&realm, status, !is_seen);
                    if !std::mem::replace(&mut expected.is_heard, true) {
                        // Who needs it waits for it; the others need not.
                        cluster.cache().heard();
                    }
                }
                cluster.metrics().watch_restarted(&realm.kind);
                // An API server that is away is told once, not at every try.
                if !std::mem::replace(&mut is_cut_off, true) && refused.is_none() {
                    let error = &error as &dyn std::error::Error;
                    warn!(
                        error,
                        kind = realm.kind,
                        "a watch was cut off, and is begun again"
                    );
                }
            }
        }
        cluster.inner.changed.notify_one();
    }
}

/// Asks for an object that a watch did not show although we wrote it moments before. Where nobody
/// answers, the watch tells. It is listed by its name: whoever may watch a kind may list it.
async fn ask(cluster: &Cluster, realm: &Realm, key: &ObjectKey) {
    let Ok(api) = cluster.api(key) else { return };
    let name = format!("metadata.name={}", key.name.name);
    let named = ListParams::default().fields(&name);
    match timeout(ANSWER, api.list(&named)).await {
        Ok(Ok(found)) => match found.items.into_iter().next() {
            Some(object) => {
                let (key, seen) = read(cluster, realm, object);
                cluster.cache().shows(&key, seen, Instant::now());
            }
            None => cluster.cache().missed(key),
        },
        _ => debug!(object = %key, "an object that was written is not asked for in time"),
    }
}

/// Why the server does not let us, if that is it.
fn forbidden(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
            if status.code == 403 =>
        {
            Some(status)
        }
        _ => None,
    }
}

/// How long a watch that was cut off waits before it is begun again: as kube's own back-off, which
/// spares API servers of whole fleets of clients, but never for half a minute. There is one manager
/// or a few, each with a dozen watches, and a blank endpoint waits for them.
#[derive(Default)]
struct Pauses(DefaultBackoff);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|pause| pause.min(LONGEST))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0.reset();
    }
}

fn read(cluster: &Cluster, realm: &Realm, object: Raw) -> (ObjectKey, Seen) {
    let key = key_of(cluster, realm, &object);
    let seen = cluster.inner.seen(&key, object);
    (key, seen)
}

/// The key of an object that was just shown.
fn key_of(cluster: &Cluster, realm: &Realm, object: &Raw) -> ObjectKey {
    let text = |pointer: &str| object.text(pointer).unwrap_or_default();
    let leader = &cluster.inner.leader;
    leader.saw_version(object.text("/metadata/resourceVersion"));
    let name = Name::new(text("/metadata/namespace"), text("/metadata/name"));
    ObjectKey::new(&realm.group, &realm.kind, name)
}

/// Whether the server streams lists: older stores refuse for ever, and the watch does not notice.
/// `None` where the kind that was asked for is not ours to see.
async fn streams(api: &Api<Raw>) -> Option<bool> {
    let first = async {
        let config = Config::default().streaming_lists();
        let mut events = std::pin::pin!(watcher(api.clone(), config));
        loop {
            match events.next().await {
                Some(Ok(Event::InitDone)) => return Some(true),
                Some(Ok(_)) => {}
                Some(Err(error)) if forbidden(&error).is_some() => return None,
                Some(Err(_)) | None => return Some(false),
            }
        }
    };
    let streams = timeout(PROBE, first).await.unwrap_or(Some(false))?;
    if !streams {
        info!(
            because = "the server does not stream them",
            "objects are listed in pages"
        );
    }
    Some(streams)
}

fn secrets_of(namespace: &str) -> Realm {
    Realm {
        namespace: Some(namespace.to_owned()),
        ..Realm::of("", "Secret")
    }
}

/// The kinds that are looked for; ours must be there, others' may come later.
pub const ALL: [(&str, &str); 11] = [
    (meta::GROUP, "Tenant"),
    (meta::GROUP, "EdgeHost"),
    (meta::GROUP, "EdgeGateway"),
    (meta::GROUP, "LoadBalancer"),
    (meta::GROUP, "VIPPool"),
    (meta::GROUP, "TCPLoadBalancer"),
    (meta::GROUP, "HTTPLoadBalancer"),
    (capi::GROUP, "Cluster"),
    (capi::GROUP, "Machine"),
    (elemental::GROUP, elemental::HOST_KIND),
    (elemental::GROUP, elemental::MACHINE_KIND),
];
const TOKENS: &str = "type=kedge.dev/enrollment-token";
const LOOK: Duration = Duration::from_millis(200);
const AGAIN: Duration = Duration::from_secs(10);
const PROBE: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_begun_again_within_seconds_however_long_the_server_was_away() {
        let pauses: Vec<Duration> = Pauses::default().take(50).collect();
        assert_eq!(pauses.len(), 50, "it never gives up");
        assert!(
            pauses
                .first()
                .is_some_and(|first| *first < Duration::from_secs(2))
        );
        assert!(pauses.iter().all(|pause| *pause <= LONGEST), "{pauses:?}");
    }
}
