//! Reading what other stations say about our addresses.

use std::net::Ipv4Addr;

use crate::wire::{Addresses, Mac, arp::Packet};

/// Another station says by ARP that an address of ours is at its hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The address.
    pub address: Ipv4Addr,
    /// Where it is said to be.
    pub mac: Mac,
}

/// Tells foreign claims to our addresses from everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    addresses: Addresses,
    own: Mac,
}

impl Watch {
    /// Watches `addresses` on the interface with the hardware address `own`.
    #[must_use]
    pub const fn new(addresses: Addresses, own: Mac) -> Self {
        Self { addresses, own }
    }

    /// The foreign claim in `packet`, if it is one.
    ///
    /// A claim is any ARP packet whose sender address is ours and whose sender is not this
    /// interface. Probes claim nothing: every member of a virtual router probes at its first
    /// start (RFC 5227 would see a conflict there).
    #[must_use]
    pub fn claim(&self, packet: &Packet) -> Option<Claim> {
        let foreign = packet.sender_mac != self.own && self.addresses.contains(packet.sender);
        foreign.then_some(Claim {
            address: packet.sender,
            mac: packet.sender_mac,
        })
    }
}
