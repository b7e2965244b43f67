//! TCP between hosts of one link: what a router passed on is never taken (RFC 5082).

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener},
    os::fd::AsFd as _,
};

use socket2::{Domain, Protocol, Socket, Type};

use crate::sys::packet::set_option;

/// Listens on `port` of every address of this host, for hosts of the same link only. It does not
/// block.
///
/// # Errors
///
/// The kernel's answer: `EADDRINUSE` where somebody else has the port.
pub fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = match open(Domain::IPV6) {
        Ok(socket) => {
            socket.set_only_v6(false)?;
            socket
        }
        // A host without IPv6.
        Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => open(Domain::IPV4)?,
        Err(error) => return Err(error),
    };
    socket.set_reuse_address(true)?;
    let any = |address: IpAddr| SocketAddr::new(address, port).into();
    match socket.bind(&any(Ipv6Addr::UNSPECIFIED.into())) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => return Err(error),
        Err(_) => {
            let socket = open(Domain::IPV4)?;
            socket.set_reuse_address(true)?;
            socket.bind(&any(Ipv4Addr::UNSPECIFIED.into()))?;
            return begin(socket);
        }
    }
    begin(socket)
}

/// A socket that is bound to `from` and will connect to `to`, another host of the link `ifindex`, with
/// the address to connect to. It does not block.
///
/// # Errors
///
/// The kernel's answer.
pub fn towards(
    ifindex: u32,
    from: IpAddr,
    to: SocketAddr,
) -> io::Result<(std::net::TcpStream, SocketAddr)> {
    let scoped = |address: IpAddr, port| match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, ifindex).into()
        }
        other => SocketAddr::new(other, port),
    };
    let socket = open(match to {
        SocketAddr::V4(_) => Domain::IPV4,
        SocketAddr::V6(_) => Domain::IPV6,
    })?;
    socket.bind(&scoped(from, 0).into())?;
    Ok((socket.into(), scoped(to.ip(), to.port())))
}

fn begin(socket: Socket) -> io::Result<TcpListener> {
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A socket that sends and takes nothing that passes a router.
fn open(domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    // Also for IPv4 over a socket of both.
    socket.set_ttl_v4(HOPS)?;
    let hops = libc::c_int::from(u8::MAX);
    set_option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MINTTL, &hops)?;
    if domain == Domain::IPV6 {
        socket.set_unicast_hops_v6(HOPS)?;
        set_option(
            socket.as_fd(),
            libc::IPPROTO_IPV6,
            libc::IPV6_MINHOPCOUNT,
            &hops,
        )?;
    }
    Ok(socket)
}

const HOPS: u32 = 255;
const BACKLOG: i32 = 16;

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpStream,
    };

    use super::*;
    use crate::{
        link::Links,
        netns::{Lease, Namespace, tests::root},
    };

    fn in_a_host(test: impl FnOnce() + Send) {
        if !root() {
            return;
        }
        let lease = Lease::take().unwrap();
        let host = Namespace::create(&lease.namespace("a")).unwrap();
        host.run(|| {
            Links::open().unwrap().up("lo").unwrap();
            test();
        })
        .unwrap();
    }

    #[test]
    fn hosts_of_the_link_are_heard_over_both_families_and_others_are_not() {
        in_a_host(|| {
            let listener = listen(7112).unwrap();
            listener.set_nonblocking(false).unwrap();
            for address in ["127.0.0.1", "::1"] {
                let address: IpAddr = address.parse().unwrap();
                let at = SocketAddr::new(address, 7112);
                let (stream, at) = towards(1, address, at).unwrap();
                let socket = Socket::from(stream);
                socket.set_nonblocking(false).unwrap();
                socket.connect(&at.into()).unwrap();
                let (mut peer, from) = listener.accept().unwrap();
                assert_eq!(from.ip().to_canonical(), address);
                let mut stream = TcpStream::from(socket);
                stream.write_all(b"word").unwrap();
                let mut word = [0; 4];
                peer.read_exact(&mut word).unwrap();
                assert_eq!(&word, b"word");
                // Sent with the usual number of hops, as from behind a router.
                let wait = std::time::Duration::from_millis(200);
                assert!(TcpStream::connect_timeout(&at, wait).is_err());
            }
            let taken = listen(7112).unwrap_err();
            assert_eq!(taken.raw_os_error(), Some(libc::EADDRINUSE));
        });
    }
}
