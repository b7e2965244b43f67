use proptest::prelude::*;

use super::*;
use crate::packet::{
    model::{Flow, intact, tcp, udp},
    split::Split,
};

const BOTH: Allowed = Allowed {
    tcp: true,
    udp: true,
};

/// Puts a batch together; each write as its packet count and what the host reads from it.
fn writes(allowed: Allowed, packets: &[Vec<u8>]) -> Vec<(usize, Vec<Vec<u8>>)> {
    let mut arena = packets.concat();
    let mut coalescer = Coalescer::new(allowed);
    let mut at = 0;
    for packet in packets {
        assert!(coalescer.push(&arena, at, packet.len()));
        at += packet.len();
    }
    let mut seen = Vec::new();
    while let Some(write) = coalescer.next_run(&mut arena) {
        let (header, count) = (Header::parse(&write.header).unwrap(), write.packets);
        assert!(count <= LONGEST_RUN && write.pieces.len() == count);
        let pieces = write.pieces.to_vec();
        let whole = pieces
            .into_iter()
            .flat_map(|piece| arena[piece].to_vec())
            .collect::<Vec<u8>>();
        seen.push((count, cut(&header, whole)));
    }
    assert!(coalescer.is_empty());
    assert_eq!(coalescer.next_run(&mut arena), None);
    seen
}

/// What the host makes of a write.
fn cut(header: &Header, whole: Vec<u8>) -> Vec<Vec<u8>> {
    assert!(whole.len() <= crate::packet::LARGEST);
    if header.gso == Gso::None {
        assert_eq!(*header, Header::default());
        return vec![whole];
    }
    let mut split = Split::new(header, &whole).unwrap();
    let mut slot = vec![0; split.longest()];
    std::iter::from_fn(|| {
        split
            .next_into(&mut slot)
            .map(|length| slot[..length].to_vec())
    })
    .collect()
}

fn counts(packets: &[Vec<u8>]) -> Vec<usize> {
    writes(BOTH, packets)
        .iter()
        .map(|(count, _)| *count)
        .collect()
}

/// Segments of a stream, one behind the other.
fn stream(flow: &Flow, sizes: &[usize]) -> Vec<Vec<u8>> {
    let mut flow = flow.clone();
    let mut seq = u32::MAX - 150;
    let segments = sizes.iter().map(|size| {
        let packet = tcp(&flow, seq, &vec![7; *size], ACK, 12);
        seq = seq.wrapping_add(u32::try_from(*size).unwrap());
        flow.id = flow.id.wrapping_add(1);
        packet
    });
    segments.collect()
}

fn datagrams(flow: &Flow, sizes: &[usize], summed: bool) -> Vec<Vec<u8>> {
    let mut flow = flow.clone();
    let one = |size: &usize| {
        let packet = udp(&flow, &vec![7; *size], summed);
        flow.id = flow.id.wrapping_add(1);
        packet
    };
    sizes.iter().map(one).collect()
}

#[test]
fn a_stream_in_order_is_one_write_and_read_as_it_was() {
    for version in [Version::V4, Version::V6] {
        let packets = stream(&Flow::new(version, 80), &[100, 100, 100, 40]);
        assert_eq!(writes(BOTH, &packets), [(4, packets)]);
        let packets = datagrams(&Flow::new(version, 53), &[100, 100, 100, 40], true);
        assert_eq!(writes(BOTH, &packets), [(4, packets)]);
    }
}

#[test]
fn the_header_says_what_the_kernel_wants_to_know() {
    let packets = stream(&Flow::new(Version::V6, 80), &[100, 100]);
    let mut arena = packets.concat();
    let mut coalescer = Coalescer::new(BOTH);
    assert!(coalescer.push(&arena, 0, 172) && coalescer.push(&arena, 172, 172));
    let write = coalescer.next_run(&mut arena).unwrap();
    let header = Header {
        gso: Gso::TcpV6,
        header_length: 72,
        segment: 100,
        partial: Some(Partial {
            start: 40,
            offset: 16,
        }),
        tunnel: None,
    };
    assert_eq!(Header::parse(&write.header), Ok(header));
    assert_eq!(write.pieces, [0..172, 244..344]);
    assert_eq!((write.first, write.gso), (0, Gso::TcpV6));
    // The checksum it leaves to the host comes out right over the whole.
    let mut whole = [&arena[..172], &arena[244..]].concat();
    assert!(crate::packet::checksum::finish(&mut whole, 40, 16));
    assert!(intact(&whole));
}

