use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use kedge_core::Instant;
use kedge_tunnel_proto::{
    counters::Counters,
    directory::{Directory, PeerSpec},
    drops::Drops,
    keys::PrivateKey,
    noise::Noise,
    packet::checksum::Sum,
};

use super::*;

/// A shard with one peer, and the peer's counters.
fn shard() -> (Shard, PeerId, Arc<Counters>) {
    let key = |number| PrivateKey::from_random([number; 32]);
    let (seed, drops) = (1, Arc::new(Drops::default()));
    let mut shard = Shard::new(&key(1), 0, 1_420, seed, drops, Noise::Boringtun);
    let spec = PeerSpec {
        name: "peer".into(),
        public_key: key(2).public(),
        endpoint: None,
        allowed_ips: Vec::new(),
        keepalive: None,
        always_up: false,
        preshared_key: None,
        accepts: Vec::new(),
        relays: false,
        realm: None,
        next_key: None,
    };
    let change = Directory::new(key(1).public()).plan(vec![spec]).unwrap();
    let (id, counters) = (change.add[0].id, Arc::clone(&change.add[0].counters));
    shard.apply(Instant::ZERO, change);
    (shard, id, counters)
}

/// A datagram of UDP in IPv4, the `number`th of its flow.
fn datagram(number: u16) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 128];
    packet.extend(number.to_be_bytes());
    packet.extend([0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = Sum::of(&packet).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([0, 7, 0, 9, 0, 108, 0, 0]);
    packet.resize(128, number.to_be_bytes()[1]);
    let pseudo = Sum::pseudo(&packet[12..20], 17, 108);
    let sum = pseudo.plus(Sum::of(&packet[20..])).udp_checksum();
    packet[26..28].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Kinds of segmentation and packets, as they were written.
type Written = RefCell<Vec<(Gso, Vec<u8>)>>;

fn parse(parts: Parts<'_>) -> (Gso, Vec<u8>) {
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
    let header = Header::parse(&bytes).unwrap();
    (header.gso, bytes[Header::LEN..].to_vec())
}

fn push(to_host: &mut ToHost, peer: PeerId, packets: &[Vec<u8>]) {
    for packet in packets {
        to_host.slot()[..packet.len()].copy_from_slice(packet);
        to_host.push(packet.len(), peer, None);
    }
}

#[test]
fn a_run_that_the_host_refuses_is_written_packet_by_packet_and_not_tried_again() {
    let (mut shard, peer, counters) = shard();
    let (tcp, udp) = (true, true);
    let mut to_host = ToHost::new(Allowed { tcp, udp });
    let packets: Vec<Vec<u8>> = (0..10).map(datagram).collect();
    let whole: Vec<_> = packets
        .iter()
        .map(|packet| (Gso::None, packet.clone()))
        .collect();
    let (written, runs) = (Written::default(), Cell::new(0));
    let picky = |parts: Parts<'_>| {
        let (gso, packet) = parse(parts);
        if gso != Gso::None {
            runs.set(runs.get() + 1);
            return Err(io::Error::from_raw_os_error(22));
        }
        written.borrow_mut().push((gso, packet));
        Ok(())
    };
    push(&mut to_host, peer, &packets);
    assert_eq!(
        to_host.flush(|_, parts| picky(parts), &mut shard),
        Some(Gso::Udp)
    );
    assert_eq!(written.take(), whole, "every packet, in order");
    push(&mut to_host, peer, &packets);
    assert_eq!(to_host.flush(|_, parts| picky(parts), &mut shard), None);
    assert_eq!((written.take(), runs.get()), (whole, 1));
    assert_eq!(counters.drops.nonzero(), []);
}

#[test]
fn what_the_host_takes_goes_in_one_piece_and_the_room_is_free_again() {
    let (mut shard, peer, _) = shard();
    let (tcp, udp) = (true, true);
    let mut to_host = ToHost::new(Allowed { tcp, udp });
    let packets: Vec<Vec<u8>> = (0..10).map(datagram).collect();
    for _ in 0..3 {
        let written = Written::default();
        push(&mut to_host, peer, &packets);
        let take = |parts: Parts<'_>| {
            written.borrow_mut().push(parse(parts));
            Ok(())
        };
        assert_eq!(to_host.flush(|_, parts| take(parts), &mut shard), None);
        let written = written.take();
        assert_eq!(written.len(), 1);
        assert_eq!(
            (written[0].0, written[0].1.len()),
            (Gso::Udp, 28 + 10 * 100)
        );
    }
}

#[test]
fn packets_that_a_closed_interface_refuses_are_counted_and_runs_stay() {
    let (mut shard, peer, counters) = shard();
    let (tcp, udp) = (true, true);
    let mut to_host = ToHost::new(Allowed { tcp, udp });
    let packets: Vec<Vec<u8>> = (0..10).map(datagram).collect();
    for error in [5, 22] {
        push(&mut to_host, peer, &packets);
        let down = |_: Parts<'_>| Err(io::Error::from_raw_os_error(error));
        assert_eq!(to_host.flush(|_, parts| down(parts), &mut shard), None);
    }
    let drops = counters.drops.nonzero();
    assert_eq!(drops, [(DropReason::DeliverFailed, 20)]);
}
