//! What routers of a link say of themselves (RFC 4861), on a raw socket of ICMPv6 that is of one interface
//! and takes nothing else.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::fd::AsFd as _,
};

use kedge_core::{Code, Coded, Problem};
use rustix::net::netdevice::name_to_index;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::UdpSocket;

use crate::{
    peer_socket::{no_interface, on_interface},
    privilege,
    sys::{packet::set_option, udp},
};

/// Sends and takes what routers and those that look for them say on one interface.
#[derive(Debug)]
pub struct RouterSocket {
    /// Not one of UDP: what is done with both is the same.
    socket: UdpSocket,
    ifindex: u32,
}

/// A message of ICMPv6, and how it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard<'a> {
    /// Who sent it.
    pub from: Ipv6Addr,
    /// How many routers less it could have crossed; 255 if none.
    pub hop_limit: u8,
    /// The message, without a header of IPv6.
    pub bytes: &'a [u8],
}

/// Nothing can be heard or said of routers on an interface.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// There is no such interface.
    #[error("there is no interface {interface}")]
    NoInterface {
        /// Its name.
        interface: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The socket cannot be opened or set up.
    #[error("cannot open the socket for router advertisements on {interface}")]
    Refused {
        /// The interface.
        interface: String,
        /// What the kernel answered.
        #[source]
        source: io::Error,
    },
    /// It cannot be said.
    #[error("cannot advertise this host on {interface}")]
    Unsaid {
        /// The interface.
        interface: String,
        /// What the kernel answered.
        #[source]
        source: io::Error,
    },
}

impl RouterSocket {
    /// Opens it, with the group of routers joined.
    ///
    /// # Errors
    ///
    /// There is no such interface, or no `CAP_NET_RAW`.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn open(interface: &str) -> Result<Self, RouterError> {
        let refused = |source| RouterError::Refused {
            interface: interface.to_owned(),
            source,
        };
        let kind = Type::RAW.nonblocking().cloexec();
        let socket = Socket::new(Domain::IPV6, kind, Some(Protocol::ICMPV6)).map_err(refused)?;
        // Before it is of any interface: nothing else ever reaches it.
        set_option(
            socket.as_fd(),
            libc::IPPROTO_ICMPV6,
            ICMPV6_FILTER,
            &routers_only(),
        )
        .map_err(refused)?;
        let ifindex =
            on_interface(&socket, interface).map_err(|source| RouterError::NoInterface {
                interface: interface.to_owned(),
                source,
            })?;
        let set = || {
            udp::tell_arrivals(socket.as_fd(), true)?;
            socket.set_multicast_if_v6(ifindex)?;
            // What crossed a router counts for nothing, and what this host says is not for itself.
            socket.set_multicast_hops_v6(u32::from(u8::MAX))?;
            socket.set_unicast_hops_v6(u32::from(u8::MAX))?;
            socket.set_multicast_loop_v6(false)?;
            socket.join_multicast_v6(&ALL_ROUTERS, ifindex)?;
            let socket = std::net::UdpSocket::from(std::os::fd::OwnedFd::from(socket));
            UdpSocket::from_std(socket)
        };
        Ok(Self {
            socket: set().map_err(refused)?,
            ifindex,
        })
    }

    /// The index of its interface.
    #[must_use]
    pub const fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// Whether an interface of that name is the one it was opened on still.
    #[must_use]
    pub fn is_on(&self, interface: &str) -> bool {
        name_to_index(&self.socket, interface).ok() == Some(self.ifindex)
    }

    /// Sends a message of ICMPv6 to a group of the link. The kernel chooses the address of the link as
    /// its source, and adds the checksum. Never waits.
    ///
    /// # Errors
    ///
    /// The kernel's answer: the interface is down, or has no address of the link yet.
    pub fn send(&self, to: Ipv6Addr, message: &[u8]) -> io::Result<()> {
        let to = SocketAddrV6::new(to, 0, 0, self.ifindex);
        // Not by way of the runtime, which does not know at first that a new socket can send.
        SockRef::from(&self.socket)
            .send_to(message, &SocketAddr::from(to).into())
            .map(drop)
    }

    /// Waits for a message. Loses nothing when it is cancelled.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub async fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Heard<'a>> {
        loop {
            self.socket.readable().await?;
            let taken = self.socket.try_io(tokio::io::Interest::READABLE, || {
                let arrival = udp::receive(self.socket.as_fd(), buffer)?;
                arrival.ok_or_else(|| io::ErrorKind::WouldBlock.into())
            });
            let arrival = match taken {
                Ok(arrival) => arrival,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            let (IpAddr::V6(from), Some(hop_limit)) = (arrival.from, arrival.ttl) else {
                continue;
            };
            return Ok(Heard {
                from,
                hop_limit,
                // What is longer than the buffer is cut, and then too short.
                bytes: buffer.get(..arrival.length).unwrap_or_default(),
            });
        }
    }
}

