//! Connections of this network namespace: those of an address that this host has lost
//! (`SOCK_DESTROY`), and those to others (`sock_diag(7)`).

use std::{
    collections::BTreeMap,
    io,
    net::{self, IpAddr},
    time::Duration,
};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};
use netlink_packet_sock_diag::{
    SockDiagDestroy, SockDiagMessage,
    inet::{ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::rtnl::{BUFFER, receive, slices};

/// Ends every TCP connection of this network namespace whose local address is one of `addresses`,
/// and says how many there were. Their users are told at once (`ECONNABORTED`), where they would
/// wait for a time limit of their own. Listening sockets stay.
///
/// # Errors
///
/// The kernel cannot do that (`CONFIG_INET_DIAG_DESTROY`), or refused.
pub fn abort(addresses: &[IpAddr]) -> io::Result<usize> {
    let mut kernel = Kernel::open()?;
    let mut ended = 0;
    for ipv6 in [false, true] {
        if !addresses.iter().any(|address| address.is_ipv6() == ipv6) {
            continue;
        }
        for connection in kernel.connections(ipv6)? {
            if addresses.contains(&connection.source_address) {
                ended += usize::from(kernel.end(ipv6, connection)?);
            }
        }
    }
    Ok(ended)
}

/// How much is open from this network namespace to each of these places: TCP connections, and UDP
/// sockets that are connected to it. What nobody has open any more, and only lingers in the kernel, is
/// not counted.
///
/// # Errors
///
/// The kernel does not tell (`CONFIG_INET_DIAG`, `CONFIG_INET_UDP_DIAG`).
pub fn open_to(places: &[net::SocketAddr]) -> io::Result<BTreeMap<net::SocketAddr, u32>> {
    let mut open: BTreeMap<net::SocketAddr, u32> = places.iter().map(|place| (*place, 0)).collect();
    let mut kernel = Kernel::open()?;
    for ipv6 in [false, true] {
        if !places.iter().any(|place| place.is_ipv6() == ipv6) {
            continue;
        }
        for protocol in [libc::IPPROTO_TCP, libc::IPPROTO_UDP] {
            kernel.each(ipv6, protocol, |found| {
                let at = &found.socket_id;
                let place = net::SocketAddr::new(at.destination_address, at.destination_port);
                // An orphan has no inode.
                if let Some(count) = open.get_mut(&place).filter(|_| found.inode != 0) {
                    *count += 1;
                }
            })?;
        }
    }
    Ok(open)
}

struct Kernel {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Kernel {
    fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(1)))?;
        let buffer = Vec::with_capacity(BUFFER);
        Ok(Self { socket, buffer })
    }

    fn connections(&mut self, ipv6: bool) -> io::Result<Vec<SocketId>> {
        let mut all = Vec::new();
        self.each(ipv6, libc::IPPROTO_TCP, |found| {
            all.push(found.socket_id.clone());
        })?;
        Ok(all)
    }

    /// Looks at every connection of a protocol.
    fn each(
        &mut self,
        ipv6: bool,
        protocol: libc::c_int,
        mut look: impl FnMut(&InetResponseHeader),
    ) -> io::Result<()> {
        let any = if ipv6 {
            SocketId::new_v6()
        } else {
            SocketId::new_v4()
        };
        let request = SockDiagMessage::InetRequest(request(ipv6, protocol, any));
        self.send(request, NLM_F_REQUEST | NLM_F_DUMP)?;
        loop {
            receive(&self.socket, &mut self.buffer)?;
            for message in messages(&self.buffer) {
                match message.payload {
                    NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => {
                        look(&found.header);
                    }
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    _ => {}
                }
            }
        }
    }

    /// Whether it was still there.
    fn end(&mut self, ipv6: bool, connection: SocketId) -> io::Result<bool> {
        let request = SockDiagMessage::InetRequest(request(ipv6, libc::IPPROTO_TCP, connection));
        self.send(SockDiagDestroy::new(request), NLM_F_REQUEST | NLM_F_ACK)?;
        loop {
            receive(&self.socket, &mut self.buffer)?;
            for message in messages(&self.buffer) {
                if let NetlinkPayload::Error(error) = message.payload {
                    return match error.to_io() {
                        _ if error.code.is_none() => Ok(true),
                        gone if gone.raw_os_error() == Some(libc::ENOENT) => Ok(false),
                        error => Err(error),
                    };
                }
            }
        }
    }

    fn send<T: NetlinkSerializable>(&self, message: T, flags: u16) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send_to(&bytes, &SocketAddr::new(0, 0), 0)?;
        Ok(())
    }
}

