//! The rules of RFC 5880 and RFC 5882 that a row of the table does not show alone.

use kedge_core::bfd::{
    Liveness,
    SessionState::{AdminDown, Down, Init, Up},
};

use super::bench::{Bench, ms, packet, says, theirs};
use crate::{
    bfd::{Config, Input, MinTtl, Received, Reject},
    wire::bfd::{Control, Interval},
};

#[test]
fn three_packets_make_it_up_and_each_step_is_told_at_once() {
    let mut bench = Bench::new(Config::DEFAULT);
    assert_eq!(
        bench.timeout(0),
        ["send Down your 0 tx 1000 rx 300 x3 diag 0"]
    );
    let words = bench.hear(5, Down);
    assert_eq!(words[1], "send Init your 34 tx 1000 rx 300 x3 diag 0");
    let words = bench.hear(10, Init);
    assert!(words[0].starts_with("Init -> Up, alive"), "{words:?}");
    assert_eq!(words[1], "send Up P your 34 tx 300 rx 300 x3 diag 0");
    let stats = bench.session.view().stats;
    assert_eq!((stats.ups, stats.losses), (1, 0));
}

#[test]
fn the_peers_multiplier_and_the_slower_side_say_when_it_is_gone() {
    let mut bench = Bench::up(Config::DEFAULT);
    let peer = Control {
        desired_min_tx: ms(500),
        multiplier: crate::wire::bfd::Multiplier::new(4).unwrap(),
        ..says(Up)
    };
    bench.input(100, packet(peer));
    bench.timeout(2_099);
    assert_eq!(bench.session.state(), Up, "4 × 500 ms are not over");
    let words = bench.timeout(2_100);
    assert!(
        words[0].contains("not heard for 2000.0 ms, its detection time is 2000.0 ms"),
        "{words:?}"
    );
    assert!(
        words[1].starts_with("send Down your 0"),
        "it is forgotten: {words:?}"
    );
    assert_eq!(bench.session.liveness(), Liveness::Lost);
    assert_eq!(bench.session.view().remote.discriminator, None);
}

#[test]
fn only_what_was_up_is_lost() {
    let mut bench = Bench::new(Config::DEFAULT);
    bench.timeout(0);
    bench.hear(0, Down);
    assert_eq!(bench.session.state(), Init);
    bench.timeout(10_000);
    assert_eq!(bench.session.state(), Down);
    assert_eq!(bench.session.liveness(), Liveness::Unknown);
    let mut bench = Bench::up(Config::DEFAULT);
    bench.hear(10, Down);
    assert_eq!(
        bench.session.liveness(),
        Liveness::Lost,
        "the peer does not hear us"
    );
    // On the way back nothing is proven yet.
    bench.hear(20, Down);
    assert_eq!(
        (bench.session.state(), bench.session.liveness()),
        (Init, Liveness::Lost)
    );
    bench.hear(30, Up);
    assert_eq!(
        (bench.session.state(), bench.session.liveness()),
        (Up, Liveness::Alive)
    );
    assert_eq!(bench.session.view().stats.losses, 1);
}

#[test]
fn a_peer_that_was_told_to_stop_has_not_failed() {
    let mut bench = Bench::up(Config::DEFAULT);
    let words = bench.hear(10, AdminDown);
    assert!(
        words[0].starts_with("Up -> Down, unknown: the peer was told to stop"),
        "{words:?}"
    );
    bench.timeout(60_000);
    assert_eq!(
        bench.session.liveness(),
        Liveness::Unknown,
        "nor by its silence afterwards"
    );
    // It says so after it was lost: whoever gave the VIP away may have it again.
    let mut bench = Bench::up(Config::DEFAULT);
    bench.timeout(900);
    assert_eq!(bench.session.liveness(), Liveness::Lost);
    let words = bench.hear(1_000, AdminDown);
    assert_eq!(words, ["Down -> Down, unknown: the peer was told to stop"]);
}

#[test]
fn a_session_that_is_shut_down_says_so_and_comes_back() {
    let mut bench = Bench::up(Config::DEFAULT);
    let shutdown = Config {
        shutdown: true,
        ..Config::DEFAULT
    };
    let words = bench.configure(10, shutdown);
    assert_eq!(words[1], "send AdminDown your 34 tx 1000 rx 300 x3 diag 7");
    assert_eq!(bench.session.liveness(), Liveness::Unknown);
    assert!(bench.hear(20, Init).is_empty(), "nothing brings it up");
    let (_, words) = bench.due();
    assert!(
        words[0].starts_with("send AdminDown"),
        "a peer that restarts learns it: {words:?}"
    );
    let words = bench.configure(30, Config::DEFAULT);
    assert!(words[1].starts_with("send Down your 34"), "{words:?}");
    bench.hear(40, Init);
    assert_eq!(bench.session.state(), Up);
}

