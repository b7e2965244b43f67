//! What our own core decides by the clock it is given, without a tick in between.

use std::time::Duration;

use super::ends::*;
use crate::{
    drops::DropReason,
    noise::{CoreName, NoiseCore, Opened, Tick},
};

fn pair() -> (End, End) {
    let mut a = end(CoreName::Own, 1, 2, None);
    let mut b = end(CoreName::Own, 2, 1, None);
    connect(at(0), &mut a, &mut b);
    (a, b)
}

#[test]
fn a_session_that_nobody_ticked_for_is_not_used_after_three_minutes() {
    let (mut a, mut b) = pair();
    let late = a.seal(at(179), &packet(1)).unwrap();
    for seconds in [180, 1_000, 1_000_000] {
        let unknown = DropReason::UnknownSession;
        assert_eq!(a.seal(at(seconds), &packet(1)), Err(unknown));
        assert_eq!(b.seal(at(seconds), &packet(1)), Err(unknown));
        assert_eq!(b.open(at(seconds), &late), Err(unknown));
        assert!(!a.core.has_session(at(seconds)));
    }
    assert!(a.core.has_session(at(179)));
    assert!(b.open(at(179), &late).is_ok());
}

#[test]
fn the_initiator_alone_starts_again_after_two_minutes_of_traffic() {
    let (mut a, mut b) = pair();
    let mut dst = [0; 200];
    for seconds in 1..120 {
        assert!(talk(at(seconds), &mut a, &mut b));
        assert_eq!(a.core.tick(at(seconds), &mut dst), Tick::Nothing);
    }
    assert!(talk(at(120), &mut a, &mut b));
    assert_eq!(b.core.tick(at(120), &mut dst), Tick::Nothing);
    assert_eq!(a.core.tick(at(120), &mut dst), Tick::Send(148));
    let response = b.answer(at(120), &dst[..148]);
    a.answer(at(120), &response);
    assert_eq!(a.core.tick(at(130), &mut dst), Tick::Nothing);
}

#[test]
fn an_initiator_that_only_receives_starts_again_in_time() {
    let (mut a, mut b) = pair();
    let mut dst = [0; 200];
    let mut receive = |seconds, dst: &mut [u8]| {
        let sealed = b.seal(at(seconds), &packet(1)).unwrap();
        assert!(a.open(at(seconds), &sealed).is_ok());
        a.core.tick(at(seconds), dst)
    };
    assert_eq!(receive(164, &mut dst), Tick::Nothing);
    assert_eq!(receive(165, &mut dst), Tick::Send(148));
}

#[test]
fn data_is_acknowledged_after_ten_seconds_of_silence_and_keepalives_are_not() {
    let (mut a, mut b) = pair();
    let mut dst = [0; 200];
    let sealed = a.seal(at(1), &packet(1)).unwrap();
    assert!(b.open(at(1), &sealed).is_ok());
    assert_eq!(b.core.tick(at(10), &mut dst), Tick::Nothing);
    assert_eq!(b.core.tick(at(11), &mut dst), Tick::Send(32));
    assert_eq!(a.open(at(11), &dst[..32]), Ok((Opened::Nothing, vec![])));
    for seconds in 12..60 {
        assert_eq!(a.core.tick(at(seconds), &mut dst), Tick::Nothing);
        assert_eq!(b.core.tick(at(seconds), &mut dst), Tick::Nothing);
    }
}

#[test]
fn data_that_nothing_answers_starts_a_handshake_after_fifteen_seconds() {
    let (mut a, _) = pair();
    let mut dst = [0; 200];
    a.seal(at(1), &packet(1)).unwrap();
    assert_eq!(a.core.tick(at(15), &mut dst), Tick::Nothing);
    assert_eq!(a.core.tick(at(17), &mut dst), Tick::Send(148));
}

#[test]
fn a_handshake_given_up_leaves_a_session_that_is_young_enough() {
    let (mut a, mut b) = pair();
    let mut dst = [0; 200];
    a.initiate(at(10)).unwrap();
    let mut ticks = (11..100).map(|seconds| a.core.tick(at(seconds), &mut dst));
    assert!(ticks.all(|tick| tick != Tick::Expired));
    assert_eq!(a.core.tick(at(100), &mut dst), Tick::Nothing);
    assert!(a.core.is_expired(), "it does not try any more");
    assert!(talk(at(101), &mut a, &mut b));
    let (mut lonely, mut last) = (end(CoreName::Own, 1, 2, None), Tick::Nothing);
    lonely.initiate(at(0)).unwrap();
    for seconds in 1..=90 {
        last = lonely.core.tick(at(seconds), &mut dst);
    }
    assert_eq!(last, Tick::Expired);
}

#[test]
fn a_late_answer_to_an_initiation_given_up_is_refused() {
    let mut a = end(CoreName::Own, 1, 2, None);
    let mut b = end(CoreName::Own, 2, 1, None);
    let initiation = a.initiate(at(0)).unwrap();
    let response = b.answer(at(0), &initiation);
    assert_eq!(a.core.expire(at(90), &mut []), Tick::Expired);
    assert_eq!(
        a.open(at(90), &response).map(|_| ()),
        Err(DropReason::UnexpectedHandshake)
    );
}

#[test]
fn an_unanswered_offer_never_displaces_the_session_in_use() {
    let (mut a, mut b) = pair();
    for round in 0..1_000_u64 {
        let now = at(0) + Duration::from_millis(20 * round);
        let initiation = a.initiate(now).unwrap();
        let _lost = b.answer(now, &initiation);
        if round % 100 == 0 {
            assert!(talk(now, &mut a, &mut b), "round {round}");
        }
    }
    assert!(talk(at(20), &mut a, &mut b));
}

#[test]
fn a_refused_initiation_changes_nothing() {
    let (mut a, mut b) = pair();
    let genuine = a.initiate(at(1)).unwrap();
    let before = b.core.stamps();
    // An ephemeral key of low order, under the right mac1, comes from nobody but a peer gone mad.
    let mut bent = genuine.clone();
    bent[8..40].fill(0);
    assert!(b.open(at(1), &bent).is_err());
    assert_eq!(b.core.stamps(), before);
    let NoiseCore::Own(core) = &mut b.core else {
        panic!("our own core");
    };
    // What the front door has not seen is not answered.
    let opened = core.open(
        at(1),
        crate::wire::Kind::Initiation,
        &genuine,
        None,
        &mut [0; 200],
    );
    assert_eq!(opened, Err(DropReason::UnexpectedHandshake));
    assert!(b.open(at(1), &genuine).is_ok());
}

#[test]
fn secrets_print_as_stars() {
    let seed = crate::noise::Seed::new([7; 32].into());
    assert_eq!(format!("{seed:?}"), "***");
}
