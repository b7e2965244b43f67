use proptest::prelude::*;

use super::*;
use crate::packet::{
    model::{Flow, intact, tcp, udp},
    vnet::{Partial, Tunnel},
};

/// A super packet is one packet whose checksum is left to the device.
fn header(gso: Gso, version: Version, segment: u16) -> Header {
    let start = if version == Version::V4 { 20 } else { 40 };
    let offset = if gso == Gso::Udp { 6 } else { 16 };
    Header {
        gso,
        header_length: 0,
        segment,
        partial: Some(Partial { start, offset }),
        tunnel: None,
    }
}

fn tcp_gso(version: Version) -> Gso {
    match version {
        Version::V4 => Gso::TcpV4,
        Version::V6 => Gso::TcpV6,
    }
}

fn all(mut split: Split<'_>) -> Vec<Vec<u8>> {
    let mut slot = vec![0xee; split.longest()];
    let mut segments = Vec::new();
    while let Some(length) = split.next_into(&mut slot) {
        segments.push(slot[..length].to_vec());
    }
    segments
}

#[test]
fn a_tcp_super_packet_becomes_the_segments_its_sender_would_have_sent() {
    for version in [Version::V4, Version::V6] {
        let mut flow = Flow::new(version, 40_000);
        let payload: Vec<u8> = (0..250).collect();
        // CWR, ACK, PSH and FIN; the sequence number passes zero.
        let super_packet = tcp(&flow, u32::MAX - 50, &payload, 0x99, 12);
        let header = header(tcp_gso(version), version, 100);
        let segments = all(Split::new(&header, &super_packet).unwrap());
        let parts = [
            (u32::MAX - 50, 0..100, 0x90),
            (49, 100..200, 0x10),
            (149, 200..250, 0x19),
        ];
        assert_eq!(segments.len(), 3);
        for (segment, (seq, range, flags)) in segments.iter().zip(parts) {
            let expected = tcp(&flow, seq, &payload[range], flags, 12);
            assert_eq!(*segment, expected, "{version:?} {seq}");
            // The identification passes zero, too.
            flow.id = flow.id.wrapping_add(1);
        }
    }
}

#[test]
fn a_udp_super_packet_becomes_datagrams_with_or_without_checksums() {
    for version in [Version::V4, Version::V6] {
        for summed in [true, false] {
            let mut flow = Flow::new(version, 4_789);
            let payload: Vec<u8> = (0..=255).collect();
            let super_packet = udp(&flow, &payload, summed);
            let mut header = header(Gso::Udp, version, 101);
            if !summed {
                header.partial = None;
            }
            let segments = all(Split::new(&header, &super_packet).unwrap());
            assert_eq!(segments.len(), 3);
            for (segment, range) in segments.iter().zip([0..101, 101..202, 202..256]) {
                assert_eq!(*segment, udp(&flow, &payload[range], summed));
                flow.id = flow.id.wrapping_add(1);
            }
        }
    }
}

#[test]
fn a_checksum_of_zero_is_written_as_all_ones() {
    let flow = Flow::new(Version::V4, 9);
    // Find a payload whose checksum comes out as zero.
    let found = (0..=u16::MAX).find_map(|word| {
        let packet = udp(&flow, &word.to_be_bytes(), true);
        (packet[26..28] == [0xff, 0xff]).then_some(packet)
    });
    let packet = found.unwrap();
    let segments = all(Split::new(&header(Gso::Udp, Version::V4, 100), &packet).unwrap());
    assert_eq!(segments, [packet]);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let flow = Flow::new(Version::V4, 1);
    let packet = tcp(&flow, 1, &[1; 100], 0x10, 0);
    let good = header(Gso::TcpV4, Version::V4, 50);
    let refused = |header: Header, packet: &[u8]| Split::new(&header, packet).err();
    assert_eq!(refused(good, &packet), None);
    let none = Header {
        gso: Gso::None,
        ..good
    };
    assert_eq!(refused(none, &packet), Some(Malformed::NoSegments));
    assert_eq!(
        refused(Header { segment: 0, ..good }, &packet),
        Some(Malformed::NoSegments)
    );
    let v6 = Header {
        gso: Gso::TcpV6,
        ..good
    };
    assert_eq!(refused(v6, &packet), Some(Malformed::Version));
    assert_eq!(refused(good, &[]), Some(Malformed::Version));
    for length in 1..40 {
        assert_eq!(refused(good, &packet[..length]), Some(Malformed::Length));
    }
    assert_eq!(refused(good, &packet[..40]), None, "headers alone");
    let long = [&packet[..], &[0; 66_000]].concat();
    assert_eq!(refused(good, &long), Some(Malformed::Length));
    for (start, good) in [(38, false), (41, false), (u16::MAX, false), (48, true)] {
        let mut v6 = tcp(&Flow::new(Version::V6, 1), 1, &[0x50; 100], 0x10, 0);
        // Where another TCP header may begin.
        v6[60] = 0x50;
        let mut header = header(Gso::TcpV6, Version::V6, 50);
        header.partial = Some(Partial { start, offset: 16 });
        assert_eq!(refused(header, &v6).is_none(), good, "{start}");
    }
}

