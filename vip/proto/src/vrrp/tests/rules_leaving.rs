//! The rules of stalls, hand-over, link and reload (R13 to R17), one test each.

use std::time::Duration;

use kedge_core::vip::{AdvertInterval, RouterState::*};

use super::bench::{
    Bench, LOW, VIP, address, announced, assert_words, claim, link_down, link_up, mac, plain,
    priority,
};
use crate::{
    vrrp::{Command, Config, ConfigError, Input, Reject},
    wire::Addresses,
};

#[test]
fn r13_a_late_advert_keeps_the_schedule_and_is_never_a_burst() {
    let mut bench = Bench::active(plain());
    bench.run(1_000);
    let sent = bench.timeout(1_290);
    assert_eq!(sent.iter().filter(|word| *word == "send 220").count(), 1);
    assert_eq!(bench.deadline(), Some(1_300.0));
}

#[test]
fn r13_an_active_that_stalled_lets_go_before_anything_leaves() {
    let stalled = "Active -> Backup: this host sent no advert for 301 ms, so another may hold it";
    let mut bench = Bench::active(plain());
    bench.run(1_000);
    assert_words(&bench.timeout(1_301), &["disown", stalled]);
    assert_eq!(bench.deadline(), Some(1_615.062));
    // The same when an input comes first: a lower advert must not be answered.
    let mut bench = Bench::active(plain());
    bench.run(1_000);
    assert_words(&bench.advert(1_301, LOW, 200), &["disown", stalled]);
    assert_eq!(bench.router.view().stats.stalls, 1);
}

#[test]
fn r13_three_intervals_exactly_are_not_a_stall() {
    let mut bench = Bench::active(plain());
    bench.run(1_000);
    bench.timeout(1_300);
    assert_eq!(bench.state(), Active);
}

#[test]
fn r13_a_backup_that_slept_past_its_deadline_hears_first_who_is_there() {
    let overslept = "Backup -> Backup: this host woke up 302 ms late, and hears first who holds it";
    let slept = || {
        let mut bench = Bench::following(plain(), 230);
        // down_at was 314 ms.
        assert_words(&bench.timeout(617), &[overslept]);
        assert_eq!((bench.state(), bench.deadline()), (Backup, Some(931.062)));
        assert_eq!(bench.router.view().stats.stalls, 1);
        bench
    };
    // The Active was there all the time.
    let mut bench = slept();
    bench.advert(650, LOW, 230);
    bench.timeout(932);
    assert_eq!(bench.state(), Backup);
    // It was not.
    let mut bench = slept();
    bench.timeout(932);
    assert_eq!(bench.state(), Active);
}

#[test]
fn r13_a_backup_that_is_three_intervals_late_takes_over() {
    let mut bench = Bench::following(plain(), 230);
    bench.timeout(614);
    assert_eq!(bench.state(), Active);
}

#[test]
fn r13_a_host_that_slept_before_its_first_claim_probes_again() {
    let mut bench = Bench::new(plain());
    bench.input(0, link_up());
    bench.command(0, Command::Start);
    let sent = bench.timeout(10_000);
    assert!(
        sent.iter().any(|word| word.contains("hears first")),
        "{sent:?}"
    );
    assert_eq!(bench.state(), Backup);
}

#[test]
fn r14_a_leaving_active_says_goodbye_each_interval_and_keeps_the_address() {
    let mut bench = Bench::active(plain());
    assert_words(
        &bench.command(0, Command::Stop),
        &["send 0", "Active -> Releasing: the agent was told to leave"],
    );
    assert!(bench.router.view().held);
    let done = bench.run(399);
    assert_words(&done, &["send 0", "send 0", "send 0"]);
    // Without a successor it answers until the slowest Backup must have acted.
    assert_words(
        &bench.run(400),
        &[
            "disown",
            "Releasing -> Initialize: no other router took over",
        ],
    );
}

#[test]
fn r14_a_leaving_active_lets_go_when_the_successor_announces() {
    let mut bench = Bench::active(plain());
    bench.command(0, Command::Stop);
    assert_words(&bench.input(5, claim(mac(11))), &[]);
    assert_words(&bench.advert(20, LOW, 210), &[]);
    assert_words(&bench.input(21, claim(mac(66))), &[]);
    assert_words(
        &bench.input(22, claim(mac(11))),
        &[
            "disown",
            "Releasing -> Initialize: 10.20.14.11 (priority 210) took over",
        ],
    );
}

