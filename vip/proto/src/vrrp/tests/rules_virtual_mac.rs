//! What is different where the addresses are at the virtual router's hardware address (RFC 9568
//! section 7.3).

use std::net::IpAddr;

use kedge_core::{
    Instant,
    vip::{Priority, RouterState::*},
};

use super::bench::{
    Bench, HIGH, LOW, OWN, OWN_MAC, STRANGER, VIP, address_v6, advert, announced, plain,
};
use crate::{
    vrrp::{Config, ConfigError, Input, Orphan, Output, Reject, Router},
    wire::{Mac, vrrp::Received},
};

/// Of VRID 51.
const VIRTUAL: Mac = Mac([0, 0, 0x5e, 0, 1, 51]);
const VIRTUAL_V6: Mac = Mac([0, 0, 0x5e, 0, 2, 51]);

fn virtual_mac() -> Config {
    Config {
        virtual_mac: true,
        ..plain()
    }
}

fn dual() -> Config {
    Config {
        excluded: [address_v6(10)].into(),
        ..virtual_mac()
    }
}

/// An advert from the hardware address that all members share.
fn from_virtual(received: Received) -> Input {
    Input::Advert(Received {
        mac: VIRTUAL,
        ..received
    })
}

#[test]
fn each_address_is_announced_at_the_virtual_address_of_its_family() {
    let bench = Bench::active(dual());
    let expected = [(VIP, VIRTUAL), (VIP, VIRTUAL), (address_v6(10), VIRTUAL_V6)];
    assert_eq!(claims(bench.router), expected);
}

#[test]
fn who_keeps_it_for_another_process_announces_it_there_too() {
    let orphan = Orphan {
        source: OWN,
        mac: OWN_MAC,
        sent_at: Instant::ZERO,
        both_checksums: false,
    };
    let router = Router::caretaker(Instant::ZERO, dual(), orphan, dual().priority).unwrap();
    assert_eq!(
        claims(router),
        [(VIP, VIRTUAL), (VIP, VIRTUAL), (address_v6(10), VIRTUAL_V6)]
    );
}

/// What is announced next, and where it is said to be.
fn claims(mut router: Router) -> Vec<(IpAddr, Mac)> {
    router.announcer.again();
    router.outputs.clear();
    router.drain_children();
    let announced = router.outputs.iter().filter_map(|output| {
        let Output::Announce(packet) = output else {
            return None;
        };
        packet.claim()
    });
    announced
        .map(|claim| (claim.address, claim.mac))
        .take(3)
        .collect()
}

#[test]
fn the_adverts_of_others_count_though_they_come_from_the_same_hardware_address() {
    let mut bench = Bench::active(virtual_mac());
    bench.input(11, from_virtual(advert(HIGH, 240)));
    assert_eq!(bench.state(), Backup);
    assert_eq!(bench.router.view().active.unwrap().address, HIGH);
}

#[test]
fn our_own_advert_that_comes_back_is_told_by_its_source() {
    let mut bench = Bench::active(virtual_mac());
    let looped = from_virtual(advert(OWN, 240));
    assert_eq!(bench.try_input(11, looped.clone()), Err(Reject::OwnPacket));
    let mut plainly = Bench::active(plain());
    assert!(
        plainly.try_input(11, looped).is_ok(),
        "nobody here has that address"
    );
}

#[test]
fn a_claim_at_the_virtual_address_is_no_strangers_and_one_at_any_other_is() {
    let mut bench = Bench::active(virtual_mac());
    bench.run(11_000);
    assert!(bench.input(11_001, announced(VIP, VIRTUAL)).is_empty());
    assert_eq!(bench.router.view().stats.foreign_claims, 0);
    // Of another virtual router, of the other family, or a station's own.
    let other = Mac([0, 0, 0x5e, 0, 1, 52]);
    for (millis, mac) in [(11_010, other), (11_020, VIRTUAL_V6), (11_030, STRANGER)] {
        let words = bench.input(millis, announced(VIP, mac));
        assert!(
            words[0].starts_with(&format!("notice: {mac} claims")),
            "{words:?}"
        );
    }
    assert_eq!(bench.router.view().stats.foreign_claims, 3);
}

#[test]
fn without_it_a_claim_at_the_virtual_address_is_foreign() {
    let mut bench = Bench::active(plain());
    bench.run(11_000);
    let words = bench.input(11_001, announced(VIP, VIRTUAL));
    assert!(words[0].contains("claims"), "{words:?}");
}

#[test]
fn a_leaver_lets_go_when_all_is_announced_wherever_the_adverts_come_from() {
    for config in [
        dual(),
        Config {
            virtual_mac: false,
            ..dual()
        },
    ] {
        for sender in [VIRTUAL, advert(LOW, 200).mac] {
            let mut bench = Bench::active(config.clone());
            bench.command(20, crate::vrrp::Command::Stop);
            let received = Received {
                mac: sender,
                ..advert(LOW, 200)
            };
            bench.input(30, Input::Advert(received));
            bench.input(31, announced(VIP, VIRTUAL));
            assert_eq!(bench.state(), Releasing, "one of two");
            bench.input(32, announced(address_v6(10), VIRTUAL_V6));
            assert_eq!(bench.state(), Initialize);
        }
    }
}

#[test]
fn who_owns_the_address_has_it_at_his_own_hardware_address() {
    let owner = Config {
        owner: true,
        priority: Priority::OWNER,
        ..virtual_mac()
    };
    assert_eq!(owner.check(), Err(ConfigError::OwnerVirtual));
}

#[test]
fn a_running_router_does_not_change_its_kind_of_hardware_address() {
    let mut bench = Bench::active(plain());
    let refused = bench.try_input(20, Input::Config(virtual_mac()));
    assert_eq!(refused, Err(Reject::Config(ConfigError::OtherRouter)));
}
