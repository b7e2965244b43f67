//! Addresses that go along with a VIP, and what their refusal means.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

use kedge_core::{Code, vip::RouterState};
use kedge_net::link::sysctl;
use kedge_tests_netns::{
    eventually,
    lan::{Host, Lan},
    on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    throughout,
};
use kedge_vip_speaker::VipSpec;

const FOUR: &str = "10.20.14.10";
const SIX: &str = "fd00:14::10";

fn dual(priority: u8) -> VipSpec {
    let mut dual = vip(51, priority, FOUR);
    dual.addresses.push(SIX.parse().unwrap());
    dual
}

fn ipv6(host: &Host, on: bool) {
    let off = if on { "0" } else { "1" };
    host.run(move || sysctl("ipv6/conf/eth0/disable_ipv6", off).unwrap());
}

fn complaint(kedge: &Speaking) -> Option<String> {
    let vip = kedge.vip();
    let mut refused = vip.problems.iter();
    let refused = refused.find(|problem| problem.code == Code::VipAddressRefused)?;
    assert_eq!(refused.object, "vips/api");
    Some(refused.consequence.clone())
}

#[test]
fn a_host_without_ipv6_serves_the_ipv4_address_of_a_vip_with_both() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        ipv6(&a, false);
        let kedge = Speaking::start(&a, dual(200));
        kedge.becomes(RouterState::Active, secs(5));
        eventually("the refusal is told", secs(2), || {
            complaint(&kedge).is_some()
        });
        let told = complaint(&kedge).unwrap();
        println!("{told}");
        assert!(told.contains(SIX) && told.contains(FOUR), "{told}");
        assert!(a.holds(FOUR) && !a.holds(SIX));
        let other = Speaking::start(&b, dual(150));
        other.becomes(RouterState::Backup, secs(5));
        throughout("it stays", secs(6), || {
            a.holds(FOUR) && kedge.state() == RouterState::Active && !b.holds(SIX)
        });

        ipv6(&a, true);
        eventually("the other one follows", secs(7), || a.holds(SIX));
        eventually("nothing is wrong", secs(2), || complaint(&kedge).is_none());
        let vip = kedge.vip();
        assert_eq!((vip.state, vip.held), (RouterState::Active, true));
        assert_eq!(kedge.counter("became_active"), 1, "it never left");
        kedge.leave(secs(3));
        assert!(!a.holds(FOUR) && !a.holds(SIX));
        eventually("the next one has both", secs(3), || {
            b.holds(FOUR) && b.holds(SIX)
        });
    });
}

#[test]
fn who_lost_a_vip_asks_for_everything_again_the_next_time() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        ipv6(&a, false);
        let kedge = Speaking::start(&a, dual(150));
        kedge.becomes(RouterState::Active, secs(5));
        eventually("the refusal is told", secs(2), || {
            complaint(&kedge).is_some()
        });
        let better = Speaking::start(&b, dual(200));
        better.becomes(RouterState::Active, secs(5));
        kedge.becomes(RouterState::Backup, secs(2));
        eventually("what is elsewhere is not missing here", secs(2), || {
            complaint(&kedge).is_none()
        });
        ipv6(&a, true);
        better.leave(secs(3));
        eventually("both are here", secs(3), || a.holds(FOUR) && a.holds(SIX));
        assert_eq!(complaint(&kedge), None);
    });
}
