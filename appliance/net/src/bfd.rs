//! UDP sockets of BFD (RFC 5881, RFC 5883): one to receive for each family and port, one to send
//! for each session.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

use kedge_core::{Code, Coded, Fix, Problem};
use rustix::{
    io::Errno,
    net::{netdevice::name_to_index, sockopt},
};
use socket2::{Protocol, Socket, Type};

pub use crate::sys::udp::Arrival;
use crate::{
    bpf::REFUSE,
    netns,
    peer_socket::{TOS, domain, is, no_interface, no_source, on_interface, scoped},
    privilege,
    sys::{packet::set_priority, udp},
    udp::Family,
};

/// Takes the packets of one family on one port, on every address of the host.
#[derive(Debug)]
pub struct Receiver(Socket);

/// Sends the packets of one session, always from the same port.
#[derive(Debug)]
pub struct Sender {
    socket: Socket,
    to: SocketAddr,
    port: u16,
    ifindex: Option<u32>,
}

/// Which way the packets of a session go.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    /// Whom they are for.
    pub peer: IpAddr,
    /// The peer's port.
    pub port: u16,
    /// The interface they leave by; the kernel's routes say so without one.
    pub interface: Option<&'a str>,
    /// Their source; without one the kernel chooses it.
    pub source: Option<IpAddr>,
}

