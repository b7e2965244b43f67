//! The rules of what the operator orders: give, take, freeze, drain.

use kedge_core::vip::RouterState::*;

use super::bench::{
    Bench, HIGH, LOW, advert, assert_words, claim, link_down, mac, plain, priority,
};
use crate::vrrp::{Command, Config, Input, Members, Reject, Verdict};
use crate::wire::Addresses;

fn gated() -> Config {
    Config {
        gated: true,
        ..plain()
    }
}

fn frozen(config: Config) -> Config {
    Config {
        frozen: true,
        ..config
    }
}

fn drained(config: Config) -> Config {
    Config {
        drained: true,
        ..config
    }
}

fn set(bench: &mut Bench, millis: u64, change: fn(Config) -> Config) -> Vec<String> {
    let config = change(bench.router.config().clone());
    bench.input(millis, Input::Config(config))
}

/// An Active whose service answers, at 0 ms.
fn healthy_active(config: Config) -> Bench {
    let mut bench = Bench::active(config);
    bench.health(0, Verdict::Healthy);
    bench
}

#[test]
fn what_was_given_away_by_order_is_not_taken_back_by_preemption() {
    let mut bench = Bench::active(Config {
        preempt: true,
        ..plain()
    });
    bench.command(0, Command::HandOver);
    bench.advert(20, LOW, 210);
    bench.input(22, claim(mac(11)));
    assert!(bench.router.view().yielded);
    for millis in (100..20_000).step_by(100) {
        bench.run(millis);
        bench.advert(millis, LOW, 210);
    }
    assert_eq!(bench.state(), Backup);
    // Nobody else lives: it is taken all the same, and then the order is done with.
    bench.run(21_000);
    assert_eq!(bench.state(), Active);
    assert!(!bench.router.view().yielded);
}

#[test]
fn a_hand_over_that_nobody_takes_leaves_preemption_as_it_was() {
    let mut bench = Bench::active(Config {
        preempt: true,
        ..plain()
    });
    bench.command(0, Command::HandOver);
    bench.run(400);
    assert_eq!(bench.state(), Active);
    assert!(!bench.router.view().yielded);
}

#[test]
fn an_order_takes_the_vip_from_a_lower_active_once_though_preempt_is_off() {
    let mut bench = Bench::following(plain(), 200);
    assert!(bench.command(50, Command::Take).is_empty());
    // Our skew is 14 ms; adverts of the same Active do not postpone it.
    assert_eq!(bench.deadline(), Some(64.062));
    bench.advert(60, LOW, 200);
    assert_eq!(bench.deadline(), Some(64.062));
    let done = bench.run(65);
    assert_words(
        &done[..3],
        &[
            "send 220",
            "own",
            "Backup -> Active: the operator asked to have it here, and 10.20.14.11 (priority 200) \
             is below our priority 220",
        ],
    );
}

#[test]
fn an_order_does_not_take_the_vip_from_an_active_that_became_better() {
    let mut bench = Bench::following(plain(), 200);
    bench.command(50, Command::Take);
    bench.advert(60, LOW, 250);
    assert_eq!(bench.deadline(), Some(374.062));
    for millis in (100..2_000).step_by(100) {
        bench.run(millis);
        bench.advert(millis, LOW, 250);
    }
    assert_eq!(bench.state(), Backup);
}

#[test]
fn what_cannot_be_taken_is_refused_with_the_reason() {
    let take = |mut bench: Bench| bench.try_input(10, Input::Command(Command::Take));
    let refused = |bench, why| assert_eq!(take(bench), Err(why));
    refused(Bench::following(plain(), 220), Reject::NotBetter);
    refused(Bench::following(plain(), 254), Reject::NotBetter);
    // Unhealthy, we are at 29.
    refused(Bench::following(gated(), 200), Reject::NotBetter);
    refused(Bench::following(frozen(plain()), 200), Reject::Frozen);
    refused(Bench::following(drained(plain()), 200), Reject::WrongState);
    refused(Bench::started(plain()), Reject::WrongState);
    refused(Bench::active(plain()), Reject::WrongState);
}

#[test]
fn a_frozen_active_keeps_its_priority_and_refuses_to_give_the_vip_away() {
    let mut bench = healthy_active(gated());
    assert!(set(&mut bench, 5, frozen).is_empty());
    assert!(bench.health(10, Verdict::Failing).is_empty());
    assert_eq!(bench.router.priority().get(), 220);
    assert!(bench.router.view().pinned);
    let give = bench.try_input(20, Input::Command(Command::HandOver));
    assert_eq!(give, Err(Reject::Frozen));
    // What was held back counts when it thaws.
    let thaw = |config| Config {
        frozen: false,
        ..config
    };
    assert_words(
        &set(&mut bench, 30, thaw),
        &[
            "priority 220 -> 29: what lowers the priority counts again",
            "send 29",
        ],
    );
    assert_eq!(bench.state(), Active);
}

#[test]
fn a_frozen_active_that_took_over_ill_rises_and_does_not_fall_again() {
    let mut bench = Bench::active(frozen(gated()));
    assert_eq!(bench.router.priority().get(), 29);
    bench.health(10, Verdict::Healthy);
    bench.health(20, Verdict::Failing);
    assert_eq!(bench.router.priority().get(), 220);
}

#[test]
fn a_base_priority_configured_lower_counts_while_frozen() {
    let mut bench = healthy_active(frozen(gated()));
    bench.health(5, Verdict::Failing);
    let lower = |config| Config {
        priority: priority(200),
        ..config
    };
    set(&mut bench, 10, lower);
    assert_eq!(bench.router.priority().get(), 200);
}

