//! Peers whose clock went back, and recordings that look as if it had.

use super::harness::*;
use crate::{drops::DropReason, shard::EventKind};

/// Peer 1 after a restart: it knows nothing of before, and its clock went back by a day.
fn set_back(net: &mut Net) {
    net.ends[0] = End::restarted(1, "192.0.2.1:1000", 9, WALL - 86_400);
    net.ends[0].apply(net.now, vec![spec(2, Some("192.0.2.2:2000"))]);
}

fn refused(net: &Net) -> u64 {
    net.ends[1].dropped(1, DropReason::StaleHandshake)
}

/// How often the second end believed that the clock of its peer had gone back.
fn doubts(net: &mut Net) -> usize {
    let events = std::iter::from_fn(|| net.ends[1].shard.poll_event());
    events
        .filter(|event| event.change == EventKind::Doubted)
        .count()
}

#[test]
fn a_host_whose_clock_went_back_is_answered_when_it_asks_for_the_fourth_time() {
    let mut net = Net::connected();
    set_back(&mut net);
    for attempt in 1..=3 {
        let initiation = net.initiation(0, 2);
        assert!(net.ends[1].open(net.now, &initiation).is_empty());
        assert_eq!(refused(&net), attempt);
    }
    assert_eq!(doubts(&mut net), 1);
    let initiation = net.initiation(0, 2);
    net.carry([initiation], |_| true);
    assert!(net.works(0) && net.works(1));
    // It is believed from here on.
    for _ in 0..3 {
        let initiation = net.initiation(0, 2);
        net.carry([initiation], |_| true);
        assert!(net.works(0) && net.works(1));
    }
    assert_eq!((refused(&net), doubts(&mut net)), (3, 0));
}

#[test]
fn one_recording_is_refused_however_often_it_comes() {
    let mut net = Net::connected();
    let recorded = net.initiation(0, 2);
    net.carry([recorded.clone()], |_| true);
    for _ in 0..100 {
        net.pass(100);
        let answers = net.ends[1].open(net.now, &recorded);
        let kinds: Vec<u8> = answers.iter().map(Datagram::kind).collect();
        // Something of its own may be due.
        assert!(!kinds.contains(&2), "{kinds:?}");
    }
    assert_eq!(doubts(&mut net), 0);
    assert!(net.works(0) && net.works(1));
}

#[test]
fn who_has_several_recordings_gets_answers_and_nothing_else() {
    let mut net = Net::connected();
    let mut recorded = Vec::new();
    for _ in 0..4 {
        let initiation = net.initiation(0, 2);
        recorded.push(initiation.clone());
        net.carry([initiation], |_| true);
    }
    let at = net.ends[0].at;
    for round in 0..40 {
        net.pass(100);
        let mut replayed = recorded[round % 4].clone();
        replayed.from = address("203.0.113.66:6666");
        net.ends[1].open(net.now, &replayed);
        assert!(net.works(0) && net.works(1), "the session in use goes on");
        assert_eq!(net.ends[1].reading(1).endpoint, Some(at));
    }
    assert!(doubts(&mut net) > 0);
    let initiation = net.initiation(0, 2);
    net.carry([initiation], |_| true);
    assert!(net.works(0) && net.works(1), "and the next one comes about");
}
