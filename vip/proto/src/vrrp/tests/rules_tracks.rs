//! The rules about what is tracked: priorities that are lowered, and VIPs that must not be here.

use kedge_core::vip::RouterState::*;

use super::bench::{
    Bench, HIGH, LOW, PRIORITY, STRANGER, assert_words, claim, link_down, link_up, mac, plain,
    priority,
};
use crate::vrrp::{Command, Config, Input, Members, Tracked, Verdict};

fn mixed(base: u8, unhealthy: u8) -> Config {
    Config {
        gated: true,
        priority: priority(base),
        members: Members::Mixed {
            unhealthy: priority(unhealthy),
        },
        ..plain()
    }
}

#[test]
fn failed_tracks_lower_the_priority_and_only_health_crosses_the_band() {
    let gated = Config {
        gated: true,
        ..plain()
    };
    for (config, verdict, cost, expected) in [
        (plain(), Verdict::Unproven, 20, 200),
        (plain(), Verdict::Unproven, 200, 192),
        (plain(), Verdict::Unproven, 65_535, 192),
        (gated.clone(), Verdict::Healthy, 20, 200),
        // The order among unhealthy hosts is that among healthy ones.
        (gated.clone(), Verdict::Failing, 20, 9),
        (gated, Verdict::Failing, 200, 1),
        (mixed(150, 50), Verdict::Healthy, 20, 130),
        (mixed(150, 50), Verdict::Healthy, 149, 1),
        (mixed(150, 50), Verdict::Healthy, 500, 1),
        (mixed(150, 50), Verdict::Failing, 20, 50),
        (mixed(150, 50), Verdict::Failing, 120, 30),
    ] {
        let mut bench = Bench::started(config);
        bench.health(0, verdict);
        bench.tracked(0, cost, false);
        let found = bench.router.priority().get();
        assert_eq!(found, expected, "{:?} {verdict} less {cost}", bench.router);
        bench.tracked(0, 0, false);
        bench.health(0, Verdict::Healthy);
        assert_eq!(bench.router.priority(), bench.router.config().priority);
    }
}

#[test]
fn a_lowered_priority_is_advertised_at_once_and_drops_nothing() {
    let mut bench = Bench::active(plain());
    assert_words(
        &bench.tracked(10, 20, false),
        &["priority 220 -> 200: what is tracked changed", "send 200"],
    );
    assert!(bench.tracked(20, 20, false).is_empty(), "once");
    assert_words(
        &bench.tracked(30, 0, false),
        &["priority 200 -> 220: what is tracked changed", "send 220"],
    );
    assert_eq!(bench.state(), Active);
}

#[test]
fn a_lowered_active_yields_to_a_backup_that_preempts_and_takes_it_back_with_preemption() {
    let preempting = || Config {
        preempt: true,
        ..plain()
    };
    let mut bench = Bench::active(preempting());
    bench.tracked(0, 20, false);
    assert_eq!(bench.state(), Active, "nobody else asked");
    bench.advert(50, LOW, 210);
    assert_eq!(bench.state(), Backup);
    bench.tracked(100, 0, false);
    for millis in (150..=450).step_by(100) {
        bench.advert(millis, LOW, 210);
    }
    bench.run(470);
    assert_eq!(bench.state(), Active);
}

#[test]
fn without_preemption_a_lowered_active_is_followed() {
    let mut bench = Bench::following(plain(), 250);
    bench.advert(100, LOW, 200);
    assert_eq!(bench.deadline(), Some(414.062), "RFC 9568 section 6.4.2");
}

#[test]
fn an_active_that_loses_a_critical_track_says_goodbye_and_answers_until_it_is_succeeded() {
    let mut bench = Bench::active(plain());
    assert_words(
        &bench.tracked(10, 0, true),
        &["send 0", "Active -> Releasing: a critical track failed"],
    );
    bench.advert(30, LOW, 200);
    assert_words(
        &bench.input(31, claim(mac(11))),
        &["disown", "Releasing -> Fault: a critical track failed"],
    );
    assert_eq!(bench.deadline(), None, "it claims nothing");
    assert!(bench.advert(40, LOW, 10).is_empty());
}

