//! How a session ends, what is counted, and what comes after.

use std::time::Duration;

use kedge_core::{bfd::Liveness, bgp::SessionState};

use super::bench::{Bench, announced, config, offers, open, place, prefix, secs};
use crate::{
    bgp::{Because, Command, Config, DialError, Farewell, Input, Reject, Side, What},
    wire::bgp::{
        Action, Capability, Fault, Flaw, HoldTime, Message, Notification, Text, Update, cease,
        codes,
    },
};

/// RFC 6608.
#[test]
fn a_message_at_the_wrong_time_ends_the_session() {
    let update = || Message::Update(Update::default());
    let ends = |mut bench: Bench, message, subcode| {
        bench.hear(Side::Ours, message);
        let (side, notification) = bench.session.view().notification.unwrap();
        assert_eq!(
            (side, notification.code(), notification.subcode()),
            (Side::Ours, codes::STATE, subcode)
        );
        assert_eq!(bench.session.state(), SessionState::Idle);
    };
    let mut sent = Bench::new(config());
    sent.drain();
    sent.input(Input::Connected(place()));
    ends(sent.clone(), Message::Keepalive, 1);
    ends(sent.clone(), update(), 1);
    sent.hear(Side::Ours, Message::Open(open()));
    ends(sent.clone(), Message::Open(open()), 2);
    ends(sent, update(), 2);
    ends(Bench::established(config()), Message::Open(open()), 3);
}

#[test]
fn a_neighbour_that_says_why_it_leaves_is_called_again() {
    let mut bench = Bench::established(config());
    let text = Text::new("rack moves");
    let said = bench.hear(
        Side::Ours,
        Message::Notification(Notification::shutdown(&text)),
    );
    let reason = "the neighbour ended it: cease/administrative shutdown \"rack moves\"";
    assert_eq!(
        said,
        [
            "close ours".to_owned(),
            format!("Established -> Active: {reason}")
        ]
    );
    // It may call at any time.
    assert!(bench.try_input(Input::Accepted(place())).is_ok());
    // One that cannot make sense of us rests, and so do we.
    let mut bench = Bench::established(config());
    let flawed = Notification::new(codes::UPDATE, codes::ATTRIBUTE_LIST, vec![]);
    bench.hear(Side::Ours, Message::Notification(flawed.clone()));
    assert_eq!(bench.session.state(), SessionState::Idle);
    assert_eq!(
        bench.session.view().notification,
        Some((Side::Theirs, flawed))
    );
}

#[test]
fn what_cannot_be_read_ends_the_session_and_is_counted() {
    let mut bench = Bench::established(config());
    let said = bench.hear_flawed(Side::Ours, codes::HEADER, codes::NOT_SYNCHRONIZED);
    assert_eq!(
        said[0],
        "ours: NOTIFICATION message header error/connection not synchronized"
    );
    assert_eq!(bench.session.state(), SessionState::Idle);
}

/// RFC 5882, RFC 9384: only what was up and is lost acts.
#[test]
fn the_loss_of_bfd_ends_the_session_and_nothing_else_of_it_does() {
    let mut bench = Bench::established(config());
    for liveness in [
        Liveness::Unknown,
        Liveness::Alive,
        Liveness::Unknown,
        Liveness::Alive,
    ] {
        assert_eq!(bench.input(Input::Bfd(liveness)), [""; 0]);
    }
    let said = bench.input(Input::Bfd(Liveness::Lost));
    assert_eq!(
        said,
        [
            "ours: NOTIFICATION cease/BFD down",
            "close ours",
            "Established -> Idle: BFD lost the neighbour",
        ]
    );
    // What stays lost acts no more.
    assert_eq!(bench.input(Input::Bfd(Liveness::Lost)), [""; 0]);
}

