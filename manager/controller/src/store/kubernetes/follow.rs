//! One watch: what it shows goes into the cache.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures_util::{Stream, StreamExt as _};
use kube::{
    Api, Client,
    api::{ApiResource, ListParams},
    core::Status,
    runtime::{
        WatchStreamExt as _,
        utils::Backoff,
        watcher::{self, Config, DefaultBackoff, Event, watcher},
    },
};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use tracing::{debug, info, warn};

use super::{
    cache::Realm,
    cluster::{ANSWER, Cluster},
    layers::Seen,
    lists,
    raw::Raw,
};
use crate::store::{Name, ObjectKey};

/// A watch that has told nothing yet. However it ends, it is not waited for any more then.
pub(super) struct Expected {
    cluster: Cluster,
    is_heard: bool,
}

impl Expected {
    pub fn new(cluster: &Cluster) -> Self {
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

/// Where a watch is.
#[derive(Clone)]
pub(super) struct Source {
    pub client: Client,
    pub resource: ApiResource,
    pub namespace: Option<String>,
    /// Selects what is watched, where that is not everything.
    pub fields: Option<&'static str>,
}

impl Source {
    /// What happens there. A list of a whole kind is shown beside the events, before it is done; one
    /// of a namespace is short, and among them.
    fn events(
        &self,
        shown: mpsc::Sender<Vec<Raw>>,
    ) -> impl Stream<Item = watcher::Result<Event<Raw>>> + use<> {
        let api: Api<Raw> = match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &self.resource),
            None => Api::all_with(lists::shown(&self.client, shown), &self.resource),
        };
        let config = Config {
            field_selector: self.fields.map(str::to_owned),
            page_size: None,
            ..Config::default()
        };
        watcher(api, config).backoff(Pauses::default())
    }
}

/// Follows it for good.
pub(super) async fn follow(mut expected: Expected, realm: Realm, source: Source) {
    let cluster = expected.cluster.clone();
    let (shown, mut listed) = mpsc::channel(AHEAD);
    let mut events = std::pin::pin!(source.events(shown));
    let mut list = Listing::new(&cluster, &realm);
    let mut is_seen = false;
    let mut is_cut_off = false;
    loop {
        let event = tokio::select! {
            biased;
            Some(objects) = listed.recv() => {
                list.take(objects, Instant::now()).await;
                continue;
            }
            event = events.next() => event,
        };
        let Some(event) = event else { return };
        let now = Instant::now();
        if event.is_ok() && std::mem::take(&mut is_cut_off) {
            info!(kind = realm.kind, "a watch goes on");
        }
        match event {
            Ok(Event::Init) => {
                // What a list that failed showed is shown anew.
                while listed.try_recv().is_ok() {}
                list = Listing::new(&cluster, &realm);
                cluster.cache().begins_anew(&realm);
                continue;
            }
            Ok(Event::InitApply(object)) => {
                list.take(vec![object], now).await;
                continue;
            }
            Ok(Event::InitDone) => {
                while let Ok(objects) = listed.try_recv() {
                    list.take(objects, now).await;
                }
                let there = list.finish(now).await;
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

/// A list that is read beside the stream it comes from: to split an object takes as long as to
/// parse the next one, and a large fleet's start waits for both.
struct Listing {
    cluster: Cluster,
    realm: Realm,
    /// What came and is not split yet.
    waiting: Vec<Raw>,
    /// What is split right now.
    reading: Option<JoinHandle<Vec<(ObjectKey, Seen)>>>,
    there: BTreeSet<ObjectKey>,
}

impl Listing {
    fn new(cluster: &Cluster, realm: &Realm) -> Self {
        Self {
            cluster: cluster.clone(),
            realm: realm.clone(),
            waiting: Vec::new(),
            reading: None,
            there: BTreeSet::new(),
        }
    }

    /// Takes the next objects.
    async fn take(&mut self, objects: Vec<Raw>, now: Instant) {
        self.waiting.extend(objects);
        if self.waiting.len() >= AT_ONCE {
            self.turn_over(now).await;
        }
    }

    /// The keys of all objects; every one of them is shown by then.
    async fn finish(&mut self, now: Instant) -> BTreeSet<ObjectKey> {
        self.turn_over(now).await;
        self.turn_over(now).await;
        std::mem::take(&mut self.there)
    }

    /// Shows what was split, and splits what came meanwhile.
    async fn turn_over(&mut self, now: Instant) {
        if let Some(reading) = self.reading.take() {
            let read = match reading.await {
                Ok(read) => read,
                // What is not there counts as gone: nothing is left out of a list.
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime ends.
                    Err(_) => std::future::pending().await,
                },
            };
            for (key, seen) in read {
                self.cluster.cache().shows(&key, seen, now);
                self.there.insert(key);
            }
        }
        let objects = std::mem::take(&mut self.waiting);
        if !objects.is_empty() {
            let (cluster, realm) = (self.cluster.clone(), self.realm.clone());
            self.reading = Some(tokio::spawn(async move {
                let objects = objects.into_iter();
                objects
                    .map(|object| read(&cluster, &realm, object))
                    .collect()
            }));
        }
    }
}

/// Asks for an object that a watch did not show, or showed as another than we wrote moments before. Where nobody
/// answers, the watch tells. It is listed by its name: whoever may watch a kind may list it.
async fn ask(cluster: &Cluster, realm: &Realm, key: &ObjectKey) {
    let Ok(api) = cluster.api(key) else { return };
    let name = format!("metadata.name={}", key.name.name);
    let named = ListParams::default().fields(&name);
    match timeout(ANSWER, api.list(&named)).await {
        Ok(Ok(found)) => match found.items.into_iter().next() {
            Some(object) => {
                let (key, seen) = read(cluster, realm, object);
                cluster.cache().answered(&key, seen, Instant::now());
            }
            None => cluster.cache().missed(key),
        },
        _ => debug!(object = %key, "an object that was written is not asked for in time"),
    }
}

/// Why the server does not let us, if that is it.
pub(super) fn forbidden(error: &watcher::Error) -> Option<&Status> {
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

/// How many objects of a list are split at a time.
const AT_ONCE: usize = 16;
/// How many pieces of a list are read ahead of that.
const AHEAD: usize = 1;
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
