//! IPv6, and addresses that go along without being advertised.

use std::net::{IpAddr, Ipv6Addr};

use kedge_core::vip::RouterState::*;

use super::bench::{
    Bench, LOW, OWN_MAC, STRANGER, VIP, address, address_v6, announced, assert_words, mac, plain,
};
use crate::{
    vrrp::{Command, Config, ConfigError, Input, Reject, Router},
    wire::{Addresses, Neighbor, checksum::Forms},
};

fn global(last: u16) -> IpAddr {
    Ipv6Addr::new(0xfd00, 0x14, 0, 0, 0, 0, 0, last).into()
}

fn six() -> Config {
    Config {
        addresses: Addresses::new(&[global(0x10)]).unwrap(),
        ..plain()
    }
}

/// An IPv4 router that carries an IPv6 address along.
fn dual() -> Config {
    Config {
        excluded: [global(0x10)].into(),
        ..plain()
    }
}

#[test]
fn an_ipv6_router_advertises_to_its_group_and_announces_by_advertisements() {
    let mut bench = Bench::started(six());
    let done = bench.run(341);
    assert_words(
        &done[..4],
        &[
            "send 220",
            "own",
            "Backup -> Active: no other router was heard for 314 ms",
            "announce fd00:14::10",
        ],
    );
    assert_eq!(bench.state(), Active);
}

#[test]
fn an_ipv6_router_yields_to_the_higher_link_local_address() {
    let mut bench = Bench::active(six());
    bench.advert(10, address_v6(11), 220);
    assert_eq!(bench.state(), Active);
    bench.advert(20, address_v6(13), 220);
    assert_eq!(bench.state(), Backup);
}

#[test]
fn a_neighbor_that_claims_our_ipv6_address_is_answered() {
    let mut bench = Bench::active(six());
    bench.run(11_000);
    let done = bench.input(11_001, announced(global(0x10), STRANGER));
    assert_words(
        &done,
        &[
            "notice: 02:00:00:00:00:63 claims fd00:14::10 while we hold it (claim 1)",
            "announce fd00:14::10",
        ],
    );
    let probe = Input::Neighbor(Neighbor::probe(global(0x10), STRANGER));
    assert_eq!(bench.try_input(11_002, probe), Err(Reject::OtherAddress));
    let own = bench.try_input(11_003, announced(global(0x10), OWN_MAC));
    assert_eq!(own, Err(Reject::OwnPacket));
}

#[test]
fn a_first_claim_of_an_ipv6_address_is_probed_for() {
    let mut bench = Bench::new(Config {
        first_claim: true,
        ..six()
    });
    let link = crate::vrrp::Link::Up {
        source: address_v6(12),
        mac: OWN_MAC,
    };
    bench.input(0, Input::Link(link));
    bench.input(0, Input::Heard);
    let done = bench.command(0, Command::Start);
    assert!(done.contains(&"ask for fd00:14::10".to_owned()), "{done:?}");
    bench.input(1, announced(global(0x10), STRANGER));
    bench.run(400);
    assert_eq!(bench.state(), Fault);
}

#[test]
fn a_message_sum_is_never_sent_over_ipv6() {
    let mut bench = Bench::active(six());
    let mut lower = super::bench::advert(address_v6(11), 200);
    lower.forms = Forms::Message;
    for millis in [10, 110, 210, 310, 410, 510] {
        let done = bench.input(millis, Input::Advert(lower.clone()));
        assert!(
            !done.iter().any(|word| word.contains("message sum")),
            "{done:?}"
        );
    }
}

#[test]
fn an_address_that_is_not_advertised_is_held_announced_and_defended_too() {
    let mut bench = Bench::started(dual());
    let done = bench.run(341);
    assert!(
        done.contains(&"announce fd00:14::10".to_owned()),
        "{done:?}"
    );
    assert!(done.contains(&"announce 10.20.14.10 Request".to_owned()));
    let done = bench.input(342, announced(global(0x10), STRANGER));
    assert!(
        done.contains(&"announce fd00:14::10".to_owned()),
        "{done:?}"
    );
}

#[test]
fn one_that_leaves_waits_for_the_announcements_of_both_families() {
    let mut bench = Bench::active(dual());
    bench.command(0, Command::Stop);
    bench.advert(20, LOW, 210);
    bench.input(21, announced(VIP, mac(11)));
    assert_eq!(bench.state(), Releasing);
    bench.input(22, announced(global(0x10), mac(11)));
    assert_eq!(bench.state(), Initialize);
}

#[test]
fn a_change_of_what_is_not_advertised_asks_the_kernel_and_sends_nothing() {
    let mut bench = Bench::active(dual());
    let config = Config {
        excluded: [global(0x10), address(20)].into(),
        ..dual()
    };
    assert_words(&bench.input(10, Input::Config(config)), &["own"]);
    assert!(
        bench
            .owned()
            .contains(&"announce 10.20.14.20 Request".to_owned())
    );
}

#[test]
fn more_ipv6_addresses_than_fit_a_packet_are_refused() {
    let list = |count: u16| {
        let list: Vec<IpAddr> = (0..count).map(global).collect();
        let addresses = Addresses::new(&list).unwrap();
        Router::new(Config {
            addresses,
            ..plain()
        })
        .map(drop)
    };
    assert_eq!(list(89), Ok(()));
    assert_eq!(list(90), Err(ConfigError::TooLong));
}

#[test]
fn another_family_is_another_router() {
    let mut bench = Bench::active(plain());
    let refused = bench.try_input(1, Input::Config(six()));
    assert_eq!(refused, Err(Reject::Config(ConfigError::OtherRouter)));
}
