//! What of a cluster is known: what watches told and what our own writes were answered with.
//!
//! Versions of objects are compared for equality alone, so it is the order of events that tells
//! old from new. A watch shows every version of an object in order. After a write was answered
//! with a version the watch has not shown yet, its events are older until it shows that one:
//!
//! ```text
//! write ──► answered v5 ──────────────────► v5 is in force
//! watch: v3      v4 (older: passed over)  v5   v6 (newer: taken)
//! ```
//!
//! A watch that begins anew shows everything as it is, and what was awaited before that is in it; but
//! it says so only after the server looked. What was written in between is in neither, and is asked
//! for by itself before it counts as gone. Nor does what it shows of an object that was written in between say
//! whether it is older or newer, and if it is newer no watch shows it again: that is asked for as well.
//! What is awaited for longer than [`PATIENCE`] was missed (a list can be newer): then the watch is
//! believed. The guards of every write, uid and resourceVersion, hold in any case.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use kedge_crd::capi;

use super::{fields, layers::Seen};
use crate::store::{Layers, ObjectKey, Objects, Write, stock::Stock};

/// How long a version that was written is awaited from a watch.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What is known.
#[derive(Debug, Default)]
pub struct Cache {
    stock: Stock,
    /// The objects that are written or awaited right now.
    entries: BTreeMap<ObjectKey, Entry>,
    /// Objects we removed, by uid, until the watch shows it.
    removed: BTreeMap<ObjectKey, (String, Instant)>,
    unheard: usize,
}

#[derive(Debug, Default)]
struct Entry {
    awaited: Option<(String, Instant)>,
    /// Whether it was awaited when a watch began anew, and the watch has not shown it since.
    doubted: bool,
    /// Whether something was passed over since what is awaited was written.
    passed_over: bool,
    /// How many writes are under way, and what the watch showed meanwhile.
    writing: usize,
    shown: Vec<String>,
}

/// The objects one watch shows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Realm {
    /// The group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace, where it is one alone.
    pub namespace: Option<String>,
}

impl Realm {
    /// Every object of a kind.
    #[must_use]
    pub fn of(group: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
        }
    }

    /// Whether the object is in it.
    #[must_use]
    pub fn holds(&self, key: &ObjectKey) -> bool {
        key.group == self.group
            && key.kind == self.kind
            && self
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == key.name.namespace)
    }
}

impl Cache {
    /// What is known.
    #[must_use]
    pub const fn stock(&self) -> &Stock {
        &self.stock
    }

    /// What is known, to ask what changed.
    pub const fn stock_mut(&mut self) -> &mut Stock {
        &mut self.stock
    }

    /// Everything that is known, unpacked.
    #[must_use]
    pub fn objects(&self) -> Arc<Objects> {
        Arc::new(self.stock.take_all().open())
    }

    /// An object as it was last seen.
    #[must_use]
    pub fn seen(&self, key: &ObjectKey) -> Option<Seen> {
        let layers = self.stock.get(key)?;
        let server = layers.server.clone().unwrap_or_default();
        Some(Seen {
            layers,
            api_version: server.api_version,
            is_ours: server.is_ours,
        })
    }

    /// A watch was begun that has told nothing yet: nothing may be taken for deleted.
    pub fn expect(&mut self) {
        self.unheard += 1;
        self.tell_complete();
    }

    /// A watch that was begun has told everything once, or ended.
    pub fn heard(&mut self) {
        self.unheard = self.unheard.saturating_sub(1);
        self.tell_complete();
    }

