//! VRRP sockets: raw for sending, packet socket for receiving.
//!
//! Receiving on a packet socket is not a convenience: a host firewall that drops protocol 112 on
//! the way in would make every host Active. It also tells the sender's hardware address.

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4},
    os::fd::{AsFd, BorrowedFd},
};

use kedge_core::{Code, Coded, Problem};
use rustix::net::sockopt::{set_ip_multicast_if_with_ifindex, set_ip_multicast_loop};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, Socket, Type};

use crate::{
    privilege,
    sys::packet::{Instruction, Layer, Mac, PacketSocket, set_priority},
};

/// The group adverts are sent to.
pub const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);

/// VRRP for IPv4 on one interface, for every virtual router there.
#[derive(Debug)]
pub struct VrrpSocket {
    ifindex: u32,
    sender: Socket,
    group: SockAddr,
    receiver: PacketSocket,
    buffer: Box<[u8; BUFFER]>,
}

/// An IPv4 packet of protocol 112.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The station that sent it.
    pub mac: Mac,
    /// The packet, IPv4 header first. Nothing in it has been checked.
    pub packet: &'a [u8],
}

/// VRRP cannot be spoken on an interface.
#[derive(Debug, thiserror::Error)]
pub enum VrrpError {
    /// The sockets cannot be opened or set up.
    #[error("cannot open the VRRP sockets on {interface}")]
    Open {
        /// The interface.
        interface: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

impl VrrpSocket {
    /// Opens both sockets in the network namespace of the calling thread and joins the group.
    ///
    /// # Errors
    ///
    /// The kernel refused, for instance without `CAP_NET_RAW`.
    pub fn open(interface: &str, ifindex: u32) -> Result<Self, VrrpError> {
        let open = || {
            let sender = open_sender(interface, ifindex)?;
            let receiver = PacketSocket::open(Layer::Packet, ETHERTYPE_IPV4, ifindex, ADVERTS)?;
            Ok(Self {
                ifindex,
                sender,
                group: SocketAddrV4::new(GROUP, 0).into(),
                receiver,
                buffer: Box::new([0; BUFFER]),
            })
        };
        open().map_err(|source| VrrpError::Open {
            interface: interface.to_owned(),
            source,
        })
    }

    /// The interface it is bound to.
    #[must_use]
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Sends one VRRP message from `source` to the group, with TTL 255. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer, such as `ENETDOWN` or `EPERM` from an output firewall.
    pub fn send(&self, source: Ipv4Addr, message: &[u8]) -> io::Result<()> {
        let mut packet = [0; MAX_PACKET];
        let length = MAX_HEADER + message.len();
        let (header, body) = packet.split_at_mut(MAX_HEADER);
        header.copy_from_slice(&ip_header(source));
        body.get_mut(..message.len())
            .ok_or(io::ErrorKind::InvalidInput)?
            .copy_from_slice(message);
        let packet = packet.get(..length).ok_or(io::ErrorKind::InvalidInput)?;
        self.sender.send_to(packet, &self.group).map(drop)
    }

    /// Takes one queued packet, if there is one. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `ENETDOWN` once after the interface went down.
    pub fn receive(&mut self) -> io::Result<Option<Received<'_>>> {
        loop {
            let Some(arrival) = self.receiver.receive(self.buffer.as_mut_slice())? else {
                return Ok(None);
            };
            if !arrival.for_other_host {
                // Longer than the buffer is longer than any advert: parsing says "truncated".
                let packet = self
                    .buffer
                    .get(..arrival.length)
                    .unwrap_or(self.buffer.as_slice());
                return Ok(Some(Received {
                    mac: arrival.mac,
                    packet,
                }));
            }
        }
    }

    /// Packets lost since the last call because they were not taken in time.
    #[must_use]
    pub fn take_drops(&self) -> u32 {
        self.receiver.take_drops().unwrap_or_default()
    }
}

impl AsFd for VrrpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

impl Coded for VrrpError {
    fn problem(&self) -> Problem {
        let Self::Open { source, .. } = self;
        privilege::problem(Code::VrrpSocket, self.to_string(), source)
            .consequence("this host takes no part in electing the owner of VIPs there")
    }
}

fn open_sender(interface: &str, ifindex: u32) -> io::Result<Socket> {
    let protocol = Protocol::from(i32::from(PROTOCOL));
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(protocol))?;
    // It only sends. What the kernel would queue on it is refused before it costs anything.
    socket.attach_filter(&[socket2::SockFilter::new(RETURN, 0, 0, 0)])?;
    socket.set_nonblocking(true)?;
    socket.set_header_included_v4(true)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    set_ip_multicast_if_with_ifindex(
        &socket,
        &Ipv4Addr::UNSPECIFIED,
        &Ipv4Addr::UNSPECIFIED,
        ifindex,
    )?;
    set_ip_multicast_loop(&socket, false)?;
    // 6 is TC_PRIO_INTERACTIVE's neighbour for control traffic: first out of the queue.
    set_priority(socket.as_fd(), 6)?;
    socket.join_multicast_v4_n(&GROUP, &InterfaceIndexOrAddress::Index(ifindex))?;
    Ok(socket)
}

/// An IPv4 header for the group. The kernel fills in length, identification and checksum.
fn ip_header(source: Ipv4Addr) -> [u8; MAX_HEADER] {
    let [a, b, c, d] = source.octets();
    let [g, h, i, j] = GROUP.octets();
    [
        0x45,
        TOS,
        0,
        0,
        0,
        0,
        DONT_FRAGMENT,
        0,
        TTL,
        PROTOCOL,
        0,
        0,
        a,
        b,
        c,
        d,
        g,
        h,
        i,
        j,
    ]
}

const PROTOCOL: u8 = 112;
const TTL: u8 = 255;
/// Internetwork control (CS6).
const TOS: u8 = 0xc0;
const DONT_FRAGMENT: u8 = 0x40;
const ETHERTYPE_IPV4: u16 = 0x0800;
const MAX_HEADER: usize = 20;
const MAX_PACKET: usize = MAX_HEADER + 8 + 4 * 255;
/// An advert of 255 addresses under an IPv4 header with every option, and room for a trailer.
const BUFFER: usize = 2048;

const LOAD_BYTE: u16 = 0x30;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// IPv4 packets of protocol 112, whole. Fragments pass, so that they are counted as such.
const ADVERTS: &[Instruction] = &[
    Instruction {
        code: LOAD_BYTE,
        jt: 0,
        jf: 0,
        k: 9,
    },
    Instruction {
        code: JUMP_EQUAL,
        jt: 0,
        jf: 1,
        k: 112,
    },
    Instruction {
        code: RETURN,
        jt: 0,
        jf: 0,
        k: 0xffff,
    },
    Instruction {
        code: RETURN,
        jt: 0,
        jf: 0,
        k: 0,
    },
];

#[cfg(test)]
mod tests;
