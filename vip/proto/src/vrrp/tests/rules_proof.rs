//! The rule about packets that should arrive once the addresses are here (R22).

use kedge_core::vip::{AdvertInterval, RouterState::*};

use super::bench::{Bench, HIGH, address, assert_words, link_down, plain};
use crate::vrrp::{Command, Config, Evidence, Input, Proof, Reject};

fn proving() -> Config {
    Config {
        proves: true,
        ..plain()
    }
}

/// What it does beside advertising until `millis`, with its time.
fn deeds(bench: &mut Bench, from: u64, until: u64) -> Vec<String> {
    let mut all = Vec::new();
    for millis in from..=until {
        let done = bench.run(millis);
        let told = done.into_iter().filter(|word| !word.starts_with("send"));
        all.extend(told.map(|word| format!("{millis}: {word}")));
    }
    all
}

fn arrived() -> Input {
    Input::Evidence(Evidence::Arrived)
}

#[test]
fn r22_a_packet_for_the_address_is_proof_and_ends_the_search() {
    let mut bench = Bench::active(proving());
    let since = bench.now;
    assert_eq!(bench.router.view().proof, Proof::Awaited { since });
    bench.run(100);
    let asked = deeds(&mut bench, 101, 210);
    assert_words(&asked, &["200: look"]);
    assert_words(&bench.input(210, arrived()), &["look away"]);
    let at = bench.at(210);
    assert_eq!(bench.router.view().proof, Proof::Seen { at });
    bench.run(1_000);
    let quiet = deeds(&mut bench, 1_001, 4_999);
    assert_eq!(quiet, Vec::<String>::new(), "nobody is asked again");
}

#[test]
fn r22_the_first_question_comes_after_the_burst_and_three_without_an_answer_are_told() {
    let mut bench = Bench::active(proving());
    let since = bench.now;
    bench.run(1_000);
    let done = deeds(&mut bench, 1_001, 3_199);
    assert_words(&done, &["1200: look", "2200: look"]);
    let told = deeds(&mut bench, 3_200, 3_200);
    assert_words(
        &told,
        &[
            "3200: look away",
            "3200: notice: nothing for 10.20.14.10 has arrived since this host took it 3.2 s ago, \
             and the router that was asked from there did not answer",
            "3200: announce 10.20.14.10 Request",
            "3200: announce 10.20.14.10 Reply",
        ],
    );
    assert_eq!(bench.router.view().proof, Proof::Missing { since });
    let burst = deeds(&mut bench, 3_201, 3_400);
    let announced: Vec<_> = burst.iter().filter(|it| it.ends_with("Request")).collect();
    assert_eq!(announced.len(), 4, "the rest of a new burst: {burst:?}");
    assert_eq!(bench.state(), Active, "the VIP stays");
}

#[test]
fn r22_while_the_proof_is_missing_it_is_asked_for_every_ten_seconds_and_told_once_a_minute() {
    let mut bench = Bench::active(proving());
    bench.run(9_000);
    let done = deeds(&mut bench, 9_001, 14_000);
    assert_words(
        &done,
        &[
            "10200: look",
            "11200: look",
            "12200: look",
            "13200: look away",
        ],
    );
    bench.run(62_300);
    let mut done = deeds(&mut bench, 62_301, 64_000);
    done.retain(|word| !word.contains("announce"));
    let told = done.pop().unwrap();
    assert_words(&done, &["63200: look away"]);
    assert!(told.starts_with("63200: notice: nothing for"), "{told}");
    assert!(told.contains("63.2 s ago"), "{told}");
}

#[test]
fn r22_a_router_that_answers_late_ends_the_complaint() {
    let mut bench = Bench::active(proving());
    bench.run(10_200);
    assert_words(&bench.input(10_201, arrived()), &["look away"]);
    let at = bench.at(10_201);
    assert_eq!(bench.router.view().proof, Proof::Seen { at });
    bench.run(200_000);
    assert_eq!(bench.router.view().proof, Proof::Seen { at });
}

