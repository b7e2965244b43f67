//! How a session comes to be, and what keeps it.

use kedge_core::bgp::SessionState;

use super::bench::{Bench, announced, at, config, offers, open, place, secs};
use crate::{
    bgp::{Because, Config, DialError, Input, Reject, Side},
    wire::bgp::{Message, Open},
};

#[test]
fn a_session_is_established_in_four_steps_and_tells_everything() {
    let mut bench = Bench::new(config());
    assert_eq!(bench.drain(), ["dial", "Idle -> Connect: it was started"]);
    assert_eq!(
        bench.input(Input::Connected(place())),
        [
            "ours: OPEN 65001 hold 9 s",
            "Connect -> OpenSent: the neighbour took our call"
        ]
    );
    bench.taken(Side::Ours);
    assert_eq!(
        bench.hear(Side::Ours, Message::Open(open())),
        [
            "ours: KEEPALIVE",
            "OpenSent -> OpenConfirm: the neighbour said who it is"
        ]
    );
    bench.taken(Side::Ours);
    assert_eq!(
        bench.hear(Side::Ours, Message::Keepalive),
        [
            "OpenConfirm -> Established: both sides agree",
            "ours: +192.0.2.10/32 via 10.0.0.5 path [65001]",
            "ours: END ipv4",
            "ours: END ipv6",
        ]
    );
    let view = bench.session.view();
    assert_eq!(view.state, SessionState::Established);
    assert_eq!(view.peer.unwrap().side, Side::Ours);
    assert_eq!(view.counts.established, 1);
}

#[test]
fn who_takes_the_first_messages_late_is_told_everything_then() {
    let mut bench = Bench::new(config());
    bench.drain();
    bench.input(Input::Connected(place()));
    bench.hear(Side::Ours, Message::Open(open()));
    let said = bench.hear(Side::Ours, Message::Keepalive);
    assert_eq!(said, ["OpenConfirm -> Established: both sides agree"]);
    let said = bench.taken(Side::Ours);
    assert_eq!(said.len(), 3, "{said:?}");
}

#[test]
fn a_passive_session_waits_for_the_call() {
    let mut bench = Bench::new(Config {
        passive: true,
        ..config()
    });
    assert_eq!(bench.drain(), ["Idle -> Active: it was started"]);
    assert_eq!(bench.next(), "waits");
    assert_eq!(
        bench.input(Input::Accepted(place())),
        [
            "theirs: OPEN 65001 hold 9 s",
            "Active -> OpenSent: the neighbour called"
        ]
    );
    bench.taken(Side::Theirs);
    let said = bench.input(Input::Closed(Side::Theirs));
    assert_eq!(
        said,
        ["OpenSent -> Active: the connection ended without a word"]
    );
    assert_eq!(bench.next(), "waits");
    // What it is told later it does later.
    let said = bench.input(Input::Config(Box::new(config())));
    assert_eq!(said, ["dial", "Active -> Connect: it was started"]);
}

#[test]
fn calls_come_later_each_time_and_never_at_the_same_time_as_others() {
    let mut bench = Bench::new(config());
    bench.drain();
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let said = bench.input(Input::DialFailed(DialError::Refused));
        assert_eq!(said, ["Connect -> Active: it refuses connections"]);
        let due = kedge_core::Machine::poll_timeout(&bench.session).unwrap();
        pauses.push(due.since(bench.now).as_secs_f64());
        let millis = u64::try_from(due.since(at(0)).as_millis()).unwrap() + 1;
        assert_eq!(
            bench.until(millis),
            ["dial", "Active -> Connect: it is time to call again"]
        );
    }
    for (pause, whole) in pauses.iter().zip([1.0, 5.0, 10.0, 20.0, 40.0, 40.0, 40.0]) {
        assert!((whole * 0.75..=whole).contains(pause), "{pause} of {whole}");
    }
    assert!(pauses[4..].windows(2).any(|pair| pair[0] != pair[1]));
}