#[test]
fn faults_and_better_actives_move_a_frozen_vip() {
    let mut bench = healthy_active(frozen(gated()));
    bench.health(5, Verdict::Failing);
    bench.advert(10, LOW, 254);
    assert_eq!(bench.state(), Backup);
    assert_eq!(bench.router.priority().get(), 29, "nothing is kept back");
    let mut bench = Bench::active(frozen(plain()));
    bench.input(10, link_down());
    assert_eq!(bench.state(), Fault);
    let mut bench = Bench::following(frozen(plain()), 254);
    bench.run(314);
    assert_eq!(bench.state(), Backup);
    bench.run(315);
    assert_eq!(bench.state(), Active, "a dead Active is replaced");
}

#[test]
fn a_frozen_backup_neither_preempts_nor_pulls() {
    let mut bench = Bench::started(frozen(Config {
        preempt: true,
        ..gated()
    }));
    bench.health(0, Verdict::Healthy);
    for millis in (0..5_000).step_by(100) {
        assert!(bench.run(millis).is_empty());
        assert!(bench.advert(millis, LOW, 40).is_empty());
    }
    assert_eq!(bench.state(), Backup);
}

#[test]
fn draining_gives_the_vip_away_before_the_priority_falls() {
    let mut bench = healthy_active(gated());
    assert_words(
        &set(&mut bench, 10, drained),
        &[
            "send 0",
            "Active -> Releasing: this host is drained",
            "priority 220 -> 1: this host is drained",
        ],
    );
    bench.advert(30, LOW, 200);
    bench.input(31, claim(mac(11)));
    assert_eq!(bench.state(), Backup);
}

#[test]
fn a_drained_host_holds_the_vip_when_nobody_else_does() {
    let mut bench = Bench::active(plain());
    set(&mut bench, 0, drained);
    assert_words(
        &bench.run(400)[3..6],
        &[
            "send 1",
            "own",
            "Releasing -> Active: no other router took over",
        ],
    );
    assert_eq!(bench.state(), Active);
    assert_eq!(bench.router.priority().get(), 1);
    // The same as a Backup: last of all, one skew of nearly an interval later.
    let mut bench = Bench::following(drained(plain()), 200);
    assert_eq!(bench.deadline(), Some(399.609));
    bench.run(400);
    assert_eq!(bench.state(), Active);
    bench.advert(410, LOW, 40);
    assert_eq!(bench.state(), Backup, "and gives it to whoever comes");
}

#[test]
fn a_member_relieves_a_drained_active_without_preemption_and_without_a_gate() {
    let mut bench = Bench::started(plain());
    assert!(bench.advert(0, LOW, 1).is_empty());
    assert_eq!(bench.deadline(), Some(14.062));
    bench.advert(10, LOW, 1);
    assert_eq!(bench.deadline(), Some(14.062));
    let done = bench.run(15);
    assert_eq!(
        done[2],
        "Backup -> Active: 10.20.14.11 (priority 1) is drained and stood in, and this host \
         (priority 220) is not"
    );
}

#[test]
fn nobody_relieves_a_drained_active_who_is_drained_frozen_or_of_a_mixed_group() {
    let mixed = Config {
        members: Members::Mixed {
            unhealthy: priority(50),
        },
        ..plain()
    };
    for config in [drained(plain()), frozen(plain()), mixed] {
        let mut bench = Bench::started(config);
        for millis in (0..2_000).step_by(100) {
            bench.run(millis);
            bench.advert(millis, HIGH, 1);
        }
        assert_eq!(bench.state(), Backup);
    }
}

#[test]
fn nobody_relieves_a_drained_active_of_other_addresses() {
    let mut bench = Bench::started(plain());
    let mut other = advert(LOW, 1);
    other.advert.addresses = Addresses::new(&[HIGH]).unwrap();
    for millis in (0..2_000).step_by(100) {
        bench.run(millis);
        bench.input(millis, Input::Advert(other.clone()));
    }
    assert_eq!(bench.state(), Backup);
}

#[test]
fn a_follower_leaves_relieving_to_its_leader() {
    let mut bench = Bench::started(Config {
        follows: true,
        ..plain()
    });
    bench.lead(0, Backup, 220);
    bench.advert(10, LOW, 1);
    assert_eq!(bench.deadline(), None);
}

#[test]
fn a_frozen_vip_is_drained_once_it_thaws() {
    let mut bench = Bench::active(frozen(plain()));
    assert!(set(&mut bench, 10, drained).is_empty());
    assert_eq!(bench.router.priority().get(), 220);
    let thaw = |config| Config {
        frozen: false,
        ..config
    };
    assert_eq!(set(&mut bench, 20, thaw)[0], "send 0");
    assert_eq!(bench.state(), Releasing);
}

#[test]
fn an_undrained_host_stays_backup_with_its_own_priority() {
    let mut bench = Bench::following(drained(plain()), 200);
    let undrain = |config| Config {
        drained: false,
        ..config
    };
    assert_words(
        &set(&mut bench, 10, undrain),
        &["priority 1 -> 220: this host is not drained any more"],
    );
    bench.advert(100, LOW, 200);
    assert_eq!((bench.state(), bench.deadline()), (Backup, Some(414.062)));
}

#[test]
fn the_owner_of_the_address_is_neither_drained_nor_released() {
    let mut bench = Bench::started(Config {
        owner: true,
        priority: priority(255),
        ..plain()
    });
    bench.owned();
    assert!(set(&mut bench, 10, drained).is_empty());
    assert_eq!(
        (bench.state(), bench.router.priority().get()),
        (Active, 255)
    );
}
