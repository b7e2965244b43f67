//! What comes from outside and is not a peer's honest traffic.

use std::net::IpAddr;

use boringtun::noise::{TunnResult, rate_limiter::RateLimiter};
use proptest::prelude::*;

use super::harness::*;
use crate::{drops::DropReason, noise::HEAD, shard::Outcome};

#[test]
fn every_bit_of_an_initiation_matters() {
    let mut net = Net::pair();
    let initiation = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, 1))
        .unwrap();
    // mac2 is not looked at while nobody demands cookies.
    for bit in 0..132 * 8 {
        let mut changed = initiation.clone();
        changed.bytes[bit / 8] ^= 1 << (bit % 8);
        let answers = net.ends[1].open(net.now, &changed);
        assert!(answers.is_empty(), "bit {bit}");
    }
    let drops = &net.ends[1].drops;
    assert_eq!(drops.of(DropReason::Malformed), 32);
    assert_eq!(drops.of(DropReason::BadMac), 128 * 8);
    net.carry([initiation], |_| true);
    assert!(net.works(0), "the real one still works");
}

#[test]
fn an_initiation_for_another_device_or_from_a_stranger_is_dropped() {
    let mut net = Net::pair();
    let now = net.now;
    let mut stranger = End::new(9, "192.0.2.9:9");
    stranger.apply(
        now,
        vec![
            spec(2, Some("192.0.2.2:2000")),
            spec(3, Some("192.0.2.2:2000")),
        ],
    );
    let known_key = stranger
        .seal(now, &packet("10.0.0.9", "10.0.0.2", 64, 1))
        .unwrap();
    let other_key = stranger
        .seal(now, &packet("10.0.0.9", "10.0.0.3", 64, 1))
        .unwrap();
    net.carry([known_key, other_key], |datagram| datagram.kind() == 1);
    assert_eq!(net.ends[1].drops.of(DropReason::UnknownPeer), 1);
    assert_eq!(net.ends[1].drops.of(DropReason::BadMac), 1);
    assert!(net.ends[1].delivered.is_empty());
    assert_ne!(public(9), public(1));
}

#[test]
fn a_replayed_initiation_is_refused() {
    let mut net = Net::pair();
    let initiation = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, 1))
        .unwrap();
    net.carry([initiation.clone()], |_| true);
    net.pass(20);
    let mut replayed = initiation;
    replayed.from = address("203.0.113.66:6666");
    assert!(net.ends[1].open(net.now, &replayed).is_empty());
    assert_eq!(net.ends[1].dropped(1, DropReason::StaleHandshake), 1);
    assert!(net.works(0) && net.works(1));
}

#[test]
fn a_peer_gets_no_two_sessions_within_twenty_milliseconds() {
    let mut net = Net::connected();
    let first = net.initiation(0, 2);
    let second = net.initiation(0, 2);
    assert_eq!(net.ends[1].open(net.now, &first).len(), 1);
    net.pass(19);
    assert!(net.ends[1].open(net.now, &second).is_empty());
    assert_eq!(net.ends[1].dropped(1, DropReason::RateLimited), 1);
    net.pass(1);
    assert_eq!(net.ends[1].open(net.now, &second).len(), 1);
    assert!(net.works(0) && net.works(1));
}

#[test]
fn a_thousand_forged_responses_do_not_spoil_a_handshake() {
    let mut net = Net::pair();
    let initiation = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, 1))
        .unwrap();
    let response = net.ends[1].open(net.now, &initiation).remove(0);
    assert_eq!(response.kind(), 2);
    for number in 0..1_000_usize {
        let mut forged = response.clone();
        let at = 12 + number % 64;
        forged.bytes[at] ^= 1 << (number % 8);
        assert!(net.ends[0].open(net.now, &forged).is_empty());
    }
    let keepalive = net.ends[0].open(net.now, &response);
    net.carry(keepalive, |_| true);
    assert!(net.works(0) && net.works(1));
}