fn request(ipv6: bool, protocol: libc::c_int, socket_id: SocketId) -> InetRequest {
    let family = if ipv6 { libc::AF_INET6 } else { libc::AF_INET };
    InetRequest {
        family: u8::try_from(family).unwrap_or_default(),
        protocol: u8::try_from(protocol).unwrap_or_default(),
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all() - StateFlags::LISTEN - StateFlags::TIME_WAIT,
        socket_id,
    }
}

/// The messages in a datagram, as far as they can be read.
fn messages(datagram: &[u8]) -> impl Iterator<Item = NetlinkMessage<SockDiagMessage>> {
    slices(datagram).filter_map(|one| NetlinkMessage::deserialize(one).ok())
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    };

    use super::*;
    use crate::{
        link::Links,
        netns::{Lease, Namespace, tests::root},
    };

    #[test]
    fn what_is_open_to_a_place_is_counted_until_it_is_closed_here() {
        if !root() {
            return;
        }
        let lease = Lease::take().unwrap();
        let host = Namespace::create(&lease.namespace("open")).unwrap();
        host.run(|| {
            Links::open().unwrap().up("lo").unwrap();
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let place = listener.local_addr().unwrap();
            let other = net::SocketAddr::new(place.ip(), 1);
            let six: net::SocketAddr = "[fd00::10]:80".parse().unwrap();
            let count = || {
                let open = open_to(&[place, other, six]).unwrap();
                assert_eq!((open[&other], open[&six]), (0, 0));
                open[&place]
            };
            assert_eq!(count(), 0);
            let near = TcpStream::connect(place).unwrap();
            let (far, _) = listener.accept().unwrap();
            let second = TcpStream::connect(place).unwrap();
            let (far_of_second, _) = listener.accept().unwrap();
            assert_eq!(count(), 2, "the far ends lead elsewhere");
            // The other side says no more; this one may still.
            near.shutdown(net::Shutdown::Write).unwrap();
            assert_eq!(count(), 2, "half of it is open");
            // What waits for the other side's end after a close is nobody's.
            drop(second);
            assert_eq!(count(), 1);
            drop((near, far, far_of_second));
            assert_eq!(count(), 0);
            let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            datagrams.connect(place).unwrap();
            assert_eq!(count(), 1);
        })
        .unwrap();
    }

    #[test]
    fn connections_of_a_lost_address_end_and_others_go_on() {
        if !root() {
            return;
        }
        let lease = Lease::take().unwrap();
        let host = Namespace::create(&lease.namespace("lost")).unwrap();
        host.run(|| {
            let mut links = Links::open().unwrap();
            links.up("lo").unwrap();
            let lost = Ipv4Addr::new(10, 0, 0, 10);
            links
                .add_address("lo", "10.0.0.10/32".parse().unwrap())
                .unwrap();
            let connect = |address: Ipv4Addr| {
                let listener = TcpListener::bind((address, 0)).unwrap();
                let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (far, _) = listener.accept().unwrap();
                (listener, near, far)
            };
            let (listener, mut near, mut far) = connect(lost);
            let (_other, stays, _far) = connect(Ipv4Addr::LOCALHOST);
            // The end of one may be the end of the other.
            let ended = abort(&[lost.into()]).unwrap();
            assert!((1..=2).contains(&ended), "{ended}");
            let told = [&mut near, &mut far].map(|end| end.read(&mut [0]).unwrap_err().kind());
            assert!(told.contains(&io::ErrorKind::ConnectionAborted), "{told:?}");
            assert!(stays.take_error().unwrap().is_none());
            // Who comes back finds the service where it was.
            TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert_eq!(abort(&["fd00::10".parse().unwrap()]).unwrap(), 0);
        })
        .unwrap();
    }
}