#[test]
fn flows_are_told_apart_and_each_stays_in_order() {
    let (a, b) = (Flow::new(Version::V4, 1), Flow::new(Version::V6, 1));
    let (a, b) = (stream(&a, &[100; 3]), stream(&b, &[90; 3]));
    let mixed: Vec<_> = a
        .iter()
        .zip(&b)
        .flat_map(|(a, b)| [a.clone(), b.clone()])
        .collect();
    assert_eq!(writes(BOTH, &mixed), [(3, a), (3, b)]);
}

#[test]
fn a_push_or_a_shorter_segment_ends_a_run_and_a_longer_one_begins_another() {
    let flow = Flow::new(Version::V4, 1);
    assert_eq!(counts(&stream(&flow, &[100, 60, 60])), [2, 1]);
    assert_eq!(counts(&stream(&flow, &[60, 100, 100])), [1, 2]);
    assert_eq!(counts(&stream(&flow, &[0, 0, 50, 0])), [1, 1, 1, 1]);
    assert_eq!(counts(&datagrams(&flow, &[0, 0], true)), [1, 1]);
    let mut packets = stream(&flow, &[100; 4]);
    let mut pushed = flow.clone();
    pushed.id = pushed.id.wrapping_add(1);
    packets[1] = tcp(&pushed, u32::MAX - 50, &[7; 100], ACK | PSH, 12);
    let seen = writes(BOTH, &packets);
    assert_eq!(
        seen,
        [(2, packets[..2].to_vec()), (2, packets[2..].to_vec())]
    );
    packets[0] = tcp(&flow, u32::MAX - 150, &[7; 100], ACK | PSH, 12);
    assert_eq!(counts(&packets), [1, 1, 2]);
}

#[test]
fn whatever_the_host_could_not_restore_keeps_packets_apart() {
    let flow = Flow::new(Version::V4, 1);
    let next = Flow {
        id: flow.id.wrapping_add(1),
        ..flow.clone()
    };
    let first = tcp(&flow, 10, &[7; 100], ACK, 12);
    let second = |flow: &Flow, seq, flags, options| tcp(flow, seq, &[7; 100], flags, options);
    let together = second(&next, 110, ACK, 12);
    assert_eq!(counts(&[first.clone(), together.clone()]), [2]);
    let gap = second(&next, 111, ACK, 12);
    let again = second(&next, 10, ACK, 12);
    let options = second(&next, 110, ACK, 8);
    let tos = second(
        &Flow {
            tos: 3,
            ..next.clone()
        },
        110,
        ACK,
        12,
    );
    let ttl = second(
        &Flow {
            ttl: 63,
            ..next.clone()
        },
        110,
        ACK,
        12,
    );
    let fragmentable = Flow {
        dont_fragment: true,
        ..next.clone()
    };
    let fragmentable = second(&fragmentable, 110, ACK, 12);
    let id = second(&flow, 110, ACK, 12);
    let port = second(
        &Flow {
            port: 2,
            ..next.clone()
        },
        110,
        ACK,
        12,
    );
    for other in [gap, again, options, tos, ttl, fragmentable, id, port] {
        assert_eq!(counts(&[first.clone(), other]), [1, 1]);
    }
    for flags in [0x11, 0x12, 0x14, 0x30, 0x50, 0x90, 0x02, 0x04, 0x00] {
        let other = second(&next, 110, flags, 12);
        assert_eq!(
            counts(&[first.clone(), other.clone()]),
            [1, 1],
            "{flags:#x}"
        );
        assert_eq!(counts(&[other, together.clone()]), [1, 1], "{flags:#x}");
    }
    // Acknowledgement, window, urgent pointer, an option, and the reserved bits.
    for at in [28, 35, 38, 50, 32] {
        let mut other = together.clone();
        other[at] ^= 1;
        let sum = u16::from_be_bytes([other[36], other[37]]);
        let changed = if at % 2 == 0 { 0x100 } else { 1 };
        // Keeps the checksum right, so that it is not what parts them.
        for fixed in [sum.wrapping_sub(changed), sum.wrapping_add(changed)] {
            other[36..38].copy_from_slice(&fixed.to_be_bytes());
            if intact(&other) {
                break;
            }
        }
        assert!(intact(&other), "byte {at}");
        assert_eq!(counts(&[first.clone(), other]), [1, 1], "byte {at}");
    }
}

#[test]
fn a_wrong_checksum_is_never_made_right() {
    let packets = stream(&Flow::new(Version::V4, 1), &[100; 3]);
    // The payload, the TCP checksum, the IP checksum.
    for at in [80, 36, 10] {
        for broken in 0..3 {
            let mut packets = packets.clone();
            packets[broken][at] ^= 0x40;
            let seen = writes(BOTH, &packets);
            let all: Vec<_> = seen
                .iter()
                .flat_map(|(_, packets)| packets.clone())
                .collect();
            assert_eq!(all, packets, "packet {broken}, byte {at}");
            assert!(!intact(&all[broken]));
        }
    }
}

