//! The rules of election (R1 to R10), one test each.

use std::time::Duration;

use kedge_core::{
    Machine,
    vip::{AdvertInterval, Priority, RouterState::*},
};

use super::bench::{
    Bench, HIGH, LOW, OWN, PRIORITY, advert, assert_words, claim, link_up, mac, plain, priority,
};
use crate::vrrp::{Command, Config, ConfigError, Input, Members, Output, Reject, Router};

#[test]
fn r1_adverts_that_waited_out_a_stall_count() {
    let mut bench = Bench::following(plain(), 230);
    // down_at was 314 ms; the shell wakes up late and hands over its queue before the timer.
    bench.advert(400, LOW, 230);
    assert_words(&bench.timeout(400), &[]);
    assert_eq!((bench.state(), bench.deadline()), (Backup, Some(714.062)));
}

#[test]
fn r2_active_down_is_three_learned_intervals_and_the_skew_at_full_precision() {
    for (base, centis, down) in [
        // 3 × 10 ms + 2 × 10 ms / 256
        (254, 1, 30.078),
        (192, 1, 32.5),
        // 3 × 100 ms + 2 × 100 ms / 256
        (254, 10, 300.781),
        // 3 × 1 s + 36 × 1 s / 256
        (220, 100, 3_140.625),
        // 3 × 40.95 s + 36 × 40.95 s / 256
        (220, 4_095, 128_608.593),
    ] {
        let mut bench = Bench::started(Config {
            priority: priority(base),
            ..plain()
        });
        let mut heard = advert(LOW, 255);
        heard.advert.interval = AdvertInterval::from_centis(centis).unwrap();
        bench.input(0, Input::Advert(heard));
        assert_eq!(bench.deadline(), Some(down), "priority {base}, {centis} cs");
    }
}

#[test]
fn r2_an_active_uses_its_own_interval_whatever_it_learned() {
    let mut bench = Bench::started(plain());
    let mut slow = advert(LOW, 230);
    slow.advert.interval = AdvertInterval::from_centis(100).unwrap();
    bench.input(0, Input::Advert(slow));
    bench.run(3_141);
    assert_eq!((bench.state(), bench.deadline()), (Active, Some(3_141.625)));
    bench.begin();
    bench.timeout(101);
    assert_eq!(
        bench.deadline(),
        Some(199.625),
        "100 ms later, on the old schedule"
    );
}

#[test]
fn r3_without_preemption_a_lower_active_is_followed() {
    let mut bench = Bench::following(plain(), 200);
    bench.advert(100, LOW, 200);
    assert_eq!(bench.deadline(), Some(414.062));
}

#[test]
fn r3_with_preemption_a_lower_advert_leaves_the_timer_alone() {
    let mut bench = Bench::started(Config {
        preempt: true,
        ..plain()
    });
    for millis in (0..300).step_by(100) {
        bench.advert(millis, LOW, 200);
        assert_eq!(bench.deadline(), Some(314.062));
    }
    assert_words(
        &bench.timeout(315),
        &[
            "send 220",
            "own",
            "Backup -> Active: 10.20.14.11 (priority 200) is below our priority 220 and \
             preemption is on",
        ],
    );
}

#[test]
fn r3_with_preemption_an_equal_or_higher_advert_is_followed() {
    for value in [PRIORITY, 221, 255] {
        let mut bench = Bench::started(Config {
            preempt: true,
            ..plain()
        });
        bench.advert(100, LOW, value);
        assert_eq!(bench.deadline(), Some(414.062), "{value}");
    }
}

#[test]
fn r3_preemption_waits_for_its_delay() {
    let delay = Duration::from_secs(10);
    let mut bench = Bench::started(Config {
        preempt: true,
        preempt_delay: delay,
        ..plain()
    });
    for millis in (0..10_000).step_by(100) {
        bench.advert(millis, LOW, 200);
    }
    assert_eq!(bench.state(), Backup);
    bench.advert(10_000, LOW, 200);
    assert_eq!(
        bench.deadline(),
        Some(10_214.062),
        "the last advert that was followed decides"
    );
}

#[test]
fn r4_a_goodbye_of_the_active_leaves_only_the_skew() {
    let mut bench = Bench::following(plain(), 230);
    bench.advert(50, LOW, 0);
    assert_eq!(bench.deadline(), Some(64.062));
    let done = bench.timeout(65);
    assert_eq!(done[2], "Backup -> Active: 10.20.14.11 said that it leaves");
}

