//! Where datagrams go, and whose addresses are whose.

use super::harness::*;
use crate::{directory::PeerSpec, drops::DropReason};

fn endpoint(net: &Net) -> String {
    net.ends[1]
        .reading(1)
        .endpoint
        .map(|at| at.to_string())
        .unwrap_or_default()
}

#[test]
fn only_data_moves_a_peer() {
    let mut net = Net::connected();
    assert_eq!(endpoint(&net), "192.0.2.1:1000");
    net.pass(2_000);
    net.ends[0].at = address("198.51.100.9:999");
    let initiation = net.initiation(0, 2);
    let answers = net.ends[1].open(net.now, &initiation);
    assert_eq!(
        answers[0].to, net.ends[0].at,
        "a handshake is answered to where it came from"
    );
    assert_eq!(endpoint(&net), "192.0.2.1:1000", "but it moves nothing");
    let keepalive = net.ends[0].open(net.now, &answers[0]);
    assert_eq!(keepalive[0].kind(), 4);
    net.carry(keepalive, |_| true);
    assert_eq!(endpoint(&net), "198.51.100.9:999");
    assert!(net.works(1), "and traffic goes there");
}

#[test]
fn a_response_or_garbage_from_elsewhere_moves_nothing() {
    let mut net = Net::connected();
    net.pass(2_000);
    let initiation = net.initiation(1, 1);
    let mut answers = net.ends[0].open(net.now, &initiation);
    answers[0].from = address("203.0.113.66:6666");
    let keepalive = net.ends[1].open(net.now, &answers[0]);
    assert_eq!(endpoint(&net), "192.0.2.1:1000");
    assert_eq!(keepalive[0].to, address("192.0.2.1:1000"));
    let mut forged = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, 1))
        .unwrap();
    forged.from = address("203.0.113.66:6666");
    forged.bytes[20] ^= 1;
    net.carry([forged], |_| true);
    assert_eq!(endpoint(&net), "192.0.2.1:1000");
    assert_eq!(net.ends[1].dropped(1, DropReason::Forged), 1);
}

#[test]
fn replayed_or_overtaken_data_moves_nothing() {
    let mut net = Net::connected();
    net.pass(2_000);
    let mut seal = |mark| {
        net.ends[0]
            .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, mark))
            .unwrap()
    };
    let (mut first, second) = (seal(1), seal(2));
    net.carry([second.clone()], |_| true);
    let mut replayed = second;
    replayed.from = address("203.0.113.66:6666");
    first.from = address("203.0.113.67:6666");
    net.carry([replayed, first], |_| true);
    assert_eq!(
        net.ends[1].delivered.len(),
        2,
        "the overtaken one is delivered"
    );
    assert_eq!(endpoint(&net), "192.0.2.1:1000");
}

#[test]
fn data_of_an_older_session_moves_nothing() {
    let mut net = Net::connected();
    net.pass(2_000);
    let mut old = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, 1))
        .unwrap();
    let initiation = net.initiation(0, 2);
    net.carry([initiation], |_| true);
    old.from = address("203.0.113.66:6666");
    net.carry([old], |_| true);
    assert_eq!(net.ends[1].delivered.len(), 1);
    assert_eq!(endpoint(&net), "192.0.2.1:1000");
}

#[test]
fn two_places_with_one_key_do_not_flap() {
    let mut net = Net::connected();
    net.pass(2_000);
    let places = [address("198.51.100.1:1"), address("198.51.100.2:2")];
    let mut moves = 0;
    let mut last = endpoint(&net);
    for step in 0..100 {
        net.ends[0].at = places[step % 2];
        net.pass(50);
        let sealed = net.ends[0].seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, 1));
        net.carry(sealed, |_| true);
        if endpoint(&net) != last {
            moves += 1;
            last = endpoint(&net);
        }
    }
    assert!((1..=6).contains(&moves), "{moves} moves in 5 s");
}

#[test]
fn a_source_that_is_not_the_peers_is_refused() {
    let mut net = Net::connected();
    let sealed = net.ends[0].seal(net.now, &packet("10.0.0.9", "10.0.0.2", 64, 1));
    net.carry(sealed, |_| true);
    assert!(net.ends[1].delivered.is_empty());
    assert_eq!(net.ends[1].dropped(1, DropReason::SourceNotAllowed), 1);
    assert!(net.works(0), "the rest goes on");
}