#[test]
fn r14_all_addresses_must_have_been_announced() {
    let other = address(20);
    let addresses = Addresses::new(&[VIP, other]).unwrap();
    let mut bench = Bench::active(Config {
        addresses,
        ..plain()
    });
    bench.command(0, Command::Stop);
    bench.advert(20, LOW, 210);
    bench.input(21, claim(mac(11)));
    assert_eq!(bench.state(), Releasing);
    bench.input(22, announced(other, mac(11)));
    assert_eq!(bench.state(), Initialize);
}

#[test]
fn r14_an_unheard_announcement_is_waited_for_one_interval_and_goodbyes_end() {
    let mut bench = Bench::active(plain());
    bench.command(0, Command::Stop);
    bench.advert(20, LOW, 210);
    assert_eq!(bench.deadline(), Some(120.0));
    assert_words(
        &bench.run(120),
        &[
            "disown",
            "Releasing -> Initialize: 10.20.14.11 (priority 210) took over",
        ],
    );
}

#[test]
fn r14_a_hand_over_ends_as_backup_of_the_successor() {
    let mut bench = Bench::active(plain());
    bench.command(0, Command::HandOver);
    bench.advert(20, LOW, 210);
    bench.input(22, claim(mac(11)));
    assert_eq!((bench.state(), bench.deadline()), (Backup, Some(336.062)));
    assert_eq!(bench.router.view().active.unwrap().address, LOW);
}

#[test]
fn r14_a_hand_over_that_nobody_takes_is_taken_back() {
    let mut bench = Bench::active(plain());
    bench.command(0, Command::HandOver);
    bench.run(399);
    assert_words(
        &bench.timeout(400),
        &[
            "send 220",
            "own",
            "Releasing -> Active: no other router took over",
        ],
    );
}

#[test]
fn r14_a_second_stop_does_not_wait() {
    let mut bench = Bench::active(plain());
    bench.command(0, Command::Stop);
    assert_words(
        &bench.command(1, Command::Stop),
        &[
            "disown",
            "Releasing -> Initialize: the agent was told to leave",
        ],
    );
}

#[test]
fn r15_a_lost_link_is_a_fault_at_once_and_nothing_is_sent() {
    let mut bench = Bench::active(plain());
    assert_words(
        &bench.input(10, link_down()),
        &["disown", "Active -> Fault: the link is down"],
    );
    assert_eq!(bench.deadline(), None);
}

#[test]
fn r15_after_link_up_a_full_down_interval_is_listened() {
    let mut bench = Bench::active(plain());
    bench.input(10, link_down());
    bench.input(20, link_up());
    assert_eq!((bench.state(), bench.deadline()), (Backup, Some(334.062)));
}

#[test]
fn r15_the_wait_after_start_and_that_after_link_up_are_set_apart() {
    let mut bench = Bench::new(Config {
        startup_wait: Duration::from_secs(60),
        link_up_wait: Duration::from_secs(5),
        ..plain()
    });
    bench.input(0, link_up());
    bench.command(0, Command::Start);
    assert_eq!(bench.deadline(), Some(60_014.062));
    bench.input(1_000, link_down());
    bench.input(2_000, link_up());
    assert_eq!(bench.deadline(), Some(7_014.062));
}

#[test]
fn r15_nothing_is_claimed_before_a_frame_was_heard_or_thirty_seconds() {
    let config = Config {
        startup_wait: Config::LINK_UP_WAIT,
        link_up_wait: Config::LINK_UP_WAIT,
        ..plain()
    };
    let mut deaf = Bench::new(config.clone());
    deaf.input(0, link_up());
    deaf.command(0, Command::Start);
    assert_eq!(deaf.deadline(), Some(30_014.062));
    let mut hears = deaf.clone();
    hears.input(5_000, Input::Heard);
    // The skew keeps apart what heard the same first frame.
    assert_eq!(hears.deadline(), Some(5_014.062));
    let mut arp = deaf.clone();
    arp.input(5_000, claim(mac(66)));
    assert_eq!(arp.deadline(), Some(5_014.062));
    let mut advert = deaf;
    advert.advert(5_000, LOW, 200);
    assert_eq!(advert.deadline(), Some(5_314.062));
}

