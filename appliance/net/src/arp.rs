//! ARP on a packet socket: announcing and probing, and what others say about our addresses.

use std::{
    io,
    net::Ipv4Addr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use kedge_core::{Code, Coded, Problem};

use crate::{
    bpf::{ACCEPT, REFUSE, jump_equal, load_word},
    privilege,
    sys::packet::{Instruction, Layer, Mac, PacketSocket},
};

/// ARP on one interface.
#[derive(Debug)]
pub struct ArpSocket {
    ifindex: u32,
    socket: PacketSocket,
    buffer: [u8; 64],
}

/// ARP cannot be watched on an interface.
#[derive(Debug, thiserror::Error)]
pub enum ArpError {
    /// The socket cannot be opened or set up.
    #[error("cannot open the ARP socket on interface {ifindex}")]
    Open {
        /// The interface.
        ifindex: u32,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The addresses to watch were refused.
    #[error("cannot watch {count} addresses on interface {ifindex}")]
    Watch {
        /// The interface.
        ifindex: u32,
        /// How many.
        count: usize,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

impl ArpSocket {
    /// Opens the socket in the network namespace of the calling thread. It receives nothing
    /// before [`watch`](Self::watch).
    ///
    /// # Errors
    ///
    /// The kernel refused, for instance without `CAP_NET_RAW`.
    pub fn open(ifindex: u32) -> Result<Self, ArpError> {
        PacketSocket::open(Layer::Packet, ETHERTYPE_ARP, ifindex, &claims_to(&[]))
            .map(|socket| Self {
                ifindex,
                socket,
                buffer: [0; 64],
            })
            .map_err(|source| ArpError::Open { ifindex, source })
    }

    /// A duplicate of the descriptor of another process: both share one queue.
    ///
    /// # Errors
    ///
    /// No such interface index.
    pub fn adopt(fd: OwnedFd, ifindex: u32) -> io::Result<Self> {
        Ok(Self {
            ifindex,
            socket: PacketSocket::adopt(fd, ETHERTYPE_ARP, ifindex)?,
            buffer: [0; 64],
        })
    }

    /// Receives from now on what others claim about `addresses`: packets whose sender is one of
    /// them. Everything else stays in the kernel.
    ///
    /// # Errors
    ///
    /// The kernel refused; at most [`MAX_WATCHED`] addresses fit.
    pub fn watch(&self, addresses: &[Ipv4Addr]) -> Result<(), ArpError> {
        self.socket
            .set_filter(&claims_to(addresses))
            .map_err(|source| ArpError::Watch {
                ifindex: self.ifindex,
                count: addresses.len(),
                source,
            })
    }

    /// Broadcasts an ARP packet (without Ethernet header). Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn broadcast(&self, packet: &[u8]) -> io::Result<()> {
        self.socket.send(BROADCAST, packet)
    }

    /// The same through the interface `through`, from its hardware address.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `ENETDOWN` while that is down.
    pub fn broadcast_through(&self, through: u32, packet: &[u8]) -> io::Result<()> {
        self.socket.send_through(through, BROADCAST, packet)
    }

    /// Takes one queued packet, if there is one: the sending station and the packet without
    /// Ethernet header. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `ENETDOWN` once after the interface went down.
    pub fn receive(&mut self) -> io::Result<Option<(Mac, &[u8])>> {
        let Some(arrival) = self.socket.receive(&mut self.buffer)? else {
            return Ok(None);
        };
        // Padding may make it longer than the buffer; the packet itself is 28 bytes.
        let packet = self.buffer.get(..arrival.length).unwrap_or(&self.buffer);
        Ok(Some((arrival.mac, packet)))
    }
}

impl AsFd for ArpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Coded for ArpError {
    fn problem(&self) -> Problem {
        let (Self::Open { source, .. } | Self::Watch { source, .. }) = self;
        privilege::problem(Code::ArpSocket, self.to_string(), source)
            .consequence("VIPs there can be neither announced nor defended")
    }
}

/// How many addresses one socket can watch: two instructions each, of the kernel's 4096.
pub const MAX_WATCHED: usize = 2000;

/// The sender is one of `addresses`.
fn claims_to(addresses: &[Ipv4Addr]) -> Vec<Instruction> {
    let mut program = vec![load_word(SENDER)];
    for address in addresses {
        program.extend([jump_equal(address.to_bits(), 0, 1), ACCEPT]);
    }
    program.push(REFUSE);
    program
}

const ETHERTYPE_ARP: u16 = 0x0806;
const BROADCAST: Mac = [0xff; 6];
const SENDER: u32 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_for_the_most_addresses_fits_the_kernel() {
        let many = vec![Ipv4Addr::LOCALHOST; MAX_WATCHED];
        assert!(claims_to(&many).len() <= 4096);
        assert!(claims_to(&[]).len() < 8);
    }
}
