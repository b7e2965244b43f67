//! The rules about health: bands, pulling, damping.

use std::time::Duration;

use kedge_core::{Instant, vip::RouterState::*};

use super::bench::{Bench, HIGH, LOW, PRIORITY, plain, priority};
use crate::vrrp::{Config, Input, Members, Reject, Verdict, damping::Damping};

/// A gated, healthy Backup.
fn healthy() -> Bench {
    let mut bench = Bench::started(Config {
        gated: true,
        ..plain()
    });
    bench.health(0, Verdict::Healthy);
    bench
}

#[test]
fn a_gated_router_begins_in_the_low_band_and_order_survives() {
    for (base, low) in [(254, 63), (220, 29), (192, 1)] {
        let config = Config {
            gated: true,
            priority: priority(base),
            ..plain()
        };
        let mut bench = Bench::started(config);
        assert_eq!(bench.router.priority().get(), low);
        bench.health(0, Verdict::Failing);
        assert_eq!(bench.router.priority().get(), low);
        bench.health(0, Verdict::Healthy);
        assert_eq!(bench.router.priority().get(), base);
    }
}

#[test]
fn a_router_without_gate_ignores_verdicts() {
    let mut bench = Bench::active(plain());
    assert!(bench.health(0, Verdict::Failing).is_empty());
    assert_eq!(bench.router.priority().get(), PRIORITY);
}

#[test]
fn a_mixed_group_has_an_explicit_unhealthy_priority() {
    let members = Members::Mixed {
        unhealthy: priority(50),
    };
    let config = Config {
        gated: true,
        members,
        priority: priority(150),
        ..plain()
    };
    let mut bench = Bench::active(config);
    assert_eq!(bench.router.priority().get(), 50);
    assert_eq!(
        bench.health(10, Verdict::Healthy),
        [
            "priority 50 -> 150: the service on this host answers",
            "send 150"
        ]
    );
}

#[test]
fn a_change_of_health_is_advertised_at_once_and_drops_nothing() {
    let mut bench = Bench::active(Config {
        gated: true,
        ..plain()
    });
    bench.health(0, Verdict::Healthy);
    assert_eq!(
        bench.health(10, Verdict::Failing),
        [
            "priority 220 -> 29: the service on this host fails",
            "send 29"
        ]
    );
    assert_eq!(bench.state(), Active);
    bench.run(10_000);
    assert_eq!(
        bench.state(),
        Active,
        "when all are ill the VIP stays somewhere"
    );
}

#[test]
fn a_healthy_backup_of_an_unhealthy_active_probes_at_once_and_pulls_after_success() {
    let mut bench = healthy();
    assert_eq!(bench.advert(0, LOW, 63), ["probe health"]);
    assert_eq!(
        bench.deadline(),
        Some(314.062),
        "the advert is followed until the probe ends"
    );
    assert!(bench.input(3, Input::Probed { healthy: true }).is_empty());
    assert_eq!(bench.deadline(), Some(17.062));
    // Adverts of the same kind no longer postpone it.
    bench.advert(10, LOW, 63);
    assert_eq!(bench.deadline(), Some(17.062));
    let done = bench.timeout(18);
    assert_eq!(done[..2], ["send 220", "own"]);
}

#[test]
fn a_failed_fresh_probe_moves_nothing_and_is_not_repeated_with_every_advert() {
    let mut bench = healthy();
    bench.advert(0, LOW, 63);
    bench.input(5, Input::Probed { healthy: false });
    let mut probes = 0;
    for millis in (100..2_300).step_by(100) {
        let done = bench.advert(millis, LOW, 63);
        if !done.is_empty() {
            probes += 1;
            bench.input(millis + 5, Input::Probed { healthy: false });
        }
    }
    assert_eq!((probes, bench.state()), (2, Backup));
}

#[test]
fn a_probe_that_never_answers_is_asked_for_again() {
    let mut bench = healthy();
    bench.advert(0, LOW, 63);
    let asked: Vec<u64> = (100..6_000)
        .step_by(100)
        .filter(|millis| !bench.advert(*millis, LOW, 63).is_empty())
        .collect();
    assert_eq!(asked, [5_000]);
}

