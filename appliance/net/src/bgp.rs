//! TCP of BGP: calls to neighbours and the port where theirs come in, with what keeps others out
//! (RFC 2385, RFC 5082).

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, BorrowedFd},
};

use kedge_core::{Code, Coded, Fix, Problem};
use netlink_packet_route::{RouteNetlinkMessage as Message, address::AddressMessage};
use rustix::io::Errno;
use socket2::{Protocol, SockRef, Socket, Type};

use crate::{
    monitor::Address,
    peer_socket::{TOS, domain, is, no_interface, no_source, on_interface, scoped, socket_address},
    privilege,
    rtnl::Requests,
    sys::packet::set_option,
    tcp_ao::{self, AoError, AoKey},
    udp::Family,
};

/// How a neighbour is reached.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    /// Its address.
    pub peer: IpAddr,
    /// Its port.
    pub port: u16,
    /// The interface it is on; needed where its address is that of a link.
    pub interface: Option<&'a str>,
    /// Our address; without one the kernel chooses it.
    pub source: Option<IpAddr>,
    /// What keeps others out.
    pub guard: Guard<'a>,
}

/// What keeps others than the neighbour out of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'a> {
    /// The TTL or hop limit that packets are sent with.
    pub ttl: u8,
    /// The least that its packets must arrive with; where it is not 1, others are dropped by the
    /// kernel without a word.
    pub least_ttl: u8,
    /// The key of TCP-MD5 (RFC 2385), of 1 to 80 bytes.
    pub md5: Option<&'a [u8]>,
    /// The key of TCP-AO (RFC 5925), in place of one of TCP-MD5.
    pub ao: Option<AoKey<'a>>,
}

/// Where neighbours call.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    family: Family,
}

/// No socket for BGP.
#[derive(Debug, thiserror::Error)]
pub enum BgpError {
    /// Another process has the port.
    #[error("TCP port {port} of {family} is taken")]
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
    /// Segments cannot be signed with TCP-AO.
    #[error("segments cannot be signed with TCP-AO")]
    Unsigned {
        /// Why not.
        #[from]
        source: AoError,
    },
    /// The kernel refused.
    #[error("cannot open a TCP socket for BGP")]
    Refused {
        /// What the kernel answered.
        #[from]
        source: io::Error,
    },
}

/// A socket from which the neighbour can be called, and where to. It does not block.
///
/// # Errors
///
/// There is no such interface or source, or the kernel refused.
pub fn call(way: &Way<'_>) -> Result<(TcpStream, SocketAddr), BgpError> {
    let family = Family::of(way.peer);
    let socket = open(family)?;
    let scope = match way.interface {
        Some(name) => on_interface(&socket, name).map_err(|source| BgpError::NoInterface {
            interface: name.to_owned(),
            source,
        })?,
        None => 0,
    };
    guard(socket.as_fd(), family, &way.guard)?;
    if let Some(key) = way.guard.md5 {
        set_key(socket.as_fd(), way.peer, Some(key))?;
    }
    if let Some(key) = &way.guard.ao {
        tcp_ao::add(socket.as_fd(), way.peer, key)?;
    }
    if let Some(address) = way.source {
        let from = scoped(address, 0, scope);
        socket.bind(&from.into()).map_err(|source| {
            if is(&source, Errno::ADDRNOTAVAIL) {
                BgpError::NoSource { address, source }
            } else {
                source.into()
            }
        })?;
    }
    Ok((socket.into(), scoped(way.peer, way.port, scope)))
}

/// Has a connection that came in be like one that was called.
///
/// # Errors
///
/// The kernel's answer.
pub fn admit(stream: &impl AsFd, peer: IpAddr, ways: &Guard<'_>) -> io::Result<()> {
    let socket = stream.as_fd();
    SockRef::from(&socket).set_tcp_nodelay(true)?;
    guard(socket, Family::of(peer), ways)
}

impl Door {
    /// Opens it on every address of a family. It does not block.
    ///
    /// # Errors
    ///
    /// Another process has the port, or the host does not have the family.
    pub fn open(family: Family, port: u16) -> Result<Self, BgpError> {
        let socket = open(family)?;
        let any: IpAddr = match family {
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => {
                socket.set_only_v6(true)?;
                Ipv6Addr::UNSPECIFIED.into()
            }
        };
        socket.set_reuse_address(true)?;
        // Neighbours that ask for it must find it in the first answer already.
        match family {
            Family::V4 => socket.set_ttl_v4(u32::from(u8::MAX))?,
            Family::V6 => socket.set_unicast_hops_v6(u32::from(u8::MAX))?,
        }
        let bound = socket.bind(&SocketAddr::new(any, port).into());
        match bound.and_then(|()| socket.listen(BACKLOG)) {
            Ok(()) => Ok(Self {
                listener: socket.into(),
                family,
            }),
            Err(source) if is(&source, Errno::ADDRINUSE) => Err(BgpError::PortInUse {
                port,
                family,
                source,
            }),
            Err(source) => Err(source.into()),
        }
    }

