//! Neighbor Discovery on a packet socket: announcing and probing IPv6 addresses, and what others
//! say about them.

use std::{
    fs, io,
    net::Ipv6Addr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use kedge_core::{Code, Coded, Problem};

use crate::{
    bpf::{ACCEPT, REFUSE, jump, jump_equal, load_byte, load_word_indexed, set_index},
    privilege,
    sys::packet::{Instruction, Layer, Mac, PacketSocket},
};

/// Neighbor Discovery on one interface.
#[derive(Debug)]
pub struct NdSocket {
    ifindex: u32,
    forwards: bool,
    socket: PacketSocket,
    buffer: Box<[u8; BUFFER]>,
}

/// Neighbor Discovery cannot be watched on an interface.
#[derive(Debug, thiserror::Error)]
pub enum NdError {
    /// The socket cannot be opened or set up.
    #[error("cannot open the Neighbor Discovery socket on {interface}")]
    Open {
        /// The interface.
        interface: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The addresses to watch were refused.
    #[error("cannot watch {count} IPv6 addresses on interface {ifindex}")]
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

impl NdSocket {
    /// Opens the socket in the network namespace of the calling thread. It receives nothing
    /// before [`watch`](Self::watch).
    ///
    /// # Errors
    ///
    /// The kernel refused, for instance without `CAP_NET_RAW`.
    pub fn open(interface: &str, ifindex: u32) -> Result<Self, NdError> {
        PacketSocket::open(Layer::Packet, ETHERTYPE_IPV6, ifindex, &claims_to(&[]))
            .map(|socket| Self {
                ifindex,
                forwards: forwards(interface),
                socket,
                buffer: Box::new([0; BUFFER]),
            })
            .map_err(|source| NdError::Open {
                interface: interface.to_owned(),
                source,
            })
    }

    /// A duplicate of the descriptor of another process: both share one queue.
    ///
    /// # Errors
    ///
    /// No such interface index.
    pub fn adopt(fd: OwnedFd, interface: &str, ifindex: u32) -> io::Result<Self> {
        Ok(Self {
            ifindex,
            forwards: forwards(interface),
            socket: PacketSocket::adopt(fd, ETHERTYPE_IPV6, ifindex)?,
            buffer: Box::new([0; BUFFER]),
        })
    }

    /// Whether the interface forwarded packets when this was opened: what the router flag of an
    /// advertisement says.
    #[must_use]
    pub const fn forwards(&self) -> bool {
        self.forwards
    }

    /// Receives from now on what others claim about `addresses`: advertisements for them, and
    /// solicitations from them. Everything else stays in the kernel.
    ///
    /// # Errors
    ///
    /// The kernel refused; at most [`MAX_WATCHED`] addresses fit.
    pub fn watch(&self, addresses: &[Ipv6Addr]) -> Result<(), NdError> {
        self.socket
            .set_filter(&claims_to(addresses))
            .map_err(|source| NdError::Watch {
                ifindex: self.ifindex,
                count: addresses.len(),
                source,
            })
    }

    /// Sends an IPv6 packet, header first, to a station or a group. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn send(&self, to: Mac, packet: &[u8]) -> io::Result<()> {
        self.socket.send(to, packet)
    }

    /// The same through the interface `through`, from its hardware address.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `ENETDOWN` while that is down.
    pub fn send_through(&self, through: u32, to: Mac, packet: &[u8]) -> io::Result<()> {
        self.socket.send_through(through, to, packet)
    }

    /// Takes one queued packet, if there is one: the sending station and the IPv6 packet. Never
    /// waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `ENETDOWN` once after the interface went down.
    pub fn receive(&mut self) -> io::Result<Option<(Mac, &[u8])>> {
        let Some(arrival) = self.socket.receive(self.buffer.as_mut_slice())? else {
            return Ok(None);
        };
        // Longer than the buffer is longer than any such packet: parsing says "truncated".
        let packet = self.buffer.get(..arrival.length);
        Ok(Some((
            arrival.mac,
            packet.unwrap_or(self.buffer.as_slice()),
        )))
    }
}

impl AsFd for NdSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Coded for NdError {
    fn problem(&self) -> Problem {
        let (Self::Open { source, .. } | Self::Watch { source, .. }) = self;
        privilege::problem(Code::ArpSocket, self.to_string(), source)
            .consequence("IPv6 VIPs there can be neither announced nor defended")
    }
}

/// How many addresses one socket can watch: nine instructions each, of the kernel's 4096.
pub const MAX_WATCHED: usize = 400;

/// Whether the kernel forwards what arrives on an interface.
fn forwards(interface: &str) -> bool {
    let path = format!("/proc/sys/net/ipv6/conf/{interface}/forwarding");
    fs::read_to_string(path).is_ok_and(|text| text.trim() != "0")
}

/// An advertisement whose target, or a solicitation whose source, is one of `addresses`.
fn claims_to(addresses: &[Ipv6Addr]) -> Vec<Instruction> {
    let mut program = vec![
        load_byte(NEXT_HEADER),
        jump_equal(ICMPV6, 1, 0),
        REFUSE,
        load_byte(TYPE),
        jump_equal(ADVERTISEMENT, 2, 0),
        jump_equal(SOLICITATION, 3, 0),
        REFUSE,
        set_index(TARGET),
        jump(1),
        set_index(SOURCE),
    ];
    for address in addresses {
        let [a, b, c, d] = words(*address);
        program.extend([
            load_word_indexed(0),
            jump_equal(a, 0, 7),
            load_word_indexed(4),
            jump_equal(b, 0, 5),
            load_word_indexed(8),
            jump_equal(c, 0, 3),
            load_word_indexed(12),
            jump_equal(d, 0, 1),
            ACCEPT,
        ]);
    }
    program.push(REFUSE);
    program
}

fn words(address: Ipv6Addr) -> [u32; 4] {
    let [a, b, c, d, e, f, g, h] = address.segments().map(u32::from);
    [a << 16 | b, c << 16 | d, e << 16 | f, g << 16 | h]
}

const ETHERTYPE_IPV6: u16 = 0x86dd;
/// A packet with every option Neighbor Discovery has is far shorter than a frame.
const BUFFER: usize = 1500;

const NEXT_HEADER: u32 = 6;
const SOURCE: u32 = 8;
const TYPE: u32 = 40;
const TARGET: u32 = 48;
const ICMPV6: u32 = 58;
const SOLICITATION: u32 = 135;
const ADVERTISEMENT: u32 = 136;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_for_the_most_addresses_fits_the_kernel() {
        let many = vec![Ipv6Addr::LOCALHOST; MAX_WATCHED];
        assert!(claims_to(&many).len() <= 4096);
        assert!(claims_to(&[]).len() < 16);
    }
}