#[test]
fn without_a_successor_the_address_goes_all_the_same() {
    let mut bench = Bench::active(plain());
    bench.tracked(0, 0, true);
    let done = bench.run(10_000);
    assert_eq!(
        done.iter().filter(|word| *word == "send 0").count(),
        3,
        "{done:?}"
    );
    assert_words(
        &done[done.len() - 2..],
        &["disown", "Releasing -> Fault: a critical track failed"],
    );
}

#[test]
fn a_track_that_comes_back_while_the_vip_is_given_away_leaves_it_to_the_successor() {
    let mut bench = Bench::active(plain());
    bench.tracked(0, 0, true);
    bench.tracked(5, 0, false);
    assert_eq!(bench.state(), Releasing);
    let mut alone = bench.clone();
    bench.advert(10, LOW, 200);
    bench.run(150);
    assert_eq!(bench.state(), Backup);
    alone.run(500);
    assert_eq!(alone.state(), Active, "nobody else wants it");
}

#[test]
fn a_critical_track_that_is_back_means_listening_for_a_full_down_interval() {
    let mut bench = Bench::started(plain());
    assert_words(
        &bench.tracked(100, 0, true),
        &["Backup -> Fault: a critical track failed"],
    );
    assert_eq!(bench.deadline(), None);
    assert_words(
        &bench.tracked(5_000, 0, false),
        &["Fault -> Backup: no critical track fails any more"],
    );
    assert_eq!(bench.deadline(), Some(5_314.062));
}

#[test]
fn a_router_that_starts_with_a_lost_critical_track_never_takes_part() {
    let mut bench = Bench::new(plain());
    bench.input(0, link_up());
    bench.tracked(0, 0, true);
    bench.command(0, Command::Start);
    assert_eq!((bench.state(), bench.deadline()), (Fault, None));
    // Nor after its link was gone meanwhile.
    bench.input(10, link_down());
    bench.input(20, link_up());
    assert_eq!(bench.state(), Fault);
    bench.tracked(30, 0, false);
    assert_eq!(bench.state(), Backup);
}

#[test]
fn a_critical_track_is_remembered_behind_every_other_fault() {
    let mut bench = Bench::active(plain());
    bench.tracked(0, 0, true);
    bench.command(5, Command::Stop);
    assert_eq!(bench.state(), Releasing);
    bench.run(500);
    assert_eq!(bench.state(), Initialize, "leaving for good is stronger");
    let mut no_link = Bench::active(plain());
    no_link.input(0, link_down());
    no_link.tracked(1, 0, true);
    no_link.input(2, link_up());
    assert_eq!((no_link.state(), no_link.deadline()), (Fault, None));
    let mut in_use = Bench::started(Config {
        first_claim: true,
        ..plain()
    });
    in_use.input(0, claim(STRANGER));
    in_use.run(500);
    assert_eq!(in_use.state(), Fault);
    in_use.tracked(600, 0, true);
    in_use.advert(700, LOW, 200);
    assert_eq!((in_use.state(), in_use.deadline()), (Fault, None));
}

#[test]
fn the_owner_of_the_address_is_bound_by_no_track() {
    let mut bench = Bench::active(Config {
        owner: true,
        priority: priority(255),
        ..plain()
    });
    assert!(bench.tracked(0, 100, true).is_empty());
    assert_eq!(
        (bench.state(), bench.router.priority().get()),
        (Active, 255)
    );
    // What it forgets as owner it knows as a member.
    let member = Input::Config(plain());
    bench.input(10, member);
    assert_eq!(bench.state(), Releasing);
    assert_eq!(bench.router.priority().get(), 192);
    assert_eq!(
        bench.router.view().tracked,
        Tracked {
            cost: 100,
            critical: true
        }
    );
}

#[test]
fn a_better_advert_beats_a_lowered_priority_at_once() {
    let mut bench = Bench::active(plain());
    bench.advert(5, HIGH, PRIORITY - 10);
    assert_eq!(bench.state(), Active);
    bench.tracked(10, 20, false);
    bench.advert(20, HIGH, PRIORITY - 10);
    assert_eq!(bench.state(), Backup);
}
