//! What boringtun's core cannot do: these run on our own alone.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use kedge_core::Instant;

use super::harness::*;
use crate::{
    counters::State,
    directory::PeerSpec,
    drops::DropReason,
    guard::Guard,
    memory::{Memory, Remembered},
    noise::{Stamp, Stamps},
};

/// Peer 2 again, as it is after a restart: without sessions, with what was kept on disk.
fn restart_the_second(net: &mut Net, seed: u64, wall: u64) {
    let memory = net.ends[1].shard.memory();
    let mut restarted = End::restarted(2, "192.0.2.2:2000", seed, wall);
    restarted.shard.remember(memory);
    restarted.apply(net.now, vec![spec(1, Some("192.0.2.1:1000"))]);
    net.ends[1] = restarted;
}

/// Peer 2 refuses an initiation that it has seen, and takes a new one.
fn only_a_fresh_one_counts(net: &mut Net, seen: &Datagram) {
    assert!(net.ends[1].open(net.now, seen).is_empty());
    assert_eq!(net.ends[1].dropped(1, DropReason::StaleHandshake), 1);
    let fresh = net.initiation(0, 2);
    net.carry([fresh], |_| true);
    assert!(net.works(0) && net.works(1));
}

#[test]
fn a_replayed_initiation_is_refused_by_a_peer_that_was_removed_and_came_back() {
    let mut net = Net::pair();
    let initiation = net.initiation(0, 2);
    net.carry([initiation.clone()], |_| true);
    net.ends[1].apply(net.now, vec![]);
    net.ends[1].apply(net.now, vec![spec(1, None)]);
    only_a_fresh_one_counts(&mut net, &initiation);
}

#[test]
fn a_replayed_initiation_is_refused_over_a_restart() {
    let mut net = Net::pair();
    let initiation = net.initiation(0, 2);
    net.carry([initiation.clone()], |_| true);
    restart_the_second(&mut net, 77, WALL);
    only_a_fresh_one_counts(&mut net, &initiation);
}

#[test]
fn a_host_whose_clock_went_back_over_a_restart_is_not_refused() {
    for wall in [0, 1_000, WALL - 86_400] {
        let mut net = Net::pair();
        let initiation = net.initiation(0, 2);
        net.carry([initiation], |_| true);
        let theirs = net.initiation(1, 1);
        net.carry([theirs], |_| true);
        restart_the_second(&mut net, 78, wall);
        let theirs = net.initiation(1, 1);
        net.carry([theirs], |_| true);
        assert_eq!(net.ends[0].dropped(2, DropReason::StaleHandshake), 0);
        assert!(net.works(0) && net.works(1), "the clock stands at {wall}");
    }
}

#[test]
fn a_device_that_knows_nothing_but_newer_stamps_believes_that_a_clock_went_back() {
    let mut net = Net::connected();
    restart_the_second(&mut net, 79, WALL);
    net.ends[0] = End::restarted(1, "192.0.2.1:1000", 9, WALL - 86_400);
    net.ends[0].apply(net.now, vec![spec(2, Some("192.0.2.2:2000"))]);
    for attempt in 1..=4 {
        let initiation = net.initiation(0, 2);
        net.carry([initiation], |_| true);
        // It has no session to keep a core for meanwhile.
        net.pass(5_000);
        net.tick();
        assert_eq!(
            net.ends[0].reading(2).state == State::Connected,
            attempt == 4
        );
    }
    assert!(net.works(0) && net.works(1));
}

#[test]
fn a_doubt_is_over_after_half_a_minute_and_costs_no_memory_then() {
    let mut net = Net::pair();
    restart_the_second(&mut net, 80, WALL);
    let memory = Memory(BTreeMap::from([(
        public(1),
        Remembered {
            stamps: Stamps {
                seen: Some(Stamp::from_bytes(&[
                    0x40, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0,
                ])),
                sent: None,
            },
            endpoint: None,
        },
    )]));
    net.ends[1].shard.remember(memory);
    let refused = |net: &mut Net| {
        let initiation = net.initiation(0, 2);
        let answers = net.ends[1].open(net.now, &initiation);
        answers.iter().all(|answer| answer.kind() != 2)
    };
    for _ in 0..3 {
        assert!(refused(&mut net));
    }
    for _ in 0..35 {
        net.pass(1_000);
        let now = net.now;
        net.ends[1].due(now);
    }
    assert!(refused(&mut net), "the doubt is over");
}