#[test]
fn r22_where_nobody_can_be_asked_nothing_is_missing() {
    let mut bench = Bench::active(proving());
    bench.run(200);
    let nobody = Input::Evidence(Evidence::NobodyToAsk);
    assert_words(&bench.input(200, nobody), &["look away"]);
    assert_eq!(bench.router.view().proof, Proof::None);
    let later = bench.run(10_000);
    assert!(later.iter().all(|word| !word.starts_with("notice")));
}

#[test]
fn r22_what_was_not_asked_for_proves_nothing() {
    let mut bench = Bench::active(proving());
    let early = bench.try_input(100, arrived());
    assert_eq!(early, Err(Reject::NotAsked));
    bench.run(3_200);
    let between = bench.try_input(3_201, arrived());
    assert_eq!(between, Err(Reject::NotAsked));
}

#[test]
fn r22_the_search_ends_with_the_address() {
    type End = fn(&mut Bench) -> Vec<String>;
    let ends: [(End, &str); 4] = [
        (|bench| bench.advert(250, HIGH, 250), "a better Active"),
        (|bench| bench.command(250, Command::Stop), "a stop"),
        (|bench| bench.input(250, link_down()), "a lost link"),
        (|bench| bench.timeout(900), "a stall"),
    ];
    for (end, what) in ends {
        let mut bench = Bench::active(proving());
        bench.run(200);
        let done = end(&mut bench);
        assert!(done.contains(&"look away".to_owned()), "{what}: {done:?}");
        assert_eq!(bench.router.view().proof, Proof::None, "{what}");
        let late = bench.try_input(901, arrived());
        assert_eq!(late, Err(Reject::NotAsked), "{what}");
    }
}

#[test]
fn r22_the_search_waits_for_no_advert() {
    let interval = AdvertInterval::from_centis(4_000).unwrap();
    let mut bench = Bench::active(Config {
        interval,
        ..proving()
    });
    bench.run(100);
    assert_eq!(bench.deadline(), Some(200.0));
    bench.run(500);
    assert_eq!(bench.deadline(), Some(1_000.0), "the next announcement");
    let asked = bench.run(3_200);
    let looks = asked.iter().filter(|word| *word == "look").count();
    assert_eq!(looks, 2);
    assert_eq!(
        asked.last().map(String::as_str),
        Some("announce 10.20.14.10 Reply")
    );
}

#[test]
fn r22_who_stalled_lets_go_before_anything_else() {
    let mut bench = Bench::active(proving());
    bench.run(200);
    let done = bench.timeout(900);
    assert_words(&done[..2], &["disown", "look away"]);
}

#[test]
fn r22_no_deadline_of_the_search_is_left_to_a_backup() {
    let mut bench = Bench::active(proving());
    bench.run(100);
    bench.advert(150, HIGH, 250);
    assert_eq!(bench.state(), Backup);
    let waits_for_silence = bench.deadline().unwrap();
    assert!(waits_for_silence > 450.0, "{waits_for_silence}");
}

#[test]
fn r22_other_addresses_are_proved_anew() {
    let mut bench = Bench::active(proving());
    bench.run(200);
    bench.input(210, arrived());
    bench.input(300, Input::Config(more(proving())));
    assert_eq!(bench.router.view().proof, Proof::None, "not held yet");
    bench.owned();
    let since = bench.at(300);
    assert_eq!(bench.router.view().proof, Proof::Awaited { since });
    bench.run(400);
    assert_words(&deeds(&mut bench, 401, 500), &["500: look"]);
}

#[test]
fn r22_nothing_is_looked_for_where_that_is_not_wanted_or_the_kernel_refuses() {
    let mut plain = Bench::active(plain());
    let done = plain.run(10_000);
    assert!(done.iter().all(|word| !word.starts_with("look")));

    let mut bench = Bench::active(proving());
    bench.input(10, Input::Config(more(proving())));
    assert_eq!(bench.router.view().proof, Proof::None, "not held yet");
    bench.refuse(11);
    assert_eq!(bench.router.view().proof, Proof::None);
    assert_eq!(bench.state(), Fault);
}

/// The same with one more address.
fn more(config: Config) -> Config {
    let excluded = [address(77)].into();
    Config { excluded, ..config }
}