#[test]
fn every_truncation_of_every_message_is_dropped() {
    let mut net = Net::pair();
    let initiation = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, 1))
        .unwrap();
    let response = net.ends[1].open(net.now, &initiation).remove(0);
    let data = net.ends[0].open(net.now, &response);
    for (end, message) in [(1, &initiation), (0, &response), (1, data.last().unwrap())] {
        for length in 0..message.bytes.len() {
            let mut cut = message.clone();
            cut.bytes.truncate(length);
            assert!(net.ends[end].open(net.now, &cut).is_empty());
        }
    }
    assert!(net.ends[0].delivered.is_empty() && net.ends[1].delivered.is_empty());
}

#[test]
fn every_bit_of_a_data_message_matters() {
    let mut net = Net::connected();
    let data = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 40, 1))
        .unwrap();
    for bit in 0..data.bytes.len() * 8 {
        let mut changed = data.clone();
        changed.bytes[bit / 8] ^= 1 << (bit % 8);
        net.carry([changed], |_| true);
    }
    assert!(net.ends[1].delivered.is_empty());
    net.carry([data], |_| true);
    assert_eq!(net.ends[1].delivered.len(), 1);
}

#[test]
fn a_buffer_that_is_too_small_is_a_counted_drop() {
    let mut net = Net::connected();
    net.pass(20);
    let now = net.now;
    let data = net.ends[0]
        .seal(now, &packet("10.0.0.1", "10.0.0.2", 400, 1))
        .unwrap();
    let initiation = net.initiation(0, 2);
    for (room, behind) in [(0, 0), (31, 1), (147, 8), (300, 15)] {
        let mut dst = vec![0; room];
        let shard = &mut net.ends[1].shard;
        shard.receive(now, data.from, &data.bytes, &mut dst);
        if room < 148 {
            shard.receive(now, initiation.from, &initiation.bytes, &mut dst);
            assert_eq!(shard.poll_handshake(now, &mut dst), Some(Outcome::Nothing));
        }
        let mut slot = vec![0; HEAD];
        slot.extend(packet("10.0.0.2", "10.0.0.1", 400, 1));
        slot.resize(HEAD + 400 + behind, 0);
        assert!(shard.send(now, &mut slot, 400).is_none());
        assert!(shard.poll_transmit(now, &mut dst).is_none());
    }
    assert!(net.ends[1].dropped(1, DropReason::Oversized) >= 11);
    net.carry([initiation, data], |_| true);
    assert_eq!(net.ends[1].delivered.len(), 1, "nothing was consumed");
}

#[test]
fn what_is_no_ip_packet_goes_nowhere() {
    let mut net = Net::connected();
    for inner in [vec![], vec![0x45; 19], vec![0x60; 39], vec![0x20; 64]] {
        assert!(net.ends[0].seal(net.now, &inner).is_none());
    }
    assert_eq!(net.ends[0].drops.of(DropReason::NotIp), 4);
    // A packet that claims to be longer than it is passes sealing and is refused on arrival.
    let mut liar = packet("10.0.0.1", "10.0.0.2", 64, 1);
    liar[2..4].copy_from_slice(&1_000_u16.to_be_bytes());
    let sealed = net.ends[0].seal(net.now, &liar);
    net.carry(sealed, |_| true);
    assert_eq!(net.ends[1].dropped(1, DropReason::NotIp), 1);
    assert!(
        net.ends[1].reading(1).last_data.is_some(),
        "but the peer is alive"
    );
}

