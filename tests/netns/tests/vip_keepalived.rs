//! Against a real keepalived: who wins, who takes over and when, who hands over.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::time::Duration;

use kedge_core::vip::{AdvertInterval, RouterState};
use kedge_tests_netns::{
    bounds::active_down,
    eventually,
    keepalived::{Keepalived, Settings},
    lan::Lan,
    millis, on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    throughout,
};
use kedge_vip_speaker::VipSpec;

const VIP: &str = "10.20.14.10";

fn theirs(priority: u8, advert_int: &'static str) -> Settings<'static> {
    Settings {
        vrid: 51,
        priority,
        advert_int,
        version: 3,
        vips: &["10.20.14.10/32"],
        preempt: true,
        lines: "",
    }
}

fn ours(priority: u8, interval: Duration) -> VipSpec {
    VipSpec {
        interval: AdvertInterval::try_from(interval).unwrap(),
        ..vip(51, priority, VIP)
    }
}

/// What a loaded machine with two cores may add to a bound.
const SLACK: Duration = Duration::from_millis(200);

#[test]
fn the_higher_priority_wins_on_either_side() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        {
            let keepalived = Keepalived::start(&b, theirs(100, "0.1"));
            eventually("keepalived holds it alone", secs(5), || b.holds(VIP));
            let kedge = Speaking::start(&a, ours(200, millis(100)));
            kedge.becomes(RouterState::Active, secs(5));
            eventually("keepalived gives way", secs(2), || !b.holds(VIP));
            assert!(a.holds(VIP));
            let seen = kedge.vip();
            assert!(
                seen.because.contains("below our priority 200"),
                "{}",
                seen.because
            );
            throughout("it stays", secs(1), || kedge.state() == RouterState::Active);
            assert_eq!(
                keepalived.transitions(),
                3,
                "Backup, Active, Backup: {}",
                keepalived.log()
            );
        }
        {
            let kedge = Speaking::start(&a, ours(100, millis(100)));
            kedge.becomes(RouterState::Active, secs(5));
            let keepalived = Keepalived::start(&b, theirs(200, "0.1"));
            eventually("keepalived takes it", secs(5), || b.holds(VIP));
            kedge.becomes(RouterState::Backup, secs(2));
            assert!(!a.holds(VIP), "a Backup answers for nothing");
            let active = kedge.vip().active.unwrap();
            assert_eq!((active.address, active.mac), (b.address().into(), b.mac()));
            assert_eq!(active.priority.get(), 200);
            throughout("it stays", secs(1), || kedge.state() == RouterState::Backup);
            let log = keepalived.log().to_lowercase();
            assert!(
                !log.contains("checksum") && !log.contains("invalid"),
                "{log}"
            );
        }
    });
}

#[test]
fn an_owner_that_is_cut_off_is_replaced_within_the_down_interval() {
    on_a_steady_machine(|| {
        let interval = millis(100);
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let kedge = Speaking::start(&a, ours(200, interval));
        kedge.becomes(RouterState::Active, secs(9));
        let keepalived = Keepalived::start(&b, theirs(100, "0.1"));
        eventually("keepalived is Backup", secs(5), || {
            keepalived.log().contains("Entering BACKUP")
        });

        lan.unplug(&a);
        let bound = active_down(3, interval, 100) + SLACK;
        let took = eventually("keepalived takes over from us", bound, || b.holds(VIP));
        println!("  bound {bound:?}, took {took:?}");
        let fault = eventually("we see the link", SLACK, || {
            kedge.state() == RouterState::Fault
        });
        assert!(!a.holds(VIP), "without a link nothing is held");
        println!("  link loss seen within {fault:?}");

        lan.plug(&a);
        eventually("we win it back", bound + secs(4), || {
            kedge.state() == RouterState::Active && a.holds(VIP) && !b.holds(VIP)
        });
        // Lower than keepalived from here: it takes the VIP, and we take it from its cut port.
        kedge.apply(vec![ours(50, interval)]);
        eventually("keepalived has it", bound + secs(4), || {
            b.holds(VIP) && kedge.state() == RouterState::Backup
        });
        lan.unplug(&b);
        let bound = active_down(3, interval, 50) + SLACK;
        let took = eventually("we take over from keepalived", bound, || a.holds(VIP));
        println!("  bound {bound:?}, took {took:?}");
        // The kernel knows before the journal does.
        kedge.becomes(RouterState::Active, millis(100));
        let because = kedge.vip().because;
        assert!(because.contains("has not been heard for"), "{because}");
    });
}

