use super::*;
use crate::{config::Announced, config::check::automatic_probe};

fn vip(name: &str, gated: bool) -> Anycast {
    Anycast {
        name: name.parse().unwrap(),
        addresses: vec!["192.0.2.10".parse().unwrap()],
        announced: Announced::default(),
        health: gated.then(automatic_probe),
        tracks: BTreeMap::new(),
        leaves: false,
    }
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn told(all: &Anycasts) -> Vec<bool> {
    all.routes().map(|route| route.leaving).collect()
}

fn stands(all: &Anycasts) -> bool {
    all.addresses().next().is_some()
}

#[test]
fn one_without_a_probe_is_told_at_once() {
    let mut all = Anycasts::default();
    let moved = all.want(at(0), &[vip("api", false)], Duration::ZERO);
    assert_eq!((moved[0].from, moved[0].to), (Phase::Off, Phase::Told));
    assert_eq!(
        (told(&all), stands(&all), all.deadline()),
        (vec![false], true, None)
    );
    assert!(
        all.want(at(1), &[vip("api", false)], Duration::ZERO)
            .is_empty()
    );
}

#[test]
fn health_tells_and_takes_back_and_the_address_goes_later() {
    let mut all = Anycasts::default();
    let name = "api".parse().unwrap();
    all.want(at(0), &[vip("api", true)], Duration::from_secs(9));
    assert!(told(&all).is_empty() && !stands(&all), "nothing is known");
    assert!(
        all.judge(at(1), &name, Verdict::Unproven, "no answer yet")
            .is_empty()
    );
    assert_eq!(all.shown().next().unwrap().because, "no answer yet");
    all.judge(at(2), &name, Verdict::Healthy, "it answers");
    assert_eq!((told(&all), stands(&all)), (vec![false], true));
    // Illness does not wait for `graceful_shutdown`.
    let moved = all.judge(at(10), &name, Verdict::Failing, "it fails");
    assert_eq!(moved[0].because, "it fails");
    assert!(told(&all).is_empty() && stands(&all));
    assert_eq!(all.deadline(), Some(at(10) + LINGER));
    assert!(all.settle(at(1_009)).is_empty());
    all.settle(at(1_010));
    assert!(!stands(&all));
    assert_eq!(all.deadline(), None);
    // It recovers while the address still stands.
    all.judge(at(2_000), &name, Verdict::Healthy, "it answers");
    all.judge(at(2_001), &name, Verdict::Failing, "it fails");
    all.judge(at(2_002), &name, Verdict::Healthy, "it answers");
    assert_eq!(
        (told(&all), stands(&all), all.deadline()),
        (vec![false], true, None)
    );
}

#[test]
fn a_critical_track_that_fails_takes_the_route_back() {
    let mut all = Anycasts::default();
    let name = "api".parse().unwrap();
    all.want(at(0), &[vip("api", false)], Duration::ZERO);
    let moved = all.heed(at(5), &name, "track up: eth1 has no carrier");
    assert_eq!(moved[0].because, "track up: eth1 has no carrier");
    assert!(told(&all).is_empty());
    all.heed(at(6), &name, "");
    assert_eq!(told(&all), [false]);
}

#[test]
fn a_drained_host_says_that_the_route_goes_before_it_does() {
    let mut all = Anycasts::default();
    let graceful = Duration::from_millis(500);
    let mut api = vip("api", false);
    all.want(at(0), &[api.clone()], graceful);
    api.leaves = true;
    all.want(at(100), &[api.clone()], graceful);
    assert_eq!((told(&all), all.deadline()), (vec![true], Some(at(600))));
    all.settle(at(599));
    assert_eq!(told(&all), [true]);
    all.settle(at(600));
    assert!(told(&all).is_empty() && stands(&all));
    all.settle(at(1_600));
    assert!(!stands(&all));
    // Without it the route goes at once, and `undrain` brings it back.
    api.leaves = false;
    all.want(at(2_000), &[api.clone()], Duration::ZERO);
    assert_eq!(told(&all), [false]);
    api.leaves = true;
    all.want(at(2_001), &[api], Duration::ZERO);
    assert!(told(&all).is_empty() && stands(&all));
}

#[test]
fn one_that_is_not_wanted_any_more_goes_in_order_and_is_forgotten() {
    let mut all = Anycasts::default();
    let name = "api".parse().unwrap();
    all.want(at(0), &[vip("api", false)], Duration::from_secs(9));
    all.want(at(1), &[], Duration::from_secs(9));
    assert!(told(&all).is_empty() && stands(&all) && all.has(&name));
    all.settle(at(1_001));
    assert!(!stands(&all) && !all.has(&name));
}
