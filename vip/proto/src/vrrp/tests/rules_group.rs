//! The rules of VIPs that move together (R20).

use kedge_core::vip::RouterState::*;

use super::bench::{
    Bench, HIGH, LOW, PRIORITY, STRANGER, address, assert_words, claim, link_down, link_up, mac,
    plain, priority,
};
use crate::vrrp::{Command, Config, ConfigError, Input, Lead, Reject, Router, Tracked};
use crate::wire::Addresses;

fn follower() -> Config {
    Config {
        follows: true,
        ..plain()
    }
}

/// A follower that has listened for long.
fn waiting() -> Bench {
    let mut bench = Bench::started(follower());
    bench.run(1_000);
    bench.begin();
    bench
}

/// A follower whose leader is Active.
fn led() -> Bench {
    let mut bench = waiting();
    bench.lead(0, Active, PRIORITY);
    bench.owned();
    bench.begin();
    bench
}

#[test]
fn r20_a_follower_never_elects() {
    let mut bench = Bench::started(follower());
    assert_eq!((bench.state(), bench.deadline()), (Backup, None));
    bench.run(60_000);
    assert_eq!(bench.state(), Backup, "silence is no reason");
    bench.advert(60_001, LOW, 10);
    bench.advert(60_002, LOW, 0);
    bench.run(120_000);
    assert_eq!(bench.state(), Backup, "nor is a goodbye, or a lower Active");
    let mut active = led();
    assert!(
        active.advert(10, HIGH, 254).is_empty(),
        "nor is a better one"
    );
    assert_eq!(active.state(), Active);
}

#[test]
fn r20_a_follower_becomes_active_with_its_leader_at_the_leaders_priority() {
    let mut bench = waiting();
    assert_words(
        &bench.lead(10, Active, 240),
        &[
            "priority 220 -> 240: the leader of its group is Active",
            "send 240",
            "own",
            "Backup -> Active: the leader of its group is Active",
        ],
    );
    bench.owned();
    assert_words(
        &bench.lead(20, Active, 200),
        &[
            "priority 240 -> 200: the leader of its group is Active",
            "send 200",
        ],
    );
}

#[test]
fn r20_a_follower_yields_with_its_leader_and_speaks_once_more() {
    let mut bench = led();
    assert_words(
        &bench.lead(10, Backup, PRIORITY),
        &[
            "send 220",
            "disown",
            "Active -> Backup: the leader of its group is Backup",
        ],
    );
    assert_eq!(bench.deadline(), None);
}

#[test]
fn r20_a_follower_says_goodbye_with_its_leader_and_answers_until_it_is_succeeded() {
    let mut bench = led();
    assert_words(
        &bench.lead(0, Releasing, PRIORITY),
        &[
            "send 0",
            "Active -> Releasing: the leader of its group is Releasing",
        ],
    );
    // However long the leader waits.
    bench.run(2_000);
    assert_eq!(bench.state(), Releasing);
    let mut taken_back = bench.clone();
    assert_words(
        &taken_back.lead(2_000, Active, PRIORITY),
        &[
            "send 220",
            "own",
            "Releasing -> Active: the leader of its group is Active",
        ],
    );
    // The leader's successor announced first: this one's own is a moment behind.
    bench.lead(2_010, Backup, PRIORITY);
    assert_eq!(bench.state(), Releasing);
    bench.advert(2_011, LOW, 200);
    assert_words(
        &bench.input(2_012, claim(mac(11))),
        &[
            "disown",
            "Releasing -> Backup: 10.20.14.11 (priority 200) took over",
        ],
    );
}

#[test]
fn r20_a_successor_that_is_not_heard_is_waited_for_an_interval() {
    let mut bench = led();
    bench.lead(0, Releasing, PRIORITY);
    bench.lead(30, Backup, PRIORITY);
    bench.run(129);
    assert_eq!(bench.state(), Releasing);
    bench.run(130);
    assert_eq!(bench.state(), Backup);
}

#[test]
fn r20_a_follower_whose_leader_lost_its_link_says_goodbye() {
    for state in [Fault, Initialize] {
        let mut bench = led();
        let words = bench.lead(10, state, PRIORITY);
        assert_eq!(words[0], "send 0");
        assert_eq!(bench.state(), Releasing);
        bench.run(1_000);
        assert_eq!(bench.state(), Backup);
    }
}

#[test]
fn r20_a_member_that_cannot_hold_its_address_bars_all() {
    let mut bench = led();
    let own = Tracked {
        cost: 5,
        critical: false,
    };
    let told = |bench: &Bench| own.with_member(bench.router.view().tracked, bench.state());
    assert_eq!(told(&bench), own);
    bench.tracked(1, 20, false);
    assert_eq!(told(&bench).cost, 20);
    assert_eq!(
        bench.router.priority().get(),
        PRIORITY,
        "its leader counts that"
    );
    bench.input(10, link_down());
    assert_eq!(bench.state(), Fault);
    assert!(told(&bench).critical);
    // The leader has left; back it is once the link is.
    bench.lead(20, Fault, PRIORITY);
    bench.input(30, link_up());
    assert_eq!(bench.state(), Backup);
    assert!(!told(&bench).critical);
    bench.lead(40, Active, PRIORITY);
    bench.run(100);
    let answer = Input::Config(Config {
        addresses: Addresses::new(&[address(30)]).unwrap(),
        ..follower()
    });
    bench.input(101, answer);
    bench.refuse(102);
    assert_eq!(bench.state(), Fault);
    assert!(told(&bench).critical);
}

