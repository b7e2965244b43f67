//! Ethernet frames as bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kedge_vip_proto::{
    vrrp::Transmit,
    wire::{Mac, Neighbor, arp, ip, nd, vrrp::MAX_LEN},
};

/// An Ethernet frame.
pub type Frame = Vec<u8>;

/// The frame of an advertisement: what a raw socket's kernel would build.
#[must_use]
pub fn advert(from: Mac, transmit: &Transmit) -> Frame {
    let mut buffer = [0; MAX_LEN];
    let length = transmit.emit(&mut buffer);
    let message = &buffer[..length];
    match (transmit.src, transmit.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut frame = ethernet(GROUP_V4, from, IPV4);
            frame.extend(header_v4(src, dst, length));
            frame.extend(message);
            frame
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut frame = ethernet(GROUP_V6, from, nd::ETHERTYPE);
            let [high, low] = u16::try_from(length).unwrap().to_be_bytes();
            frame.extend([0x6c, 0, 0, 0, high, low, ip::PROTOCOL_VRRP, ip::TTL]);
            frame.extend(src.octets());
            frame.extend(dst.octets());
            frame.extend(message);
            frame
        }
        mixed => panic!("{mixed:?}"),
    }
}

fn header_v4(src: Ipv4Addr, dst: Ipv4Addr, length: usize) -> [u8; 20] {
    let total = u16::try_from(20 + length).unwrap().to_be_bytes();
    let mut header = [0; 20];
    header[..4].copy_from_slice(&[0x45, 0xc0, total[0], total[1]]);
    header[8..10].copy_from_slice(&[ip::TTL, ip::PROTOCOL_VRRP]);
    header[12..16].copy_from_slice(&src.octets());
    header[16..20].copy_from_slice(&dst.octets());
    let sum: u32 = header
        .chunks(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    header[10..12].copy_from_slice(&(!u16::try_from(folded).unwrap()).to_be_bytes());
    header
}

/// The frame of an ARP or Neighbor Discovery packet.
#[must_use]
pub fn neighbor(to: Mac, from: Mac, packet: &Neighbor) -> Frame {
    match packet {
        Neighbor::Arp(packet) => {
            let mut frame = ethernet(to, from, arp::ETHERTYPE);
            frame.extend(packet.emit());
            frame
        }
        Neighbor::Nd(packet) => {
            let mut buffer = [0; nd::LEN];
            let length = packet.emit(&mut buffer);
            let mut frame = ethernet(packet.group_mac(), from, nd::ETHERTYPE);
            frame.extend(&buffer[..length]);
            frame
        }
    }
}

/// The ARP or Neighbor Discovery packet in a frame.
#[must_use]
pub fn read_neighbor(bytes: &[u8]) -> Option<Neighbor> {
    let (_, from, ethertype, payload) = split(bytes)?;
    match ethertype {
        arp::ETHERTYPE => arp::Packet::parse(payload).ok().map(Neighbor::Arp),
        nd::ETHERTYPE => nd::Packet::parse(from, payload).ok().map(Neighbor::Nd),
        _ => None,
    }
}

/// The parts of a frame: destination, source, EtherType, payload.
#[must_use]
pub fn split(frame: &[u8]) -> Option<(Mac, Mac, u16, &[u8])> {
    let (header, payload) = frame.split_first_chunk::<14>()?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, hi, lo] = *header;
    let to = Mac([d0, d1, d2, d3, d4, d5]);
    let from = Mac([s0, s1, s2, s3, s4, s5]);
    Some((to, from, u16::from_be_bytes([hi, lo]), payload))
}

/// The address of the virtual router in every simulation.
#[must_use]
pub const fn vip(ipv6: bool) -> IpAddr {
    if ipv6 {
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0x14, 0, 0, 0, 0, 0, 0x10))
    } else {
        IpAddr::V4(Ipv4Addr::new(10, 20, 14, 10))
    }
}

fn ethernet(to: Mac, from: Mac, ethertype: u16) -> Frame {
    let mut frame = Vec::with_capacity(64);
    frame.extend(to.0);
    frame.extend(from.0);
    frame.extend(ethertype.to_be_bytes());
    frame
}

/// The group addresses of 224.0.0.18 and ff02::12.
const GROUP_V4: Mac = Mac([0x01, 0x00, 0x5e, 0x00, 0x00, 0x12]);
const GROUP_V6: Mac = Mac([0x33, 0x33, 0x00, 0x00, 0x00, 0x12]);
/// The EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
