//! What says where an address is on a link: ARP for IPv4, Neighbor Discovery for IPv6.

use std::net::IpAddr;

use kedge_core::vip::Vrid;

use super::{
    Mac,
    arp::{self, Operation},
    nd,
};

/// An ARP or a Neighbor Discovery packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Neighbor {
    /// For IPv4.
    Arp(arp::Packet),
    /// For IPv6.
    Nd(nd::Packet),
}

/// Somebody says where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The address.
    pub address: IpAddr,
    /// Who says that it is there.
    pub mac: Mac,
}

impl Claim {
    /// Whether the address is said to be at the hardware address of that virtual router.
    #[must_use]
    pub fn is_virtual(&self, vrid: Vrid) -> bool {
        self.mac == Mac::virtual_router(vrid, self.address.is_ipv6())
    }
}

impl Neighbor {
    /// "`address` is at `mac`", to everybody on the link: for IPv4 as request and as reply, since
    /// some stacks learn from only one of them.
    pub fn announcements(address: IpAddr, mac: Mac) -> impl Iterator<Item = Self> {
        let (first, second) = match address {
            IpAddr::V4(address) => {
                let form =
                    |operation| Self::Arp(arp::Packet::announcement(operation, address, mac));
                (form(Operation::Request), Some(form(Operation::Reply)))
            }
            IpAddr::V6(address) => (Self::Nd(nd::Packet::announcement(address, mac)), None),
        };
        [Some(first), second].into_iter().flatten()
    }

    /// "Does anybody use `address`?", which claims nothing.
    #[must_use]
    pub const fn probe(address: IpAddr, mac: Mac) -> Self {
        match address {
            IpAddr::V4(address) => Self::Arp(arp::Packet::probe(address, mac)),
            IpAddr::V6(address) => Self::Nd(nd::Packet::probe(address, mac)),
        }
    }

    /// "Who has `target`?", from `source` at `mac`; of one family both.
    #[must_use]
    pub const fn question(source: IpAddr, mac: Mac, target: IpAddr) -> Option<Self> {
        match (source, target) {
            (IpAddr::V4(sender), IpAddr::V4(target)) => Some(Self::Arp(arp::Packet {
                operation: Operation::Request,
                sender_mac: mac,
                sender,
                target_mac: Mac::ZERO,
                target,
            })),
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                Some(Self::Nd(nd::Packet::question(source, mac, target)))
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
        }
    }

    /// What the packet says about its sender or target; a probe says nothing.
    #[must_use]
    pub fn claim(&self) -> Option<Claim> {
        let (address, mac) = match self {
            Self::Arp(packet) => (IpAddr::V4(packet.sender), packet.sender_mac),
            Self::Nd(packet) => {
                let about = match packet.kind {
                    nd::Kind::Solicitation => packet.src,
                    nd::Kind::Advertisement { .. } => packet.target,
                };
                (IpAddr::V6(about), packet.mac)
            }
        };
        (!address.is_unspecified()).then_some(Claim { address, mac })
    }

    /// Whether this only asks whether anybody uses an address.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        match self {
            Self::Arp(packet) => packet.is_probe(),
            Self::Nd(packet) => packet.is_probe(),
        }
    }
}