/// No socket for BFD.
#[derive(Debug, thiserror::Error)]
pub enum BfdError {
    /// Another process has the port.
    #[error("UDP port {port} of {family} is taken")]
    PortInUse {
        /// The port.
        port: u16,
        /// Of which family.
        family: Family,
        /// What the kernel answered.
        source: io::Error,
    },
    /// There is no such interface.
    #[error("there is no interface {interface}")]
    NoInterface {
        /// Its name.
        interface: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The source is no address of this host.
    #[error("{address} is no address of this host")]
    NoSource {
        /// The source that was asked for.
        address: IpAddr,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The kernel refused.
    #[error("cannot open a UDP socket for BFD")]
    Refused {
        /// What the kernel answered.
        #[from]
        source: io::Error,
    },
}

/// Opens something in a network namespace, where it stays; in this process's own without one.
///
/// # Errors
///
/// The namespace cannot be entered, or what `open` says.
pub fn within<T: Send>(
    inside: Option<&Path>,
    open: impl FnOnce() -> Result<T, BfdError> + Send,
) -> Result<T, BfdError> {
    if inside.is_none() {
        return open();
    }
    netns::within(inside, || Ok(open()))?
}

impl Receiver {
    /// Opens it. The port is not shared: of two programs that speak BFD one would hear nothing.
    ///
    /// # Errors
    ///
    /// Another process has the port, or the host does not have the family.
    pub fn open(family: Family, port: u16) -> Result<Self, BfdError> {
        let any: SocketAddr = match family {
            Family::V4 => (Ipv4Addr::UNSPECIFIED, port).into(),
            Family::V6 => (Ipv6Addr::UNSPECIFIED, port).into(),
        };
        let socket = new(family)?;
        udp::tell_arrivals(socket.as_fd(), family == Family::V6)?;
        // What a peer sends must not be lost in a flood before it is looked at. Past the limits of the
        // system only with privilege, else as far as they go.
        if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER).is_err() {
            socket.set_recv_buffer_size(BUFFER)?;
        }
        match socket.bind(&any.into()) {
            Ok(()) => Ok(Self(socket)),
            Err(source) if is(&source, Errno::ADDRINUSE) => Err(BfdError::PortInUse {
                port,
                family,
                source,
            }),
            Err(source) => Err(source.into()),
        }
    }

    /// Takes one queued packet, if there is one. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        udp::receive(self.0.as_fd(), buffer)
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Sender {
    /// Opens it on the first of `ports` that is free; they are to be of 49152 to 65535.
    ///
    /// # Errors
    ///
    /// No port is free, the source is no address of this host, or the kernel refused.
    pub fn open(way: &Way<'_>, ports: impl IntoIterator<Item = u16>) -> Result<Self, BfdError> {
        let family = Family::of(way.peer);
        let socket = new(family)?;
        // It only sends. What the kernel would queue on it is refused before it costs anything.
        let refuse = socket2::SockFilter::new(REFUSE.code, REFUSE.jt, REFUSE.jf, REFUSE.k);
        socket.attach_filter(&[refuse])?;
        set_priority(socket.as_fd(), PRIORITY)?;
        match family {
            Family::V4 => {
                socket.set_ttl_v4(TTL)?;
                socket.set_tos_v4(TOS)?;
            }
            Family::V6 => {
                socket.set_unicast_hops_v6(TTL)?;
                socket.set_tclass_v6(TOS)?;
            }
        }
        let ifindex = match way.interface {
            Some(name) => {
                let index = on_interface(&socket, name);
                Some(index.map_err(|source| BfdError::NoInterface {
                    interface: name.to_owned(),
                    source,
                })?)
            }
            None => None,
        };
        let scope = ifindex.unwrap_or_default();
        let any = match family {
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let source = way.source.unwrap_or(any);
        let mut taken = io::Error::from(Errno::ADDRINUSE);
        for port in ports {
            match socket.bind(&scoped(source, port, scope).into()) {
                Ok(()) => {
                    let to = scoped(way.peer, way.port, scope);
                    return Ok(Self {
                        socket,
                        to,
                        port,
                        ifindex,
                    });
                }
                Err(error) if is(&error, Errno::ADDRINUSE) => taken = error,
                Err(error) if is(&error, Errno::ADDRNOTAVAIL) => {
                    return Err(BfdError::NoSource {
                        address: source,
                        source: error,
                    });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(taken.into())
    }

    /// The port it sends from.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The index of the interface it sends by, where one is given.
    #[must_use]
    pub const fn ifindex(&self) -> Option<u32> {
        self.ifindex
    }

    /// Whether an interface of that name is the one it sends by still.
    #[must_use]
    pub fn is_on(&self, interface: &str) -> bool {
        name_to_index(&self.socket, interface).ok() == self.ifindex
    }

    /// Sends one packet. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer: no route, no link, a firewall.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.socket.send_to(packet, &self.to.into()).map(drop)
    }
}

impl Coded for BfdError {
    fn problem(&self) -> Problem {
        match self {
            Self::PortInUse { port, .. } => {
                let fix = Fix::text("let one program of a host speak BFD: stop the other one");
                Problem::new(Code::BfdPortInUse, self.to_string())
                    .caused_by(self)
                    .fix(fix.command(format!("ss -ulpn sport = :{port}")))
            }
            Self::NoInterface { .. } => no_interface(Code::BfdSocket, self),
            Self::NoSource { .. } => no_source(Code::BfdSocket, self),
            Self::Refused { source } => {
                privilege::problem(Code::BfdSocket, self.to_string(), source)
            }
        }
        .consequence("the session says nothing of the path until that is over")
    }
}

fn new(family: Family) -> io::Result<Socket> {
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Socket::new(domain(family), kind, Some(Protocol::UDP))?;
    if family == Family::V6 {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Some thousand packets: the kernel counts much more than their bytes.
const BUFFER: usize = 4 * 1024 * 1024;
/// RFC 5881 section 5.
const TTL: u32 = 255;
/// For control traffic: first out of the queue.
const PRIORITY: u8 = 6;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn taken(receiver: &Receiver) -> (Arrival, Vec<u8>) {
        let start = Instant::now();
        let mut buffer = [0; 64];
        loop {
            if let Some(arrival) = receiver.receive(&mut buffer).unwrap() {
                return (arrival, buffer[..arrival.length].to_vec());
            }
            assert!(start.elapsed() < Duration::from_secs(5), "nothing arrived");
            std::thread::yield_now();
        }
    }

    fn receiver(family: Family) -> (Receiver, u16) {
        let free =
            (40_000..49_000).find_map(|port| Some((Receiver::open(family, port).ok()?, port)));
        free.unwrap()
    }

    #[test]
    fn a_packet_arrives_with_its_ttl_and_by_its_interface() {
        for (family, peer) in [
            (Family::V4, IpAddr::from(Ipv4Addr::LOCALHOST)),
            (Family::V6, Ipv6Addr::LOCALHOST.into()),
        ] {
            let (receiver, port) = receiver(family);
            let way = Way {
                peer,
                port,
                interface: None,
                source: Some(peer),
            };
            let Ok(sender) = Sender::open(&way, 49_152..=65_535) else {
                assert_eq!(family, Family::V6, "a host without IPv6 is one");
                continue;
            };
            assert!(sender.port() >= 49_152);
            sender.send(b"hello").unwrap();
            let (arrival, bytes) = taken(&receiver);
            assert_eq!(bytes, b"hello");
            assert_eq!((arrival.from, arrival.to), (peer, Some(peer)));
            assert_eq!(arrival.ttl, Some(255));
            assert_ne!(arrival.ifindex, 0);
            assert_eq!(receiver.receive(&mut [0; 8]).unwrap(), None);
        }
    }

    #[test]
    fn a_taken_port_and_a_source_of_nobody_are_told() {
        let (_first, port) = receiver(Family::V4);
        let problem = Receiver::open(Family::V4, port).unwrap_err().problem();
        assert_eq!(problem.code, Code::BfdPortInUse);
        assert!(problem.what.contains(&port.to_string()), "{problem:?}");
        let way = Way {
            peer: Ipv4Addr::LOCALHOST.into(),
            port,
            interface: None,
            source: Some(Ipv4Addr::new(192, 0, 2, 1).into()),
        };
        let problem = Sender::open(&way, [50_000]).unwrap_err().problem();
        assert_eq!(problem.code, Code::BfdSocket);
        assert!(problem.what.contains("192.0.2.1"), "{problem:?}");
    }

    #[test]
    fn an_interface_that_is_not_there_is_told_and_one_that_is_is_known() {
        let mut way = Way {
            peer: Ipv4Addr::LOCALHOST.into(),
            port: 3784,
            interface: Some("kedge-none"),
            source: None,
        };
        let problem = Sender::open(&way, [50_400]).unwrap_err().problem();
        assert!(problem.what.contains("kedge-none"), "{problem:?}");
        way.interface = Some("lo");
        let sender = Sender::open(&way, 50_400..50_500).unwrap();
        assert!(sender.is_on("lo") && !sender.is_on("kedge-none"));
    }

    #[test]
    fn each_session_has_a_port_of_its_own() {
        let way = Way {
            peer: Ipv4Addr::LOCALHOST.into(),
            port: 3784,
            interface: None,
            source: None,
        };
        let first = Sender::open(&way, 50_100..50_200).unwrap();
        let second = Sender::open(&way, first.port()..50_300).unwrap();
        assert_ne!(first.port(), second.port());
    }
}