#[test]
fn r4_repeated_goodbyes_never_postpone_the_election() {
    let mut bench = Bench::following(plain(), 230);
    for millis in 50..64 {
        bench.advert(millis, LOW, 0);
        assert_eq!(bench.deadline(), Some(64.062));
    }
}

#[test]
fn r4_a_goodbye_of_somebody_else_changes_nothing() {
    let mut bench = Bench::following(plain(), 230);
    bench.advert(50, HIGH, 0);
    assert_eq!(bench.deadline(), Some(314.062));
    let mut fresh = Bench::started(plain());
    fresh.advert(50, LOW, 0);
    assert_eq!(fresh.deadline(), Some(314.062), "nobody is followed yet");
}

#[test]
fn r4_an_advert_after_the_goodbye_takes_it_back() {
    let mut bench = Bench::following(plain(), 230);
    bench.advert(50, LOW, 0);
    bench.advert(60, LOW, 230);
    assert_eq!(bench.deadline(), Some(374.062));
}

#[test]
fn r5_a_take_over_advertises_then_owns_then_announces() {
    let mut bench = Bench::started(plain());
    let done = bench.timeout(315);
    assert_eq!(done[..2], ["send 220", "own"]);
    assert!(!bench.router.announcing());
    assert_words(
        &bench.owned(),
        &["announce 10.20.14.10 Request", "announce 10.20.14.10 Reply"],
    );
    assert!(bench.router.announcing());
}

#[test]
fn r5_nothing_is_announced_while_the_kernel_has_not_answered() {
    let mut bench = Bench::started(plain());
    bench.timeout(315);
    let mut done = bench.advert(316, LOW, 200);
    done.extend(bench.input(317, claim(mac(11))));
    for millis in (320..2_000).step_by(10) {
        done.extend(bench.timeout(millis));
    }
    assert!(
        done.iter().all(|word| !word.starts_with("announce")),
        "{done:?}"
    );
}

#[test]
fn r5_a_refused_address_is_a_goodbye_and_a_fault_that_is_tried_again_later_and_later() {
    let mut bench = Bench::started(plain());
    let mut waits = Vec::new();
    for _ in 0..6 {
        bench.timeout_at(bench.router.poll_timeout().unwrap());
        bench.begin();
        let done = bench.refuse(0);
        assert_words(
            &done,
            &[
                "send 0",
                "disown",
                "Active -> Fault: the kernel refused 10.20.14.10 (errno 99)",
            ],
        );
        waits.push(bench.deadline().unwrap());
        bench.timeout_at(bench.router.poll_timeout().unwrap());
        assert_eq!(bench.state(), Backup);
    }
    assert_eq!(
        waits,
        [5_000.0, 10_000.0, 20_000.0, 40_000.0, 60_000.0, 60_000.0]
    );
}

#[test]
fn r6_a_better_advert_takes_back_announcements_that_have_not_left() {
    let mut bench = Bench::started(plain());
    bench.timeout(315);
    let input = Input::Owned {
        ticket: bench.ticket(),
        result: Ok(()),
    };
    bench.router.handle_input(bench.now, input).unwrap();
    // The shell holds the first announcement, drains its sockets once more, and finds an advert.
    assert!(matches!(
        bench.router.poll_output(),
        Some(Output::Announce(_))
    ));
    assert!(bench.router.announcing());
    let done = bench.advert(315, LOW, 230);
    assert!(!bench.router.announcing());
    assert!(
        done.iter().all(|word| !word.starts_with("announce")),
        "{done:?}"
    );
}

#[test]
fn r7_an_active_answers_a_lower_advert_at_once_and_announces() {
    let mut bench = Bench::active(plain());
    bench.run(11_000);
    let answer = [
        "send 220",
        "announce 10.20.14.10 Request",
        "announce 10.20.14.10 Reply",
    ];
    assert_words(&bench.advert(11_001, LOW, 200), &answer);
    assert_words(&bench.advert(11_003, LOW, PRIORITY), &answer);
}

#[test]
fn r7_answers_come_from_a_bucket() {
    let mut bench = Bench::active(plain());
    let answers = (0..1_000)
        .map(|step| bench.input_at_micros(50_000 + step, Input::Advert(advert(LOW, 200))))
        .filter(|words| !words.is_empty())
        .count();
    assert_eq!(
        answers, 1,
        "a thousand adverts within a millisecond are answered once"
    );
}

