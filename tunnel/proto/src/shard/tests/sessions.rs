//! Handshakes, loss, reordering, keepalives, restarts.

use std::time::Duration;

use super::harness::*;
use crate::{counters::State, directory::PeerSpec, drops::DropReason};

#[test]
fn a_packet_without_a_session_waits_for_the_handshake_and_arrives() {
    let mut net = Net::pair();
    let inner = packet("10.0.0.1", "10.0.0.2", 100, 7);
    let initiation = net.ends[0].seal(net.now, &inner).unwrap();
    assert_eq!((initiation.kind(), initiation.bytes.len()), (1, 148));
    assert_eq!(net.ends[0].reading(2).state, State::Connecting);
    net.carry([initiation], |_| true);
    assert_eq!(net.ends[1].delivered, [inner]);
    for (end, peer) in [(0, 2), (1, 1)] {
        let reading = net.ends[end].reading(peer);
        assert_eq!(reading.state, State::Connected);
        assert_eq!(reading.last_handshake, Some(net.now));
    }
    let (a, b) = (net.ends[0].reading(2), net.ends[1].reading(1));
    assert_eq!((a.tx_packets, b.rx_packets), (1, 1));
    assert_eq!(
        (a.tx_bytes, a.rx_bytes),
        (b.rx_bytes, b.tx_bytes),
        "bytes on the wire agree"
    );
    assert_eq!(a.rx_bytes, 92);
    assert_eq!(
        a.tx_bytes,
        148 + 32 + (112 + 32),
        "initiation, keepalive, padded packet"
    );
    assert!(net.works(1), "and back");
}

#[test]
fn a_lost_initiation_is_made_good_by_a_forced_one() {
    let mut net = Net::pair();
    let lost = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 50, 1))
        .unwrap();
    assert_eq!(lost.kind(), 1);
    assert!(
        net.ends[0]
            .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 50, 2))
            .is_none()
    );
    let again = net.initiation(0, 2);
    net.carry([again], |_| true);
    assert_eq!(net.ends[1].delivered.len(), 2, "both packets waited");
}

#[test]
fn packets_arrive_in_any_order_within_the_window_and_each_only_once() {
    let mut net = Net::connected();
    let sealed: Vec<Datagram> = (0..200_u8)
        .map(|mark| {
            net.ends[0]
                .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, mark))
                .unwrap()
        })
        .collect();
    net.carry(sealed.iter().rev().cloned(), |_| true);
    assert_eq!(net.ends[1].delivered.len(), 200);
    net.carry(sealed.iter().cloned(), |_| true);
    assert_eq!(net.ends[1].delivered.len(), 200);
    assert_eq!(net.ends[1].dropped(1, DropReason::Replayed), 200);
}

#[test]
fn a_packet_older_than_the_window_is_refused() {
    let mut net = Net::connected();
    let late = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, 1))
        .unwrap();
    for mark in 0..window(2) + 76 {
        let inner = packet("10.0.0.1", "10.0.0.2", 64, mark.to_le_bytes()[0]);
        let sealed = net.ends[0].seal(net.now, &inner);
        net.carry(sealed, |_| true);
    }
    net.ends[1].delivered.clear();
    net.carry([late], |_| true);
    assert!(net.ends[1].delivered.is_empty());
    assert_eq!(net.ends[1].dropped(1, DropReason::Replayed), 1);
}

#[test]
fn a_restarted_peer_is_reached_again_by_a_forced_handshake() {
    let mut net = Net::connected();
    let mut restarted = End::seeded(2, "192.0.2.2:2000", 77);
    restarted.apply(net.now, vec![spec(1, None)]);
    net.ends[1] = restarted;
    assert!(!net.works(0), "it has no keys");
    assert_eq!(net.ends[1].drops.of(DropReason::UnknownSession), 1);
    let initiation = net.initiation(0, 2);
    net.carry([initiation], |_| true);
    assert!(net.works(0) && net.works(1));
}

#[test]
fn a_peer_that_forgets_its_session_twice_in_a_moment_is_reached_both_times() {
    let mut net = Net::connected();
    for seed in [77, 78] {
        net.pass(210);
        let mut restarted = End::seeded(2, "192.0.2.2:2000", seed);
        restarted.apply(net.now, vec![spec(1, None)]);
        net.ends[1] = restarted;
        let now = net.now;
        net.ends[0].force(now, 2);
        while !net.works(0) {
            let at = net.ends[0].shard.poll_timeout().unwrap();
            let wait = at.since(net.now).as_millis();
            net.pass(u64::try_from(wait).unwrap());
            assert!(
                net.now.since(now).as_millis() <= 300,
                "put off, not forgotten"
            );
            net.tick();
        }
    }
}

#[test]
fn a_handshake_that_was_put_off_is_not_needed_once_there_is_one() {
    let mut net = Net::connected();
    let initiation = net.initiation(0, 2);
    net.pass(100);
    let now = net.now;
    net.ends[0].force(now, 2);
    net.carry([initiation], |_| true);
    for _ in 0..50 {
        net.pass(10);
        let due = net.ends[0].due(net.now);
        assert!(due.iter().all(|datagram| datagram.kind() != 1));
    }
}

#[test]
fn many_unanswered_handshakes_leave_the_session_in_use_alone() {
    for lost in 0..20 {
        let mut net = Net::connected();
        for _ in 0..lost {
            net.initiation(0, 2);
        }
        // The peer's handshake is opened here, but its answer is lost.
        let initiation = net.initiation(1, 1);
        net.carry([initiation], |datagram| datagram.kind() == 1);
        assert!(
            net.works(0) && net.works(1),
            "after {lost} lost initiations"
        );
    }
}

