//! The rules about who else uses the address: first claim (R19) and foreign claims (R12).

use kedge_core::vip::{AdvertInterval, RouterState::*};

use super::bench::{
    Bench, LOW, STRANGER, VIP, VIP_V4, advert, assert_words, claim, link_down, link_up, mac, plain,
};
use crate::{
    vrrp::{Command, Config, Input, Reject, Waiting},
    wire::{
        Mac, Neighbor,
        arp::{Operation, Packet},
    },
};

fn first_claim() -> Config {
    Config {
        first_claim: true,
        ..plain()
    }
}

#[test]
fn r12_the_last_word_of_the_one_before_is_answered_and_no_news() {
    let mut bench = Bench::following(plain(), 200);
    bench.command(0, Command::Take);
    bench.run(20);
    let notice = |words: &[String]| words.iter().any(|word| word.starts_with("notice"));
    let announced = |words: &[String]| words.iter().any(|word| word.starts_with("announce"));
    let said = bench.input(21, claim(mac(11)));
    assert!(!notice(&said) && announced(&said), "{said:?}");
    // Not only a last word.
    assert!(notice(&bench.input(30, claim(mac(11)))));
    let mut bench = Bench::following(plain(), 200);
    bench.command(0, Command::Take);
    bench.run(150);
    assert!(notice(&bench.input(150, claim(mac(11)))), "much later");
    let mut bench = Bench::following(plain(), 200);
    bench.command(0, Command::Take);
    bench.run(20);
    assert!(notice(&bench.input(21, claim(mac(99)))), "somebody else");
}

#[test]
fn r12_a_foreign_claim_is_answered_at_once_and_reported_with_its_address() {
    let mut bench = Bench::active(plain());
    bench.run(11_000);
    assert_eq!(
        bench.input(11_001, claim(STRANGER)),
        [
            "notice: 02:00:00:00:00:63 claims 10.20.14.10 while we hold it (claim 1)",
            "announce 10.20.14.10 Request",
            "announce 10.20.14.10 Reply",
        ]
    );
}

#[test]
fn r12_a_claimer_that_does_not_give_in_is_reported_as_such_and_answered_ever_less() {
    let mut bench = Bench::active(plain());
    bench.run(11_000);
    let (mut answers, mut notices) = (0, Vec::new());
    for millis in (11_000..41_000).step_by(50) {
        bench.run(millis);
        let done = bench.input(millis, claim(STRANGER));
        answers += usize::from(done.iter().any(|word| word.starts_with("announce")));
        notices.extend(done.into_iter().filter(|word| word.starts_with("notice")));
    }
    assert!((5..=9).contains(&answers), "{answers} answers in 30 s");
    assert_eq!(notices.len(), 2);
    assert!(notices[1].ends_with("and does not give in"), "{notices:?}");
    assert_eq!(bench.router.view().stats.foreign_claims, 600);
}

#[test]
fn r12_the_last_word_is_ours_even_when_the_bucket_is_empty() {
    let mut bench = Bench::active(plain());
    bench.run(11_000);
    for millis in 11_000..11_050 {
        bench.run(millis);
        bench.input(millis, claim(STRANGER));
    }
    let later = bench.run(22_000);
    let announced = later
        .iter()
        .filter(|word| word.starts_with("announce"))
        .count();
    assert_eq!(
        announced, 2,
        "one request and one reply after the claims ended"
    );
    let quiet = bench.run(33_000);
    assert!(quiet.iter().all(|word| !word.starts_with("announce")));
}

#[test]
fn r12_who_is_leaving_defends_nothing() {
    let mut bench = Bench::active(plain());
    bench.command(0, Command::Stop);
    assert!(bench.input(1, claim(STRANGER)).is_empty());
}

#[test]
fn r12_a_request_from_our_address_is_a_claim_and_our_own_announcement_is_not() {
    let mut bench = Bench::active(plain());
    let target = std::net::Ipv4Addr::new(10, 20, 14, 1);
    let asks = Packet {
        operation: Operation::Request,
        sender_mac: STRANGER,
        sender: VIP_V4,
        target_mac: Mac::ZERO,
        target,
    };
    assert!(
        !bench
            .input(10, Input::Neighbor(Neighbor::Arp(asks)))
            .is_empty()
    );
    let own = bench.try_input(11, claim(mac(12)));
    assert_eq!(own, Err(Reject::OwnPacket));
    let probe = Input::Neighbor(Neighbor::probe(VIP, STRANGER));
    assert_eq!(bench.try_input(12, probe), Err(Reject::OtherAddress));
}

#[test]
fn r19_a_first_claim_probes_three_times_while_it_listens() {
    let mut bench = Bench::started(first_claim());
    assert_eq!(bench.state(), Backup);
    let until = bench.at(3_000);
    assert_eq!(
        bench.router.view().waiting,
        Some(Waiting::FirstClaim { until })
    );
    let mut asked = Vec::new();
    for millis in 0..3_014 {
        for word in bench.timeout(millis) {
            asked.push((millis, word));
        }
    }
    // The probe at 0 s left with the start.
    let ask = |millis| (millis, "ask for 10.20.14.10".to_owned());
    assert_eq!(asked, [ask(1_000), ask(2_000)]);
    assert_eq!(
        bench.deadline(),
        Some(3_014.062),
        "skewed, so that hosts that boot together differ"
    );
    bench.run(3_015);
    assert_eq!(bench.state(), Active);
}

