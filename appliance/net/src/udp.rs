//! UDP sockets of the tunnel engine: one per address family on the same port.
//!
//! A host without one of the families gets along with the other. What comes is taken into an
//! [`Inbox`], what goes is sent in runs.

mod group;
mod inbox;
mod run;
mod whole;

mod live;

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
};

use kedge_core::{Code, Coded, Fix, Problem};
use rustix::{
    io::Errno,
    net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery},
};
use socket2::{Domain, Protocol, Socket, Type};

pub use self::{
    group::Group,
    inbox::{Arrived, Inbox, Received},
    run::{Form, LARGEST_RUN, LONGEST_RUN, refuses_segments, refuses_source},
};
use crate::{privilege, sys};

/// Sockets of both families, or of the one the host has, on one port. They do not block.
#[derive(Debug)]
pub struct Sockets {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    port: u16,
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// That of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// No socket for the tunnel.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process has the port.
    #[error("UDP port {port} is taken")]
    PortInUse {
        /// The port.
        port: u16,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The kernel refused.
    #[error("cannot open a UDP socket on port {port}")]
    Refused {
        /// The port.
        port: u16,
        /// What the kernel answered.
        source: io::Error,
    },
}

impl Sockets {
    /// Binds `port` on every address of both families; 0 lets the kernel choose one that is free
    /// in both.
    ///
    /// # Errors
    ///
    /// The port is taken in a family the host has, or the host has neither.
    pub fn bind(port: u16) -> Result<Self, BindError> {
        let mut tries = if port == 0 { FREE_PORT_TRIES } else { 1 };
        loop {
            tries -= 1;
            match Self::try_bind(port) {
                Err(BindError::PortInUse { .. }) if tries > 0 => {}
                other => return other,
            }
        }
    }

    fn try_bind(port: u16) -> Result<Self, BindError> {
        let v4 = bind(Family::V4, port, false)?;
        let chosen = match &v4 {
            Some(socket) => local_port(socket, port)?,
            None => port,
        };
        let v6 = bind(Family::V6, chosen, false)?;
        let port = match &v6 {
            Some(socket) => local_port(socket, port)?,
            None => chosen,
        };
        if v4.is_none() && v6.is_none() {
            return Err(BindError::Refused {
                port,
                source: Errno::AFNOSUPPORT.into(),
            });
        }
        Ok(Self { v4, v6, port })
    }

    /// The port in use.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The descriptor of a family, to wait for.
    #[must_use]
    pub fn fd(&self, family: Family) -> Option<BorrowedFd<'_>> {
        self.socket(family).map(AsFd::as_fd)
    }

    /// Whether the kernel can be given runs of datagrams (`UDP_SEGMENT`).
    ///
    /// # Errors
    ///
    /// The kernel's answer: it knows no such thing.
    pub fn knows_segments(&self) -> io::Result<()> {
        for socket in self.v4.iter().chain(&self.v6) {
            let none = 0 as libc::c_int;
            sys::packet::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &none)?;
        }
        Ok(())
    }

    /// Whether datagrams of one sender and one size may come in one buffer (`UDP_GRO`).
    ///
    /// # Errors
    ///
    /// The kernel knows no such thing.
    pub fn set_gro(&self, on: bool) -> io::Result<()> {
        for socket in self.v4.iter().chain(&self.v6) {
            let value = libc::c_int::from(on);
            sys::packet::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, &value)?;
        }
        Ok(())
    }

    const fn socket(&self, family: Family) -> Option<&UdpSocket> {
        match family {
            Family::V4 => self.v4.as_ref(),
            Family::V6 => self.v6.as_ref(),
        }
    }
}

impl Coded for BindError {
    fn problem(&self) -> Problem {
        match self {
            Self::PortInUse { port, .. } => {
                Problem::new(Code::TunPortInUse, format!("UDP port {port} is taken"))
                    .caused_by(self)
                    .fix(
                        Fix::text(
                            "see who has it: another Kedge or WireGuard may be running; or set \
                             tunnel.listen_port to another port, or to 0 on a host that only \
                             calls out",
                        )
                        .command(format!("sudo ss -ulpn sport = :{port}")),
                    )
            }
            Self::Refused { port, source } => privilege::problem(
                Code::NetKernel,
                format!("the kernel refused a UDP socket on port {port}"),
                source,
            ),
        }
        .consequence("there is no tunnel; everything else of this host works on")
    }
}

/// A bound socket, or `None` when the host does not have the family.
fn bind(family: Family, port: u16, shared: bool) -> Result<Option<UdpSocket>, BindError> {
    match open(family, port, shared) {
        Ok(socket) => Ok(Some(socket)),
        Err(source) => match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) => Ok(None),
            Some(Errno::ADDRINUSE) => Err(BindError::PortInUse { port, source }),
            _ => Err(BindError::Refused { port, source }),
        },
    }
}

fn open(family: Family, port: u16, shared: bool) -> io::Result<UdpSocket> {
    let (domain, any) = match family {
        Family::V4 => (
            Domain::IPV4,
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
        ),
        Family::V6 => (
            Domain::IPV6,
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
        ),
    };
    let socket = Socket::new(
        domain,
        Type::DGRAM.nonblocking().cloexec(),
        Some(Protocol::UDP),
    )?;
    // Like the kernel's WireGuard: outer packets may be fragmented, a small path MTU is no hole.
    match family {
        Family::V4 => sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DONT)?,
        Family::V6 => {
            socket.set_only_v6(true)?;
            sockopt::set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DONT)?;
        }
    }
    sys::udp::tell_headers(socket.as_fd(), family == Family::V6)?;
    // The default of 212 KB loses handshakes when everybody comes back at once. Past the limits
    // of the system only with privilege, else as far as they go.
    if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER).is_err() {
        socket.set_recv_buffer_size(BUFFER)?;
    }
    if sockopt::set_socket_send_buffer_size_force(&socket, BUFFER).is_err() {
        socket.set_send_buffer_size(BUFFER)?;
    }
    socket.set_reuse_port(shared)?;
    socket.bind(&any.into())?;
    Ok(socket.into())
}

fn local_port(socket: &UdpSocket, port: u16) -> Result<u16, BindError> {
    let local = socket
        .local_addr()
        .map_err(|source| BindError::Refused { port, source })?;
    Ok(local.port())
}

const BUFFER: usize = 8 * 1024 * 1024;

/// A port free in one family is nearly always free in the other.
const FREE_PORT_TRIES: u32 = 16;

#[cfg(test)]
mod tests;