#[test]
fn whoever_leaves_hands_over_in_about_the_successors_skew() {
    on_a_steady_machine(|| {
        let interval = secs(1);
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let kedge = Speaking::start(&a, ours(250, interval));
        kedge.becomes(RouterState::Active, secs(9));
        let mut keepalived = Keepalived::start(&b, theirs(240, "1"));
        eventually("keepalived is Backup", secs(5), || {
            keepalived.log().contains("Entering BACKUP")
        });
        std::thread::sleep(millis(1500));

        let took = kedge.leave(secs(5));
        println!("we left in {took:?}");
        assert!(b.holds(VIP), "the successor has it before we let go");
        assert!(!a.holds(VIP));
        // Its skew is 16/256 s; without a goodbye it would have taken three seconds.
        assert!(took < millis(63) + SLACK + millis(500), "{took:?}");

        let kedge = Speaking::start(&a, ours(230, interval));
        kedge.becomes(RouterState::Backup, secs(2));
        eventually("we hear keepalived", secs(3), || {
            kedge.vip().active.is_some()
        });
        keepalived.stop();
        let took = kedge.becomes(RouterState::Active, millis(102) + SLACK);
        println!("we took over {took:?} after keepalived had ended");
        assert!(
            kedge.vip().because.contains("leaves"),
            "{}",
            kedge.vip().because
        );
        assert_eq!(kedge.counter("goodbyes_received"), 1);
    });
}

#[test]
fn an_unchanged_configuration_moves_nothing_and_a_changed_one_is_advertised_at_once() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let kedge = Speaking::start(&a, ours(200, millis(100)));
        kedge.becomes(RouterState::Active, secs(5));
        let keepalived = Keepalived::start(&b, theirs(100, "0.1"));
        eventually("keepalived is Backup", secs(5), || {
            keepalived.log().contains("Entering BACKUP")
        });
        let before = kedge.vip();
        for _ in 0..200 {
            kedge.apply(vec![ours(200, millis(100))]);
            std::thread::sleep(millis(2));
        }
        let after = kedge.vip();
        assert_eq!(before.transitions, after.transitions);
        assert_eq!(keepalived.transitions(), 1, "{}", keepalived.log());
        assert_eq!(after.counters["became_active"], 1);

        kedge.apply(vec![ours(50, millis(100))]);
        eventually(
            "keepalived preempts the lower priority",
            millis(500),
            || b.holds(VIP),
        );
        eventually("which is told", millis(100), || {
            kedge.vip().base_priority.get() == 50
        });
    });
}

#[test]
fn where_neither_preempts_whoever_has_it_keeps_it_and_a_source_is_as_it_was_chosen() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        a.add_address("10.20.14.111/24");
        let theirs = Settings {
            preempt: false,
            ..theirs(200, "0.1")
        };
        let stays = |priority| VipSpec {
            preempt: false,
            source: Some("10.20.14.111".parse().unwrap()),
            ..ours(priority, millis(100))
        };
        let kedge = Speaking::start(&a, stays(100));
        kedge.becomes(RouterState::Active, secs(5));
        let keepalived = Keepalived::start(&b, theirs);
        eventually("keepalived is Backup", secs(5), || {
            keepalived.log().contains("Entering BACKUP")
        });
        throughout("it is not taken from us", secs(1), || {
            a.holds(VIP) && !b.holds(VIP)
        });
        kedge.leave(secs(5));
        eventually("keepalived has what we left", secs(1), || b.holds(VIP));
        let kedge = Speaking::start(&a, stays(254));
        kedge.becomes(RouterState::Backup, secs(2));
        eventually("we hear keepalived", secs(1), || {
            kedge.vip().active.is_some()
        });
        throughout("we do not take it from keepalived", secs(1), || {
            b.holds(VIP) && !a.holds(VIP)
        });
        drop(keepalived);
        kedge.becomes(RouterState::Active, secs(2));
        let other = Speaking::start(&b, ours(50, millis(100)));
        eventually("it hears the source", secs(3), || {
            let active = other.snapshot().first().and_then(|it| it.active);
            active.is_some_and(|it| it.address.to_string() == "10.20.14.111")
        });
    });
}