#[test]
fn a_session_begun_while_another_works_takes_over_when_it_is_confirmed() {
    let mut net = Net::connected();
    for round in 0..600_u32 {
        let (end, peer) = if round % 3 == 0 { (1, 1) } else { (0, 2) };
        let initiation = net.initiation(end, peer);
        net.carry([initiation], |_| true);
        assert!(net.works(0) && net.works(1), "round {round}");
        assert_eq!(net.ends[end].reading(peer).last_handshake, Some(net.now));
    }
}

#[test]
fn crossing_handshakes_end_with_a_session_that_works() {
    let mut net = Net::connected();
    let (a, b) = (net.initiation(0, 2), net.initiation(1, 1));
    net.carry([a, b], |_| true);
    assert!(net.works(0) && net.works(1));
}

#[test]
fn a_handshake_that_is_forced_right_after_another_waits_until_peers_answer_one() {
    let mut net = Net::connected();
    let before = net.ends[0].reading(2).last_handshake;
    net.pass(5);
    let now = net.now;
    net.ends[0].force(now, 2);
    while net.ends[0].reading(2).last_handshake == before {
        let at = net.ends[0].shard.poll_timeout().unwrap();
        net.pass(u64::try_from(at.since(net.now).as_millis()).unwrap().max(1));
        assert!(net.now.since(now) <= Duration::from_millis(60));
        net.tick();
    }
    assert_eq!(net.ends[1].dropped(1, DropReason::RateLimited), 0);
    assert!(net.works(0) && net.works(1));
}

#[test]
fn handshakes_are_not_forced_more_often_than_three_times_a_second() {
    let mut net = Net::connected();
    net.pass(400);
    let mut sent = 0;
    for _ in 0..100 {
        let now = net.now;
        net.ends[0].force(now, 2);
        sent += net.ends[0]
            .due(now)
            .iter()
            .filter(|datagram| datagram.kind() == 1)
            .count();
        net.pass(10);
    }
    assert_eq!(sent, 4);
}

#[test]
fn an_idle_session_sends_keepalives_and_the_interval_can_change() {
    let mut net = Net::connected();
    let keepalive = |seconds| PeerSpec {
        keepalive: Some(Duration::from_secs(seconds)),
        ..spec(2, Some("192.0.2.2:2000"))
    };
    // So that neither end owes the other an answer.
    net.send(1, &packet("10.0.0.2", "10.0.0.1", 100, 2));
    let heard = net.ends[0].reading(2).rx_bytes;
    // Less than two minutes in all: a keepalive re-keys like any other packet.
    for (interval, expected) in [(10, 3), (5, 7), (1, 32)] {
        net.ends[0].apply(net.now, vec![keepalive(interval)]);
        let before = net.ends[1].reading(1);
        for _ in 0..380 {
            net.pass(100);
            net.tick();
        }
        let after = net.ends[1].reading(1);
        let messages = (after.rx_bytes - before.rx_bytes) / 32;
        let range = expected - expected / 3 - 1..=expected + expected / 3;
        assert!(range.contains(&messages), "{messages} each {interval} s");
        assert_eq!(after.rx_packets, before.rx_packets, "nothing is delivered");
        assert!(after.last_data > before.last_data);
    }
    assert_eq!(
        net.ends[0].reading(2).rx_bytes,
        heard,
        "and the other end stays silent"
    );
}

#[test]
fn an_always_up_peer_connects_without_a_packet() {
    let mut net = Net::pair();
    let up = PeerSpec {
        always_up: true,
        ..spec(2, Some("192.0.2.2:2000"))
    };
    net.ends[0].apply(net.now, vec![up]);
    net.tick();
    assert_eq!(net.ends[0].reading(2).state, State::Connected);
    assert!(net.works(1));
}

#[test]
fn a_peer_of_unknown_whereabouts_gets_nothing_and_it_is_counted() {
    let mut net = Net::pair();
    assert!(
        net.ends[1]
            .seal(net.now, &packet("10.0.0.2", "10.0.0.1", 50, 1))
            .is_none()
    );
    assert_eq!(net.ends[1].dropped(1, DropReason::NoEndpoint), 1);
    let now = net.now;
    net.ends[1].force(now, 1);
    assert!(net.ends[1].due(now).is_empty());
}

#[test]
fn a_changed_endpoint_keeps_the_session() {
    let mut net = Net::connected();
    net.ends[1].at = address("192.0.2.22:2222");
    net.ends[0].apply(net.now, vec![spec(2, Some("192.0.2.22:2222"))]);
    net.pass(2_000);
    net.tick();
    assert!(net.works(0) && net.works(1));
    assert_eq!(net.ends[1].dropped(1, DropReason::UnknownSession), 0);
}

#[test]
fn a_removed_peer_forwards_nothing_and_may_come_back() {
    let mut net = Net::connected();
    let late = net.ends[1]
        .seal(net.now, &packet("10.0.0.2", "10.0.0.1", 50, 1))
        .unwrap();
    net.ends[0].apply(net.now, vec![]);
    net.carry([late], |_| true);
    assert!(net.ends[0].delivered.is_empty());
    assert_eq!(net.ends[0].drops.of(DropReason::UnknownSession), 1);
    assert!(
        net.ends[0]
            .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 50, 1))
            .is_none()
    );
    assert_eq!(net.ends[0].drops.of(DropReason::NoPeer), 1);
    net.ends[0].apply(net.now, vec![spec(2, Some("192.0.2.2:2000"))]);
    let initiation = net.initiation(0, 2);
    net.carry([initiation], |_| true);
    assert!(net.works(0) && net.works(1));
}

#[test]
fn a_worker_that_slept_ticks_before_it_sends() {
    let mut net = Net::connected();
    net.pass(60_000);
    assert!(net.works(0) && net.works(1));
}
