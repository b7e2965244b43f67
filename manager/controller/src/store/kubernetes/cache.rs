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
//! A watch that begins anew shows everything as it is, and what was awaited before that is in it.
//! What is awaited for longer than [`PATIENCE`] was missed (a list can be newer): then the watch is
//! believed. The guards of every write, uid and resourceVersion, hold in any case.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use kedge_crd::{LoadBalancerSpec, Resource as _, meta};
use serde_json::Value;

use super::{
    fields,
    layers::{Seen, split},
};
use crate::store::{Ground, Layer, Layers, ObjectKey, Objects, Write};

/// How long a version that was written is awaited from a watch.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What is known.
#[derive(Debug, Default)]
pub struct Cache {
    objects: Arc<Objects>,
    entries: BTreeMap<ObjectKey, Entry>,
    /// Objects we removed, by uid, until the watch shows it.
    removed: BTreeMap<ObjectKey, (String, Instant)>,
    unheard: usize,
    changed: bool,
    version: u64,
}

#[derive(Debug, Default)]
struct Entry {
    api_version: String,
    is_ours: bool,
    awaited: Option<(String, Instant)>,
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
    pub fn objects(&self) -> Arc<Objects> {
        Arc::clone(&self.objects)
    }

    /// Whether anything changed since this was last asked.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Grows with every change.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// An object as it was last seen.
    #[must_use]
    pub fn seen(&self, key: &ObjectKey) -> Option<Seen> {
        let layers = self.objects.get(key)?.clone();
        let entry = self.entries.get(key)?;
        Some(Seen {
            layers,
            api_version: entry.api_version.clone(),
            is_ours: entry.is_ours,
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
    pub fn wrote(&mut self, write: &Write, answer: Value, now: Instant) {
        let key = &write.key;
        let shown = self.end(key);
        let seen = split(key, answer);
        let version = version(&seen.layers);
        // The watch was faster than the answer, and may be further on by now.
        let is_old = shown.contains(&version) && self.version_of(key).as_ref() != Some(&version);
        if is_old {
            return;
        }
        let is_known = shown.contains(&version) || self.version_of(key).as_ref() == Some(&version);
        self.keep(key, seen);
        self.agree(write);
        if let Some(entry) = self.entries.get_mut(key) {
            entry.awaited = (!is_known).then_some((version, now));
        }
    }

    /// The object went by our own hand.
    pub fn wrote_removal(&mut self, key: &ObjectKey, uid: &str, now: Instant) {
        self.end(key);
        let is_it = |layers: &Layers| layers.server.as_ref().is_some_and(|it| it.uid == uid);
        if self.objects.get(key).is_some_and(is_it) {
            Arc::make_mut(&mut self.objects).by_key.remove(key);
            self.entries.remove(key);
            self.touch();
            self.removed.insert(key.clone(), (uid.to_owned(), now));
        }
    }

    /// What was wanted is there already: it is kept as it was wanted, so that the next plan finds
    /// no difference in writing (1.0 and 1).
    pub fn agree(&mut self, write: &Write) {
        let same = match (
            &write.content,
            self.objects.content(&write.key, &write.layer),
        ) {
            (Some(wanted), Some(kept)) => wanted != kept && fields::same(wanted, kept),
            _ => false,
        };
        if same {
            Arc::make_mut(&mut self.objects).apply(write);
        }
    }

    /// A watch shows an object.
    pub fn shows(&mut self, key: &ObjectKey, object: Value, now: Instant) {
        let seen = split(key, object);
        let version = version(&seen.layers);
        if let Some((uid, since)) = self.removed.get(key) {
            let is_it = seen.layers.server.as_ref().is_some_and(|it| it.uid == *uid);
            if is_it && now.duration_since(*since) < PATIENCE {
                return;
            }
            self.removed.remove(key);
        }
        if let Some(entry) = self.entries.get_mut(key) {
            if entry.writing > 0 {
                entry.shown.push(version.clone());
            }
            if let Some((awaited, since)) = &entry.awaited {
                if *awaited != version && now.duration_since(*since) < PATIENCE {
                    return;
                }
                entry.awaited = None;
            }
        }
        if self.version_of(key) != Some(version) {
            self.keep(key, seen);
        }
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
        let known = self.objects.get(key).and_then(|it| it.server.as_ref());
        if known.is_some_and(|known| known.uid == uid) {
            self.vanish(key);
        }
    }

    /// A watch of these objects begins anew: it will show everything as it is from now on.
    pub fn begins_anew(&mut self, realm: &Realm) {
        let of_realm = self.entries.iter_mut().filter(|(key, _)| realm.holds(key));
        for (_, entry) in of_realm {
            entry.awaited = None;
        }
        self.removed.retain(|key, _| !realm.holds(key));
    }

    /// A watch has shown everything there is.
    pub fn listed(&mut self, realm: &Realm, all: Vec<(ObjectKey, Value)>, now: Instant) {
        let mut there = std::collections::BTreeSet::new();
        for (key, object) in all {
            self.shows(&key, object, now);
            there.insert(key);
        }
        let missing: Vec<ObjectKey> = self
            .objects
            .by_key
            .keys()
            .filter(|key| realm.holds(key) && !there.contains(*key))
            .filter(|key| {
                let entry = self.entries.get(*key);
                entry.is_none_or(|entry| entry.writing == 0 && entry.awaited.is_none())
            })
            .cloned()
            .collect();
        for key in missing {
            self.vanish(&key);
        }
    }

    /// Nobody watches these objects any more.
    pub fn forget(&mut self, realm: &Realm) {
        let objects = Arc::make_mut(&mut self.objects);
        objects.by_key.retain(|key, _| !realm.holds(key));
        self.entries.retain(|key, _| !realm.holds(key));
        self.touch();
    }

    fn keep(&mut self, key: &ObjectKey, seen: Seen) {
        let Seen {
            mut layers,
            api_version,
            is_ours,
        } = seen;
        let objects = Arc::make_mut(&mut self.objects);
        if let Some(last) = objects.by_key.get(key) {
            keep_wording(&mut layers, last);
        }
        let entry = self.entries.entry(key.clone()).or_default();
        entry.api_version = api_version;
        entry.is_ours = is_ours;
        if objects.by_key.get(key) != Some(&layers) {
            objects.by_key.insert(key.clone(), layers);
            self.touch();
        }
    }

    fn vanish(&mut self, key: &ObjectKey) {
        if Arc::make_mut(&mut self.objects).vanish(key) {
            self.entries.remove(key);
        }
        self.touch();
    }

    fn end(&mut self, key: &ObjectKey) -> Vec<String> {
        let Some(entry) = self.entries.get_mut(key) else {
            return Vec::new();
        };
        entry.writing = entry.writing.saturating_sub(1);
        let shown = entry.shown.clone();
        if entry.writing == 0 {
            entry.shown.clear();
            if !self.objects.by_key.contains_key(key) {
                self.entries.remove(key);
            }
        }
        shown
    }

    const fn touch(&mut self) {
        self.changed = true;
        self.version += 1;
    }

    fn version_of(&self, key: &ObjectKey) -> Option<String> {
        self.objects.get(key).map(version)
    }

    fn tell_complete(&mut self) {
        let incomplete = self.unheard > 0;
        if self.objects.incomplete != incomplete {
            Arc::make_mut(&mut self.objects).incomplete = incomplete;
            self.touch();
        }
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

/// The order of writes: what was chosen is there before what is published from it, a host is
/// reserved before its address is, the status comes last.
#[must_use]
pub fn wave(write: &Write) -> u8 {
    let is_balancer = write.key.group == meta::GROUP && write.key.kind == LoadBalancerSpec::KIND;
    match write.layer {
        Layer::Owned(_) | Layer::Marks if is_balancer => 0,
        Layer::Marks if write.key.ground() == Ground::Theirs => 1,
        Layer::Owned(_) | Layer::Marks => 2,
        Layer::Status => 3,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Name;

    fn key() -> ObjectKey {
        ObjectKey::new("cluster.x-k8s.io", "Machine", Name::new("ns", "m"))
    }

    fn object(uid: &str, version: &str) -> Value {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata":
            {"name": "m", "namespace": "ns", "uid": uid, "resourceVersion": version},
            "spec": {"at": version}})
    }

    fn write() -> Write {
        Write {
            key: key(),
            layer: Layer::Marks,
            content: None,
        }
    }

    fn realm() -> Realm {
        Realm {
            group: "cluster.x-k8s.io".to_owned(),
            kind: "Machine".to_owned(),
            namespace: None,
        }
    }

    fn version_of(cache: &Cache) -> String {
        cache.version_of(&key()).unwrap_or_default()
    }

    #[test]
    fn events_older_than_an_answer_are_passed_over() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.shows(&key(), object("u", "3"), now);
        cache.begin(&key());
        cache.wrote(&write(), object("u", "5"), now);
        assert_eq!(version_of(&cache), "5", "we read what we wrote");
        cache.shows(&key(), object("u", "4"), now);
        assert_eq!(version_of(&cache), "5");
        cache.shows(&key(), object("u", "5"), now);
        cache.shows(&key(), object("u", "6"), now);
        assert_eq!(version_of(&cache), "6");
    }

    #[test]
    fn a_watch_that_was_faster_than_the_answer_is_believed() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.shows(&key(), object("u", "3"), now);
        cache.begin(&key());
        cache.shows(&key(), object("u", "5"), now);
        cache.shows(&key(), object("u", "6"), now);
        cache.wrote(&write(), object("u", "5"), now);
        assert_eq!(version_of(&cache), "6");
        cache.shows(&key(), object("u", "7"), now);
        assert_eq!(version_of(&cache), "7", "nothing is awaited");
    }

    #[test]
    fn a_write_that_changed_nothing_awaits_nothing() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.shows(&key(), object("u", "3"), now);
        cache.begin(&key());
        cache.wrote(&write(), object("u", "3"), now);
        cache.shows(&key(), object("u", "4"), now);
        assert_eq!(version_of(&cache), "4");
    }

    #[test]
    fn what_is_never_shown_is_not_awaited_for_ever() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.begin(&key());
        cache.wrote(&write(), object("u", "5"), now);
        cache.shows(&key(), object("u", "8"), now + PATIENCE);
        assert_eq!(version_of(&cache), "8");
        // A watch that begins anew shows at least what was written before.
        cache.begin(&key());
        cache.wrote(&write(), object("u", "9"), now);
        cache.begins_anew(&realm());
        cache.listed(&realm(), vec![(key(), object("u", "12"))], now);
        assert_eq!(version_of(&cache), "12");
    }