#[test]
fn r20_a_follower_that_waits_before_its_first_claim_is_not_hurried() {
    let mut bench = Bench::started(Config {
        first_claim: true,
        ..follower()
    });
    bench.lead(10, Active, PRIORITY);
    assert_eq!(bench.state(), Backup);
    let mut answered = bench.clone();
    bench.run(3_100);
    assert_eq!(bench.state(), Active);
    answered.input(20, claim(STRANGER));
    answered.run(3_100);
    assert_eq!(answered.state(), Fault, "a stranger has its address");
}

#[test]
fn r20_a_follower_that_stalled_is_told_again_before_it_holds_anything() {
    let mut bench = led();
    bench.timeout(5_000);
    assert_eq!((bench.state(), bench.router.lead()), (Backup, None));
    assert_eq!(bench.deadline(), None);
    bench.lead(5_001, Active, PRIORITY);
    assert_eq!(bench.state(), Active);
}

#[test]
fn r20_orders_go_to_the_leader_and_to_no_follower() {
    let mut bench = led();
    for order in [Command::HandOver, Command::Take] {
        let refused = bench.try_input(0, Input::Command(order));
        assert_eq!(refused.unwrap_err(), Reject::WrongState);
    }
    let drained = Config {
        drained: true,
        ..follower()
    };
    assert!(bench.input(10, Input::Config(drained)).is_empty());
    assert_eq!(bench.state(), Active);
}

#[test]
fn r20_a_follower_that_is_alone_from_here_on_elects_itself() {
    let mut bench = Bench::started(follower());
    let lead = Lead {
        state: Backup,
        priority: priority(240),
    };
    bench.input(0, Input::Lead(lead));
    bench.advert(100, LOW, 200);
    bench.input(200, Input::Config(plain()));
    assert_eq!(bench.router.priority().get(), PRIORITY);
    // As the advert it heard says, with the skew of the priority it was led at.
    assert_eq!(bench.deadline(), Some(406.25));
    let told = bench.try_input(210, Input::Lead(lead));
    assert_eq!(told, Err(Reject::NotFollowing));
    // Active it stays Active.
    let mut active = led();
    active.input(10, Input::Config(plain()));
    assert_eq!(active.state(), Active);
    active.command(20, Command::Stop);
    assert_eq!(active.state(), Releasing);
}

#[test]
fn the_owner_of_the_address_follows_nobody_and_the_rank_is_the_same_everywhere() {
    let config = Config {
        owner: true,
        priority: priority(255),
        ..follower()
    };
    assert_eq!(Router::new(config).unwrap_err(), ConfigError::OwnerFollows);
    let vrid = |value| kedge_core::vip::Vrid::new(value).unwrap();
    assert!(Lead::rank(false, vrid(200)) < Lead::rank(true, vrid(5)));
    assert!(Lead::rank(true, vrid(5)) < Lead::rank(true, vrid(6)));
}

#[test]
fn r20_a_leader_is_barred_by_its_own_track_a_members_or_a_members_fault() {
    let of = |critical| Tracked { cost: 0, critical };
    for (own, members, state, barred) in [
        (false, false, Active, false),
        (true, false, Active, true),
        (false, true, Active, true),
        (false, false, Fault, true),
    ] {
        let told = of(own).with_member(of(members), state);
        assert_eq!(told.critical, barred, "{own} {members} {state}");
    }
}

#[test]
fn r20_a_follower_knows_what_it_was_told_until_it_lets_go_by_itself() {
    let lead = |state| {
        let priority = priority(PRIORITY);
        Some(Lead { state, priority })
    };
    let mut bench = led();
    assert_eq!(bench.router.lead(), lead(Active));
    bench.lead(10, Releasing, PRIORITY);
    bench.advert(11, LOW, 200);
    bench.input(12, claim(mac(11)));
    assert_eq!(bench.state(), Backup);
    assert_eq!(bench.router.lead(), lead(Releasing), "as its leader does");

    let mut barred = led();
    barred.tracked(10, 0, true);
    barred.run(1_000);
    assert_eq!(barred.state(), Fault);
    assert_eq!(barred.router.lead(), None, "its leader is Active still");
}

#[test]
fn r20_a_follower_that_was_told_to_leave_is_not_called_back_nor_hurried() {
    let mut bench = led();
    bench.command(0, Command::Stop);
    assert_words(&bench.lead(10, Active, PRIORITY), &[]);
    assert_eq!(bench.state(), Releasing);
    bench.lead(20, Backup, PRIORITY);
    bench.run(399);
    assert_eq!(bench.state(), Releasing, "until any Backup must have acted");
    bench.run(400);
    assert_eq!(bench.state(), Initialize);
}

#[test]
fn r20_a_follower_that_must_not_hold_its_address_is_not_called_back() {
    let mut bench = led();
    bench.tracked(0, 0, true);
    assert_eq!(bench.state(), Releasing);
    bench.lead(10, Active, PRIORITY);
    assert_eq!(bench.state(), Releasing);
}