#[test]
fn r19_the_first_probe_leaves_with_the_start() {
    let mut bench = Bench::new(first_claim());
    bench.input(0, link_up());
    let done = bench.command(0, Command::Start);
    assert_eq!(
        done,
        [
            "Initialize -> Backup: the agent started",
            "ask for 10.20.14.10"
        ]
    );
}

/// A fault because a stranger answered at once; it was known when the Active was not heard.
fn in_use() -> Bench {
    let mut bench = Bench::started(first_claim());
    assert!(bench.input(0, claim(STRANGER)).is_empty());
    bench.timeout(315);
    bench.begin();
    bench
}

#[test]
fn r19_an_answer_of_a_host_that_is_no_router_is_a_fault_with_its_address() {
    let mut bench = Bench::started(first_claim());
    assert!(
        bench.input(1, claim(STRANGER)).is_empty(),
        "it may be the Active's own"
    );
    assert_eq!(
        bench.deadline(),
        Some(314.062),
        "when the Active would have been heard"
    );
    let fault = "Backup -> Fault: 02:00:00:00:00:63 answers for 10.20.14.10 and is no VRRP router";
    assert_eq!(bench.timeout(315), [fault]);
    // Later answers need no wait: the Active would have been heard before.
    let mut bench = Bench::started(first_claim());
    bench.run(1_000);
    assert_eq!(bench.input(1_001, claim(STRANGER)), [fault]);
}

#[test]
fn r19_the_answer_of_an_active_is_no_fault_even_before_its_first_advert() {
    let mut bench = Bench::started(first_claim());
    assert!(bench.input(1, claim(mac(11))).is_empty());
    assert!(bench.advert(90, LOW, 200).is_empty());
    assert_eq!((bench.state(), bench.deadline()), (Backup, Some(404.062)));
}

#[test]
fn r19_an_answer_while_a_router_serves_the_address_is_its_own() {
    let mut bench = Bench::started(first_claim());
    bench.advert(1, LOW, 200);
    assert!(bench.input(2, claim(mac(11))).is_empty());
    assert_eq!((bench.state(), bench.deadline()), (Backup, Some(315.062)));
}

#[test]
fn r19_an_advert_for_another_address_proves_nothing() {
    let mut bench = Bench::started(first_claim());
    let mut other = advert(LOW, 200);
    other.advert.addresses = crate::wire::Addresses::new(&[LOW]).unwrap();
    bench.input(1, Input::Advert(other));
    bench.input(2, claim(STRANGER));
    bench.timeout(400);
    assert_eq!(bench.state(), Fault);
}

#[test]
fn r19_a_fault_asks_again_every_five_seconds_until_nobody_answers() {
    let mut bench = in_use();
    for round in 1..4 {
        assert_eq!(bench.timeout(round * 5_000), ["ask for 10.20.14.10"]);
        bench.input(round * 5_000 + 1, claim(STRANGER));
        assert_eq!(bench.state(), Fault);
    }
    bench.timeout(20_000);
    let done = bench.timeout(25_000);
    assert_eq!(
        done[0],
        "Fault -> Backup: nobody else answers for the address any more"
    );
    assert_eq!(
        bench.deadline(),
        Some(26_000.0),
        "and the first claim is tested anew"
    );
}

#[test]
fn r19_a_fault_ends_when_the_answer_turns_out_to_be_the_actives() {
    let mut bench = in_use();
    bench.advert(50, LOW, 200);
    assert_eq!((bench.state(), bench.deadline()), (Backup, Some(364.062)));
}

#[test]
fn r19_probes_are_not_repeated_once_the_address_was_held() {
    let mut bench = Bench::started(first_claim());
    bench.run(3_100);
    assert_eq!(bench.state(), Active);
    bench.input(3_100, link_down());
    let done = bench.input(3_200, link_up());
    assert_eq!(done, ["Fault -> Backup: the link is up"]);
    assert_eq!(bench.deadline(), Some(3_514.062));
}

#[test]
fn r19_a_host_that_held_the_address_before_does_not_probe() {
    let mut bench = Bench::started(plain());
    assert!(bench.input(1, claim(STRANGER)).is_empty());
    assert_eq!(bench.deadline(), Some(314.062));
}

#[test]
fn r12_the_answer_that_is_owed_leaves_as_soon_as_the_bucket_has_it() {
    let interval = AdvertInterval::from_centis(4_000).unwrap();
    let mut bench = Bench::active(Config {
        interval,
        ..plain()
    });
    bench.run(11_000);
    for millis in 11_000..11_006 {
        bench.input(millis, claim(STRANGER));
    }
    let owed = bench.deadline().unwrap();
    assert!(owed < 22_000.0, "not only with the next advert: {owed}");
    let done = bench.run(22_000);
    assert_words(
        &done,
        &["announce 10.20.14.10 Request", "announce 10.20.14.10 Reply"],
    );
}

#[test]
fn r19_an_answer_when_the_active_should_have_been_heard_is_a_conflict_at_once() {
    let mut bench = Bench::started(first_claim());
    assert_eq!(bench.deadline(), Some(1_000.0));
    let down_at = 3 * 100_000 + 14_062 + 1;
    assert!(bench.input_at_micros(down_at, claim(STRANGER)).len() == 1);
    assert_eq!(bench.state(), Fault);
    let mut exact = Bench::started(Config {
        priority: super::bench::priority(192),
        ..first_claim()
    });
    assert!(exact.input_at_micros(324_999, claim(STRANGER)).is_empty());
    assert_eq!(exact.state(), Backup);
    exact.input_at_micros(325_000, claim(STRANGER));
    assert_eq!(exact.state(), Fault, "the down interval is over then");
}
