//! Ethernet frames as bytes.

use std::net::Ipv4Addr;

use kedge_vip_proto::{
    vrrp::Transmit,
    wire::{Mac, arp, ipv4, vrrp::MAX_LEN},
};

/// Where VRRP goes on Ethernet: the group address of 224.0.0.18.
pub const VRRP_GROUP: Mac = Mac([0x01, 0x00, 0x5e, 0x00, 0x00, 0x12]);

/// An Ethernet frame.
pub type Frame = Vec<u8>;

/// The frame of an advertisement: what a raw socket's kernel would build.
#[must_use]
pub fn advert(from: Mac, transmit: &Transmit) -> Frame {
    let mut buffer = [0; MAX_LEN];
    let length = transmit.emit(&mut buffer);
    let total = u16::try_from(20 + length).unwrap().to_be_bytes();
    let mut header = [0; 20];
    header[..4].copy_from_slice(&[0x45, 0xc0, total[0], total[1]]);
    header[8..10].copy_from_slice(&[ipv4::TTL, ipv4::PROTOCOL_VRRP]);
    header[12..16].copy_from_slice(&transmit.src.octets());
    header[16..20].copy_from_slice(&ipv4::GROUP.octets());
    let sum: u32 = header
        .chunks(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    header[10..12].copy_from_slice(&(!u16::try_from(folded).unwrap()).to_be_bytes());
    let mut frame = ethernet(VRRP_GROUP, from, 0x0800);
    frame.extend(header);
    frame.extend(&buffer[..length]);
    frame
}

/// The frame of an ARP packet.
#[must_use]
pub fn arp(to: Mac, from: Mac, packet: &arp::Packet) -> Frame {
    let mut frame = ethernet(to, from, arp::ETHERTYPE);
    frame.extend(packet.emit());
    frame
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
pub const VIP: Ipv4Addr = Ipv4Addr::new(10, 20, 14, 10);

fn ethernet(to: Mac, from: Mac, ethertype: u16) -> Frame {
    let mut frame = Vec::with_capacity(64);
    frame.extend(to.0);
    frame.extend(from.0);
    frame.extend(ethertype.to_be_bytes());
    frame
}