/// RFC 5882 section 4.1: a session that comes up over a path that BFD knows is gone would go again at once.
#[test]
fn who_bfd_lost_is_neither_called_nor_heard_until_it_is_seen_again() {
    for back in [Liveness::Alive, Liveness::Unknown] {
        let mut bench = Bench::established(config());
        bench.input(Input::Bfd(Liveness::Alive));
        bench.input(Input::Bfd(Liveness::Lost));
        assert_eq!(bench.until(600_000), [""; 0]);
        assert_eq!(bench.session.state(), SessionState::Idle);
        assert_eq!(
            bench.input(Input::Accepted(place())),
            ["refused: down"],
            "its call is taken"
        );
        // No order and no other configuration changes that.
        bench.input(Input::Command(Command::Reset));
        let other = Config {
            hold_time: HoldTime::from_secs(30).unwrap(),
            ..config()
        };
        bench.input(Input::Config(Box::new(other)));
        bench.input(Input::Found);
        assert_eq!(bench.session.state(), SessionState::Idle);
        // Its operator took it down, or it is there.
        assert_eq!(
            bench.input(Input::Bfd(back)),
            [
                "dial",
                "Idle -> Connect: BFD does not stand against it any more"
            ]
        );
    }
    // A call that is under way is given up.
    let mut bench = Bench::new(config());
    bench.drain();
    let said = bench.input(Input::Bfd(Liveness::Lost));
    assert_eq!(said, ["hang up", "Connect -> Idle: BFD lost the neighbour"]);
    // One that is kept down stays so.
    let shutdown = Config {
        shutdown: Some(Text::new("maintenance")),
        ..config()
    };
    bench.input(Input::Config(Box::new(shutdown)));
    assert_eq!(bench.input(Input::Bfd(Liveness::Alive)), [""; 0]);
    assert_eq!(
        bench.input(Input::Config(Box::new(config()))),
        [
            "dial",
            "Idle -> Connect: the configuration no longer keeps it down"
        ]
    );
}

#[test]
fn a_strict_session_waits_for_bfd_and_outlives_the_peers_order_to_stop_it() {
    let strict = Config {
        strict_bfd: true,
        ..config()
    };
    let mut bench = Bench::new(strict.clone());
    assert_eq!(bench.drain(), [""; 0]);
    assert_eq!(bench.until(600_000), [""; 0]);
    assert_eq!(bench.session.view().because, Because::BfdAwaited);
    assert_eq!(bench.input(Input::Accepted(place())), ["refused: down"]);
    let said = bench.input(Input::Bfd(Liveness::Alive));
    assert_eq!(said[0], "dial");
    // The configuration decides at any time.
    let said = bench.input(Input::Bfd(Liveness::Unknown));
    assert_eq!(
        said,
        [
            "hang up",
            "Connect -> Idle: BFD does not see the neighbour yet"
        ]
    );
    assert_eq!(bench.input(Input::Config(Box::new(config())))[0], "dial");
    let mut bench = Bench::established(config());
    bench.input(Input::Bfd(Liveness::Alive));
    assert_eq!(bench.input(Input::Config(Box::new(strict))), [""; 0]);
    assert_eq!(bench.input(Input::Bfd(Liveness::Unknown)), [""; 0]);
    assert_eq!(bench.session.state(), SessionState::Established);
}

/// An address that is found is called at once, and one that is another in its place.
#[test]
fn who_is_found_is_called_without_waiting() {
    let mut bench = Bench::new(config());
    bench.drain();
    let said = bench.input(Input::DialFailed(DialError::NoNeighbour));
    assert_eq!(
        said,
        ["Connect -> Active: no router advertises itself on its interface"]
    );
    assert_eq!(
        bench.input(Input::Found),
        [
            "dial",
            "Active -> Connect: a router advertises itself on its interface"
        ]
    );
    assert_eq!(bench.input(Input::Found), ["hang up", "dial"]);
    // A session that stands is not touched, and who waits for calls goes on waiting.
    let mut bench = Bench::established(config());
    assert_eq!(bench.input(Input::Found), [""; 0]);
    let passive = Config {
        passive: true,
        ..config()
    };
    let mut bench = Bench::new(passive);
    bench.drain();
    assert_eq!(bench.input(Input::Found), [""; 0]);
}

