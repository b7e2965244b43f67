//! Answers to ICMP echo requests. The requests are sent by whoever asks: they may have to take a way
//! that the routes do not know.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

/// Takes the ICMP messages for one address of this host, on tokio.
#[derive(Debug)]
pub struct IcmpReceiver {
    /// Not one of UDP: what is done with both is the same.
    socket: UdpSocket,
    has_header: bool,
}

impl IcmpReceiver {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// `local` is not on this host, or there is no `CAP_NET_RAW`.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn open(local: IpAddr) -> io::Result<Self> {
        let (domain, protocol) = match local {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let socket = Socket::new(domain, Type::RAW.nonblocking().cloexec(), Some(protocol))?;
        socket.bind(&SocketAddr::new(local, 0).into())?;
        let socket = std::net::UdpSocket::from(OwnedFd::from(socket));
        Ok(Self {
            socket: UdpSocket::from_std(socket)?,
            has_header: local.is_ipv4(),
        })
    }

    /// Waits for a message: whom it is from, and the message without its IP header. Loses nothing when
    /// it is cancelled.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub async fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<(IpAddr, &'a [u8])> {
        let (length, from) = self.socket.recv_from(buffer).await?;
        let bytes = buffer.get(..length).unwrap_or_default();
        // Raw sockets of IPv4 give the header too (raw(7)), those of IPv6 do not (RFC 3542 section 3).
        let header = match bytes.first() {
            Some(first) if self.has_header => usize::from(first & 0xf) * 4,
            _ => 0,
        };
        Ok((from.ip(), bytes.get(header..).unwrap_or_default()))
    }
}