#[test]
fn datagrams_without_checksum_are_put_together_and_get_one() {
    let flow = Flow::new(Version::V4, 4_789);
    let packets = datagrams(&flow, &[100; 3], false);
    let seen = writes(BOTH, &packets);
    assert_eq!(seen, [(3, datagrams(&flow, &[100; 3], true))]);
    let mut mixed = packets;
    mixed[1] = datagrams(&flow, &[100; 2], true)[1].clone();
    assert_eq!(counts(&mixed), [1, 1, 1]);
}

#[test]
fn identifications_may_stand_still_where_nothing_is_fragmented() {
    let flow = Flow {
        dont_fragment: true,
        ..Flow::new(Version::V4, 1)
    };
    let packets: Vec<_> = (0..4).map(|_| udp(&flow, &[1; 50], true)).collect();
    assert_eq!(counts(&packets), [4]);
    let next = Flow {
        id: flow.id.wrapping_add(1),
        ..flow.clone()
    };
    let mut changing = packets[..2].to_vec();
    changing.push(udp(&next, &[1; 50], true));
    assert_eq!(counts(&changing), [2, 1]);
}

#[test]
fn only_what_is_allowed_is_put_together() {
    let flow = Flow::new(Version::V4, 1);
    let packets = [stream(&flow, &[100; 2]), datagrams(&flow, &[100; 2], true)].concat();
    for (tcp, udp, expected) in [
        (false, false, vec![1, 1, 1, 1]),
        (true, false, vec![2, 1, 1]),
        (false, true, vec![1, 1, 2]),
        (true, true, vec![2, 2]),
    ] {
        let seen = writes(Allowed { tcp, udp }, &packets);
        let counts: Vec<usize> = seen.iter().map(|(count, _)| *count).collect();
        assert_eq!(counts, expected, "{tcp} {udp}");
    }
}

#[test]
fn nothing_overtakes_a_fragment() {
    let packets = datagrams(&Flow::new(Version::V4, 1), &[100; 3], true);
    let mut fragment = packets[1].clone();
    fragment[6] = 0x20;
    let all = [
        packets[0].clone(),
        packets[1].clone(),
        fragment,
        packets[2].clone(),
    ];
    let seen: Vec<_> = writes(BOTH, &all)
        .into_iter()
        .flat_map(|(_, packets)| packets)
        .collect();
    assert_eq!(seen, all);
    let mut icmp = packets[1].clone();
    icmp[9] = 1;
    let all = [packets[0].clone(), icmp, packets[1].clone()];
    assert_eq!(counts(&all), [2, 1], "ICMP is of no flow");
}

#[test]
fn a_run_ends_at_the_largest_packet_and_a_batch_at_its_capacity() {
    let flow = Flow::new(Version::V6, 1);
    assert_eq!(counts(&stream(&flow, &[1_348; 50])), [48, 2]);
    assert_eq!(counts(&datagrams(&flow, &[10; 70], true)), [64, 6]);
    let packet = datagrams(&flow, &[10], true).remove(0);
    let mut arena = packet.clone();
    let mut coalescer = Coalescer::new(BOTH);
    for _ in 0..Coalescer::CAPACITY {
        assert!(!coalescer.is_full() && coalescer.push(&arena, 0, packet.len()));
    }
    assert!(coalescer.is_full() && !coalescer.push(&arena, 0, packet.len()));
    while coalescer.next_run(&mut arena).is_some() {}
    assert!(!coalescer.push(&arena, 1, packet.len()), "not in the arena");
    assert!(coalescer.push(&arena, 0, packet.len()));
}

/// One thing that happens on one of a few flows.
#[derive(Clone, Copy, Debug)]
struct Event {
    flow: u8,
    size: usize,
    flags: u8,
    quirk: u8,
}

fn event() -> impl Strategy<Value = Event> {
    let size = prop::sample::select(vec![100, 100, 100, 100, 60, 120, 1, 0]);
    let flags = prop::sample::select(vec![ACK, ACK, ACK, ACK, ACK | PSH, 0x11, 0x02, 0x50]);
    (0_u8..8, size, flags, 0_u8..40).prop_map(|(flow, size, flags, quirk)| Event {
        flow,
        size,
        flags,
        quirk,
    })
}

