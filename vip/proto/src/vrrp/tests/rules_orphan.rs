//! What is done in the name of a router whose process died, one test each.

use kedge_core::{
    Machine,
    vip::RouterState::{Initialize, Releasing},
};

use super::bench::{Bench, HIGH, LOW, OWN, OWN_MAC, assert_words, claim, mac, plain};
use crate::vrrp::{Orphan, Router};

/// A router that died `silent` ms after its last advert and is taken over at 0 ms.
fn orphan(silent: u64) -> Bench {
    let (mut bench, now, orphan) = Bench::ended(silent);
    bench.router = Router::orphan(now, plain(), orphan).unwrap();
    assert_words(&bench.drain(), &["Initialize -> Releasing: the agent died"]);
    bench
}

#[test]
fn a_goodbye_leaves_at_once_and_the_address_stays_until_a_successor_announces() {
    let mut bench = orphan(70);
    assert!(bench.router.view().held);
    assert_words(&bench.timeout(1_000), &["send 0"]);
    assert_words(&bench.advert(1_004, HIGH, 210), &[]);
    let gone = [
        "disown",
        "Releasing -> Initialize: 10.20.14.13 (priority 210) took over",
    ];
    assert_words(&bench.input(1_005, claim(mac(13))), &gone);
    assert_eq!(bench.state(), Initialize);
}

#[test]
fn an_advert_that_waits_in_the_socket_forbids_the_goodbye() {
    let mut bench = orphan(70);
    assert_words(&bench.advert(1_000, LOW, 200), &[]);
    assert_words(&bench.timeout(1_000), &[]);
    assert_eq!(bench.state(), Releasing);
    let gone = [
        "disown",
        "Releasing -> Initialize: 10.20.14.11 (priority 200) took over",
    ];
    assert_words(&bench.run(1_100), &gone);
}

#[test]
fn one_that_hung_before_it_died_says_nothing() {
    let mut bench = orphan(301);
    let gone =
        "Releasing -> Initialize: this host sent no advert for 301 ms, so another may hold it";
    assert_words(&bench.timeout(1_000), &["disown", gone]);
    assert_eq!(bench.router.poll_timeout(), None);
    let mut bench = orphan(300);
    assert_words(&bench.timeout(1_000), &["send 0"]);
}

#[test]
fn without_a_successor_it_answers_as_long_as_a_leaving_router_does() {
    let mut bench = orphan(0);
    let said = bench.run(1_399);
    assert_words(&said, &["send 0", "send 0", "send 0", "send 0"]);
    let gone = [
        "disown",
        "Releasing -> Initialize: no other router took over",
    ];
    assert_words(&bench.run(1_400), &gone);
}

#[test]
fn the_goodbye_leaves_in_both_forms_if_the_dead_one_had_to_send_both() {
    let mut bench = orphan(70);
    let dead = Orphan {
        source: OWN,
        mac: OWN_MAC,
        sent_at: bench.now,
        both_checksums: true,
    };
    bench.router = Router::orphan(bench.now, plain(), dead).unwrap();
    bench.drain();
    assert_words(&bench.timeout(1_000), &["send 0", "send 0 by message sum"]);
}
