//! What Envoy is to hold, and what it made of it: shared by whoever decides and the streams.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::sync::Notify;

use crate::{
    Kind,
    delta::{Name, Outcome, Settled},
    resource::{Resource, Shared},
};

/// A resource's kind and name.
pub type Key = (Kind, Name);

/// What Envoy is to hold. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Wanted(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// `None` until somebody has decided for the first time.
    resources: Option<BTreeMap<Key, Shared>>,
    /// What the newest stream said.
    outcomes: BTreeMap<Key, Outcome>,
    streams: Vec<Weak<News>>,
    streams_so_far: u64,
}

/// What a stream has not heard yet.
#[derive(Debug, Default)]
pub(crate) struct News {
    pending: Mutex<BTreeMap<Key, Option<Shared>>>,
    notify: Notify,
}

/// A stream's end of it.
#[derive(Debug)]
pub(crate) struct Reader {
    wanted: Wanted,
    news: Arc<News>,
    number: u64,
}

impl Wanted {
    /// Makes `resources` everything there is, and tells open streams what differs.
    pub fn declare(&self, resources: impl IntoIterator<Item = Resource>) {
        let resources = resources.into_iter();
        let new: BTreeMap<Key, Shared> = resources
            .map(|resource| ((resource.kind, resource.name.clone()), Arc::new(resource)))
            .collect();
        let mut inner = self.inner();
        let old = inner.resources.take().unwrap_or_default();
        let gone = old.keys().filter(|key| !new.contains_key(*key));
        let gone: Vec<(Key, Option<Shared>)> = gone.map(|key| (key.clone(), None)).collect();
        let is_new = |(key, resource): &(&Key, &Shared)| {
            old.get(*key)
                .is_none_or(|old| old.revision != resource.revision)
        };
        let fresh = new.iter().filter(is_new);
        let fresh = fresh.map(|(key, resource)| (key.clone(), Some(Arc::clone(resource))));
        let changes: Vec<_> = fresh.chain(gone).collect();
        inner.resources = Some(new);
        inner.tell(&changes);
    }

    /// Changes one resource, or adds it.
    pub fn change(&self, resource: Resource) {
        let mut inner = self.inner();
        let key = (resource.kind, resource.name.clone());
        let resource = Arc::new(resource);
        match inner.resources.get_or_insert_default().entry(key.clone()) {
            Entry::Occupied(same) if same.get().revision == resource.revision => return,
            Entry::Occupied(mut other) => {
                other.insert(Arc::clone(&resource));
            }
            Entry::Vacant(room) => {
                room.insert(Arc::clone(&resource));
            }
        }
        inner.tell(&[(key, Some(resource))]);
    }

    /// What Envoy made of a resource, as far as it has said.
    #[must_use]
    pub fn outcome(&self, kind: Kind, name: &str) -> Option<Outcome> {
        self.inner()
            .outcomes
            .get(&(kind, Name::from(name)))
            .cloned()
    }

    /// What Envoy refuses.
    #[must_use]
    pub fn refused(&self) -> Vec<(Key, Arc<str>)> {
        let inner = self.inner();
        let refused = inner
            .outcomes
            .iter()
            .filter_map(|(key, outcome)| match outcome {
                Outcome::Refused { detail, .. } => Some((key.clone(), Arc::clone(detail))),
                Outcome::Applied(_) | Outcome::Gone => None,
            });
        refused.collect()
    }

    /// What Envoy has neither taken nor refused as it is wanted.
    #[must_use]
    pub fn pending(&self) -> Vec<Key> {
        let inner = self.inner();
        let is_settled = |(key, resource): &(&Key, &Shared)| {
            let of = match inner.outcomes.get(*key) {
                Some(Outcome::Applied(version) | Outcome::Refused { version, .. }) => {
                    Some(*version)
                }
                Some(Outcome::Gone) | None => None,
            };
            of == Some(resource.revision.version)
        };
        let wanted = inner.resources.iter().flatten();
        let pending = wanted.filter(|one| !is_settled(one));
        pending.map(|(key, _)| key.clone()).collect()
    }

    /// Begins a stream; `None` while nobody has decided anything.
    pub(crate) fn open(&self) -> Option<(Reader, Vec<Shared>)> {
        let mut inner = self.inner();
        let resources = inner.resources.as_ref()?.values().cloned().collect();
        let news = Arc::new(News::default());
        inner.streams.push(Arc::downgrade(&news));
        inner.streams_so_far += 1;
        inner.outcomes.clear();
        let reader = Reader {
            wanted: self.clone(),
            news,
            number: inner.streams_so_far,
        };
        Some((reader, resources))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn tell(&mut self, changes: &[(Key, Option<Shared>)]) {
        self.streams.retain(|stream| {
            let Some(news) = stream.upgrade() else {
                return false;
            };
            news.pending().extend(changes.iter().cloned());
            news.notify.notify_one();
            true
        });
    }
}

impl News {
    fn pending(&self) -> MutexGuard<'_, BTreeMap<Key, Option<Shared>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    /// Waits for changes. Changes of one resource meanwhile are one. Cancelling loses nothing.
    pub async fn changed(&self) -> BTreeMap<Key, Option<Shared>> {
        loop {
            let pending = mem::take(&mut *self.news.pending());
            if !pending.is_empty() {
                return pending;
            }
            self.news.notify.notified().await;
        }
    }

    /// Keeps what Envoy made of a resource. An older stream is not heard.
    pub fn settled(&self, settled: Settled) {
        let mut inner = self.wanted.inner();
        if inner.streams_so_far != self.number {
            return;
        }
        let key = (settled.kind, settled.name);
        match settled.outcome {
            Outcome::Gone => inner.outcomes.remove(&key),
            outcome => inner.outcomes.insert(key, outcome),
        };
    }
}