#[test]
fn who_leaves_takes_its_routes_back_and_says_why() {
    let leave = || Input::Command(Command::Leave(Farewell::Shutdown(Text::new("drained"))));
    let mut bench = Bench::established(config());
    let goodbye = [
        "ours: -192.0.2.10/32",
        "ours: NOTIFICATION cease/administrative shutdown \"drained\"",
        "close ours",
        "Established -> Idle: this host leaves",
        "ended",
    ];
    assert_eq!(bench.input(leave()), goodbye);
    assert_eq!(bench.try_input(leave()), Err(Reject::Ended));
    assert_eq!(bench.next(), "waits");
    // First it is said that they go, so that others are chosen while they still work (RFC 8326).
    let graceful = Config {
        graceful: Duration::from_secs(2),
        ..config()
    };
    let mut bench = Bench::established(graceful.clone());
    let said = bench.input(leave());
    assert_eq!(
        said,
        ["ours: +192.0.2.10/32 via 10.0.0.5 path [65001] graceful-shutdown"]
    );
    assert_eq!(bench.try_input(leave()), Err(Reject::Ended));
    assert_eq!(
        bench.try_input(Input::Accepted(place())),
        Err(Reject::Ended)
    );
    assert_eq!(bench.until(1_999), [""; 0]);
    assert_eq!(bench.until(2_000), goodbye);
    // A session that is lost meanwhile is left.
    let mut bench = Bench::established(graceful.clone());
    bench.input(leave());
    let said = bench.input(Input::Closed(Side::Ours));
    assert_eq!(said, ["Established -> Idle: this host leaves", "ended"]);
    // Where nothing was told there is nothing to wait for.
    let mut bench = Bench::established(graceful);
    bench.input(Input::Offers(offers(&[])));
    bench.taken(Side::Ours);
    let said = bench.input(Input::Command(Command::Leave(Farewell::Deconfigured)));
    assert_eq!(said[0], "ours: NOTIFICATION cease/peer de-configured");
    assert_eq!(said[3], "ended");
    // Nor where nobody is there.
    let mut bench = Bench::new(config());
    bench.drain();
    assert_eq!(
        bench.input(leave()),
        ["hang up", "Connect -> Idle: this host leaves", "ended"]
    );
}

/// RFC 8538: a neighbour that keeps routes over a NOTIFICATION is told not to.
#[test]
fn a_neighbour_that_would_keep_our_routes_is_told_not_to() {
    let mut keeps = open();
    keeps.capabilities.push(Capability::GracefulRestart {
        restarted: false,
        notification: true,
        seconds: 120,
        families: vec![(1, 1, 0)],
    });
    let mut bench = Bench::established_with(config(), keeps, place());
    let said = bench.input(Input::Command(Command::Leave(Farewell::Deconfigured)));
    assert_eq!(
        said[1],
        "ours: NOTIFICATION hard reset: cease/peer de-configured"
    );
}

#[test]
fn a_session_that_is_shut_down_takes_no_calls_until_it_is_not() {
    let mut bench = Bench::established(config());
    let down = Config {
        shutdown: Some(Text::new("maintenance")),
        ..config()
    };
    let said = bench.input(Input::Config(Box::new(down.clone())));
    assert_eq!(
        said,
        [
            "ours: NOTIFICATION cease/administrative shutdown \"maintenance\"",
            "close ours",
            "Established -> Idle: the configuration keeps it down",
        ]
    );
    assert_eq!(bench.next(), "waits");
    assert_eq!(bench.try_input(Input::Accepted(place())), Err(Reject::Down));
    assert_eq!(bench.input(Input::Command(Command::Reset)), [""; 0]);
    let said = bench.input(Input::Config(Box::new(config())));
    assert_eq!(
        said,
        [
            "dial",
            "Idle -> Connect: the configuration no longer keeps it down"
        ]
    );
    let bench = Bench::new(down);
    assert_eq!(bench.session.view().because, Because::Shutdown);
}

#[test]
fn what_open_says_cannot_change_within_a_session() {
    let mut bench = Bench::established(config());
    let quicker = Config {
        hold_time: secs(3),
        ..config()
    };
    let said = bench.input(Input::Config(Box::new(quicker)));
    let notification = "cease/other configuration change";
    assert_eq!(
        said,
        [
            format!("ours: NOTIFICATION {notification}"),
            "close ours".to_owned(),
            format!("Established -> Active: this host ended it: {notification}"),
            "dial".to_owned(),
            "Active -> Connect: it was started".to_owned(),
        ]
    );
    let mut bench = Bench::established(config());
    let said = bench.input(Input::Command(Command::Reset));
    assert_eq!(said[0], "ours: NOTIFICATION cease/administrative reset");
    assert_eq!(bench.session.state(), SessionState::Active);
}

