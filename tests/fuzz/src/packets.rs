//! Super packets: whatever is cut is whole, and what is put together is cut into the same again.

use std::collections::BTreeMap;

use kedge_tunnel_proto::packet::{
    LARGEST,
    checksum::Sum,
    coalesce::{Allowed, Coalescer, LONGEST_RUN},
    split::Split,
    view::{Transport, View},
    vnet::{Gso, Header},
};

/// Reads a `virtio_net_hdr` and a packet, as a TUN device gives them.
pub fn split(bytes: &[u8]) {
    let Ok(header) = Header::parse(bytes) else {
        return;
    };
    let packet = &bytes[Header::LEN..];
    let Ok(mut split) = Split::new(&header, packet) else {
        return;
    };
    let longest = split.longest();
    let mut slot = vec![0xee; longest];
    let mut lengths = Vec::new();
    while let Some(length) = split.next_into(&mut slot) {
        assert!(length <= longest);
        lengths.push(length);
    }
    let (first, rest) = lengths.split_first().expect("at least one segment");
    let Some((last, middle)) = rest.split_last() else {
        assert_eq!(*first, packet.len());
        return;
    };
    let headers = first - usize::from(header.segment);
    assert!(middle.iter().all(|length| length == first));
    assert!((headers + 1..=*first).contains(last));
    let payload: usize = lengths.iter().map(|length| length - headers).sum();
    assert_eq!(headers + payload, packet.len(), "no byte more or less");
}

/// Reads four bytes for each packet: its flow and kind, its size, how it differs from what would come
/// next in its flow, and where a bit is turned. What is left over is a packet of its own.
pub fn coalesce(bytes: &[u8]) {
    let mut flows = [(0_u32, 0_u16); 4];
    let mut packets: Vec<Vec<u8>> = Vec::new();
    let mut rest = bytes;
    while let Some((&[kind, size, odd, bent], left)) = rest.split_first_chunk() {
        if packets.len() == 100 {
            break;
        }
        rest = left;
        let (sequence, id) = &mut flows[usize::from(kind & 3)];
        let mut packet = made(kind, usize::from(size) * 4, odd, (*sequence, *id));
        if odd & 7 != 7 {
            *sequence = sequence.wrapping_add(u32::from(size) * 4);
            *id = id.wrapping_add(1);
        }
        if odd & 0x40 != 0 {
            let at = usize::from(bent) % packet.len();
            packet[at] ^= 1 << (odd & 7);
        }
        packets.push(packet);
    }
    packets.push(rest[..rest.len().min(100)].to_vec());
    let (tcp, udp) = (bytes.len() % 3 != 1, bytes.len() % 3 != 2);
    let out = written(Allowed { tcp, udp }, &packets);
    assert_eq!(by_flow(&out), by_flow(&packets));
}

/// What the host makes of a batch.
fn written(allowed: Allowed, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut arena = packets.concat();
    let mut coalescer = Coalescer::new(allowed);
    let mut at = 0;
    for packet in packets {
        assert!(coalescer.push(&arena, at, packet.len()));
        at += packet.len();
    }
    let mut out = Vec::new();
    while let Some(write) = coalescer.next_run(&mut arena) {
        assert!(write.packets <= LONGEST_RUN);
        let (header, pieces) = (write.header, write.pieces.to_vec());
        let whole: Vec<u8> = pieces
            .into_iter()
            .flat_map(|piece| arena[piece].to_vec())
            .collect();
        assert!(whole.len() <= LARGEST);
        let header = Header::parse(&header).unwrap();
        if header.gso == Gso::None {
            out.push(whole);
            continue;
        }
        let mut split = Split::new(&header, &whole).unwrap();
        let mut slot = vec![0; split.longest()];
        while let Some(length) = split.next_into(&mut slot) {
            out.push(slot[..length].to_vec());
        }
    }
    out
}

/// The packets of each flow, in order.
fn by_flow(packets: &[Vec<u8>]) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    let mut flows: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for packet in packets {
        // Protocol, addresses and ports; of anything else as much as there is.
        let key = |range| packet.get(range).unwrap_or_default();
        let flow = match packet.first() {
            Some(0x45) => [key(9..10), key(12..24)].concat(),
            Some(0x60..0x70) => [key(6..7), key(8..44)].concat(),
            _ => packet.clone(),
        };
        flows.entry(flow).or_default().push(summed(packet));
    }
    flows
}

/// The packet with a checksum, where it is UDP and had none: put together it gets one.
fn summed(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let Some(view) = View::of(&packet).filter(|view| view.transport == Transport::Udp) else {
        return packet;
    };
    let at = view.transport_at;
    if packet[at + 6..at + 8] == [0, 0] {
        let message = &packet[at..];
        let addresses = view.version.addresses(&packet).unwrap();
        let pseudo = Sum::pseudo(addresses, view.transport.number(), message.len());
        let sum = pseudo.plus(Sum::of(message)).udp_checksum();
        packet[at + 6..at + 8].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

/// A packet of TCP or UDP in either IP with right checksums.
fn made(kind: u8, size: usize, odd: u8, (sequence, id): (u32, u16)) -> Vec<u8> {
    let (is_v6, is_udp) = (kind & 0x10 != 0, kind & 0x20 != 0);
    let port = u16::from(kind & 3);
    let mut message = [port.to_be_bytes(), [0x12, 0xb5]].concat();
    if is_udp {
        let length = u16::try_from(8 + size).unwrap();
        message.extend([length.to_be_bytes(), [0, 0]].concat());
    } else {
        let flags = match odd & 7 {
            0 => 0x18,
            1 => 0x11,
            2 => 0x90,
            _ => 0x10,
        };
        message.extend(sequence.to_be_bytes());
        message.extend([0, 0, 0, 1, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    }
    message.resize(message.len() + size, kind ^ odd);
    let (protocol, field) = if is_udp { (17, 6) } else { (6, 16) };
    let length = u16::try_from(message.len()).unwrap();
    let mut packet = if is_v6 {
        let [high, low] = length.to_be_bytes();
        let mut header = vec![0x60, 0, 0, 0, high, low, protocol, 64];
        header.extend([0xfd; 16]);
        header.extend([0xfe; 16]);
        header
    } else {
        let [high, low] = (length + 20).to_be_bytes();
        let [id_high, id_low] = id.to_be_bytes();
        let mut header = vec![
            0x45, 0, high, low, id_high, id_low, 0, 0, 64, protocol, 0, 0,
        ];
        header.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = Sum::of(&header).checksum();
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    };
    // UDP may go without a checksum.
    if !is_udp || odd & 0x20 == 0 {
        let addresses = if is_v6 {
            &packet[8..40]
        } else {
            &packet[12..20]
        };
        let pseudo = Sum::pseudo(addresses, protocol, message.len());
        let sum = pseudo.plus(Sum::of(&message));
        let sum = if is_udp {
            sum.udp_checksum()
        } else {
            sum.checksum()
        };
        message[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
    packet.extend(message);
    packet
}
