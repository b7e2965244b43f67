//! VRRP sockets: raw for sending to peers, packet sockets for receiving, and for sending to the group
//! through an interface that need not be up yet when the socket is opened.
//!
//! Receiving on a packet socket is not a convenience: a host firewall that drops protocol 112 on
//! the way in would make every host Active. It also tells the sender's hardware address.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use kedge_core::{Code, Coded, Problem};
use rustix::net::sockopt::{set_ip_multicast_if_with_ifindex, set_ip_multicast_loop};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::{
    bpf::{ACCEPT, REFUSE, jump_equal, load_byte},
    privilege,
    sys::{
        group::join_for_source,
        packet::{Instruction, Layer, Mac, PacketSocket, set_priority},
    },
    udp::Family,
};

/// The group IPv4 adverts are sent to.
pub const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
/// The group IPv6 adverts are sent to.
pub const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12);

/// VRRP of one family on one interface, for every virtual router there.
#[derive(Debug)]
pub struct VrrpSocket {
    ifindex: u32,
    /// To peers, by the routes of this host.
    sender: Socket,
    receiver: PacketSocket,
    /// To the group.
    caller: PacketSocket,
    /// Is in the group for both, and receives nothing: a raw socket that is a member gets a copy of
    /// each advert, which costs as much as refusing it.
    member: Socket,
    buffer: Box<[u8; BUFFER]>,
}

