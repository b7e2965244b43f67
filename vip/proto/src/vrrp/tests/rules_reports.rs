//! Checksums, differences between members, and what people are told.

use kedge_core::{
    Machine,
    vip::{AdvertInterval, RouterState::*},
};

use super::bench::{Bench, HIGH, LOW, OWN, VIP, advert, assert_words, mac, plain};
use crate::{
    auth::Trailer,
    vrrp::{ChecksumPolicy, Command, Config, Event, Input, Link, Output},
    wire::{Addresses, checksum::Forms, vrrp::MAX_LEN},
};

#[test]
fn the_pseudo_header_sum_is_sent_until_somebody_sends_the_other_one() {
    let mut bench = Bench::following(plain(), 230);
    let mut message = advert(LOW, 230);
    message.forms = Forms::Message;
    bench.input(10, Input::Advert(message));
    assert!(bench.router.view().both_checksums);
    assert_eq!(bench.run(400)[..2], ["send 220", "send 220 by message sum"]);
    // The same peer with the usual sum: one form is enough again.
    bench.input(401, Input::Advert(advert(LOW, 200)));
    assert!(!bench.router.view().both_checksums);
    let done = bench.timeout(425);
    let sent: Vec<&String> = done
        .iter()
        .filter(|word| word.starts_with("send"))
        .collect();
    assert_eq!(sent, ["send 220"]);
}

#[test]
fn a_peer_that_ignores_our_adverts_gets_both_sums_and_then_a_notice() {
    let mut bench = Bench::active(plain());
    let mut notices = Vec::new();
    for millis in (0..3_000).step_by(10) {
        let mut done = bench.timeout(millis);
        if millis % 100 == 50 {
            done.extend(bench.advert(millis, LOW, 200));
        }
        notices.extend(
            done.into_iter()
                .filter(|w| w.starts_with("notice"))
                .map(|w| (millis, w)),
        );
    }
    assert!(bench.router.view().both_checksums);
    let first = "notice: 10.20.14.11 needs the other checksum form, so both are sent";
    let second = "notice: 10.20.14.11 (priority 200) has ignored our adverts for 1.1 s: it does \
                  not hear us, or refuses our version or authentication";
    assert_eq!(
        notices,
        [(350, first.to_owned()), (1_150, second.to_owned())]
    );
}

#[test]
fn a_fixed_checksum_policy_sends_one_form_whatever_is_heard() {
    for (checksum, word) in [
        (ChecksumPolicy::Message, "send 220 by message sum"),
        (ChecksumPolicy::PseudoHeader, "send 220"),
    ] {
        let mut bench = Bench::active(Config {
            checksum,
            ..plain()
        });
        let mut message = advert(LOW, 200);
        message.forms = Forms::Message;
        let done = bench.input(50, Input::Advert(message));
        let sent: Vec<&String> = done
            .iter()
            .filter(|word| word.starts_with("send"))
            .collect();
        assert_eq!(sent, [word]);
    }
}

#[test]
fn different_address_lists_and_intervals_are_reported_and_never_dropped() {
    let mut bench = Bench::started(plain());
    let mut odd = advert(LOW, 230);
    odd.advert.addresses = Addresses::new(&[VIP, HIGH]).unwrap();
    odd.advert.interval = AdvertInterval::from_centis(30).unwrap();
    assert_words(
        &bench.input(10, Input::Advert(odd.clone())),
        &[
            "notice: 10.20.14.11 advertises 10.20.14.10, 10.20.14.13, we are configured with \
             10.20.14.10",
            "notice: 10.20.14.11 advertises every 300 ms, we are configured with 100 ms",
        ],
    );
    assert_eq!(bench.deadline(), Some(952.187));
    assert_words(&bench.input(20, Input::Advert(odd)), &[]);
    let stats = bench.router.view().stats;
    assert_eq!((stats.address_list_errors, stats.interval_errors), (2, 2));
}

#[test]
fn a_stranger_on_our_vrid_is_reported_and_still_followed() {
    let mut bench = Bench::active(plain());
    let mut stranger = advert(LOW, 230);
    stranger.advert.addresses = Addresses::new(&[HIGH]).unwrap();
    let done = bench.input(10, Input::Advert(stranger));
    assert_eq!(
        done[0],
        "notice: 10.20.14.11 (02:00:00:00:00:0b) uses VRID 51 for 10.20.14.13"
    );
    assert_eq!(bench.state(), Backup);
}

#[test]
fn a_change_of_the_hardware_address_is_announced() {
    let mut bench = Bench::active(plain());
    let done = bench.input(
        10,
        Input::Link(Link::Up {
            source: OWN,
            mac: mac(88),
        }),
    );
    assert_eq!(done[1], "announce 10.20.14.10 Request");
}

#[test]
fn every_change_of_state_says_why() {
    let mut bench = Bench::started(plain());
    bench.run(400);
    bench.command(400, Command::Stop);
    bench.run(2_000);
    assert_eq!(bench.state(), Initialize);
    let view = bench.router.view();
    assert_eq!(view.because.to_string(), "no other router took over");
    assert_eq!(view.since, bench.at(800));
    // And it can be started again.
    assert_words(
        &bench.command(2_000, Command::Start),
        &["Initialize -> Backup: the agent started"],
    );
    let mut silent = bench.router.clone();
    silent.handle_timeout(bench.at(2_400));
    assert!(
        std::iter::from_fn(|| silent.poll_output()).any(|output| matches!(
            output,
            Output::Event(Event::State {
                from: Backup,
                to: Active,
                ..
            })
        ))
    );
}

#[test]
fn what_one_peer_understands_says_nothing_about_another() {
    let mut bench = Bench::following(plain(), 230);
    let mut message = advert(LOW, 230);
    message.forms = Forms::Message;
    bench.input(10, Input::Advert(message));
    bench.advert(20, HIGH, 230);
    assert!(bench.router.view().both_checksums);
    bench.advert(30, LOW, 230);
    assert!(!bench.router.view().both_checksums);
}

#[test]
fn only_one_peer_that_goes_on_is_one_that_ignores_us() {
    let mut taking_turns = Bench::active(plain());
    for millis in (0..3_000).step_by(10) {
        taking_turns.timeout(millis);
        match millis % 200 {
            50 => drop(taking_turns.advert(millis, LOW, 200)),
            150 => drop(taking_turns.advert(millis, HIGH, 200)),
            _ => {}
        }
    }
    assert!(!taking_turns.router.view().both_checksums);
    let mut now_and_then = Bench::active(plain());
    for millis in (0..6_000).step_by(10) {
        now_and_then.timeout(millis);
        if millis % 310 == 50 {
            now_and_then.advert(millis, LOW, 200);
        }
    }
    assert!(!now_and_then.router.view().both_checksums);
}

#[test]
fn a_transmission_is_sealed_to_its_new_length() {
    let mut bench = Bench::active(plain());
    bench.router.handle_timeout(bench.at(100));
    let sent = bench.router.poll_output().unwrap();
    let Output::Send(transmit) = sent else {
        panic!("{sent:?}");
    };
    let mut buffer = [0; MAX_LEN];
    let length = transmit.emit(&mut buffer);
    let trailer = [7; Trailer::LEN];
    let sealed = transmit.seal(&mut buffer, length, &trailer);
    assert_eq!(sealed, length + Trailer::LEN);
    assert_eq!(buffer[length..sealed], trailer);
}
