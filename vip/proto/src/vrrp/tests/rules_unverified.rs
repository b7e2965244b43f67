//! The rule about adverts that prove nothing while nobody else is heard (R24).

use kedge_core::vip::RouterState::*;

use super::bench::{Bench, HIGH, LOW, STRANGER, assert_words, claim, mac, plain};
use crate::vrrp::{Config, Waiting};

const ASKS: &str = "ask for 10.20.14.10";

/// A Backup of LOW that hears an advert of HIGH without proof, and then nobody.
fn silent() -> Bench {
    let mut bench = Bench::following(plain(), 240);
    bench.unverified(100, HIGH);
    bench
}

#[test]
fn r24_who_proves_nothing_is_asked_before_the_claim_and_his_silence_ends_the_wait() {
    let mut bench = silent();
    assert_eq!(
        bench.deadline(),
        Some(314.062),
        "his advert itself moves nothing"
    );
    assert_words(&bench.timeout(315), &[ASKS]);
    assert_eq!(bench.state(), Backup);
    let waiting = bench.router.view().waiting;
    assert!(
        matches!(waiting, Some(Waiting::Holder { mac: it, .. }) if it == mac(13)),
        "{waiting:?}"
    );
    assert_eq!(bench.deadline(), Some(415.0));
    assert_words(&bench.timeout(415), &[ASKS]);
    // However often he speaks meanwhile.
    bench.unverified(500, HIGH);
    assert_eq!(bench.deadline(), Some(515.0));
    let words = bench.timeout(515);
    assert_eq!(words[..2], ["send 220", "own"]);
}

#[test]
fn r24_if_he_answers_the_vip_is_left_to_him_and_told() {
    let mut bench = silent();
    bench.timeout(315);
    assert_words(
        &bench.input(320, claim(mac(13))),
        &[
            "notice: 10.20.14.13 (02:00:00:00:00:0d) holds 10.20.14.10, and its adverts prove \
           nothing: the VIP is left to it",
        ],
    );
    assert_eq!((bench.state(), bench.deadline()), (Backup, Some(634.062)));
    // As long as he goes on.
    bench.unverified(600, HIGH);
    assert_words(&bench.timeout(635), &[ASKS]);
    bench.input(640, claim(mac(13)));
    assert_eq!(bench.deadline(), Some(954.062));
    // And no longer.
    assert_eq!(bench.timeout(955)[..2], ["send 220", "own"]);
}

#[test]
fn r24_an_answer_of_somebody_else_counts_as_ever() {
    let mut bench = silent();
    bench.timeout(315);
    assert!(bench.input(320, claim(STRANGER)).is_empty());
    assert_eq!(bench.timeout(515)[..2], ["send 220", "own"]);
}

#[test]
fn r24_a_valid_advert_ends_the_question() {
    let mut bench = silent();
    bench.timeout(315);
    bench.advert(350, LOW, 240);
    assert_eq!(bench.deadline(), Some(664.062));
    assert!(bench.input(360, claim(mac(13))).is_empty());
    // Long ago heard is not heard.
    assert_eq!(bench.timeout(665)[..2], ["send 220", "own"]);
}

#[test]
fn r24_nobody_is_asked_after_a_goodbye_or_before_a_preemption() {
    let mut bench = silent();
    bench.advert(110, LOW, 0);
    assert_eq!(bench.timeout(125)[..2], ["send 220", "own"]);
    let mut preempting = Bench::following(
        Config {
            preempt: true,
            ..plain()
        },
        240,
    );
    preempting.advert(100, LOW, 100);
    preempting.unverified(200, HIGH);
    assert_eq!(preempting.timeout(315)[..2], ["send 220", "own"]);
}

#[test]
fn r24_a_follower_asks_nobody() {
    let mut bench = Bench::started(Config {
        follows: true,
        ..plain()
    });
    bench.run(1_000);
    bench.unverified(1_000, HIGH);
    assert_eq!(bench.lead(1_001, Active, 220)[..2], ["send 220", "own"]);
}
