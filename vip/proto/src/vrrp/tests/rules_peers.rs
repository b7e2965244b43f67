//! Unicast: who is sent to, and who counts.

use kedge_core::vip::RouterState::*;

use super::bench::{Bench, HIGH, LOW, OWN, VIP, address, address_v6, advert, assert_words, plain};
use crate::{
    vrrp::{Command, Config, ConfigError, Input, Peers, Router},
    wire::vrrp::Received,
};

fn unicast(min_ttl: u8) -> Config {
    Config {
        peers: Peers::Unicast {
            routers: [LOW, HIGH].into(),
            min_ttl,
        },
        ..plain()
    }
}

fn sent_to_us(src: std::net::IpAddr, value: u8) -> Received {
    Received {
        dst: OWN,
        ..advert(src, value)
    }
}

#[test]
fn every_peer_is_sent_every_advert_and_every_goodbye() {
    let mut bench = Bench::active(unicast(255));
    let mut done = bench.run(100);
    done.retain(|word| word.starts_with("send"));
    assert_words(
        &done,
        &["send 220 to 10.20.14.11", "send 220 to 10.20.14.13"],
    );
    assert_words(
        &bench.command(110, Command::Stop)[..2],
        &["send 0 to 10.20.14.11", "send 0 to 10.20.14.13"],
    );
}

#[test]
fn only_a_configured_peer_with_its_ttl_counts() {
    let mut bench = Bench::active(unicast(254));
    let far = Received {
        ttl: 253,
        ..sent_to_us(HIGH, 250)
    };
    for (received, told) in [
        (
            advert(HIGH, 250),
            "notice: 10.20.14.13 advertises to the group, and we take adverts of unicast peers only",
        ),
        (
            sent_to_us(address(14), 250),
            "notice: 10.20.14.14 advertises to this host and is none of its unicast peers",
        ),
        (
            far,
            "notice: 10.20.14.13 advertises with TTL 253, and `min_ttl` is 254",
        ),
    ] {
        assert_words(&bench.input(10, Input::Advert(received)), &[told]);
    }
    assert_eq!(bench.state(), Active);
    assert_eq!(bench.router.view().stats.delivery_errors, 3);
    let near = Received {
        ttl: 254,
        ..sent_to_us(HIGH, 250)
    };
    bench.input(11, Input::Advert(near));
    assert_eq!(bench.state(), Backup);
}

#[test]
fn a_router_of_the_group_takes_nothing_that_was_sent_to_it_alone() {
    let mut bench = Bench::active(plain());
    assert_words(
        &bench.input(10, Input::Advert(sent_to_us(HIGH, 250))),
        &[
            "notice: 10.20.14.13 advertises to this host alone, and we take adverts to the group \
             only",
        ],
    );
    assert_eq!(bench.state(), Active);
}

#[test]
fn a_change_of_the_peers_is_advertised_at_once() {
    let mut bench = Bench::active(plain());
    assert_words(
        &bench.input(10, Input::Config(unicast(255))),
        &["send 220 to 10.20.14.11", "send 220 to 10.20.14.13"],
    );
}

#[test]
fn peers_nobody_can_be_reached_at_are_refused() {
    let with = |routers: &[std::net::IpAddr]| {
        let peers = Peers::Unicast {
            routers: routers.into(),
            min_ttl: 255,
        };
        Router::new(Config { peers, ..plain() }).map(drop)
    };
    assert_eq!(with(&[]), Err(ConfigError::NoPeer));
    let group = "224.0.0.18".parse().unwrap();
    for bad in [address_v6(1), group, VIP, "0.0.0.0".parse().unwrap()] {
        assert_eq!(with(&[LOW, bad]), Err(ConfigError::BadPeer(bad)));
    }
    assert_eq!(with(&[LOW]), Ok(()));
}
