//! The interface of a VIP without its own address: who configures networks takes it away for a moment,
//! and an operator for good.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

use std::process::Command;

use ipnet::IpNet;
use kedge_core::vip::RouterState;
use kedge_net::link::{Links, sysctl};
use kedge_tests_netns::{
    eventually,
    lan::{Host, Lan},
    millis, on_a_steady_machine, secs,
    speaking::{Speaking, vip},
    throughout,
};

const VIP: &str = "10.20.14.10";

/// An Active on `a`, and a Backup that hears it on `b`.
fn pair(a: &Host, b: &Host, address: &str) -> (Speaking, Speaking) {
    let first = Speaking::start(a, vip(51, 250, address));
    first.becomes(RouterState::Active, secs(5));
    let second = Speaking::start(b, vip(51, 240, address));
    second.becomes(RouterState::Backup, secs(5));
    eventually("the Backup hears the Active", secs(5), || {
        second.vip().active.is_some()
    });
    (first, second)
}

fn own(host: &Host) -> IpNet {
    IpNet::V4(host.net)
}

fn take_away(host: &Host) {
    let own = own(host);
    host.run(move || Links::open().unwrap().delete_address("eth0", own).unwrap());
}

#[test]
fn an_address_that_is_back_within_a_tenth_of_a_second_moves_nothing() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (first, second) = pair(&a, &b, VIP);
        take_away(&a);
        throughout("the VIP stays", millis(100), || {
            a.holds(VIP) && first.state() == RouterState::Active
        });
        a.add_address(&own(&a).to_string());
        throughout("it stays afterwards", millis(500), || {
            a.holds(VIP) && second.state() == RouterState::Backup
        });
        assert_eq!(second.counter("became_active"), 0);
        assert_eq!(first.counter("became_active"), 1);
    });
}

#[test]
fn an_address_that_nobody_may_use_yet_is_waited_for() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let own: IpNet = "fd00:14::11/64".parse().unwrap();
        a.add_address("fd00:14::11/64");
        b.add_address("fd00:14::12/64");
        let (first, second) = pair(&a, &b, "fd00:14::10");
        a.run(move || {
            // From now on the kernel asks first whether anybody else has it: for a second at least.
            sysctl("ipv6/conf/eth0/accept_dad", "1").unwrap();
            let mut links = Links::open().unwrap();
            links.delete_address("eth0", own).unwrap();
            let mut ip = Command::new("ip");
            ip.args(["address", "add", "fd00:14::11/64", "dev", "eth0"]);
            assert!(ip.status().unwrap().success());
        });
        let tentative = || {
            a.run(|| {
                let mut ip = Command::new("ip");
                ip.args(["-6", "-o", "address", "show", "tentative"]);
                !ip.output().unwrap().stdout.is_empty()
            })
        };
        let waited = eventually("the kernel has asked", secs(5), || {
            assert!(a.holds("fd00:14::10"), "the VIP has left");
            !tentative()
        });
        assert!(waited > millis(500), "nothing was tentative: {waited:?}");
        throughout("it stays afterwards", millis(300), || {
            a.holds("fd00:14::10") && first.state() == RouterState::Active
        });
        assert_eq!(second.counter("became_active"), 0);
    });
}

#[test]
fn an_address_that_stays_away_takes_the_vip_with_it() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (first, second) = pair(&a, &b, VIP);
        take_away(&a);
        let took = eventually("a lets go", secs(2), || !a.holds(VIP));
        assert!(took > millis(200) && took < millis(400), "{took:?}");
        // The kernel lets go first; who reads the state sees it afterwards.
        first.becomes(RouterState::Fault, millis(100));
        second.becomes(RouterState::Active, secs(1));
        // The same again, once it is back: it was not forgiven for good.
        a.add_address(&own(&a).to_string());
        first.becomes(RouterState::Active, secs(5));
        take_away(&a);
        eventually("a lets go again", millis(400), || !a.holds(VIP));
    });
}

#[test]
fn an_address_on_a_link_without_carrier_is_not_waited_for() {
    on_a_steady_machine(|| {
        let lan = Lan::new();
        let (a, b) = lan.pair();
        let (first, _second) = pair(&a, &b, VIP);
        lan.unplug(&a);
        eventually("a lets go", millis(150), || {
            !a.holds(VIP) && first.state() == RouterState::Fault
        });
    });
}
