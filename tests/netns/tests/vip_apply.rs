//! A new configuration is a difference.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use kedge_core::vip::{AdvertInterval, RouterState, Vrid};
use kedge_tests_netns::{
    eventually,
    lan::Lan,
    millis, on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    throughout,
};
use kedge_vip_speaker::{VipSnapshot, VipSpec};

const VIP: &str = "10.20.14.10";

#[test]
fn a_vip_that_is_taken_away_is_handed_over_however_often_that_is_said() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let slow = |priority| VipSpec {
            interval: AdvertInterval::try_from(secs(1)).unwrap(),
            ..vip(51, priority, VIP)
        };
        let first = Speaking::start(&a, slow(254));
        first.becomes(RouterState::Active, secs(9));
        // Its skew is 219 ms: long enough to be impatient.
        let second = Speaking::start(&b, slow(200));
        eventually("the Backup hears the Active", secs(9), || {
            second
                .snapshot()
                .first()
                .is_some_and(|vip| vip.active.is_some())
        });
        let took = eventually("the successor holds it", secs(2), || {
            first.apply(Vec::new());
            // Asked in this order, a gap cannot be missed.
            assert!(a.holds(VIP) || b.holds(VIP), "nobody holds it");
            b.holds(VIP)
        });
        assert!(took > millis(150), "{took:?}");
        eventually("it is gone here", secs(1), || {
            !a.holds(VIP) && first.snapshot().is_empty()
        });
    });
}

#[test]
fn another_vrid_is_another_router_and_the_address_stays_with_this_host() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        let kedge = Speaking::start(&a, vip(51, 200, VIP));
        kedge.becomes(RouterState::Active, secs(5));
        kedge.apply(vec![vip(77, 200, VIP)]);
        eventually("the new router is Active", secs(5), || {
            let vip = kedge.vip();
            vip.vrid == Vrid::new(77).unwrap() && vip.state == RouterState::Active
        });
        assert!(a.holds(VIP));
        assert_eq!(kedge.snapshot().len(), 1);

        // What happens all the time is written down for whoever asks, and for nobody else.
        let sent = |all: &[VipSnapshot]| all[0].counters["adverts_sent"];
        let asked = sent(&kedge.snapshot());
        std::thread::sleep(millis(350));
        assert_eq!(sent(&kedge.written_down()), asked, "nobody looked");
        let old = sent(&kedge.snapshot());
        assert!(old >= asked + 3);
        std::thread::sleep(millis(1_100));
        eventually("one look is for the next", millis(200), || {
            sent(&kedge.written_down()) >= old + 10
        });
    });
}

#[test]
fn addresses_come_and_go_in_place() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let a = lan.host("a", "10.20.14.11/24");
        let kedge = Speaking::start(&a, vip(51, 200, VIP));
        kedge.becomes(RouterState::Active, secs(5));
        let with = |addresses: &[&str]| VipSpec {
            addresses: addresses
                .iter()
                .map(|address| address.parse().unwrap())
                .collect(),
            ..vip(51, 200, VIP)
        };
        kedge.apply(vec![with(&[VIP, "10.20.14.20", "10.20.14.21"])]);
        eventually("two more stand there", secs(1), || {
            [VIP, "10.20.14.20", "10.20.14.21"]
                .iter()
                .all(|address| a.holds(address))
        });
        kedge.apply(vec![with(&["10.20.14.21", VIP])]);
        eventually("one went", secs(1), || !a.holds("10.20.14.20"));
        assert!(a.holds(VIP) && a.holds("10.20.14.21"));
        assert_eq!(kedge.counter("became_active"), 1);
    });
}

#[test]
fn many_vips_live_on_one_host() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = (
            lan.host("a", "10.20.14.11/23"),
            lan.host("b", "10.20.14.12/23"),
        );
        let all = |priority| {
            (1..=100_u8)
                .map(|number| VipSpec {
                    name: format!("vip-{number}").parse().unwrap(),
                    ..vip(number, priority, &format!("10.20.15.{number}"))
                })
                .collect::<Vec<_>>()
        };
        let first = Speaking::start_with(&a, kedge_vip_speaker::Settings::default(), all(254));
        let holds = |speaker: &Speaking| speaker.snapshot().iter().filter(|vip| vip.held).count();
        eventually("a hundred are held", secs(9), || holds(&first) == 100);
        let second = Speaking::start_with(&b, kedge_vip_speaker::Settings::default(), all(251));
        eventually("a hundred Backups hear them", secs(9), || {
            let all = second.snapshot();
            all.len() == 100 && all.iter().all(|vip| vip.active.is_some())
        });
        throughout("nothing moves", secs(2), || {
            holds(&first) == 100 && holds(&second) == 0
        });
        lan.unplug(&a);
        let took = eventually("all of them moved", millis(302) + millis(300), || {
            holds(&second) == 100
        });
        println!("100 VIPs moved in {took:?}");
        lan.plug(&a);
        drop(first);
        let took = second.leave(secs(2));
        println!("a hundred left in {took:?}");
        assert!(!b.holds("10.20.15.1") && !b.holds("10.20.15.100"));
    });
}