#[test]
fn a_slot_that_is_too_small_is_left_alone() {
    let packet = tcp(&Flow::new(Version::V4, 1), 1, &[1; 100], 0x10, 0);
    let mut split = Split::new(&header(Gso::TcpV4, Version::V4, 60), &packet).unwrap();
    let mut slot = [0xee; 99];
    assert_eq!(split.next_into(&mut slot), None);
    assert_eq!(slot, [0xee; 99]);
    assert_eq!(
        (split.longest(), split.next_into(&mut [0; 100])),
        (100, Some(100))
    );
}

/// A packet in VXLAN: eight bytes of its own, and an Ethernet header.
fn in_vxlan(outside: &Flow, inner: &[u8], summed: bool) -> Vec<u8> {
    let head = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &[2; 12], &[8, 0]].concat();
    udp(outside, &[&head, inner].concat(), summed)
}

#[test]
fn a_super_packet_in_vxlan_becomes_segments_that_are_each_in_vxlan() {
    for (outside, inside) in [
        (Version::V4, Version::V4),
        (Version::V4, Version::V6),
        (Version::V6, Version::V4),
        (Version::V6, Version::V6),
    ] {
        for summed in [true, false] {
            let (mut outer, mut flow) = (Flow::new(outside, 50_000), Flow::new(inside, 40_000));
            let payload: Vec<u8> = (0..250).collect();
            let whole = in_vxlan(&outer, &tcp(&flow, 7, &payload, 0x18, 12), summed);
            let mut header = header(tcp_gso(inside), inside, 100);
            let udp_at = if outside == Version::V4 { 20 } else { 40 };
            let inner_network = udp_at + 8 + 8 + 14;
            header.tunnel = Some(Tunnel {
                outer_transport: udp_at,
                inner_network,
            });
            if let Some(partial) = &mut header.partial {
                partial.start += inner_network;
            }
            let split = Split::new(&header, &whole).unwrap();
            assert_eq!(split.longest(), whole.len() - 150);
            let segments = all(split);
            let parts = [
                (7, 0..100, 0x10),
                (107, 100..200, 0x10),
                (207, 200..250, 0x18),
            ];
            assert_eq!(segments.len(), 3);
            for (segment, (seq, range, flags)) in segments.iter().zip(parts) {
                let inner = tcp(&flow, seq, &payload[range], flags, 12);
                assert!(intact(segment));
                assert_eq!(*segment, in_vxlan(&outer, &inner, summed), "{seq}");
                flow.id = flow.id.wrapping_add(1);
                outer.id = outer.id.wrapping_add(1);
            }
            // What says that it is elsewhere is refused.
            for (outer_transport, inner_network) in
                [(18, 50), (21, 51), (udp_at, udp_at + 6), (udp_at, 9_000)]
            {
                header.tunnel = Some(Tunnel {
                    outer_transport,
                    inner_network,
                });
                assert!(Split::new(&header, &whole).is_err());
            }
        }
    }
}

proptest! {
    #[test]
    fn segments_are_intact_and_carry_everything_once(
        v6: bool,
        is_tcp: bool,
        payload in prop::collection::vec(any::<u8>(), 1..5_000),
        segment in 1_u16..2_000,
        options in 0_usize..=10,
    ) {
        let version = if v6 { Version::V6 } else { Version::V4 };
        let flow = Flow::new(version, 7);
        let (packet, gso) = if is_tcp {
            (tcp(&flow, 5, &payload, 0x18, options * 4), tcp_gso(version))
        } else {
            (udp(&flow, &payload, true), Gso::Udp)
        };
        let split = Split::new(&header(gso, version, segment), &packet).unwrap();
        let headers = packet.len() - payload.len();
        let segments = all(split);
        let mut carried = Vec::new();
        for (number, one) in segments.iter().enumerate() {
            prop_assert!(intact(one));
            let last = number + 1 == segments.len();
            prop_assert!(last || one.len() == headers + usize::from(segment));
            carried.extend_from_slice(&one[headers..]);
        }
        prop_assert_eq!(carried, payload);
    }

    #[test]
    fn any_bytes_are_split_or_refused(header: [u8; Header::LEN], packet: Vec<u8>) {
        let Ok(header) = Header::parse(&header) else { return Ok(()) };
        if let Ok(split) = Split::new(&header, &packet) {
            let longest = split.longest();
            for segment in all(split) {
                prop_assert!(segment.len() <= longest);
            }
        }
    }
}