#[test]
fn more_routes_than_allowed_end_the_session_for_a_minute() {
    let bounded = Config {
        max_prefixes: Some(2),
        ..config()
    };
    let mut bench = Bench::established(bounded);
    let hear = |bench: &mut Bench, update| bench.hear(Side::Ours, Message::Update(update));
    // The same again, and what is taken back, count once and not at all.
    for _ in 0..10 {
        assert_eq!(
            hear(&mut bench, announced(&["10.1.0.0/16", "10.2.0.0/16"])),
            [""; 0]
        );
    }
    assert_eq!(bench.session.view().standing, Some(2));
    let gone = Update {
        withdrawn: vec![prefix("10.1.0.0/16")],
        ..Update::default()
    };
    hear(&mut bench, gone);
    assert_eq!(hear(&mut bench, announced(&["10.3.0.0/16"])), [""; 0]);
    let said = hear(&mut bench, announced(&["10.4.0.0/16"]));
    assert_eq!(
        said[0],
        "ours: NOTIFICATION cease/maximum number of prefixes reached"
    );
    let (_, notification) = bench.session.view().notification.unwrap();
    assert_eq!(notification.data(), [0, 1, 1, 0, 0, 0, 2]);
    assert!(notification.is(codes::CEASE, cease::MAX_PREFIXES));
    assert_eq!(bench.session.state(), SessionState::Idle);
    assert_eq!(bench.until(59_999), [""; 0]);
    assert_eq!(bench.until(60_001)[0], "dial");
}

#[test]
fn what_a_neighbour_announces_is_counted_and_the_last_of_it_shown() {
    let mut bench = Bench::established(config());
    for third in 0..300_u32 {
        let text = format!("10.{}.{}.0/24", third / 256, third % 256);
        bench.hear(Side::Ours, Message::Update(announced(&[&text])));
    }
    let fault = Fault {
        attribute: None,
        flaw: Flaw::Missing,
        action: Action::TreatAsWithdraw,
    };
    let flawed = Update {
        withdrawn: vec![prefix("10.9.0.0/16")],
        refused: vec![prefix("10.8.0.0/16")],
        faults: vec![fault],
        ..Update::default()
    };
    bench.hear(Side::Ours, Message::Update(flawed));
    let view = bench.session.view();
    assert_eq!(
        (
            view.counts.routes_announced,
            view.counts.routes_withdrawn,
            view.counts.routes_refused
        ),
        (300, 1, 1)
    );
    assert_eq!(view.counts.flaws, [0, 1, 0]);
    assert_eq!((view.counts.updates_in, view.standing), (301, None));
    let heard: Vec<_> = bench.session.heard().collect();
    assert_eq!(heard.len(), 256);
    assert_eq!(
        (heard[0].prefix, &heard[0].what),
        (prefix("10.8.0.0/16"), &What::Refused(fault))
    );
    assert_eq!(
        (heard[1].prefix, &heard[1].what),
        (prefix("10.9.0.0/16"), &What::Withdrawn)
    );
    assert_eq!(heard[2].prefix, prefix("10.1.43.0/24"));
    // It is still there to be looked at when the session is not.
    bench.input(Input::Closed(Side::Ours));
    assert_eq!(bench.session.heard().count(), 256);
}

#[test]
fn a_session_that_held_is_trusted_anew() {
    let rest = |bench: &mut Bench| {
        bench.hear_flawed(Side::Ours, codes::UPDATE, codes::ATTRIBUTE_LIST);
        let due = kedge_core::Machine::poll_timeout(&bench.session).unwrap();
        due.since(bench.now)
    };
    let again = |bench: &mut Bench, millis| {
        bench.until(millis);
        bench.input(Input::Connected(place()));
        bench.taken(Side::Ours);
        bench.hear(Side::Ours, Message::Open(open()));
        bench.taken(Side::Ours);
        bench.hear(Side::Ours, Message::Keepalive);
        bench.taken(Side::Ours);
        assert_eq!(bench.session.state(), SessionState::Established);
    };
    let mut bench = Bench::established(config());
    assert!(rest(&mut bench) <= Duration::from_secs(1));
    again(&mut bench, 2_000);
    assert!(rest(&mut bench) > Duration::from_secs(1));
    again(&mut bench, 4_500);
    for second in 5..66 {
        bench.until(second * 1_000);
        bench.hear(Side::Ours, Message::Keepalive);
    }
    assert!(rest(&mut bench) <= Duration::from_secs(1));
}
