//! The rules of what hosts tell each other beside adverts.

use kedge_core::vip::RouterState::*;

use super::bench::{Bench, HIGH, LOW, assert_words, plain, priority};
use crate::vrrp::{Command, Config, Input, Reject};

fn gone(address: std::net::IpAddr) -> Input {
    Input::PeerGone { address }
}

#[test]
fn the_end_of_the_actives_process_leaves_it_one_more_advert() {
    let mut bench = Bench::following(plain(), 254);
    bench.advert(100, LOW, 254);
    assert_eq!(
        bench.deadline(),
        Some(414.062),
        "three adverts and our skew"
    );
    assert!(bench.input(110, gone(LOW)).is_empty());
    assert_eq!(bench.deadline(), Some(224.062), "one advert and our skew");
    let done = bench.run(225);
    assert_words(
        &done[..3],
        &[
            "send 220",
            "own",
            "Backup -> Active: the process of 10.20.14.11 (priority 254) ended, which broke its \
             connection, and nothing was heard since",
        ],
    );
}

#[test]
fn an_advert_after_that_counts_as_ever() {
    let mut bench = Bench::following(plain(), 254);
    bench.input(10, gone(LOW));
    bench.advert(100, LOW, 254);
    assert_eq!(bench.deadline(), Some(414.062));
    assert!(bench.run(224).is_empty());
    assert_eq!(bench.state(), Backup);
}

#[test]
fn it_never_lengthens_the_wait() {
    let mut bench = Bench::following(plain(), 254);
    for millis in [250, 300] {
        bench.input(millis, gone(LOW));
        assert_eq!(bench.deadline(), Some(314.062));
    }
    // A goodbye came first: that is sooner.
    let mut bench = Bench::following(plain(), 254);
    bench.advert(10, LOW, 0);
    let before = bench.deadline();
    bench.input(11, gone(LOW));
    assert_eq!(bench.deadline(), before);
}

#[test]
fn what_hastens_nothing_is_no_cause() {
    let mut bench = Bench::following(plain(), 254);
    bench.input(200, gone(LOW));
    assert_eq!(bench.deadline(), Some(314.062), "one advert is left anyway");
    let done = bench.run(315);
    assert!(!done[2].contains("ended"), "{}", done[2]);
}

#[test]
fn only_the_process_of_the_active_that_is_followed_counts() {
    let mut bench = Bench::following(plain(), 254);
    let before = bench.deadline();
    bench.input(10, gone(HIGH));
    assert_eq!(bench.deadline(), before);
    let mut bench = Bench::active(plain());
    bench.input(10, gone(LOW));
    assert_eq!(bench.state(), Active);
    assert!(bench.input(10, gone(LOW)).is_empty());
}

#[test]
fn the_next_takes_the_vip_at_the_goodbye_without_its_skew() {
    let lowest = Config {
        priority: priority(192),
        ..plain()
    };
    let mut bench = Bench::following(lowest, 254);
    assert!(bench.command(10, Command::Succeed).is_empty());
    // What the Active advertises meanwhile changes nothing about it.
    bench.advert(100, LOW, 254);
    assert_eq!(bench.state(), Backup);
    bench.advert(120, LOW, 0);
    let done = bench.run(120);
    assert_words(
        &done[..3],
        &[
            "send 192",
            "own",
            "Backup -> Active: 10.20.14.11 handed it over to this host",
        ],
    );
}

#[test]
fn who_was_to_be_the_next_is_one_of_many_two_seconds_later() {
    let mut bench = Bench::following(plain(), 254);
    bench.command(0, Command::Succeed);
    for millis in (0..=2_100).step_by(100) {
        bench.advert(millis, LOW, 254);
    }
    bench.advert(2_120, LOW, 0);
    assert!(bench.run(2_120).is_empty());
    assert_eq!(bench.deadline(), Some(2_134.062), "our skew");
}

#[test]
fn nobody_is_the_next_who_may_not_hold_the_vip_or_holds_it() {
    let next = |mut bench: Bench| bench.try_input(10, Input::Command(Command::Succeed));
    let drained = Config {
        drained: true,
        ..plain()
    };
    let frozen = Config {
        frozen: true,
        ..plain()
    };
    assert_eq!(next(Bench::active(plain())), Err(Reject::WrongState));
    assert_eq!(
        next(Bench::following(drained, 254)),
        Err(Reject::WrongState)
    );
    assert_eq!(next(Bench::following(frozen, 254)), Err(Reject::Frozen));
    assert_eq!(next(Bench::started(plain())), Err(Reject::WrongState));
}

#[test]
fn a_goodbye_of_anybody_else_is_not_for_the_next() {
    let mut bench = Bench::following(plain(), 254);
    bench.command(0, Command::Succeed);
    bench.advert(10, HIGH, 0);
    assert!(bench.run(20).is_empty());
    assert_eq!(bench.state(), Backup);
}