#[test]
fn a_cookie_is_used_at_once_and_moves_nothing() {
    let mut net = Net::pair();
    let initiation = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, 1))
        .unwrap();
    // The other end under load: a limiter that demands a cookie from everybody.
    let busy = RateLimiter::new(&public(2).point(), 0);
    let from: IpAddr = net.ends[0].at.ip();
    let mut reply = [0; 64];
    let refused = busy.verify_packet(Some(from), &initiation.bytes, &mut reply);
    assert!(matches!(refused, Err(TunnResult::WriteToNetwork(_))));
    let cookie = Datagram {
        from: address("203.0.113.66:6666"),
        to: net.ends[0].at,
        bytes: reply.to_vec(),
    };
    let again = net.ends[0].open(net.now, &cookie);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].to, address("192.0.2.2:2000"));
    let mut reply = [0; 64];
    assert!(
        busy.verify_packet(Some(from), &again[0].bytes, &mut reply)
            .is_ok()
    );
    net.carry(again, |_| true);
    assert!(net.works(0) && net.works(1));
}

#[test]
fn a_seventeenth_waiting_packet_pushes_the_first_out() {
    let mut net = Net::pair();
    let mut initiation = None;
    for mark in 0..20 {
        let sealed = net.ends[0].seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, mark));
        initiation = initiation.or(sealed);
    }
    net.carry(initiation, |_| true);
    let marks: Vec<u8> = net.ends[1]
        .delivered
        .iter()
        .map(|packet| packet[63])
        .collect();
    assert_eq!(marks, (4..20).collect::<Vec<u8>>());
    assert_eq!(net.ends[0].dropped(2, DropReason::BacklogFull), 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nothing_from_outside_panics_or_is_delivered(
        kind in 0_u8..6,
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        exact: bool,
    ) {
        let mut net = Net::connected();
        // Close to the real thing: the session's own index, the right length.
        let genuine = net.ends[0].seal(net.now, &packet("10.0.0.1", "10.0.0.2", 64, 1)).unwrap();
        let mut garbage = bytes;
        if exact {
            garbage.resize([0, 148, 92, 64, 96, 32][usize::from(kind)], 0x5a);
        }
        for (at, byte) in [kind, 0, 0, 0].into_iter().chain(genuine.bytes[4..8].iter().copied()).enumerate() {
            if let Some(place) = garbage.get_mut(at) {
                *place = byte;
            }
        }
        let forged = Datagram { bytes: garbage, ..genuine.clone() };
        let answers = net.ends[1].open(net.now, &forged);
        prop_assert!(answers.is_empty());
        prop_assert!(net.ends[1].delivered.is_empty());
        net.carry([genuine], |_| true);
        prop_assert_eq!(net.ends[1].delivered.len(), 1);
    }

    #[test]
    fn whatever_is_lost_and_reordered_the_ends_find_each_other_again(
        seed: u64,
        loss in 0_u64..60,
        steps in 10_usize..60,
    ) {
        let mut net = Net::pair();
        let mut random = seed | 1;
        let mut roll = move |sides: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % sides
        };
        let mut flying: Vec<Datagram> = Vec::new();
        for step in 0..steps {
            net.pass(100);
            let now = net.now;
            let end = step % 2;
            let (from, to) = (format!("10.0.0.{}", end + 1), format!("10.0.0.{}", 2 - end));
            if roll(3) == 0 {
                let peer = u8::try_from(2 - end).unwrap();
                net.ends[end].force(now, peer);
            }
            flying.extend(net.ends[end].seal(now, &packet(&from, &to, 64, 1)));
            flying.extend(net.ends.iter_mut().flat_map(|end| end.due(now)).collect::<Vec<_>>());
            for _ in 0..roll(6) {
                if flying.is_empty() {
                    break;
                }
                let at = usize::try_from(roll(u64::try_from(flying.len()).unwrap())).unwrap();
                let datagram = flying.swap_remove(at);
                if roll(100) >= loss
                    && let Some(end) = net.ends.iter_mut().find(|end| end.at == datagram.to)
                {
                    flying.extend(end.open(now, &datagram));
                }
            }
        }
        let initiation = net.initiation(0, 2);
        net.carry([initiation], |_| true);
        prop_assert!(net.works(0));
        prop_assert!(net.works(1));
    }
}
