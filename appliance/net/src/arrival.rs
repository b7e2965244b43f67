//! Whether packets for an address reach this host: what the network does, not what it was told.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsFd, BorrowedFd},
};

use crate::bpf::{ACCEPT, REFUSE, jump_equal, load_half, load_word};
use crate::sys::packet::{Instruction, Layer, Mac, PacketSocket};

/// Waits for the first packet to an address that was sent to this host's hardware address. Drop it
/// once one arrived: every packet of every connection to the address passes its filter.
#[derive(Debug)]
pub struct ArrivalListener {
    socket: PacketSocket,
}

impl ArrivalListener {
    /// Opens the socket in the network namespace of the calling thread; `own` is the hardware
    /// address that `addresses` were announced with. More than [`MAX_LOOKED_FOR`] addresses are not
    /// looked for.
    ///
    /// # Errors
    ///
    /// The kernel refused, for instance without `CAP_NET_RAW`.
    pub fn open(
        ifindex: u32,
        own: Mac,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> io::Result<Self> {
        let program = sent_to(own, addresses);
        let socket = PacketSocket::open(Layer::Frame, ETHERTYPE_ALL, ifindex, &program)?;
        Ok(Self { socket })
    }

    /// Whether one has arrived. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `ENETDOWN` once after the interface went down.
    pub fn arrived(&self) -> io::Result<bool> {
        Ok(self.socket.receive(&mut [0; 14])?.is_some())
    }
}

impl AsFd for ArrivalListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// How many addresses one listener looks for.
pub const MAX_LOOKED_FOR: usize = 256;

/// To `own`, and either an IP packet to one of `addresses` or an ARP packet that names it as its
/// target. Claims are broadcast, so they are none of it.
fn sent_to(own: Mac, addresses: impl IntoIterator<Item = IpAddr>) -> Vec<Instruction> {
    let [a, b, c, d, e, f] = own.map(u32::from);
    let mut program = vec![
        load_word(0),
        jump_equal(a << 24 | b << 16 | c << 8 | d, 1, 0),
        REFUSE,
        load_half(4),
        jump_equal(e << 8 | f, 1, 0),
        REFUSE,
    ];
    for address in addresses.into_iter().take(MAX_LOOKED_FOR) {
        match address {
            IpAddr::V4(address) => program.extend(to_v4(address)),
            IpAddr::V6(address) => program.extend(to_v6(address)),
        }
    }
    program.push(REFUSE);
    program
}

fn to_v4(address: Ipv4Addr) -> [Instruction; 10] {
    let address = address.to_bits();
    [
        load_half(ETHERTYPE),
        jump_equal(IPV4, 0, 3),
        load_word(IPV4_DESTINATION),
        jump_equal(address, 0, 1),
        ACCEPT,
        load_half(ETHERTYPE),
        jump_equal(ARP, 0, 3),
        load_word(ARP_TARGET),
        jump_equal(address, 0, 1),
        ACCEPT,
    ]
}

fn to_v6(address: Ipv6Addr) -> [Instruction; 11] {
    let bits = address.to_bits();
    let word = |shift: u32| u32::try_from(bits >> shift & u128::from(u32::MAX)).unwrap_or(0);
    [
        load_half(ETHERTYPE),
        jump_equal(IPV6, 0, 9),
        load_word(IPV6_DESTINATION),
        jump_equal(word(96), 0, 7),
        load_word(IPV6_DESTINATION + 4),
        jump_equal(word(64), 0, 5),
        load_word(IPV6_DESTINATION + 8),
        jump_equal(word(32), 0, 3),
        load_word(IPV6_DESTINATION + 12),
        jump_equal(word(0), 0, 1),
        ACCEPT,
    ]
}

const ETHERTYPE_ALL: u16 = 0x0003;
const ETHERTYPE: u32 = 12;
const IPV4: u32 = 0x0800;
const ARP: u32 = 0x0806;
const IPV6: u32 = 0x86dd;
const IPV4_DESTINATION: u32 = 14 + 16;
const ARP_TARGET: u32 = 14 + 24;
const IPV6_DESTINATION: u32 = 14 + 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_for_the_most_addresses_fits_the_kernel() {
        let many = vec![IpAddr::V6(Ipv6Addr::LOCALHOST); 2 * MAX_LOOKED_FOR];
        assert!(sent_to([2; 6], many).len() <= 4096);
    }
}
