//! TCP that carries datagrams: nothing waits in the kernel that has not been sent.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::fd::AsFd,
    time::Duration,
};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Listens on `port` of every address of this host. It does not block.
///
/// # Errors
///
/// The kernel's answer: `EADDRINUSE` where somebody else has the port.
pub fn listen(port: u16) -> io::Result<TcpListener> {
    let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    match listen_at(v6, Domain::IPV6) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            // A host without IPv6.
            listen_at((Ipv4Addr::UNSPECIFIED, port).into(), Domain::IPV4)
        }
        outcome => outcome,
    }
}

/// Has what is written leave at once, and wait with its writer until it can; and the connection end when
/// the other end has acknowledged nothing for `patience`.
///
/// # Errors
///
/// The kernel refused.
pub fn carry_datagrams(stream: &impl AsFd, patience: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT)?;
    socket.set_tcp_user_timeout(Some(patience))
}

fn listen_at(address: SocketAddr, domain: Domain) -> io::Result<TcpListener> {
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    if domain == Domain::IPV6 {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// So many bytes may wait unsent: one record of TLS.
const UNSENT: u32 = 16 * 1024;

/// Connections that wait to be taken.
const BACKLOG: i32 = 1024;

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_listener_hears_both_families_and_a_taken_port_is_told() {
        let listener = listen(0).unwrap();
        listener.set_nonblocking(false).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        carry_datagrams(&stream, Duration::from_secs(5)).unwrap();
        assert!(stream.nodelay().unwrap());
        let (other, _) = listener.accept().unwrap();
        drop(other);
        let taken = listen(port).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }
}
