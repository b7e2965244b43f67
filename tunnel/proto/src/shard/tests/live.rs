//! What changes while it runs.

use std::time::Duration;

use super::harness::*;
use crate::{
    counters::State,
    directory::PeerSpec,
    keys::PresharedKey,
    noise::{CoreName, Noise, Seed, Wall},
};

fn shared(number: u8, peer: PeerSpec) -> PeerSpec {
    PeerSpec {
        preshared_key: PresharedKey::from_bytes([number; 32]),
        ..peer
    }
}

fn far() -> PeerSpec {
    spec(2, Some("192.0.2.2:2000"))
}

/// Whether a handshake that the first end asks for is completed by both.
fn shakes_hands(net: &mut Net) -> bool {
    let before = [net.ends[0].reading(2), net.ends[1].reading(1)].map(|read| read.last_handshake);
    let initiation = net.initiation(0, 2);
    net.carry([initiation], |_| true);
    let after = [net.ends[0].reading(2), net.ends[1].reading(1)].map(|read| read.last_handshake);
    before[0] != after[0] && before[1] != after[1]
}

#[test]
fn a_session_of_one_preshared_key_is_followed_by_one_of_another() {
    let mut net = Net::pair();
    net.ends[0].apply(net.now, vec![shared(7, far())]);
    assert!(!shakes_hands(&mut net), "one end alone has it");
    net.ends[1].apply(net.now, vec![shared(7, spec(1, None))]);
    assert!(shakes_hands(&mut net));
    assert!(net.works(0) && net.works(1));

    net.ends[0].apply(net.now, vec![shared(8, far())]);
    net.ends[1].apply(net.now, vec![shared(9, spec(1, None))]);
    assert!(net.works(0) && net.works(1), "the session is untouched");
    assert!(!shakes_hands(&mut net), "two that differ");
    assert!(net.works(0) && net.works(1), "and still is");
    // Once more before there was a session of the last one.
    net.ends[1].apply(net.now, vec![shared(7, spec(1, None))]);
    assert!(net.works(0) && net.works(1));
    let late = net.ends[1].seal(net.now, &packet("10.0.0.2", "10.0.0.1", 50, 5));
    net.ends[1].apply(net.now, vec![shared(8, spec(1, None))]);
    assert!(shakes_hands(&mut net));
    assert!(net.works(0) && net.works(1));
    net.ends[0].delivered.clear();
    net.carry(late, |_| true);
    assert_eq!(
        net.ends[0].delivered.len(),
        1,
        "sealed before, opened after"
    );

    // A `Tunn` begins its stamps at the wall clock, which a mocked clock has left behind: our own core
    // would take them for old ones.
    if cfg!(feature = "mock-clock") && super::core(1) != super::core(2) {
        return;
    }
    net.ends[0].apply(net.now, vec![far()]);
    net.ends[1].apply(net.now, vec![spec(1, None)]);
    assert!(shakes_hands(&mut net), "none again");
    assert!(net.works(0) && net.works(1));
}

#[test]
fn a_keepalive_that_is_switched_on_sends_one_at_once() {
    let mut net = Net::connected();
    net.send(1, &packet("10.0.0.2", "10.0.0.1", 100, 2));
    net.tick();
    let before = net.ends[1].reading(1).rx_bytes;
    let kept = |seconds| PeerSpec {
        keepalive: Some(Duration::from_secs(seconds)),
        ..far()
    };
    net.ends[0].apply(net.now, vec![kept(25)]);
    net.tick();
    assert_eq!(net.ends[1].reading(1).rx_bytes, before + 32);
    net.ends[0].apply(net.now, vec![kept(20)]);
    net.tick();
    assert_eq!(net.ends[1].reading(1).rx_bytes, before + 32, "on already");
    net.ends[0].apply(net.now, vec![far()]);
    net.tick();
    assert_eq!(net.ends[1].reading(1).rx_bytes, before + 32);
}

#[test]
fn a_keepalive_without_a_session_starts_one() {
    let mut net = Net::pair();
    let kept = PeerSpec {
        keepalive: Some(Duration::from_secs(25)),
        ..far()
    };
    net.ends[0].apply(net.now, vec![kept]);
    net.tick();
    assert_eq!(net.ends[1].reading(1).state, State::Connected);
}

#[test]
fn packets_wait_while_nothing_can_be_sent() {
    for connected in [false, true] {
        let mut net = if connected {
            Net::connected()
        } else {
            Net::pair()
        };
        net.ends[0].shard.rest();
        let sent = net.ends[0].reading(2).tx_bytes;
        let inner = packet("10.0.0.1", "10.0.0.2", 100, 9);
        net.send(0, &inner);
        net.pass(2_000);
        net.tick();
        assert_eq!(net.ends[0].reading(2).tx_bytes, sent);
        assert_eq!(net.ends[0].shard.poll_timeout(), None);
        net.ends[0].shard.wake(net.now);
        net.tick();
        assert_eq!(net.ends[1].delivered, [inner]);
        assert!(net.works(0) && net.works(1));
    }
}

#[test]
fn a_device_that_wakes_up_elsewhere_says_so_at_once() {
    let mut net = Net::connected();
    net.pass(2_000);
    net.ends[0].shard.rest();
    net.ends[0].at = address("192.0.2.11:1111");
    net.ends[0].shard.wake(net.now);
    net.tick();
    let known = net.ends[1].reading(1).endpoint;
    assert_eq!(known, Some(address("192.0.2.11:1111")));
    assert!(net.works(1));
}

#[test]
fn another_private_key_is_another_device_to_its_peers() {
    let mut net = Net::connected();
    let noise = match super::core(1) {
        CoreName::Boringtun => Noise::Boringtun,
        CoreName::Own => Noise::Own {
            seed: Seed::new([77; 32].into()),
            wall: Wall::new(net.now, Duration::from_secs(WALL)),
        },
    };
    let now = net.now;
    net.ends[0].shard.set_private_key(now, &key(3), noise);
    assert!(!shakes_hands(&mut net), "nobody knows it");
    let renamed = PeerSpec {
        allowed_ips: spec(1, None).allowed_ips,
        ..spec(3, None)
    };
    net.ends[1].apply(net.now, vec![renamed]);
    let initiation = net.initiation(0, 2);
    net.carry([initiation], |_| true);
    assert!(net.works(0) && net.works(1));
    assert_eq!(net.ends[1].reading(3).state, State::Connected);
}

#[test]
fn a_peer_that_asks_with_the_new_key_gets_a_session_of_it_beside_the_one_in_use() {
    let mut net = Net::pair();
    assert!(shakes_hands(&mut net));
    net.ends[1].apply(net.now, vec![shared(5, spec(1, None))]);
    net.ends[0].apply(net.now, vec![shared(5, far())]);
    // The end that was called asks: it knows by now where the other one is.
    net.pass(400);
    let now = net.now;
    net.ends[1].force(now, 1);
    let asked = net.ends[1].due(now);
    assert_eq!(asked.iter().filter(|one| one.kind() == 1).count(), 1);
    assert!(net.works(0) && net.works(1), "while it asks");
    net.carry(asked, |_| true);
    assert!(net.works(0) && net.works(1), "once it was answered");
    net.ends[1].apply(net.now, vec![]);
    net.ends[0].apply(net.now, vec![]);
    assert!(!net.works(0) && !net.works(1));
}