impl Coded for RouterError {
    fn problem(&self) -> Problem {
        match self {
            Self::NoInterface { .. } => no_interface(Code::BgpRouters, self),
            Self::Refused { source, .. } | Self::Unsaid { source, .. } => {
                privilege::problem(Code::BgpRouters, self.to_string(), source)
            }
        }
    }
}

/// The kernel's `struct icmp6_filter`: a bit for each type that is not to be taken (RFC 3542 section 3.2).
fn routers_only() -> [u32; 8] {
    let mut blocked = [u32::MAX; 8];
    for kind in [SOLICITATION, ADVERTISEMENT] {
        if let Some(word) = blocked.get_mut(kind >> 5) {
            *word &= !(1 << (kind & 31));
        }
    }
    blocked
}

/// From `linux/icmpv6.h`; the libc crate lacks it.
const ICMPV6_FILTER: i32 = 1;
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const SOLICITATION: usize = 133;
const ADVERTISEMENT: usize = 134;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::{
        link::{Links, sysctl},
        netns::{Lease, Namespace, tests::root},
    };

    const HERE: [u8; 16] = [134, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

    #[test]
    fn the_filter_lets_two_types_through() {
        let blocked = routers_only();
        let taken = (0..256).filter(|kind| blocked[kind >> 5] & (1 << (kind & 31)) == 0);
        assert_eq!(taken.collect::<Vec<_>>(), [133, 134]);
    }

    #[test]
    fn both_ends_of_a_link_hear_each_other_and_not_themselves() {
        if !root() {
            return;
        }
        let lease = Lease::take().unwrap();
        let host = Namespace::create(&lease.namespace("a")).unwrap();
        host.run(|| {
            let mut links = Links::open().unwrap();
            links.veth("near", "far", None).unwrap();
            for name in ["near", "far"] {
                sysctl(&format!("ipv6/conf/{name}/accept_dad"), "0").unwrap();
                // Or the kernel asks for routers as well, once its address stands.
                sysctl(&format!("ipv6/conf/{name}/router_solicitations"), "0").unwrap();
                links.up(name).unwrap();
            }
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let (near, far) = (
                    RouterSocket::open("near").unwrap(),
                    RouterSocket::open("far").unwrap(),
                );
                assert!(near.is_on("near") && !near.is_on("far"));
                let until = tokio::time::Instant::now() + Duration::from_secs(5);
                // The link has no address for a moment.
                while let Err(error) = near.send(ALL_NODES, &HERE) {
                    assert!(tokio::time::Instant::now() < until, "{error}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                let mut buffer = [0; 128];
                let heard = timeout(Duration::from_secs(5), far.receive(&mut buffer));
                let heard = heard.await.unwrap().unwrap();
                // The kernel adds the checksum.
                assert_eq!((heard.bytes[0], heard.bytes.len()), (134, 16));
                assert_ne!(heard.bytes[2..4], [0, 0]);
                assert_eq!(heard.hop_limit, 255);
                assert!(heard.from.is_unicast_link_local());
                near.send(ALL_ROUTERS, &[133, 0, 0, 0, 0, 0, 0, 0]).unwrap();
                let heard = timeout(Duration::from_secs(5), far.receive(&mut buffer));
                assert_eq!(heard.await.unwrap().unwrap().bytes[0], 133);
                let moment = Duration::from_millis(100);
                let own = timeout(moment, near.receive(&mut buffer)).await;
                assert!(own.is_err(), "{own:?}");
            });
            let missing = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(async { RouterSocket::open("eth7").unwrap_err().problem() });
            assert_eq!(missing.code, Code::BgpRouters);
        })
        .unwrap();
    }
}
