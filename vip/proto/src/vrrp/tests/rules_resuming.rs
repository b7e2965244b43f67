//! An agent that takes the place of another: who keeps the VIP meanwhile, and how it goes on, one
//! test each.

use std::time::Duration;

use kedge_core::vip::{
    Priority,
    RouterState::{Active, Backup, Fault},
};

use super::bench::{Bench, HIGH, LOW, assert_words, link_down, link_up, plain};
use crate::vrrp::{Command, Input, Members, Reject, Router};

/// A router that stood aside `silent` ms after its last advert at 1 000 ms, and is stood in for.
fn caretaker(silent: u64, priority: u8) -> Bench {
    let (mut bench, now, orphan) = Bench::ended(silent);
    let mut config = plain();
    config.members = Members::Mixed {
        unhealthy: Priority::new(1).unwrap(),
    };
    config.priority = Priority::new(254).unwrap();
    let priority = Priority::new(priority).unwrap();
    bench.router = Router::caretaker(now, config, orphan, priority).unwrap();
    let kept = ["Initialize -> Active: the agent is being replaced"];
    assert_words(&bench.drain()[..1], &kept);
    bench
}

/// Only the adverts.
fn sends(mut words: Vec<String>) -> Vec<String> {
    words.retain(|word| word.starts_with("send"));
    words
}

#[test]
fn the_next_advert_comes_when_it_would_have_and_says_the_same() {
    for priority in [1, 17, 200, 254] {
        let mut bench = caretaker(70, priority);
        assert!(bench.router.view().held);
        assert_eq!(bench.router.priority().get(), priority);
        let sent = format!("send {priority}");
        assert_words(&sends(bench.run(1_029)), &[]);
        assert_words(&sends(bench.run(1_030)), &[&sent]);
        assert_words(&sends(bench.run(1_130)), &[&sent]);
    }
}

#[test]
fn a_better_router_is_yielded_to_and_a_lower_one_is_not() {
    let mut bench = caretaker(70, 200);
    bench.advert(1_010, LOW, 190);
    assert_eq!(bench.state(), Active);
    bench.advert(1_020, HIGH, 210);
    assert_eq!(bench.state(), Backup);
}

#[test]
fn one_that_was_silent_for_too_long_is_not_stood_in_for() {
    let mut bench = caretaker(301, 200);
    let words = bench.timeout(1_000);
    assert!(words.iter().any(|it| it == "disown"), "{words:?}");
    assert_words(&sends(words), &[]);
    assert_eq!(bench.state(), Backup);
}

#[test]
fn whoever_goes_on_is_active_at_once_and_asks_nobody() {
    let mut config = plain();
    config.first_claim = true;
    config.startup_wait = Duration::from_secs(3);
    let mut bench = Bench::new(config);
    bench.input(0, link_up());
    let words = [
        "send 220",
        "own",
        "Initialize -> Active: the agent before this one had it",
    ];
    assert_words(&bench.command(0, Command::Resume), &words);
    let again = bench.try_input(0, Input::Command(Command::Resume));
    assert_eq!(again, Err(Reject::WrongState));
    bench.owned();
    assert_words(&sends(bench.run(100)), &["send 220"]);
}

#[test]
fn whoever_goes_on_and_is_overruled_waits_before_it_preempts() {
    let mut config = plain();
    config.preempt = true;
    config.preempt_delay = Duration::from_secs(10);
    let mut bench = Bench::new(config);
    bench.input(0, link_up());
    bench.command(0, Command::Resume);
    bench.owned();
    bench.advert(10, HIGH, 230);
    assert_eq!(bench.state(), Backup);
    for millis in (100..5_000).step_by(100) {
        bench.run(millis);
        bench.advert(millis, HIGH, 100);
    }
    assert_eq!(bench.state(), Backup);
}

#[test]
fn what_speaks_against_it_makes_it_begin_as_any_other() {
    let mut barred = Bench::new(plain());
    barred.input(0, link_up());
    barred.tracked(0, 0, true);
    barred.command(0, Command::Resume);
    assert_eq!(barred.state(), Fault);
    let mut alone = Bench::new(plain());
    alone.input(0, link_down());
    alone.command(0, Command::Resume);
    assert_eq!(alone.state(), Fault);
}

#[test]
fn a_follower_goes_on_if_its_leader_does() {
    let mut config = plain();
    config.follows = true;
    let mut follower = Bench::new(config);
    follower.input(0, link_up());
    let mut other = follower.clone();
    follower.lead(0, Active, 210);
    follower.command(0, Command::Resume);
    assert_eq!(follower.state(), Active);
    other.lead(0, Backup, 210);
    other.command(0, Command::Resume);
    assert_eq!(other.state(), Backup);
}
