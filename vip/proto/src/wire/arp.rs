//! ARP for Ethernet and IPv4 (RFC 826): announcements, probes, and what others claim.

use std::net::Ipv4Addr;

use super::{Mac, ParseError};

/// The length of an ARP packet for Ethernet and IPv4, without Ethernet header.
pub const LEN: usize = 28;
/// The EtherType of ARP.
pub const ETHERTYPE: u16 = 0x0806;

/// What an ARP packet asks or says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// "Who has", 1.
    Request,
    /// "Is at", 2.
    Reply,
}

/// An ARP packet for Ethernet and IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Request or reply.
    pub operation: Operation,
    /// The sender's hardware address: for a claim, where the address is said to be.
    pub sender_mac: Mac,
    /// The sender's protocol address: for a claim, the claimed address; zero in a probe.
    pub sender: Ipv4Addr,
    /// The target's hardware address.
    pub target_mac: Mac,
    /// The target's protocol address.
    pub target: Ipv4Addr,
}

impl Packet {
    /// A gratuitous ARP: "`address` is at `mac`", to be broadcast.
    ///
    /// Some stacks update their caches from the request form only, some from the reply form only,
    /// so an announcement is both.
    #[must_use]
    pub const fn announcement(operation: Operation, address: Ipv4Addr, mac: Mac) -> Self {
        let target_mac = match operation {
            Operation::Request => Mac::ZERO,
            Operation::Reply => Mac::BROADCAST,
        };
        Self {
            operation,
            sender_mac: mac,
            sender: address,
            target_mac,
            target: address,
        }
    }

    /// An RFC 5227 probe: "does anybody use `address`?", to be broadcast. It claims nothing, so
    /// it changes nobody's cache.
    #[must_use]
    pub const fn probe(address: Ipv4Addr, mac: Mac) -> Self {
        Self {
            operation: Operation::Request,
            sender_mac: mac,
            sender: Ipv4Addr::UNSPECIFIED,
            target_mac: Mac::ZERO,
            target: address,
        }
    }

    /// Whether this is a gratuitous ARP: the sender speaks about itself.
    #[must_use]
    pub fn is_announcement(&self) -> bool {
        self.sender == self.target && !self.sender.is_unspecified()
    }

    /// Whether this is an RFC 5227 probe.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.operation == Operation::Request && self.sender.is_unspecified()
    }

    /// The 28 bytes after the Ethernet header.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let [m0, m1, m2, m3, m4, m5] = self.sender_mac.0;
        let [s0, s1, s2, s3] = self.sender.octets();
        let [n0, n1, n2, n3, n4, n5] = self.target_mac.0;
        let [t0, t1, t2, t3] = self.target.octets();
        let operation = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        [
            0, 1, 8, 0, 6, 4, 0, operation, //
            m0, m1, m2, m3, m4, m5, s0, s1, s2, s3, //
            n0, n1, n2, n3, n4, n5, t0, t1, t2, t3,
        ]
    }

    /// Reads the bytes after the Ethernet header; padding behind them is tolerated.
    ///
    /// # Errors
    ///
    /// Too few bytes, another hardware or protocol type, or neither request nor reply.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let (packet, _padding) = bytes
            .split_first_chunk::<LEN>()
            .ok_or(ParseError::Truncated)?;
        let [
            h0,
            h1,
            p0,
            p1,
            hlen,
            plen,
            o0,
            o1, //
            m0,
            m1,
            m2,
            m3,
            m4,
            m5,
            s0,
            s1,
            s2,
            s3, //
            n0,
            n1,
            n2,
            n3,
            n4,
            n5,
            t0,
            t1,
            t2,
            t3,
        ] = *packet;
        if [h0, h1, p0, p1, hlen, plen] != [0, 1, 8, 0, 6, 4] {
            return Err(ParseError::NotArp);
        }
        let operation = match [o0, o1] {
            [0, 1] => Operation::Request,
            [0, 2] => Operation::Reply,
            _ => return Err(ParseError::NotArp),
        };
        Ok(Self {
            operation,
            sender_mac: Mac([m0, m1, m2, m3, m4, m5]),
            sender: Ipv4Addr::new(s0, s1, s2, s3),
            target_mac: Mac([n0, n1, n2, n3, n4, n5]),
            target: Ipv4Addr::new(t0, t1, t2, t3),
        })
    }
}