/// The packets of a life, each with the number of its flow.
fn live(events: &[Event]) -> Vec<(u8, Vec<u8>)> {
    let mut flows: Vec<(Flow, u32)> = (0..8_u16)
        .map(|number| {
            let version = if number % 2 == 0 {
                Version::V4
            } else {
                Version::V6
            };
            let mut flow = Flow::new(version, 100 + number);
            flow.dont_fragment = number >= 4;
            (flow, u32::MAX - 300)
        })
        .collect();
    let mut packets = Vec::new();
    for (number, event) in (0_u8..).zip(events.iter()) {
        let (flow, seq) = &mut flows[usize::from(event.flow)];
        match event.quirk {
            0 => flow.tos ^= 2,
            1 => flow.ttl -= 1,
            2 => *seq = seq.wrapping_add(7),
            3 => flow.id = flow.id.wrapping_sub(1),
            _ => {}
        }
        let payload = vec![number; event.size];
        let is_tcp = event.flow % 4 < 2;
        let mut packet = if is_tcp {
            let options = if event.quirk == 4 { 0 } else { 12 };
            tcp(flow, *seq, &payload, event.flags, options)
        } else {
            udp(flow, &payload, event.quirk != 5 && event.flow != 6)
        };
        match event.quirk {
            6 => *packet.last_mut().unwrap() ^= 1,
            7 => packet[6] ^= 0x20,
            _ => {}
        }
        *seq = seq.wrapping_add(u32::try_from(event.size).unwrap());
        flow.id = flow.id.wrapping_add(1);
        packets.push((event.flow, packet));
    }
    packets
}

/// A packet as far as splitting must restore it: a datagram without checksum may get one, and a
/// packet that is never fragmented another identification.
fn essence(packet: &[u8], given: &[u8]) -> Vec<u8> {
    let mut essence = packet.to_vec();
    if given[0] == 0x45 && given[6] & 0x40 != 0 {
        essence[4..6].fill(0);
        essence[10..12].fill(0);
    }
    let (protocol, at) = if given[0] == 0x45 {
        (given[9], 26)
    } else {
        (given[6], 46)
    };
    if protocol == 17 && given[at..at + 2] == [0, 0] {
        assert!(essence[at..at + 2] == [0, 0] || intact(packet));
        essence[at..at + 2].fill(0);
    }
    essence
}

proptest! {
    #[test]
    fn splitting_what_was_put_together_gives_every_flow_back(
        events in prop::collection::vec(event(), 0..150),
    ) {
        let packets = live(&events);
        let given: Vec<Vec<u8>> = packets.iter().map(|(_, packet)| packet.clone()).collect();
        let seen: Vec<Vec<u8>> = writes(BOTH, &given).into_iter().flat_map(|(_, all)| all).collect();
        prop_assert_eq!(seen.len(), given.len());
        for flow in 0..8_u8 {
            // The lowest byte of the source port is the flow's number, behind 100.
            let of_flow = |packet: &&Vec<u8>| {
                let at = if packet[0] == 0x45 { 21 } else { 41 };
                packet[at] == 100 + flow
            };
            let mut seen = seen.iter().filter(of_flow);
            for (_, given) in packets.iter().filter(|(of, _)| *of == flow) {
                let seen = seen.next().unwrap();
                prop_assert_eq!(essence(seen, given), essence(given, given));
            }
        }
    }

    #[test]
    fn a_split_super_packet_is_put_together_again(
        v6: bool,
        is_tcp: bool,
        segments in 2_usize..40,
        segment in 1_u16..1_400,
    ) {
        let version = if v6 { Version::V6 } else { Version::V4 };
        let payload = vec![9; usize::from(segment) * segments];
        let flow = Flow::new(version, 3);
        let (packet, gso, offset) = match (is_tcp, version) {
            (true, Version::V4) => (tcp(&flow, 9, &payload, ACK | PSH, 12), Gso::TcpV4, 16),
            (true, Version::V6) => (tcp(&flow, 9, &payload, ACK | PSH, 12), Gso::TcpV6, 16),
            (false, _) => (udp(&flow, &payload, true), Gso::Udp, 6),
        };
        let start = if v6 { 40 } else { 20 };
        let header = Header { gso, header_length: 0, segment, partial: Some(Partial { start, offset }), tunnel: None };
        let parts = cut(&header, packet.clone());
        let mut arena = parts.concat();
        let mut coalescer = Coalescer::new(BOTH);
        let mut at = 0;
        for part in &parts {
            coalescer.push(&arena, at, part.len());
            at += part.len();
        }
        let write = coalescer.next_run(&mut arena).unwrap();
        prop_assert_eq!(write.packets, segments);
        let pieces = write.pieces.to_vec();
        let mut whole: Vec<u8> = pieces.into_iter().flat_map(|piece| arena[piece].to_vec()).collect();
        prop_assert!(crate::packet::checksum::finish(&mut whole, start, offset));
        prop_assert_eq!(whole, packet);
        prop_assert_eq!(coalescer.next_run(&mut arena), None);
    }
}