#[test]
fn a_call_that_nobody_answers_is_given_up_and_made_again() {
    let mut bench = Bench::new(config());
    bench.drain();
    assert_eq!(bench.until(3_749), [""; 0]);
    assert_eq!(bench.until(5_001), ["hang up", "dial"]);
    // What it becomes after all is not taken twice.
    bench.input(Input::Connected(place()));
    assert_eq!(
        bench.try_input(Input::Connected(place())),
        Err(Reject::NotDialing)
    );
    let failed = Input::DialFailed(DialError::Other);
    assert_eq!(bench.try_input(failed), Err(Reject::NotDialing));
}

#[test]
fn a_silent_neighbour_is_gone_after_the_hold_time() {
    let mut bench = Bench::established(config());
    bench.until(5_000);
    bench.hear(Side::Ours, Message::Keepalive);
    let mut said = bench.until(13_999);
    said.retain(|line| line != "ours: KEEPALIVE");
    assert_eq!(said, [""; 0]);
    let said = bench.until(14_000);
    assert_eq!(
        said,
        [
            "ours: NOTIFICATION hold timer expired",
            "close ours",
            "Established -> Active: the neighbour was not heard for 9 s",
        ]
    );
    assert_eq!(bench.session.view().counts.lost, 1);
}

#[test]
fn any_message_says_that_the_neighbour_is_there() {
    let mut bench = Bench::established(config());
    for second in 1..60 {
        bench.until(second * 1_000);
        bench.hear(Side::Ours, Message::Update(announced(&["10.0.0.0/8"])));
    }
    assert_eq!(bench.session.state(), SessionState::Established);
}

#[test]
fn keepalives_go_every_third_of_the_hold_time_less_a_quarter_at_most() {
    let mut bench = Bench::established(config());
    bench.now = at(0);
    let mut last = at(0);
    for _ in 0..100 {
        let due = kedge_core::Machine::poll_timeout(&bench.session).unwrap();
        let pause = due.since(last).as_secs_f64();
        assert!((2.25..=3.0).contains(&pause), "{pause}");
        last = due;
        let millis = u64::try_from(due.since(at(0)).as_millis()).unwrap() + 1;
        assert_eq!(bench.until(millis), ["ours: KEEPALIVE"]);
        bench.taken(Side::Ours);
        bench.hear(Side::Ours, Message::Keepalive);
    }
}

#[test]
fn without_a_hold_time_nobody_has_to_say_anything() {
    let never = Open {
        hold_time: secs(0),
        ..open()
    };
    let mut bench = Bench::established_with(config(), never, place());
    assert_eq!(bench.next(), "waits");
    assert_eq!(bench.until(100_000_000), [""; 0]);
    // Nor to take anything.
    bench.input(Input::Offers(offers(&[])));
    assert_eq!(bench.next(), "waits");
}

/// RFC 9687.
#[test]
fn who_takes_nothing_for_eight_minutes_is_gone() {
    let mut bench = Bench::established(config());
    bench.input(Input::Offers(offers(&[])));
    for second in 1..480 {
        bench.until(second * 1_000);
        bench.hear(Side::Ours, Message::Keepalive);
    }
    assert_eq!(bench.session.state(), SessionState::Established);
    let said = bench.until(480_001);
    assert_eq!(
        said[said.len() - 3..],
        [
            "ours: NOTIFICATION send hold timer expired",
            "close ours",
            "Established -> Active: the neighbour took nothing for 480 s",
        ]
    );
    // Something taken counts, and twice a longer hold time does.
    let long = Config {
        hold_time: secs(300),
        ..config()
    };
    let patient = Open {
        hold_time: secs(300),
        ..open()
    };
    let mut bench = Bench::established_with(long, patient, place());
    bench.input(Input::Offers(offers(&[])));
    bench.until(100_000);
    bench.input(Input::Written(Side::Ours, false));
    for second in 101..700 {
        bench.until(second * 1_000);
        bench.hear(Side::Ours, Message::Keepalive);
    }
    assert_eq!(bench.session.state(), SessionState::Established);
    bench.until(700_001);
    assert!(matches!(
        bench.session.view().because,
        Because::Stuck { .. }
    ));
}