    /// Of which family it is.
    #[must_use]
    pub const fn family(&self) -> Family {
        self.family
    }

    /// Has calls of a neighbour need a key, or none any more.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn lock(&self, peer: IpAddr, key: Option<&[u8]>) -> io::Result<()> {
        set_key(self.listener.as_fd(), peer, key)
    }

    /// Has calls of a neighbour need a key of TCP-AO, for as long as the port is open.
    ///
    /// # Errors
    ///
    /// The kernel has no TCP-AO, or does not take the key.
    pub fn seal(&self, peer: IpAddr, key: &AoKey<'_>) -> Result<(), BgpError> {
        Ok(tcp_ao::add(self.listener.as_fd(), peer, key)?)
    }

    /// The listener itself.
    #[must_use]
    pub const fn listener(&self) -> &TcpListener {
        &self.listener
    }
}

/// The addresses of the interface that this end of a connection is on, in the kernel's order. An address of
/// a link may be that of several links, and comes with which.
///
/// # Errors
///
/// The kernel does not answer.
pub fn beside(end: &SocketAddr) -> io::Result<Vec<IpAddr>> {
    let address = end.ip().to_canonical();
    let scope = match end {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let mut all = Vec::new();
    Requests::open()?.dump(Message::GetAddress(AddressMessage::default()), |message| {
        if let Message::NewAddress(message) = message {
            let index = message.header.index;
            all.extend(Address::read(&message).map(|it| (index, it.net.addr())));
        }
    })?;
    let index = all
        .iter()
        .find(|(index, it)| *it == address && (scope == 0 || *index == scope))
        .map(|(index, _)| *index);
    let same = all.into_iter().filter(|(it, _)| Some(*it) == index);
    Ok(same.map(|(_, address)| address).collect())
}

impl Coded for BgpError {
    fn problem(&self) -> Problem {
        match self {
            Self::PortInUse { port, .. } => {
                let fix = Fix::text("let one program of a host take calls: stop the other one");
                Problem::new(Code::BgpPortInUse, self.to_string())
                    .caused_by(self)
                    .fix(fix.command(format!("ss -tlpn sport = :{port}")))
            }
            Self::NoInterface { .. } => no_interface(Code::BgpSocket, self),
            Self::NoSource { .. } => no_source(Code::BgpSocket, self),
            Self::Unsigned { source } => {
                let fix = match source {
                    AoError::Missing { .. } => {
                        "take a kernel of 6.7 or later that has CONFIG_TCP_AO, or `password_file` on both sides"
                    }
                    AoError::Refused { .. } => {
                        "see that the key has 1 to 80 bytes, and that the kernel has its algorithm"
                    }
                };
                Problem::new(Code::BgpTcpAo, self.to_string())
                    .caused_by(self)
                    .fix(Fix::text(fix).command("grep CONFIG_TCP_AO /boot/config-$(uname -r)"))
            }
            Self::Refused { source } => {
                privilege::problem(Code::BgpSocket, self.to_string(), source)
            }
        }
    }
}

fn open(family: Family) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(domain(family), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    match family {
        Family::V4 => socket.set_tos_v4(TOS)?,
        Family::V6 => socket.set_tclass_v6(TOS)?,
    }
    Ok(socket)
}

fn guard(socket: BorrowedFd<'_>, family: Family, guard: &Guard<'_>) -> io::Result<()> {
    let ttl = u32::from(guard.ttl);
    let least = libc::c_int::from(guard.least_ttl);
    let known = SockRef::from(&socket);
    match family {
        Family::V4 => {
            known.set_ttl_v4(ttl)?;
            set_option(socket, libc::IPPROTO_IP, libc::IP_MINTTL, &least)
        }
        Family::V6 => {
            known.set_unicast_hops_v6(ttl)?;
            set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT, &least)
        }
    }
}

/// The kernel's `struct tcp_md5sig`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Md5 {
    /// A `sockaddr_storage`.
    address: [u8; 128],
    flags: u8,
    prefix: u8,
    length: u16,
    ifindex: i32,
    key: [u8; libc::TCP_MD5SIG_MAXKEYLEN],
}