/// An IP packet of protocol 112.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The station that sent it.
    pub mac: Mac,
    /// The packet, IP header first. Nothing in it has been checked.
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
    /// Opens the sockets in the network namespace of the calling thread and joins the group.
    ///
    /// # Errors
    ///
    /// The kernel refused, for instance without `CAP_NET_RAW`.
    pub fn open(interface: &str, ifindex: u32, family: Family) -> Result<Self, VrrpError> {
        let open = || {
            let sender = open_sender(interface, ifindex, family)?;
            let member = join(ifindex, family)?;
            let filter = adverts(family);
            let receiver = PacketSocket::open(Layer::Packet, ethertype(family), ifindex, &filter)?;
            let caller = PacketSocket::to_send(Layer::Packet, ethertype(family), ifindex)?;
            set_priority(caller.as_fd(), 6)?;
            Ok(Self {
                ifindex,
                sender,
                receiver,
                caller,
                member,
                buffer: Box::new([0; BUFFER]),
            })
        };
        open().map_err(|source| VrrpError::Open {
            interface: interface.to_owned(),
            source,
        })
    }

    /// What another process needs for [`adopt`](Self::adopt).
    #[must_use]
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 4] {
        [
            self.sender.as_fd(),
            self.receiver.as_fd(),
            self.caller.as_fd(),
            self.member.as_fd(),
        ]
    }

    /// Duplicates of the [`descriptors`](Self::descriptors) of another process: both share one
    /// queue, and only one may receive.
    ///
    /// # Errors
    ///
    /// No such interface index.
    pub fn adopt(
        [sender, receiver, caller, member]: [OwnedFd; 4],
        ifindex: u32,
        family: Family,
    ) -> io::Result<Self> {
        Ok(Self {
            ifindex,
            sender: Socket::from(sender),
            receiver: PacketSocket::adopt(receiver, ethertype(family), ifindex)?,
            caller: PacketSocket::adopt(caller, ethertype(family), ifindex)?,
            member: Socket::from(member),
            buffer: Box::new([0; BUFFER]),
        })
    }

    /// The interface it is bound to.
    #[must_use]
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Sends one VRRP message from `source` to `destination`, with TTL 255. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer, such as `ENETDOWN` or `EPERM` from an output firewall; `InvalidInput`
    /// if the addresses are not both of the socket's family.
    pub fn send(&self, source: IpAddr, destination: IpAddr, message: &[u8]) -> io::Result<()> {
        let to: SocketAddr = match destination {
            IpAddr::V4(_) => (destination, 0).into(),
            IpAddr::V6(v6) => SocketAddrV6::new(v6, 0, 0, self.ifindex).into(),
        };
        let to = SockAddr::from(to);
        let send = |packet: &[u8]| self.sender.send_to(packet, &to).map(drop);
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                whole(&header_v4(source, destination), message, send)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = header_v6(source, destination, message.len());
                whole(&header, message, send)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {
                Err(io::ErrorKind::InvalidInput.into())
            }
        }
    }

    /// Sends one VRRP message from `source` to the group through the interface `through`, from its
    /// hardware address, with TTL 255. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `ENETDOWN` while that is down; `InvalidInput` if the source is not of the
    /// socket's family.
    pub fn send_through(&self, through: u32, source: IpAddr, message: &[u8]) -> io::Result<()> {
        let send = |to| move |packet: &[u8]| self.caller.send_through(through, to, packet);
        match source {
            IpAddr::V4(source) => {
                let header = finished(header_v4(source, GROUP_V4), message.len());
                whole(&header, message, send(GROUP_V4_MAC))
            }
            IpAddr::V6(source) => {
                let header = header_v6(source, GROUP_V6, message.len());
                whole(&header, message, send(GROUP_V6_MAC))
            }
        }
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

fn open_sender(interface: &str, ifindex: u32, family: Family) -> io::Result<Socket> {
    let protocol = Protocol::from(i32::from(PROTOCOL));
    let domain = match family {
        Family::V4 => Domain::IPV4,
        Family::V6 => Domain::IPV6,
    };
    let socket = Socket::new(domain, Type::RAW, Some(protocol))?;
    // It only sends. What the kernel would queue on it is refused before it costs anything.
    socket
        .attach_filter(&[REFUSE].map(|it| socket2::SockFilter::new(it.code, it.jt, it.jf, it.k)))?;
    socket.set_nonblocking(true)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    // 6 is TC_PRIO_INTERACTIVE's neighbour for control traffic: first out of the queue.
    set_priority(socket.as_fd(), 6)?;
    match family {
        Family::V4 => {
            socket.set_header_included_v4(true)?;
            let any = Ipv4Addr::UNSPECIFIED;
            set_ip_multicast_if_with_ifindex(&socket, &any, &any, ifindex)?;
            set_ip_multicast_loop(&socket, false)?;
            // Nor what another socket of this host joined.
            socket.set_multicast_all_v4(false)?;
        }
        Family::V6 => {
            socket.set_header_included_v6(true)?;
            socket.set_multicast_if_v6(ifindex)?;
            socket.set_multicast_loop_v6(false)?;
        }
    }
    Ok(socket)
}

/// A member of the group on an interface: the link and its switches let adverts through.
///
/// A member for what nobody sends, where there is such a thing: the packet socket has its copy by then, and
/// for a member of everything the kernel makes a route for each advert, looks up its source, finds nobody
/// who speaks the protocol and counts that (`InUnknownProtos`).
fn join(ifindex: u32, family: Family) -> io::Result<Socket> {
    match family {
        Family::V4 => {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
            join_for_source(socket.as_fd(), ifindex, GROUP_V4, NOBODY)?;
            Ok(socket)
        }
        Family::V6 => {
            let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
            socket.join_multicast_v6(&GROUP_V6, ifindex)?;
            Ok(socket)
        }
    }
}

/// Hands over header and message as one packet; `InvalidInput` where that is longer than any.
fn whole(
    header: &[u8],
    message: &[u8],
    send: impl FnOnce(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    // Nearly all of them are short, and a buffer for the longest would be filled with zeros each time.
    if header.len() + message.len() <= SHORT {
        within::<SHORT>(header, message, send)
    } else {
        within::<MAX_PACKET>(header, message, send)
    }
}

/// Not inlined: whoever needs little room on the stack should not touch more.
#[inline(never)]
fn within<const ROOM: usize>(
    header: &[u8],
    message: &[u8],
    send: impl FnOnce(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut packet = [0; ROOM];
    let length = header.len() + message.len();
    let packet = packet
        .get_mut(..length)
        .ok_or(io::ErrorKind::InvalidInput)?;
    let (head, body) = packet.split_at_mut(header.len());
    head.copy_from_slice(header);
    body.copy_from_slice(message);
    send(packet)
}

/// An IPv4 header. The kernel fills in length, identification and checksum.
fn header_v4(source: Ipv4Addr, destination: Ipv4Addr) -> [u8; 20] {
    let [a, b, c, d] = source.octets();
    let [g, h, i, j] = destination.octets();
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

/// The header as the kernel would finish it, around a payload of `length` bytes.
fn finished(mut header: [u8; 20], length: usize) -> [u8; 20] {
    let total = u16::try_from(header.len() + length).unwrap_or(u16::MAX);
    let [high, low] = total.to_be_bytes();
    (header[2], header[3]) = (high, low);
    let words = header.chunks_exact(2).map(|word| match word {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let [high, low, ..] = (!u16::try_from(sum).unwrap_or_default()).to_be_bytes();
    (header[10], header[11]) = (high, low);
    header
}

/// An IPv6 header around a payload of `length` bytes.
fn header_v6(source: Ipv6Addr, destination: Ipv6Addr, length: usize) -> [u8; 40] {
    let length = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    let [version_class, class_flow] = (0x6000 | u16::from(TOS) << 4).to_be_bytes();
    let [high, low] = length;
    let fixed = [version_class, class_flow, 0, 0, high, low, PROTOCOL, TTL];
    let mut header = [0; 40];
    let bytes = fixed
        .into_iter()
        .chain(source.octets())
        .chain(destination.octets());
    for (slot, byte) in header.iter_mut().zip(bytes) {
        *slot = byte;
    }
    header
}

const fn ethertype(family: Family) -> u16 {
    match family {
        Family::V4 => ETHERTYPE_IPV4,
        Family::V6 => ETHERTYPE_IPV6,
    }
}

/// Where Ethernet delivers what is sent to the groups (RFC 1112 section 6.4, RFC 2464 section 7).
const GROUP_V4_MAC: Mac = [0x01, 0x00, 0x5e, 0, 0, 18];
const GROUP_V6_MAC: Mac = [0x33, 0x33, 0, 0, 0, 0x12];
/// Nothing that comes in by a wire is from there (RFC 1122 section 3.2.1.3).
const NOBODY: Ipv4Addr = Ipv4Addr::LOCALHOST;
const PROTOCOL: u8 = 112;
const TTL: u8 = 255;
/// Internetwork control (CS6).
const TOS: u8 = 0xc0;
const DONT_FRAGMENT: u8 = 0x40;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Of an IPv6 header, a few addresses and a trailer.
const SHORT: usize = 192;
/// Of an IPv6 header and 255 addresses.
const MAX_PACKET: usize = 40 + 8 + 16 * 255;
/// An IPv4 advert of 255 addresses under a header with every option, or what a link carries of
/// IPv6, and room for a trailer.
const BUFFER: usize = 2048;

/// IP packets of protocol 112, whole, by the byte that says so in a header of that family. IPv4
/// fragments pass, so that they are counted as such.
const fn adverts(family: Family) -> [Instruction; 4] {
    let protocol = match family {
        Family::V4 => 9,
        Family::V6 => 6,
    };
    [load_byte(protocol), jump_equal(112, 0, 1), ACCEPT, REFUSE]
}

#[cfg(test)]
mod tests;