#[test]
fn what_is_known_of_peers_to_come_waits_for_them_and_stamps_never_go_back() {
    let mut net = Net::connected();
    let of = |memory: &Memory| memory.0[&public(1)];
    let before = net.ends[1].shard.memory();
    assert!(of(&before).stamps.seen.is_some() && of(&before).stamps.sent.is_none());
    let initiation = net.initiation(0, 2);
    net.carry([initiation], |_| true);
    let after = net.ends[1].shard.memory();
    assert!(of(&after).stamps.seen > of(&before).stamps.seen);
    net.ends[1].shard.remember(before);
    assert_eq!(net.ends[1].shard.memory(), after);
    assert_eq!(of(&after).endpoint, Some(net.ends[0].at));
    net.ends[1].apply(net.now, vec![]);
    let removed = net.ends[1].shard.memory();
    assert_eq!(of(&removed).stamps, of(&after).stamps);
    assert_eq!(
        of(&removed).endpoint,
        None,
        "who comes again may be elsewhere"
    );
}

#[test]
fn a_clock_that_is_set_right_stamps_what_follows() {
    let mut net = Net::pair();
    net.ends[0] = End::restarted(1, "192.0.2.1:1000", 5, 0);
    net.ends[0].apply(net.now, vec![spec(2, Some("192.0.2.2:2000"))]);
    let _ = net.initiation(0, 2);
    let early = net.ends[0].shard.memory().0[&public(2)].stamps.sent;
    net.ends[0]
        .shard
        .set_wall(net.now, Duration::from_secs(WALL));
    let initiation = net.initiation(0, 2);
    assert!(net.ends[0].shard.memory().0[&public(2)].stamps.sent > early);
    net.carry([initiation], |_| true);
    assert!(net.works(0));
}

#[test]
fn seven_initiations_that_got_lost_and_one_that_came_leave_the_session_alone() {
    let mut net = Net::connected();
    for _ in 0..7 {
        let _ = net.initiation(1, 1);
    }
    let unconfirmed = net.initiation(0, 2);
    let lost = net.ends[1].open(net.now, &unconfirmed);
    assert_eq!(lost[0].kind(), 2);
    assert!(net.works(0) && net.works(1));
}

#[test]
fn a_packet_that_eight_thousand_overtook_is_delivered() {
    let mut net = Net::connected();
    let mut seal = |mark: u8| {
        net.ends[0]
            .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, mark))
            .unwrap()
    };
    let late = seal(1);
    let overtaking: Vec<Datagram> = (0..8_191).map(|_| seal(2)).collect();
    for datagram in overtaking {
        net.carry([datagram], |_| true);
    }
    net.ends[1].delivered.clear();
    net.carry([late], |_| true);
    assert_eq!(net.ends[1].delivered.len(), 1);
}

#[test]
fn a_shared_session_seals_what_the_shard_opens() {
    let mut net = Net::connected();
    let id = net.ends[0].id(2);
    let session = net.ends[0].shard.session(net.now, id).unwrap();
    let inner = packet("10.0.0.1", "10.0.0.2", 64, 9);
    let mut bytes = vec![0; crate::noise::HEAD];
    bytes.extend(&inner);
    bytes.resize(bytes.len() + crate::noise::TAIL, 0);
    session.seal_in_place(net.now, &mut bytes).unwrap();
    let (from, to) = (net.ends[0].at, net.ends[1].at);
    net.carry([Datagram { from, to, bytes }], |_| true);
    assert_eq!(net.ends[1].delivered, [inner]);
    let mut back = net.ends[1]
        .seal(net.now, &packet("10.0.0.2", "10.0.0.1", 64, 8))
        .unwrap();
    let opened = session.open_in_place(net.now, &mut back.bytes).unwrap();
    assert_eq!(opened[63], 8);
}

