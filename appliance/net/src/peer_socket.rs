//! What the sockets of protocols that speak with one neighbour have in common: BFD's and BGP's.

use std::{
    io,
    net::{IpAddr, SocketAddr, SocketAddrV6},
};

use kedge_core::{Code, Fix, Problem};
use rustix::{io::Errno, net::netdevice::name_to_index};
use socket2::{Domain, Socket};

use crate::udp::Family;

/// Internetwork control (CS6), as routers send it (RFC 4271 appendix E).
pub(crate) const TOS: u32 = 0xc0;

/// The family of sockets, as the kernel has it.
pub(crate) const fn domain(family: Family) -> Domain {
    match family {
        Family::V4 => Domain::IPV4,
        Family::V6 => Domain::IPV6,
    }
}

/// Has a socket use one interface alone, and tells its index.
///
/// # Errors
///
/// There is no such interface, or it may not be used.
pub(crate) fn on_interface(socket: &Socket, name: &str) -> io::Result<u32> {
    let index = name_to_index(socket, name)?;
    socket.bind_device(Some(name.as_bytes()))?;
    Ok(index)
}

/// An address and a port; link-local ones are of an interface.
pub(crate) fn scoped(address: IpAddr, port: u16, scope: u32) -> SocketAddr {
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, scope).into()
        }
        IpAddr::V4(_) | IpAddr::V6(_) => (address, port).into(),
    }
}

/// A whole address as a `sockaddr_storage` of any port, and how many of its bits count: all.
pub(crate) fn socket_address(address: IpAddr) -> ([u8; 128], u8) {
    let mut head = Vec::with_capacity(24);
    let family = |family: i32| u16::try_from(family).unwrap_or_default().to_ne_bytes();
    let bits = match address {
        IpAddr::V4(v4) => {
            head.extend(family(libc::AF_INET));
            // The port.
            head.extend([0; 2]);
            head.extend(v4.octets());
            32
        }
        IpAddr::V6(v6) => {
            head.extend(family(libc::AF_INET6));
            // The port, and the flow.
            head.extend([0; 6]);
            head.extend(v6.octets());
            128
        }
    };
    let mut storage = [0; 128];
    storage
        .iter_mut()
        .zip(head)
        .for_each(|(to, from)| *to = from);
    (storage, bits)
}

/// Whether that is what the kernel answered.
pub(crate) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// The interface that is configured is not there.
pub(crate) fn no_interface(code: Code, error: &dyn std::error::Error) -> Problem {
    Problem::new(code, error.to_string()).caused_by(error).fix(
        Fix::text("name an interface of this host, or leave `interface` out")
            .command("ip -brief link"),
    )
}

/// The source that is configured is no address of this host.
pub(crate) fn no_source(code: Code, error: &dyn std::error::Error) -> Problem {
    Problem::new(code, error.to_string())
        .caused_by(error)
        .fix(Fix::text("give it to the interface, or leave `source` out"))
}