#[test]
fn r8_a_better_advert_makes_an_active_let_go_on_its_delivery() {
    let mut bench = Bench::active(plain());
    bench.run(11_000);
    let mut slow = advert(LOW, 230);
    slow.advert.interval = AdvertInterval::from_centis(20).unwrap();
    let done = bench.input(11_010, Input::Advert(slow));
    assert_words(
        &done[1..],
        &[
            "send 220",
            "disown",
            "Active -> Backup: 10.20.14.11 (priority 230) beats our priority 220",
        ],
    );
    assert_eq!(
        bench.deadline(),
        Some(11_638.125),
        "with the interval of the winner"
    );
}

#[test]
fn r8_an_equal_priority_is_decided_by_the_address() {
    let mut bench = Bench::active(plain());
    bench.advert(10, LOW, PRIORITY);
    assert_eq!(bench.state(), Active);
    bench.advert(20, HIGH, PRIORITY);
    assert_eq!(bench.state(), Backup);
}

#[test]
fn r8_a_loser_that_announced_makes_the_winner_announce_again() {
    let mut bench = Bench::active(plain());
    assert_eq!(bench.advert(10, LOW, 230)[..2], ["send 220", "disown"]);
}

#[test]
fn r9_our_own_packet_is_refused_and_a_twin_is_reported_without_a_duel() {
    let mut bench = Bench::active(plain());
    let mut twin = advert(OWN, PRIORITY);
    let looped = bench.try_input(10, Input::Advert(twin.clone()));
    assert_eq!(looped, Err(Reject::OwnPacket));
    twin.mac = mac(77);
    assert_words(
        &bench.input(10, Input::Advert(twin.clone())),
        &["notice: 02:00:00:00:00:4d advertises with our address 10.20.14.12 and our priority"],
    );
    assert_words(&bench.input(20, Input::Advert(twin.clone())), &[]);
    bench.run(60_005);
    bench.input(60_009, Input::Advert(twin.clone()));
    assert_eq!(
        bench.input(60_010, Input::Advert(twin)).len(),
        1,
        "said again a minute later"
    );
    assert_eq!(bench.state(), Active);
}

#[test]
fn r10_the_owner_of_the_address_is_active_at_once() {
    let owner = Config {
        owner: true,
        priority: Priority::OWNER,
        ..plain()
    };
    let mut bench = Bench::new(owner);
    bench.input(0, link_up());
    assert_words(
        &bench.command(0, Command::Start),
        &[
            "send 255",
            "own",
            "Initialize -> Active: the address is the interface's own",
        ],
    );
}

#[test]
fn r10_an_owner_yields_to_nobody_and_reports_a_second_one() {
    let owner = Config {
        owner: true,
        priority: Priority::OWNER,
        ..plain()
    };
    let mut bench = Bench::new(owner);
    bench.input(0, link_up());
    bench.command(0, Command::Start);
    bench.owned();
    assert_words(
        &bench.advert(10, HIGH, 255),
        &["notice: 10.20.14.13 (02:00:00:00:00:0d) also says that the address is its own"],
    );
    assert_eq!(bench.advert(20, HIGH, 254)[0], "send 255");
    // Not even a stall makes it let go: it has nothing to let go of.
    assert_eq!(bench.timeout(10_000)[0], "send 255");
    assert_eq!(bench.state(), Active);
}

#[test]
fn r10_priority_255_and_ownership_come_together() {
    let priority_alone = Config {
        priority: Priority::OWNER,
        ..plain()
    };
    assert_eq!(Router::new(priority_alone).unwrap_err(), ConfigError::Owner);
    let owner_alone = Config {
        owner: true,
        ..plain()
    };
    assert_eq!(Router::new(owner_alone).unwrap_err(), ConfigError::Owner);
}

#[test]
fn r10_kedge_members_have_a_base_of_192_to_254_and_mixed_members_any() {
    let low = Config {
        priority: priority(191),
        ..plain()
    };
    assert_eq!(
        Router::new(low.clone()).unwrap_err(),
        ConfigError::LowPriority(priority(191))
    );
    let mixed = Config {
        members: Members::Mixed {
            unhealthy: priority(50),
        },
        ..low
    };
    assert!(Router::new(mixed.clone()).is_ok());
    let upside_down = Config {
        members: Members::Mixed {
            unhealthy: priority(191),
        },
        ..mixed
    };
    assert_eq!(
        Router::new(upside_down).unwrap_err(),
        ConfigError::Unhealthy {
            unhealthy: priority(191),
            priority: priority(191)
        }
    );
}