#[test]
fn a_healthy_advert_meanwhile_ends_the_pull() {
    let mut bench = healthy();
    bench.advert(0, LOW, 63);
    bench.input(3, Input::Probed { healthy: true });
    bench.advert(5, HIGH, 200);
    assert_eq!(bench.deadline(), Some(319.062));
    let late = bench.try_input(6, Input::Probed { healthy: true });
    assert_eq!(late, Err(Reject::NotAsked));
}

#[test]
fn only_a_healthy_gated_member_of_a_kedge_group_pulls() {
    let mut unproven = Bench::started(Config {
        gated: true,
        ..plain()
    });
    assert!(unproven.advert(0, LOW, 10).is_empty());
    let mut ungated = Bench::started(plain());
    assert!(ungated.advert(0, LOW, 10).is_empty());
    let members = Members::Mixed {
        unhealthy: priority(50),
    };
    let mut mixed = Bench::started(Config {
        gated: true,
        members,
        ..plain()
    });
    mixed.health(0, Verdict::Healthy);
    assert!(mixed.advert(0, LOW, 10).is_empty());
}

#[test]
fn a_verdict_that_turns_while_the_probe_runs_cancels_it() {
    let mut bench = healthy();
    bench.advert(0, LOW, 63);
    bench.health(1, Verdict::Failing);
    let late = bench.try_input(2, Input::Probed { healthy: true });
    assert_eq!(late, Err(Reject::NotAsked));
}

#[test]
fn r11_a_living_active_is_overruled_at_most_once_per_hold_down_which_doubles() {
    let mut bench = healthy();
    let mut waits = Vec::new();
    for _ in 0..6 {
        bench.advert(0, LOW, 63);
        bench.input(1, Input::Probed { healthy: true });
        bench.run(20);
        assert_eq!(bench.state(), Active);
        bench.begin();
        // A better Active takes it, and turns out to be ill after all.
        bench.advert(1, HIGH, 254);
        let next = (100..120_000)
            .step_by(100)
            .find(|millis| !bench.advert(*millis, HIGH, 63).is_empty())
            .unwrap();
        waits.push(next);
        bench.input(next + 1, Input::Probed { healthy: false });
        bench.begin();
        bench.advert(2_000, HIGH, 63);
        bench.input(2_001, Input::Probed { healthy: false });
        bench.now = bench.at(3_500);
        bench.begin();
    }
    assert_eq!(waits, [5_000, 10_000, 20_000, 40_000, 60_000, 5_000]);
}

#[test]
fn r11_a_hold_down_never_delays_taking_over_from_a_silent_active() {
    let mut bench = healthy();
    bench.advert(0, LOW, 63);
    bench.input(1, Input::Probed { healthy: true });
    bench.run(20);
    bench.advert(21, HIGH, 254);
    assert_eq!((bench.state(), bench.deadline()), (Backup, Some(335.062)));
    bench.run(336);
    assert_eq!(bench.state(), Active);
}

#[test]
fn r11_preemption_by_priority_is_damped_as_well() {
    let mut bench = Bench::started(Config {
        preempt: true,
        ..plain()
    });
    for millis in (0..315).step_by(100) {
        bench.advert(millis, LOW, 200);
    }
    bench.run(315);
    assert_eq!(bench.state(), Active);
    bench.advert(400, HIGH, 254);
    bench.advert(500, HIGH, 200);
    assert_eq!(
        bench.deadline(),
        Some(814.062),
        "followed during the hold-down"
    );
    for millis in (600..=6_000).step_by(100) {
        bench.advert(millis, HIGH, 200);
    }
    bench.run(6_100);
    assert_eq!(bench.state(), Active, "and overruled after it");
}

#[test]
fn r11_a_minute_after_the_last_time_it_is_no_return() {
    let at = |secs: u64| Instant::from_nanos(0) + Duration::from_secs(secs);
    let overruled = |again: u64| {
        let mut damping = Damping::new();
        damping.overruled(at(100));
        damping.overruled(at(100 + again));
        [5, 9, 10].map(|hold| damping.allows(at(100 + again + hold)))
    };
    assert_eq!(overruled(59), [false, false, true]);
    assert_eq!(overruled(60), [true; 3]);
}

#[test]
fn a_service_that_failed_its_fresh_probe_is_asked_again_after_a_second() {
    let mut bench = healthy();
    bench.advert(0, LOW, 63);
    bench.input(5, Input::Probed { healthy: false });
    assert!(bench.advert(1_004, LOW, 63).is_empty());
    assert_eq!(bench.advert(1_005, LOW, 63), ["probe health"]);
}
