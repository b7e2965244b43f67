use super::*;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn heard(name: &str, last: Option<u64>) -> Heard {
    Heard {
        name: name.to_owned(),
        last: last.map(at),
        lost: None,
    }
}

fn wall(at: Instant) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(at.as_nanos())
}

fn observe(hosts: &mut Hosts, now: Instant, heard: impl IntoIterator<Item = Heard>) -> Vec<Change> {
    hosts.observe(now, wall(now), heard)
}

fn host(name: &str, alive: bool, because: &str) -> Change {
    Change::Host {
        name: name.to_owned(),
        alive,
        because: because.to_owned(),
    }
}

#[test]
fn a_host_lives_as_long_as_its_data_is_younger_than_the_bound() {
    let mut hosts = Hosts::default();
    assert_eq!(
        observe(&mut hosts, at(0), [heard("a", None)]),
        [host(
            "a",
            false,
            "no authenticated data has come through the tunnel yet"
        )]
    );
    assert_eq!(
        observe(&mut hosts, at(1_000), [heard("a", Some(900))]),
        [host(
            "a",
            true,
            "authenticated data arrives through the tunnel"
        )]
    );
    assert_eq!(
        observe(&mut hosts, at(2_000), [heard("a", Some(1_900))]),
        []
    );
    assert_eq!(hosts.get("a").unwrap().since, wall(at(1_000)));
    assert_eq!(
        observe(&mut hosts, at(4_899), [heard("a", Some(1_900))]),
        []
    );
    assert_eq!(
        observe(&mut hosts, at(4_900), [heard("a", Some(1_900))]),
        [host("a", false, "no authenticated data for 3 s")]
    );
    assert_eq!(
        observe(&mut hosts, at(9_000), [heard("a", Some(1_900))]),
        []
    );
    assert_eq!(hosts.get("a").unwrap().since, wall(at(4_900)));
    assert_eq!(
        observe(&mut hosts, at(9_100), [heard("a", Some(9_100))]).len(),
        1
    );
}

#[test]
fn a_host_that_bfd_lost_is_dead_until_it_is_heard_again() {
    let mut hosts = Hosts::default();
    let lost = |last| Heard {
        lost: Some(at(1_500)),
        ..heard("a", Some(last))
    };
    observe(&mut hosts, at(1_000), [heard("a", Some(900))]);
    assert_eq!(
        observe(&mut hosts, at(1_500), [lost(900)]),
        [host("a", false, "BFD lost it, and nothing has come since")]
    );
    assert_eq!(observe(&mut hosts, at(9_000), [lost(1_500)]), []);
    // Only BFD is gone: then it is as without.
    let alive = "authenticated data arrives through the tunnel";
    assert_eq!(
        observe(&mut hosts, at(9_100), [lost(9_050)]),
        [host("a", true, alive)]
    );
    assert_eq!(observe(&mut hosts, at(12_000), [lost(9_050)]), []);
    assert_eq!(
        observe(&mut hosts, at(12_050), [lost(9_050)]),
        [host("a", false, "no authenticated data for 3 s")]
    );
}

#[test]
fn hosts_that_are_no_peers_any_more_are_told() {
    let mut hosts = Hosts::default();
    observe(
        &mut hosts,
        at(0),
        [heard("a", Some(0)), heard("b", Some(0))],
    );
    let gone = Change::Gone {
        name: "a".to_owned(),
    };
    assert_eq!(observe(&mut hosts, at(1), [heard("b", Some(0))]), [gone]);
    assert_eq!(hosts.iter().count(), 1);
}

#[test]
fn a_clock_that_stood_still_or_data_from_the_future_kill_nobody() {
    let mut hosts = Hosts::default();
    observe(&mut hosts, at(100), [heard("a", Some(100))]);
    assert_eq!(observe(&mut hosts, at(100), [heard("a", Some(5_000))]), []);
    assert!(hosts.get("a").unwrap().alive);
}
