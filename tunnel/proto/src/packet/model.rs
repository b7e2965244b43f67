//! Packets as the network has them, built and checked the slow way: what the fast code is compared
//! with.

use super::view::Version;

/// Everything about a flow that its packets have in common.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) version: Version,
    pub(crate) port: u16,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) dont_fragment: bool,
    pub(crate) id: u16,
}

impl Flow {
    pub(crate) fn new(version: Version, port: u16) -> Self {
        Self {
            version,
            port,
            tos: 0,
            ttl: 64,
            dont_fragment: false,
            id: 0xfffe,
        }
    }
}

/// A TCP segment with `options` bytes of options.
pub(crate) fn tcp(flow: &Flow, seq: u32, payload: &[u8], flags: u8, options: usize) -> Vec<u8> {
    let mut segment = flow.port.to_be_bytes().to_vec();
    segment.extend([0x1a, 0x0b]);
    segment.extend(seq.to_be_bytes());
    segment.extend(0x0102_0304_u32.to_be_bytes());
    let words = u8::try_from(5 + options / 4).unwrap();
    segment.extend([words << 4, flags, 0x12, 0x34, 0, 0, 0, 0]);
    segment.extend(std::iter::repeat_n(1, options));
    segment.extend(payload);
    let sum = naive(&[&pseudo(flow, 6, segment.len())[..], &segment].concat());
    segment[16..18].copy_from_slice(&(!sum).to_be_bytes());
    ip(flow, 6, &segment)
}

/// A UDP datagram, with or without a checksum.
pub(crate) fn udp(flow: &Flow, payload: &[u8], summed: bool) -> Vec<u8> {
    let mut datagram = flow.port.to_be_bytes().to_vec();
    datagram.extend([0x12, 0xb5]);
    datagram.extend(u16::try_from(8 + payload.len()).unwrap().to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    if summed {
        let sum = !naive(&[&pseudo(flow, 17, datagram.len())[..], &datagram].concat());
        let sum = if sum == 0 { 0xffff } else { sum };
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    ip(flow, 17, &datagram)
}

/// Whether every checksum of a packet is right; UDP may go without.
pub(crate) fn intact(packet: &[u8]) -> bool {
    let (header, addresses, protocol) = match packet[0] >> 4 {
        4 => (20, packet[12..20].to_vec(), packet[9]),
        _ => (40, packet[8..40].to_vec(), packet[6]),
    };
    if header == 20 && naive(&packet[..20]) != 0xffff {
        return false;
    }
    let message = &packet[header..];
    if protocol == 17 && message[6..8] == [0, 0] {
        return true;
    }
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let pseudo = [&addresses[..], &length, &[0, 0, 0, protocol]].concat();
    naive(&[&pseudo[..], message].concat()) == 0xffff
}

fn ip(flow: &Flow, protocol: u8, message: &[u8]) -> Vec<u8> {
    let [id_high, id_low] = flow.id.to_be_bytes();
    let mut packet = match flow.version {
        Version::V4 => {
            let [high, low] = u16::try_from(20 + message.len()).unwrap().to_be_bytes();
            let fragment = if flow.dont_fragment { 0x40 } else { 0 };
            let mut header = vec![
                0x45, flow.tos, high, low, id_high, id_low, fragment, 0, flow.ttl, protocol, 0, 0,
            ];
            header.extend(addresses(flow));
            let sum = !naive(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            header
        }
        Version::V6 => {
            let [high, low] = u16::try_from(message.len()).unwrap().to_be_bytes();
            let (class, label) = (0x60 | flow.tos >> 4, flow.tos << 4);
            let mut header = vec![class, label, 0, 7, high, low, protocol, flow.ttl];
            header.extend(addresses(flow));
            header
        }
    };
    packet.extend(message);
    packet
}

fn addresses(flow: &Flow) -> Vec<u8> {
    match flow.version {
        Version::V4 => vec![10, 0, 0, 1, 10, 0, 0, 2],
        Version::V6 => {
            let mut both = [[0xfd, 0x6b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]; 2].concat();
            both[31] = 2;
            both
        }
    }
}

fn pseudo(flow: &Flow, protocol: u8, length: usize) -> Vec<u8> {
    let length = u32::try_from(length).unwrap().to_be_bytes();
    [&addresses(flow)[..], &length, &[0, 0, 0, protocol]].concat()
}

/// RFC 1071 as it is written.
pub(super) fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}