    #[test]
    fn what_we_removed_does_not_come_back_and_its_successor_does() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.shows(&key(), object("u", "3"), now);
        cache.begin(&key());
        cache.wrote_removal(&key(), "u", now);
        cache.shows(&key(), object("u", "4"), now);
        assert_eq!(version_of(&cache), "");
        cache.shows(&key(), object("v", "6"), now);
        assert_eq!(version_of(&cache), "6");
        cache.gone(&key(), "u");
        assert_eq!(version_of(&cache), "6", "another one of the same name");
    }

    #[test]
    fn what_a_list_misses_is_gone_unless_it_was_just_written() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        let host = ObjectKey::new("kedge.dev", "EdgeHost", Name::new("ns", "h"));
        let hosts = Realm {
            group: "kedge.dev".to_owned(),
            kind: "EdgeHost".to_owned(),
            namespace: None,
        };
        let object = json!({"metadata": {"name": "h", "uid": "h", "resourceVersion": "1"}});
        cache.begins_anew(&hosts);
        cache.begin(&host);
        let written = Write {
            key: host.clone(),
            layer: Layer::Status,
            content: None,
        };
        cache.wrote(&written, object, now);
        cache.listed(&hosts, Vec::new(), now);
        assert!(cache.objects().get(&host).is_some(), "the list was older");
        cache.begins_anew(&hosts);
        cache.listed(&hosts, Vec::new(), now);
        assert!(cache.objects().get(&host).is_none());
    }

    #[test]
    fn nothing_is_complete_before_every_watch_has_told() {
        let mut cache = Cache::default();
        cache.expect();
        cache.expect();
        cache.heard();
        assert!(cache.objects().incomplete && !cache.is_complete());
        cache.heard();
        assert!(!cache.objects().incomplete && cache.is_complete());
    }
}