#[test]
fn an_open_that_does_not_fit_is_answered_and_both_rest_longer_each_time() {
    let mut bench = Bench::new(config());
    bench.drain();
    let wrong = Open {
        asn: super::bench::asn(65_015),
        ..open()
    };
    let mut rests = Vec::new();
    for round in 0..7 {
        bench.input(Input::Connected(place()));
        bench.taken(Side::Ours);
        let said = bench.hear(Side::Ours, Message::Open(wrong.clone()));
        assert_eq!(
            said,
            [
                "ours: NOTIFICATION OPEN error/bad peer AS",
                "close ours",
                "OpenSent -> Idle: this host ended it: OPEN error/bad peer AS",
            ],
            "{round}"
        );
        assert_eq!(bench.try_input(Input::Accepted(place())), Err(Reject::Down));
        let due = kedge_core::Machine::poll_timeout(&bench.session).unwrap();
        rests.push(due.since(bench.now).as_secs_f64());
        let millis = u64::try_from(due.since(at(0)).as_millis()).unwrap() + 1;
        assert_eq!(
            bench.until(millis),
            ["dial", "Idle -> Connect: it is time to call again"]
        );
    }
    for (rest, whole) in rests.iter().zip([1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]) {
        assert!((whole * 0.75..=whole).contains(rest), "{rest} of {whole}");
    }
    // Who changes the configuration does not have to wait.
    bench.input(Input::Connected(place()));
    bench.hear(Side::Ours, Message::Open(wrong.clone()));
    let right = Config {
        peer_as: wrong.asn.into(),
        ..config()
    };
    let said = bench.input(Input::Config(Box::new(right)));
    assert_eq!(said, ["dial", "Idle -> Connect: it was started"]);
}

/// RFC 4271 section 6.8, in every order in which it can come about.
#[test]
fn of_two_connections_the_one_of_the_higher_identifier_stays() {
    let lower = Open {
        router_id: super::bench::id(1),
        ..open()
    };
    for (open, kept, lost) in [
        (open(), Side::Theirs, "ours"),
        (lower, Side::Ours, "theirs"),
    ] {
        for first in Side::ALL {
            let mut bench = Bench::new(config());
            bench.drain();
            bench.input(Input::Accepted(place()));
            bench.input(Input::Connected(place()));
            for side in Side::ALL {
                bench.taken(side);
            }
            let confirm = bench.hear(first, Message::Open(open.clone()));
            assert_eq!(confirm.len(), 2, "{confirm:?}");
            let said = bench.hear(first.other(), Message::Open(open.clone()));
            let goodbye = format!("{lost}: NOTIFICATION cease/connection collision resolution");
            assert_eq!(said[..2], [goodbye, format!("close {lost}")]);
            assert_eq!(bench.session.state(), SessionState::OpenConfirm);
            bench.taken(kept);
            bench.hear(kept, Message::Keepalive);
            assert_eq!(bench.session.state(), SessionState::Established);
            assert_eq!(
                bench.session.view().notification,
                None,
                "nothing went wrong"
            );
        }
    }
}

#[test]
fn an_established_session_is_kept_whoever_calls() {
    let mut bench = Bench::established(config());
    assert_eq!(
        bench.input(Input::Accepted(place())),
        ["theirs: OPEN 65001 hold 9 s"]
    );
    assert!(bench.session.yields());
    let said = bench.hear(Side::Theirs, Message::Open(open()));
    assert_eq!(
        said,
        [
            "theirs: NOTIFICATION cease/connection collision resolution",
            "close theirs"
        ]
    );
    assert_eq!(bench.session.state(), SessionState::Established);
    // A call that goes on is ended as soon as there is a session.
    let mut bench = Bench::new(config());
    bench.drain();
    bench.input(Input::Accepted(place()));
    bench.taken(Side::Theirs);
    bench.hear(Side::Theirs, Message::Open(open()));
    let said = bench.hear(Side::Theirs, Message::Keepalive);
    assert_eq!(
        said,
        ["hang up", "OpenConfirm -> Established: both sides agree"]
    );
    assert_eq!(
        bench.try_input(Input::Connected(place())),
        Err(Reject::NotDialing)
    );
    assert_eq!(bench.try_input(Input::Accepted(place())), Err(Reject::Busy));
    assert!(!bench.session.yields());
}
