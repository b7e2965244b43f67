//! Version 2 (RFC 3768): its skew, its interval, its password.

use kedge_core::vip::{AdvertInterval, RouterState::*};

use super::bench::{Bench, HIGH, LOW, address_v6, advert, assert_words, plain};
use crate::{
    vrrp::{Command, Config, ConfigError, Input, Reject, Router},
    wire::{
        Addresses, Password,
        checksum::Forms,
        vrrp::{Received, Version},
    },
};

fn password(text: &str) -> Version {
    Version::Two {
        password: Some(Password::new(text).unwrap()),
    }
}

fn second() -> AdvertInterval {
    AdvertInterval::from_centis(100).unwrap()
}

fn two() -> Config {
    Config {
        version: password("secret"),
        interval: second(),
        ..plain()
    }
}

fn heard(src: std::net::IpAddr, value: u8) -> Received {
    let mut received = advert(src, value);
    received.advert.version = password("secret");
    received.advert.interval = second();
    received.forms = Forms::Message;
    received
}

#[test]
fn the_skew_is_a_part_of_a_second_whatever_the_interval_is() {
    // (256 - 220) / 256 s = 140.625 ms.
    assert_eq!(Bench::started(two()).deadline(), Some(3_140.625));
    let slow = Config {
        interval: AdvertInterval::from_centis(500).unwrap(),
        ..two()
    };
    assert_eq!(Bench::started(slow).deadline(), Some(15_140.625));
}

#[test]
fn a_backup_follows_and_takes_over_after_a_goodbye_within_its_skew() {
    let mut bench = Bench::started(two());
    bench.input(10, Input::Advert(heard(HIGH, 230)));
    assert_eq!(bench.deadline(), Some(3_150.625));
    bench.input(20, Input::Advert(heard(HIGH, 0)));
    assert_eq!(bench.deadline(), Some(160.625));
    let done = bench.run(161);
    assert_eq!(bench.state(), Active);
    assert!(
        done.contains(&"send 220 by message sum".to_owned()),
        "{done:?}"
    );
    assert_eq!(
        bench.deadline(),
        Some(161.625),
        "the burst of announcements"
    );
}

#[test]
fn one_that_leaves_waits_as_long_as_any_backup_may_need() {
    let mut bench = Bench::active(two());
    bench.command(0, Command::Stop);
    bench.run(3_999);
    assert_eq!(bench.state(), Releasing);
    bench.run(4_000);
    assert_eq!(bench.state(), Initialize);
}

#[test]
fn another_interval_is_discarded_and_told() {
    let mut bench = Bench::started(two());
    let mut other = heard(HIGH, 230);
    other.advert.interval = AdvertInterval::from_centis(200).unwrap();
    assert_words(
        &bench.input(10, Input::Advert(other)),
        &[
            "notice: 10.20.14.13 advertises every 2.0 s, we are configured with 1.0 s, and version \
             2 learns no interval",
        ],
    );
    assert_eq!(bench.deadline(), Some(3_140.625));
    let stats = bench.router.view().stats;
    assert_eq!((stats.interval_errors, stats.adverts_received), (1, 0));
}

#[test]
fn another_password_is_discarded_and_told() {
    let mut bench = Bench::active(two());
    for (version, told) in [
        (
            password("other"),
            "notice: 10.20.14.11 advertises with a password that is not ours",
        ),
        (
            Version::Two { password: None },
            "notice: 10.20.14.13 advertises without a password, and we have one",
        ),
    ] {
        let from = if version == password("other") {
            LOW
        } else {
            HIGH
        };
        let mut other = heard(from, 255);
        other.advert.version = version;
        assert_words(&bench.input(10, Input::Advert(other)), &[told]);
    }
    assert_eq!(
        bench.state(),
        Active,
        "nobody without the password takes it"
    );
    assert_eq!(bench.router.view().stats.auth_errors, 2);
}

#[test]
fn the_other_version_is_discarded_and_told() {
    let mut bench = Bench::active(two());
    assert_words(
        &bench.advert(10, HIGH, 255),
        &["notice: 10.20.14.13 speaks VRRP version 3, and we do not"],
    );
    let mut three = Bench::active(plain());
    assert_words(
        &three.input(10, Input::Advert(heard(HIGH, 255))),
        &["notice: 10.20.14.13 speaks VRRP version 2, and we do not"],
    );
    for bench in [bench, three] {
        assert_eq!(bench.state(), Active);
        assert_eq!(bench.router.view().stats.version_errors, 1);
    }
}

#[test]
fn what_version_two_cannot_say_is_refused() {
    let refused = |config: Config| Router::new(config).unwrap_err();
    let interval = AdvertInterval::from_centis(150).unwrap();
    let odd = Config { interval, ..two() };
    assert_eq!(refused(odd), ConfigError::VersionTwoInterval);
    let addresses = Addresses::new(&[address_v6(10)]).unwrap();
    let six = Config { addresses, ..two() };
    assert_eq!(refused(six), ConfigError::VersionTwoIpv6);
}

#[test]
fn a_running_router_changes_its_password_but_not_its_version() {
    let mut bench = Bench::active(two());
    let config = Config {
        version: password("new"),
        ..two()
    };
    let done = bench.input(10, Input::Config(config));
    assert_words(&done, &["send 220 by message sum"]);
    let refused = bench.try_input(11, Input::Config(plain()));
    assert_eq!(refused, Err(Reject::Config(ConfigError::OtherRouter)));
}