/// Has segments to and from a neighbour be signed, or no longer.
fn set_key(socket: BorrowedFd<'_>, peer: IpAddr, key: Option<&[u8]>) -> io::Result<()> {
    let (address, prefix) = socket_address(peer);
    let mut md5 = Md5 {
        address,
        flags: PREFIX,
        prefix,
        length: 0,
        ifindex: 0,
        key: [0; libc::TCP_MD5SIG_MAXKEYLEN],
    };
    if let Some(key) = key {
        if key.is_empty() || key.len() > md5.key.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        md5.length = u16::try_from(key.len()).unwrap_or_default();
        md5.key
            .iter_mut()
            .zip(key)
            .for_each(|(to, from)| *to = *from);
    }
    let set = set_option(socket, libc::IPPROTO_TCP, libc::TCP_MD5SIG_EXT, &md5);
    match set {
        // There was none.
        Err(error) if key.is_none() && is(&error, Errno::NOENT) => Ok(()),
        outcome => outcome,
    }
}

const BACKLOG: i32 = 64;
/// The address of a key comes with how many of its bits count.
const PREFIX: u8 = 1;

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        sync::atomic::{AtomicU16, Ordering},
    };

    use super::*;
    use crate::{
        link::Links,
        netns::{Lease, Namespace, tests::root},
    };

    const OPEN: Guard<'static> = Guard {
        ttl: 255,
        least_ttl: 255,
        md5: None,
        ao: None,
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

    /// Whether a word passes to a door with one key from a caller with another, within a moment.
    fn passes(address: &str, theirs: Option<&[u8]>, ours: Option<&[u8]>) -> bool {
        // A program that another test starts has the last door, too, until it is itself.
        static PORT: AtomicU16 = AtomicU16::new(179);
        let port = PORT.fetch_add(1, Ordering::Relaxed);
        let peer: IpAddr = address.parse().unwrap();
        let door = Door::open(Family::of(peer), port).unwrap();
        door.lock(peer, theirs).unwrap();
        let guard = Guard { md5: ours, ..OPEN };
        let way = Way {
            peer,
            port,
            interface: Some("lo"),
            source: Some(peer),
            guard,
        };
        let (stream, to) = call(&way).unwrap();
        let socket = Socket::from(stream);
        socket.set_nonblocking(false).unwrap();
        let moment = std::time::Duration::from_millis(300);
        if socket.connect_timeout(&to.into(), moment).is_err() {
            return false;
        }
        let (mut taken, from) = door.listener().accept().unwrap();
        assert_eq!(from.ip(), peer);
        admit(&taken, peer, &guard).unwrap();
        TcpStream::from(socket).write_all(b"word").unwrap();
        let mut word = [0; 4];
        taken.read_exact(&mut word).unwrap();
        &word == b"word"
    }

    #[test]
    fn who_has_the_key_is_heard_over_both_families_and_others_are_not() {
        in_a_host(|| {
            for address in ["127.0.0.1", "::1"] {
                assert!(passes(address, None, None));
                assert!(passes(address, Some(b"secret"), Some(b"secret")));
                assert!(!passes(address, Some(b"secret"), Some(b"another")));
                assert!(!passes(address, Some(b"secret"), None));
                assert!(!passes(address, None, Some(b"secret")));
            }
        });
    }

    #[test]
    fn what_is_missing_or_taken_is_told() {
        in_a_host(|| {
            let door = Door::open(Family::V4, 179).unwrap();
            let taken = Door::open(Family::V4, 179).unwrap_err().problem();
            assert_eq!(taken.code, Code::BgpPortInUse);
            // A key that was never there is gone.
            door.lock("10.0.0.1".parse().unwrap(), None).unwrap();
            assert!(door.lock("10.0.0.1".parse().unwrap(), Some(&[])).is_err());
            let way = Way {
                peer: "127.0.0.1".parse().unwrap(),
                port: 179,
                interface: None,
                source: Some("192.0.2.1".parse().unwrap()),
                guard: OPEN,
            };
            assert!(matches!(call(&way), Err(BgpError::NoSource { .. })));
            let way = Way {
                interface: Some("eth7"),
                ..way
            };
            assert!(matches!(call(&way), Err(BgpError::NoInterface { .. })));
            let beside = beside(&"127.0.0.1:179".parse().unwrap()).unwrap();
            assert!(beside.contains(&"::1".parse().unwrap()), "{beside:?}");
        });
    }
}