/// Has strangers ask the second end for handshakes, which take long, until it has enough of it.
fn flood(net: &mut Net) {
    let now = net.now;
    let wanted = PeerSpec {
        public_key: public(2),
        ..spec(8, Some("192.0.2.2:2000"))
    };
    let mut stranger = End::new(9, "192.0.2.9:9");
    stranger.apply(now, vec![wanted]);
    let inner = packet("10.0.0.9", "10.0.0.8", 64, 1);
    let initiation = stranger.seal(now, &inner).unwrap();
    let shard = &mut net.ends[1].shard;
    (0..100).for_each(|_| shard.handshake_took(Duration::from_secs(1)));
    for number in 0..400_u16 {
        let [high, low] = number.to_be_bytes();
        let from = SocketAddr::from(([198, 51, high, low], 1_000));
        shard.receive(now, from, &initiation.bytes, &mut [0; 256]);
    }
    assert!(shard.is_under_load(now));
}

#[test]
fn a_device_under_load_answers_a_stranger_with_a_cookie_and_serves_who_brings_it_back() {
    let mut net = Net::pair();
    let guard = Arc::new(Guard::default());
    net.ends[1].shard.show(Arc::clone(&guard));
    flood(&mut net);
    let asked = guard.read();
    assert_eq!((asked.under_load, asked.times), (true, 1));
    assert!((1..400).contains(&asked.cookies_sent), "{asked:?}");
    assert_eq!(asked.cookies_proven, 0);
    let initiation = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, 1))
        .unwrap();
    let cookie = net.ends[1].open(net.now, &initiation);
    assert_eq!((cookie[0].kind(), cookie[0].bytes.len()), (3, 64));
    assert_eq!(cookie[0].to, initiation.from);
    let again = net.ends[0].open(net.now, &cookie[0]);
    assert_eq!((again.len(), again[0].kind()), (1, 1), "at once, and once");
    let mut elsewhere = again[0].clone();
    elsewhere.from = address("192.0.2.1:1001");
    assert_eq!(
        net.ends[1].open(net.now, &elsewhere)[0].kind(),
        3,
        "the cookie is good for one port"
    );
    net.carry(again, |_| true);
    assert_eq!(net.ends[1].delivered.len(), 1);
    assert!(net.works(0) && net.works(1));
    let told = guard.read();
    assert_eq!(told.cookies_sent, asked.cookies_sent + 2, "to both places");
    assert_eq!(told.cookies_proven, 1, "from the one it is good for");
    net.pass(1_200);
    let now = net.now;
    assert!(!net.ends[1].shard.is_under_load(now));
    assert_eq!((guard.read().under_load, guard.read().times), (false, 1));
}

#[test]
fn an_endless_demand_for_cookies_is_no_storm() {
    let mut net = Net::pair();
    flood(&mut net);
    let mut initiation = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, 1))
        .unwrap();
    let mut sent = 1;
    // Each datagram seems to come from another port, so no cookie is ever good.
    for port in 0..1_000 {
        initiation.from.set_port(port);
        for answer in net.ends[1].open(net.now, &initiation) {
            let again = net.ends[0].open(net.now, &answer);
            sent += again.len();
            initiation = again.into_iter().next().unwrap_or(initiation.clone());
        }
    }
    assert_eq!(sent, 2);
}

#[test]
fn the_same_seeds_and_times_give_the_same_bytes() {
    let run = || {
        let mut net = Net::pair();
        let mut trace = Vec::new();
        let up = PeerSpec {
            always_up: true,
            ..spec(2, Some("192.0.2.2:2000"))
        };
        net.ends[0].apply(net.now, vec![up]);
        for step in 0..3_000_u64 {
            net.pass(100);
            let now: Instant = net.now;
            let mut due: Vec<Datagram> = net.ends.iter_mut().flat_map(|end| end.due(now)).collect();
            if step % 50 == 0 {
                due.extend(net.ends[0].seal(now, &packet("10.0.0.1", "10.0.0.2", 64, 1)));
            }
            net.carry(due, |datagram| {
                trace.push(datagram.bytes.clone());
                true
            });
        }
        trace
    };
    let first = run();
    assert!(first.len() > 60 && first == run());
}
