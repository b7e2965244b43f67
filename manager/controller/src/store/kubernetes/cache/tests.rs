use serde_json::{Value, json};

use super::*;
use crate::store::{Layer, Name, kubernetes::layers::split};

fn key() -> ObjectKey {
    ObjectKey::new("cluster.x-k8s.io", "Machine", Name::new("ns", "m"))
}

fn object(uid: &str, version: &str) -> Seen {
    seen(
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata":
        {"name": "m", "namespace": "ns", "uid": uid, "resourceVersion": version},
        "spec": {"at": version}}),
    )
}

fn seen(object: Value) -> Seen {
    split(&key(), serde_json::from_value(object).unwrap())
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
fn what_is_written_while_a_watch_begins_anew_is_asked_for_if_the_list_has_another_version() {
    for (listed, asked) in [("12", "12"), ("5", "9")] {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.shows(&key(), object("u", "3"), now);
        cache.begins_anew(&realm());
        cache.begin(&key());
        cache.wrote(&write(), object("u", "9"), now);
        // Older than what was written, or newer: nothing tells, and no watch shows it again.
        let unclear = cache.listed(&realm(), vec![(key(), object("u", listed))], now);
        assert_eq!(unclear, [key()]);
        assert_eq!(version_of(&cache), "9");
        cache.answered(&key(), object("u", asked), now);
        assert_eq!(version_of(&cache), asked);
        cache.shows(&key(), object("u", "13"), now);
        assert_eq!(version_of(&cache), "13", "nothing is awaited");
    }
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
    let doubted = cache.listed(&realm(), vec![(key(), object("u", "12"))], now);
    assert!(doubted.is_empty());
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
    let object = seen(json!({"metadata": {"name": "h", "uid": "h", "resourceVersion": "1"}}));
    cache.begins_anew(&hosts);
    cache.begin(&host);
    let written = Write {
        key: host.clone(),
        layer: Layer::Status,
        content: None,
    };
    cache.wrote(&written, object, now);
    assert!(cache.listed(&hosts, Vec::new(), now).is_empty());
    assert!(cache.objects().get(&host).is_some(), "the list was older");
    // The server may have looked before the write, and told after it.
    cache.begins_anew(&hosts);
    assert_eq!(
        cache.listed(&hosts, Vec::new(), now),
        std::slice::from_ref(&host)
    );
    assert!(cache.objects().get(&host).is_some(), "it is asked for");
    cache.missed(&host);
    assert!(cache.objects().get(&host).is_none());
    // What was shown since is known to be older than a list that misses it.
    let object = seen(json!({"metadata": {"name": "h", "uid": "i", "resourceVersion": "2"}}));
    cache.shows(&host, object, now);
    cache.missed(&host);
    assert!(cache.objects().get(&host).is_some(), "it came meanwhile");
    cache.begins_anew(&hosts);
    assert!(cache.listed(&hosts, Vec::new(), now).is_empty());
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
