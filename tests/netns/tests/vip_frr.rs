//! Against a real FRR vrrpd, which holds addresses on a macvlan with the virtual hardware address.
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
    client::{neighbor, send},
    eventually,
    frr::{Frr, Settings},
    lan::{Host, Lan},
    on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    throughout,
};
use kedge_vip_speaker::{Version, VipSpec};

/// One way to speak VRRP, as both sides are told.
struct Way {
    version: u8,
    interval: Duration,
    vips: &'static [&'static str],
}

impl Way {
    fn theirs(&self, host: &Host, priority: u8) -> Frr {
        let settings = Settings {
            version: self.version,
            vrid: 51,
            priority,
            interval: u32::try_from(self.interval.as_millis()).unwrap(),
            vips: self.vips,
        };
        Frr::start(host, settings)
    }

    fn ours(&self, priority: u8) -> VipSpec {
        let version = match self.version {
            2 => Version::Two { password: None },
            _ => Version::Three,
        };
        VipSpec {
            version,
            addresses: self.vips.iter().map(|vip| vip.parse().unwrap()).collect(),
            interval: AdvertInterval::try_from(self.interval).unwrap(),
            ..vip(51, priority, self.vips[0])
        }
    }

    fn active_down(&self, priority: u8) -> Duration {
        active_down(self.version, self.interval, priority)
    }
}

/// What a loaded machine with two cores may add to a bound.
const SLACK: Duration = Duration::from_millis(300);

/// Each wins with the higher priority, each follows the other; we succeed one that is cut off, it
/// succeeds us when we leave.
fn both_roles(way: &Way) {
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let client = lan.host("client", "10.20.14.99/24");
    for host in [&a, &b, &client] {
        host.add_ipv6();
    }
    let wait = way.active_down(1) + secs(6);
    let last = *way.vips.last().unwrap();
    let is_ours = |kedge: &Speaking| kedge.state() == RouterState::Active && a.holds(last);

    let frr = way.theirs(&b, 100);
    eventually("FRR holds it alone", wait, || frr.status(&b) == "Master");
    send(&client, last);
    eventually("a client finds it", secs(3), || {
        neighbor(&client, last).is_some()
    });
    let kedge = Speaking::start(&a, way.ours(200));
    kedge.becomes(RouterState::Active, wait);
    eventually("FRR gives way", secs(2), || frr.status(&b) == "Backup");
    eventually("the client is told", secs(1), || {
        neighbor(&client, last) == Some(a.mac())
    });
    throughout("it stays", way.interval * 5, || {
        is_ours(&kedge) && frr.status(&b) == "Backup"
    });
    let took = kedge.leave(wait);
    eventually("FRR succeeds us", secs(2), || frr.status(&b) == "Master");
    assert!(!a.holds(last));
    println!("  we left in {took:?}");
    drop(frr);

    let kedge = Speaking::start(&a, way.ours(50));
    kedge.becomes(RouterState::Active, wait);
    let frr = way.theirs(&b, 150);
    eventually("FRR takes it", wait, || frr.status(&b) == "Master");
    kedge.becomes(RouterState::Backup, secs(2));
    assert!(!a.holds(last), "a Backup answers for nothing");
    let active = kedge.vip().active.unwrap();
    assert_eq!(active.priority.get(), 150);
    throughout("it stays", way.interval * 5, || {
        kedge.state() == RouterState::Backup
    });
    lan.unplug(&b);
    let bound = way.active_down(50) + SLACK;
    let took = eventually("we take over from a cut port", bound, || is_ours(&kedge));
    println!("  bound {bound:?}, took {took:?}");
    lan.plug(&b);
    eventually("it takes it back", wait, || {
        kedge.state() == RouterState::Backup && !a.holds(last)
    });
    let refused = kedge.refused();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn version_three_over_ipv4() {
    on_a_steady_machine(|| {
        both_roles(&Way {
            version: 3,
            interval: Duration::from_millis(100),
            vips: &["10.20.14.10"],
        });
    });
}

#[test]
fn version_three_over_ipv6() {
    on_a_steady_machine(|| {
        both_roles(&Way {
            version: 3,
            interval: Duration::from_millis(100),
            vips: &["fe80::10", "fd00:14::10"],
        });
    });
}

#[test]
fn version_two() {
    on_a_steady_machine(|| {
        both_roles(&Way {
            version: 2,
            interval: secs(1),
            vips: &["10.20.14.10"],
        });
    });
}