    /// Whether every watch has told everything once.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.unheard == 0
    }

    /// A write to the object is under way.
    pub fn begin(&mut self, key: &ObjectKey) {
        let entry = self.entries.entry(key.clone()).or_default();
        entry.writing += 1;
    }

    /// The write came to nothing.
    pub fn gave_up(&mut self, key: &ObjectKey) {
        self.end(key);
    }

    /// The write was answered with the object as it is since then.
    pub fn wrote(&mut self, write: &Write, seen: Seen, now: Instant) {
        let key = &write.key;
        let shown = self.end(key);
        let version = version(&seen.layers);
        // The watch was faster than the answer, and may be further on by now.
        let is_old = shown.contains(&version) && self.version_of(key).as_ref() != Some(&version);
        if is_old {
            return;
        }
        let is_known = shown.contains(&version) || self.version_of(key).as_ref() == Some(&version);
        self.keep(key, seen);
        self.agree(write);
        if !is_known {
            let entry = self.entries.entry(key.clone()).or_default();
            entry.awaited = Some((version, now));
            entry.passed_over = false;
        } else if let Some(entry) = self.entries.get_mut(key) {
            entry.awaited = None;
        }
        self.forget_idle(key);
    }

    /// The object went by our own hand.
    pub fn wrote_removal(&mut self, key: &ObjectKey, uid: &str, now: Instant) {
        self.end(key);
        if self.uid_of(key).as_deref() == Some(uid) {
            self.stock.remove(key);
            self.entries.remove(key);
            self.removed.insert(key.clone(), (uid.to_owned(), now));
        }
    }

    /// What was wanted is there already: it is kept as it was wanted, so that the next plan finds
    /// no difference in writing (1.0 and 1).
    pub fn agree(&mut self, write: &Write) {
        let (Some(wanted), Some(layers)) = (&write.content, self.stock.get(&write.key)) else {
            return;
        };
        let mut objects = Objects::default();
        objects.by_key.insert(write.key.clone(), layers);
        let kept = objects.content(&write.key, &write.layer);
        if kept.is_some_and(|kept| wanted != kept && fields::same(wanted, kept)) {
            objects.apply(write);
            if let Some(layers) = objects.get(&write.key) {
                self.stock.put(&write.key, layers);
            }
        }
    }

    /// A watch shows an object.
    pub fn shows(&mut self, key: &ObjectKey, seen: Seen, now: Instant) {
        let server = seen.layers.server.as_ref();
        let shown_uid = server.map_or("", |server| server.uid.as_str());
        let version = version(&seen.layers);
        if let Some((uid, since)) = self.removed.get(key) {
            if shown_uid == uid && now.duration_since(*since) < PATIENCE {
                return;
            }
            self.removed.remove(key);
        }
        if let Some(entry) = self.entries.get_mut(key) {
            entry.doubted = false;
            if entry.writing > 0 {
                entry.shown.push(version.clone());
            }
            if let Some((awaited, since)) = &entry.awaited {
                if *awaited != version && now.duration_since(*since) < PATIENCE {
                    entry.passed_over = true;
                    return;
                }
                entry.awaited = None;
            }
        }
        self.forget_idle(key);
        if self.version_of(key) != Some(version) {
            self.keep(key, seen);
        }
    }

    /// The server was asked for an object after it was written: this is no older.
    pub fn answered(&mut self, key: &ObjectKey, seen: Seen, now: Instant) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.awaited = None;
        }
        self.shows(key, seen, now);
    }

    /// A watch shows that an object is gone.
    pub fn gone(&mut self, key: &ObjectKey, uid: &str) {
        if self
            .removed
            .get(key)
            .is_some_and(|(removed, _)| removed == uid)
        {
            self.removed.remove(key);
        }
        if self.uid_of(key).as_deref() == Some(uid) {
            self.vanish(key);
        }
    }

    /// A watch of these objects begins anew: it will show everything as it is from now on.
    pub fn begins_anew(&mut self, realm: &Realm) {
        let of_realm = self.entries.iter_mut().filter(|(key, _)| realm.holds(key));
        for (_, entry) in of_realm {
            entry.doubted |= entry.awaited.take().is_some();
        }
        self.removed.retain(|key, _| !realm.holds(key));
    }

    /// A watch has shown everything there is; says what is doubted.
    pub fn listed(
        &mut self,
        realm: &Realm,
        all: Vec<(ObjectKey, Seen)>,
        now: Instant,
    ) -> Vec<ObjectKey> {
        let mut there = BTreeSet::new();
        for (key, seen) in all {
            self.shows(&key, seen, now);
            there.insert(key);
        }
        self.has_shown(realm, &there)
    }

    /// A watch has shown everything there is, and these are the keys. What is missing is gone, but
    /// for what it names: that may have been written after the server looked, or before it did.
    #[must_use]
    pub fn has_shown(&mut self, realm: &Realm, there: &BTreeSet<ObjectKey>) -> Vec<ObjectKey> {
        let missing: Vec<ObjectKey> = self
            .keys(realm)
            .filter(|key| !there.contains(key))
            .filter(|key| {
                let entry = self.entries.get(key);
                entry.is_none_or(|entry| entry.writing == 0 && entry.awaited.is_none())
            })
            .collect();
        let is_doubted = |key: &ObjectKey| self.entries.get(key).is_some_and(|it| it.doubted);
        let (doubted, gone): (Vec<_>, Vec<_>) = missing.into_iter().partition(is_doubted);
        for key in gone {
            self.vanish(&key);
        }
        let unclear = self.entries.iter().filter(|(key, entry)| {
            realm.holds(key) && entry.awaited.is_some() && entry.passed_over
        });
        doubted
            .into_iter()
            .chain(unclear.map(|(key, _)| key.clone()))
            .collect()
    }

    /// An object that was doubted was asked for, and there is none.
    pub fn missed(&mut self, key: &ObjectKey) {
        if self.entries.get(key).is_some_and(|entry| entry.doubted) {
            self.entries.remove(key);
            self.vanish(key);
        }
    }

    /// Nobody watches these objects any more.
    pub fn forget(&mut self, realm: &Realm) {
        let keys: Vec<ObjectKey> = self.keys(realm).collect();
        for key in keys {
            self.stock.remove(&key);
        }
        self.entries.retain(|key, _| !realm.holds(key));
    }

    /// What is known of a realm. There is one for each tenant: none may cost as much as the fleet.
    fn keys<'a>(&'a self, realm: &'a Realm) -> impl Iterator<Item = ObjectKey> + 'a {
        let space = realm.namespace.as_deref();
        self.stock.keys_of(&realm.group, &realm.kind, space)
    }

    fn keep(&mut self, key: &ObjectKey, seen: Seen) {
        let Seen {
            mut layers,
            api_version,
            is_ours,
        } = seen;
        if let Some(last) = self.stock.get(key) {
            keep_wording(&mut layers, &last);
        }
        let server = layers.server.get_or_insert_default();
        server.api_version = api_version;
        server.is_ours = is_ours;
        let last = self.uid_of(key);
        let is_another = last.is_some_and(|last| last != server.uid);
        self.stock.put(key, &layers);
        if is_another && key.is_cluster() {
            self.bury(key);
        }
    }

    /// Another Cluster has this name by now: what was of the earlier one is not waited for.
    fn bury(&mut self, key: &ObjectKey) {
        let mut objects = self.stock.take(&key.name.namespace).open();
        for gone in objects.bury(key) {
            self.entries.remove(&gone);
            self.stock.remove(&gone);
        }
    }

    fn vanish(&mut self, key: &ObjectKey) {
        let Some(layers) = self.stock.get(key) else {
            return;
        };
        // Whether it was deleted is told by its Cluster.
        let space = Some(key.name.namespace.as_str());
        let clusters = self.stock.take_kind(capi::GROUP, "Cluster", space);
        let mut objects = clusters.open();
        objects.by_key.insert(key.clone(), layers);
        if objects.vanish(key) {
            self.entries.remove(key);
            self.stock.remove(key);
        } else if let Some(layers) = objects.get(key) {
            self.stock.put(key, layers);
        }
    }

    fn end(&mut self, key: &ObjectKey) -> Vec<String> {
        let Some(entry) = self.entries.get_mut(key) else {
            return Vec::new();
        };
        entry.writing = entry.writing.saturating_sub(1);
        let shown = entry.shown.clone();
        if entry.writing == 0 {
            entry.shown.clear();
        }
        self.forget_idle(key);
        shown
    }

    fn forget_idle(&mut self, key: &ObjectKey) {
        let is_idle =
            |entry: &Entry| entry.writing == 0 && entry.awaited.is_none() && !entry.doubted;
        if self.entries.get(key).is_some_and(is_idle) {
            self.entries.remove(key);
        }
    }

    fn version_of(&self, key: &ObjectKey) -> Option<String> {
        let packed = self.stock.packed(key);
        packed.map(|packed| packed.version.to_string())
    }

    fn uid_of(&self, key: &ObjectKey) -> Option<String> {
        self.stock.packed(key).map(|packed| packed.uid.to_string())
    }

    fn tell_complete(&mut self) {
        self.stock.set_incomplete(self.unheard > 0);
    }
}

fn version(layers: &Layers) -> String {
    let server = layers.server.as_ref();
    server.map_or_else(String::new, |server| server.resource_version.clone())
}

/// Keeps the wording of what says the same.
fn keep_wording(layers: &mut Layers, last: &Layers) {
    for (manager, content) in &mut layers.owned {
        if let Some(last) = last.owned.get(manager)
            && fields::same(content, last)
        {
            content.clone_from(last);
        }
    }
    for (content, last) in [
        (&mut layers.status, &last.status),
        (&mut layers.marks, &last.marks),
    ] {
        if let (Some(content), Some(last)) = (content, last)
            && fields::same(content, last)
        {
            content.clone_from(last);
        }
    }
}

#[cfg(test)]
mod tests;
