//! What is counted, and that each thing is counted once.

use kedge_core::vip::RouterState::*;

use super::bench::{Bench, HIGH, LOW, STRANGER, advert, claim, plain};
use crate::{
    vrrp::{Command, Config, Input, Link, Peers, Stats},
    wire::checksum::Forms,
};

fn stats(bench: &Bench) -> Stats {
    bench.router.view().stats
}

#[test]
fn take_overs_adverts_and_goodbyes_are_counted_on_both_sides() {
    let mut bench = Bench::following(plain(), 230);
    bench.advert(100, LOW, 230);
    bench.advert(150, LOW, 0);
    bench.advert(160, LOW, 0);
    let heard = Stats {
        adverts_received: 4,
        goodbyes_received: 2,
        ..Stats::default()
    };
    assert_eq!(stats(&bench), heard);
    bench.run(300);
    assert_eq!(bench.state(), Active);
    let first = Stats {
        became_active: 1,
        adverts_sent: 2,
        ..heard
    };
    assert_eq!(stats(&bench), first);
    bench.advert(301, HIGH, 250);
    bench.advert(302, HIGH, 0);
    bench.run(400);
    assert_eq!(bench.state(), Active);
    bench.command(401, Command::Stop);
    bench.run(520);
    let second = Stats {
        became_active: 2,
        // The last word to the better one, the take-over and two goodbyes.
        adverts_sent: 2 + 1 + 1 + 2,
        adverts_received: 6,
        goodbyes_sent: 2,
        goodbyes_received: 3,
        ..heard
    };
    assert_eq!(stats(&bench), second);
}

#[test]
fn every_form_and_every_peer_is_an_advert_of_its_own() {
    let mut bench = Bench::active(plain());
    let before = stats(&bench);
    let mut message = advert(LOW, 200);
    message.forms = Forms::Message;
    bench.input(50, Input::Advert(message));
    bench.command(60, Command::Stop);
    let after = stats(&bench);
    assert_eq!(after.adverts_sent, before.adverts_sent + 4);
    assert_eq!(after.goodbyes_sent, 2);

    let routers = [LOW, HIGH].into();
    let peers = Peers::Unicast {
        routers,
        min_ttl: 255,
    };
    let bench = Bench::active(Config { peers, ..plain() });
    assert_eq!(stats(&bench).adverts_sent, 2);
}

#[test]
fn a_stall_is_counted_whether_it_was_active_or_leaving() {
    let mut bench = Bench::active(plain());
    bench.timeout(301);
    assert_eq!((bench.state(), stats(&bench).stalls), (Backup, 1));
    bench.run(1_000);
    bench.command(1_000, Command::Stop);
    let gone = bench.timeout(2_000);
    assert_eq!((bench.state(), stats(&bench).stalls), (Initialize, 2));
    assert_eq!(gone[0], "disown");
}

#[test]
fn what_proves_nothing_and_what_claims_our_address_is_counted() {
    let mut bench = Bench::active(plain());
    for millis in [10, 20, 30] {
        bench.unverified(millis, LOW);
        bench.input(millis, claim(STRANGER));
    }
    let counted = stats(&bench);
    assert_eq!((counted.auth_errors, counted.foreign_claims), (3, 3));
}

#[test]
fn what_a_router_without_a_link_would_send_is_not_counted() {
    let mut bench = Bench::active(plain());
    let before = stats(&bench).adverts_sent;
    bench.input(10, Input::Link(Link::Down(crate::vrrp::LinkLoss::Carrier)));
    bench.run(1_000);
    assert_eq!(stats(&bench).adverts_sent, before);
}