#[test]
fn who_leaves_says_so_until_the_peer_answers() {
    let mut bench = Bench::up(Config::DEFAULT);
    let words = bench.stop(10);
    assert!(words[1].starts_with("send AdminDown"), "{words:?}");
    assert!(
        bench.hear(15, Up).is_empty(),
        "it was sent before ours arrived"
    );
    assert_eq!(bench.hear(20, Down), ["ended"]);
    assert_eq!(bench.try_input(30, packet(says(Up))), Err(Reject::Ended));
    assert_eq!(bench.deadline(), None);
    // Without an answer for the peer's detection time, then it is over.
    let mut bench = Bench::up(Config::DEFAULT);
    bench.stop(0);
    let mut sent = 0;
    let ended = loop {
        let (when, words) = bench.due();
        if words.contains(&"ended".to_owned()) {
            break when;
        }
        sent += words
            .iter()
            .filter(|word| word.starts_with("send AdminDown"))
            .count();
    };
    assert_eq!(ended, 3_000.0);
    assert!(sent >= 2, "{sent}");
}

#[test]
fn a_passive_session_waits_for_the_peer() {
    let passive = Config {
        passive: true,
        ..Config::DEFAULT
    };
    let mut bench = Bench::new(passive);
    assert_eq!(bench.deadline(), None);
    assert!(bench.timeout(60_000).is_empty());
    let first = Control {
        your: None,
        ..says(Down)
    };
    let words = bench.input(60_000, packet(first));
    assert!(words[1].starts_with("send Init your 34"), "{words:?}");
    bench.hear(60_010, Up);
    assert_eq!(bench.session.state(), Up);
    bench.timeout(62_000);
    assert_eq!(bench.session.state(), Down);
    assert_eq!(bench.deadline(), None, "it waits again");
}

#[test]
fn a_poll_is_answered_at_once_in_any_state_and_moves_no_schedule() {
    let asks = |state| {
        packet(Control {
            poll: true,
            your: None,
            ..says(state)
        })
    };
    let mut bench = Bench::new(Config::DEFAULT);
    bench.timeout(0);
    let words = bench.input(1, asks(Down));
    assert!(words[1].starts_with("send Init F"), "{words:?}");
    let mut bench = Bench::up(Config::DEFAULT);
    let before = bench.deadline();
    let ask = Control {
        poll: true,
        ..says(Up)
    };
    assert_eq!(
        bench.input(1, packet(ask)),
        ["send Up F your 34 tx 300 rx 300 x3 diag 0"]
    );
    assert_eq!(bench.deadline(), before);
}

#[test]
fn a_peer_that_demands_silence_gets_it_but_for_polls() {
    let mut bench = Bench::up(Config::DEFAULT);
    let demands = Control {
        demand: true,
        ..says(Up)
    };
    bench.input(10, packet(demands));
    assert_eq!(
        bench.deadline(),
        Some(910.0),
        "nothing but its detection time"
    );
    let slower = Config {
        desired_min_tx: ms(600),
        ..Config::DEFAULT
    };
    let words = bench.configure(20, slower);
    assert_eq!(words, ["send Up P your 34 tx 600 rx 300 x3 diag 0"]);
    bench.input(
        30,
        packet(Control {
            fin: true,
            ..demands
        }),
    );
    assert_eq!(bench.deadline(), Some(930.0));
    bench.timeout(930);
    assert!(bench.deadline().unwrap() < 2_000.0, "down it sends again");
}

#[test]
fn a_peer_that_takes_nothing_is_sent_nothing() {
    let mut bench = Bench::up(Config::DEFAULT);
    let deaf = Control {
        required_min_rx: Interval::ZERO,
        ..says(Up)
    };
    bench.input(10, packet(deaf));
    assert_eq!(bench.deadline(), Some(910.0));
    bench.hear(20, Up);
    assert!(
        bench.deadline().unwrap() <= 300.0,
        "and again as soon as it takes some"
    );
}

#[test]
fn behind_routers_the_lowest_ttl_counts() {
    let from = |ttl| {
        Input::Packet(Received {
            ttl,
            sealed: false,
            control: says(Down),
        })
    };
    let far = Config {
        min_ttl: MinTtl::multihop(250),
        ..Config::DEFAULT
    };
    assert_eq!((far.min_ttl.get(), MinTtl::NEIGHBOR.get()), (250, 255));
    let mut bench = Bench::new(far);
    assert_eq!(bench.try_input(0, from(249)), Err(Reject::Ttl));
    assert!(bench.try_input(0, from(250)).is_ok());
    let mut bench = Bench::new(Config::DEFAULT);
    assert_eq!(bench.try_input(0, from(254)), Err(Reject::Ttl));
    assert!(bench.try_input(0, from(255)).is_ok());
}

#[test]
fn a_peer_that_restarts_is_another_session_after_down() {
    let mut bench = Bench::up(Config::DEFAULT);
    let again = Control {
        my: crate::wire::bfd::Discriminator::new(77).unwrap(),
        your: None,
        ..says(Down)
    };
    let words = bench.input(10, packet(again));
    assert!(
        words[0].starts_with("Up -> Down, lost: the peer says"),
        "{words:?}"
    );
    assert!(words[1].contains("your 77"), "{words:?}");
    assert_ne!(bench.session.view().remote.discriminator, Some(theirs()));
}
