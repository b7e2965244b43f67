//! Peers without a core: until they are called, and again when nothing is left of their sessions.

use super::harness::*;
use crate::drops::DropReason;

/// Whether no peer has a core.
fn asleep(end: &End) -> bool {
    let mut peers = end.shard.peers.iter().flatten();
    peers.all(|slot| slot.peer.is_asleep())
}

#[test]
fn a_peer_has_no_core_and_nothing_due_until_somebody_talks_to_it() {
    let mut net = Net::pair();
    for end in 0..2 {
        assert!(net.ends[end].due(net.now).is_empty());
        assert_eq!(net.ends[end].shard.poll_timeout(), None);
        assert!(asleep(&net.ends[end]));
    }
    net.send(0, &packet("10.0.0.1", "10.0.0.2", 100, 1));
    assert_eq!(net.ends[1].delivered.len(), 1);
    assert!(!asleep(&net.ends[0]) && !asleep(&net.ends[1]));
    assert!(net.ends[0].shard.poll_timeout().is_some());
}

#[test]
fn what_is_no_handshake_wakes_nobody() {
    let mut net = Net::connected();
    let sealed = net.ends[0].seal(net.now, &packet("10.0.0.1", "10.0.0.2", 100, 2));
    let mut fresh = End::new(2, "192.0.2.2:2000");
    fresh.apply(net.now, vec![spec(1, None)]);
    net.ends[1] = fresh;
    assert!(net.ends[1].open(net.now, &sealed.unwrap()).is_empty());
    assert!(asleep(&net.ends[1]));
}

#[test]
fn a_peer_whose_session_is_over_goes_without_a_core_and_refuses_what_it_has_seen() {
    let mut net = Net::pair();
    let initiation = net.initiation(0, 2);
    net.carry([initiation.clone()], |_| true);
    assert!(net.works(0) && net.works(1));
    // The last session ends within three minutes of its making, and what came late for it after nine.
    for _ in 0..1_200 {
        net.pass(1_000);
        for end in 0..2 {
            let due = net.ends[end].due(net.now);
            net.carry(due, |_| true);
        }
    }
    assert!(asleep(&net.ends[0]) && asleep(&net.ends[1]));
    for end in &net.ends {
        assert_eq!(end.shard.poll_timeout(), None, "nothing falls due");
    }
    assert!(net.ends[1].open(net.now, &initiation).is_empty());
    assert_eq!(net.ends[1].dropped(1, DropReason::StaleHandshake), 1);
    net.send(1, &packet("10.0.0.2", "10.0.0.1", 100, 1));
    assert!(net.works(0) && net.works(1));
}