#[test]
fn what_a_gateway_passed_on_goes_to_no_other_gateway() {
    let mut net = Net::connected();
    let nets = |all: &[&str]| all.iter().map(|net| net.parse().unwrap()).collect();
    let at = net.ends[1].at.to_string();
    let everything = PeerSpec {
        allowed_ips: nets(&["10.0.0.0/24"]),
        ..spec(2, Some(&at))
    };
    net.ends[0].apply(net.now, vec![everything]);
    let gateway = |number, more: &[&str]| PeerSpec {
        allowed_ips: [spec(number, None).allowed_ips, nets(more)].concat(),
        accepts: nets(&["10.9.0.0/24"]),
        relays: true,
        realm: None,
        ..spec(number, None)
    };
    let peers = vec![
        gateway(1, &[]),
        gateway(3, &["10.0.0.30/32"]),
        spec(4, None),
    ];
    net.ends[1].apply(net.now, peers);
    for (to, passes) in [("10.0.0.2", true), ("10.0.0.4", true), ("10.0.0.30", false)] {
        net.ends[1].delivered.clear();
        let sealed = net.ends[0].seal(net.now, &packet("10.9.0.5", to, 64, 1));
        net.carry(sealed, |_| true);
        assert_eq!(net.ends[1].delivered.len(), usize::from(passes), "{to}");
    }
    assert_eq!(net.ends[1].dropped(1, DropReason::PassedOnTwice), 1);
}

#[test]
fn the_longest_prefix_owns_a_source_even_inside_the_peers_own() {
    let mut net = Net::connected();
    let wide = PeerSpec {
        allowed_ips: vec!["10.0.0.0/24".parse().unwrap()],
        ..spec(1, None)
    };
    net.ends[1].apply(net.now, vec![wide, spec(3, None)]);
    for (source, passes) in [("10.0.0.1", true), ("10.0.0.77", true), ("10.0.0.3", false)] {
        net.ends[1].delivered.clear();
        let sealed = net.ends[0].seal(net.now, &packet(source, "10.0.0.2", 64, 1));
        net.carry(sealed, |_| true);
        assert_eq!(net.ends[1].delivered.len(), usize::from(passes), "{source}");
    }
    assert_eq!(net.ends[1].dropped(1, DropReason::SourceNotAllowed), 1);
}

#[test]
fn a_device_that_restarts_knows_where_its_peers_are_and_reaches_them_first() {
    let mut net = Net::connected();
    let memory = net.ends[1].shard.learned().unwrap();
    assert_eq!(net.ends[1].shard.learned(), None, "nothing new");
    let mut restarted = End::seeded(2, "192.0.2.2:2000", 22);
    restarted.shard.remember(memory);
    restarted.apply(net.now, vec![spec(1, None)]);
    net.ends[1] = restarted;
    net.pass(400);
    net.send(1, &packet("10.0.0.2", "10.0.0.1", 64, 7));
    assert_eq!(
        net.ends[0].delivered.len(),
        1,
        "it calls, and need not be called"
    );
    assert!(net.works(0) && net.works(1));
    assert!(net.ends[1].shard.learned().is_some());
}

/// Calls device 2 at these places; the one initiation as it goes to each of them.
fn call(net: &mut Net, places: &[&str]) -> Vec<Datagram> {
    let places: Vec<_> = places.iter().map(|text| address(text)).collect();
    let mut dst = [0; 2_048];
    let id = net.ends[0].id(2);
    let length = net.ends[0].shard.call(net.now, id, &places, &mut dst);
    let bytes = dst[..length.unwrap()].to_vec();
    let datagram = |to: &std::net::SocketAddr| Datagram {
        from: net.ends[0].at,
        to: *to,
        bytes: bytes.clone(),
    };
    places.iter().map(datagram).collect()
}

#[test]
fn whoever_is_called_at_many_places_is_where_it_answers_from() {
    let mut net = Net::pair();
    let unplaced = |number| PeerSpec {
        keepalive: None,
        ..spec(number, None)
    };
    let now = net.now;
    net.ends[0].apply(now, vec![unplaced(2)]);
    net.ends[1].apply(now, vec![unplaced(1)]);
    let there = net.ends[1].at.to_string();
    let calls = call(&mut net, &["203.0.113.66:6666", &there]);
    assert_eq!(calls[0].bytes, calls[1].bytes, "the same for all");
    let answers = net.ends[1].open(net.now, &calls[1]);
    assert_eq!(answers[0].kind(), 2);
    // The other copies are replays.
    let mut copy = calls[0].clone();
    copy.to = net.ends[1].at;
    net.pass(1_000);
    assert!(
        net.ends[1]
            .open(net.now, &copy)
            .iter()
            .all(|it| it.kind() != 2)
    );
    let keepalive = net.ends[0].open(net.now, &answers[0]);
    assert_eq!(keepalive[0].to, net.ends[1].at);
    net.carry(keepalive, |_| true);
    assert!(net.works(0) && net.works(1), "both know where the other is");
}

#[test]
fn an_answer_from_where_nobody_was_called_moves_nothing() {
    let mut net = Net::connected();
    net.pass(2_000);
    let before = net.ends[0].reading(2).endpoint;
    let there = net.ends[1].at.to_string();
    let calls = call(&mut net, &["203.0.113.66:6666", &there]);
    let mut answers = net.ends[1].open(net.now, &calls[1]);
    answers[0].from = address("203.0.113.99:9999");
    net.ends[0].open(net.now, &answers[0]);
    assert_eq!(net.ends[0].reading(2).endpoint, before);
}