#[test]
fn r15_a_first_frame_never_postpones_the_take_over() {
    let mut bench = Bench::new(plain());
    bench.input(0, link_up());
    bench.command(0, Command::Start);
    // A longer interval makes the skew longer, but only an advert may postpone.
    let interval = AdvertInterval::from_centis(4_095).unwrap();
    bench.input(
        9,
        Input::Config(Config {
            interval,
            ..plain()
        }),
    );
    bench.input(300, Input::Heard);
    assert_eq!(bench.deadline(), Some(314.062));
}

#[test]
fn r15_a_first_frame_never_postpones_a_first_claim_either() {
    let mut bench = Bench::new(Config {
        first_claim: true,
        ..plain()
    });
    bench.input(0, link_up());
    bench.command(0, Command::Start);
    bench.input(
        5,
        Input::Config(Config {
            priority: priority(192),
            ..bench.router.config().clone()
        }),
    );
    bench.input(10, Input::Heard);
    assert_eq!(
        bench.router.view().takes_over_at,
        Some(bench.at(3_014) + Duration::from_nanos(62_500))
    );
}

#[test]
fn r17_an_unchanged_configuration_emits_nothing() {
    let config = Config {
        preempt: true,
        gated: true,
        ..plain()
    };
    for mut bench in [
        Bench::new(config.clone()),
        Bench::started(config.clone()),
        Bench::following(config.clone(), 254),
        Bench::active(config.clone()),
    ] {
        let before = bench.router.clone();
        bench.input(1, Input::Config(config.clone()));
        assert_eq!(bench.router, before);
    }
}

#[test]
fn r17_a_changed_priority_or_interval_is_advertised_at_once() {
    let mut bench = Bench::active(plain());
    bench.run(1_050);
    let lower = Config {
        priority: priority(200),
        ..plain()
    };
    assert_words(
        &bench.input(1_060, Input::Config(lower.clone())),
        &["priority 220 -> 200: the configuration changed", "send 200"],
    );
    let interval = AdvertInterval::from_centis(20).unwrap();
    let slower = Config { interval, ..lower };
    assert_words(&bench.input(1_070, Input::Config(slower)), &["send 200"]);
    assert_eq!(bench.deadline(), Some(1_270.0));
}

#[test]
fn r17_changed_addresses_are_announced_only_once_the_kernel_holds_them() {
    let mut bench = Bench::active(plain());
    let other = address(20);
    let addresses = Addresses::new(&[other]).unwrap();
    let config = Config {
        addresses,
        ..plain()
    };
    assert_words(
        &bench.input(10, Input::Config(config)),
        &["send 220", "own"],
    );
    let done = bench.timeout(20);
    assert!(done.is_empty(), "{done:?}");
    assert_eq!(bench.owned()[0], "announce 10.20.14.20 Request");
}

#[test]
fn r17_another_vrid_is_another_router() {
    let mut bench = Bench::active(plain());
    let vrid = kedge_core::vip::Vrid::new(52).unwrap();
    let refused = bench.try_input(1, Input::Config(Config { vrid, ..plain() }));
    assert_eq!(refused, Err(Reject::Config(ConfigError::OtherRouter)));
}

#[test]
fn r14_however_many_addresses_there_are_all_must_have_been_announced() {
    let excluded: Vec<_> = (0..69).map(|last| address(100 + last)).collect();
    let mut bench = Bench::active(Config {
        excluded: excluded.clone().into(),
        ..plain()
    });
    bench.command(0, Command::Stop);
    bench.advert(10, LOW, 200);
    bench.input(11, claim(mac(11)));
    for (index, address) in excluded.into_iter().enumerate() {
        assert_eq!(bench.state(), Releasing, "after {index}");
        bench.input(12, announced(address, mac(11)));
    }
    assert_eq!(bench.state(), Initialize);
}

#[test]
fn r17_our_interval_changes_nothing_about_an_active_that_has_another() {
    let centis = |centis| AdvertInterval::from_centis(centis).unwrap();
    let mut bench = Bench::started(plain());
    let mut slow = super::bench::advert(LOW, 230);
    slow.advert.interval = centis(30);
    bench.input(10, Input::Advert(slow));
    let learned = bench.deadline();
    bench.input(
        20,
        Input::Config(Config {
            interval: centis(20),
            ..plain()
        }),
    );
    assert_eq!(bench.deadline(), learned);
}
