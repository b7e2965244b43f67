//! Detours: what this host sends to a port of somebody else's address is delivered to this host, and that address
//! stays where it is.
//!
//! ```text
//!  rule 107   from this host, to ADDRESS, TCP, PORT ─► table 107107 ─► local ADDRESS, on the link kedge-lan
//!  rule 108   the same from 127.0.0.1: connections that run over it
//! ```
//! No address is installed, so nobody on any LAN is answered for it, and all other ports of it are reached as
//! before: the tunnel's own packets go to the same address. What others route through this host is not
//! concerned, nor is what carries [`PASSES`].
//!
//! The link is a TUN device without persistence: it goes with the process, the routes with the link, and a
//! rule whose table is empty changes nothing. So a process that dies leaves no detour.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd as _,
};

use ipnet::IpNet;
use kedge_core::{Code, Coded, Problem};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::{
    AddressFamily, IpProtocol, RouteNetlinkMessage as Message,
    route::{RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType},
    rule::{RuleAction, RuleAttribute, RuleMessage, RulePortRange},
};
use rtnetlink::LinkUnspec;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpSocket;

use crate::{
    PROTOCOL, privilege,
    rtnl::{Requests, family},
    sys::packet::set_option,
    tun::{Interface, InterfaceError, Tun, TunError},
    virtual_link::GROUP,
};

/// The detours of a network namespace.
#[derive(Debug)]
pub struct Detours {
    requests: Requests,
    link: Option<Link>,
    /// Whether new connections take it.
    standing: BTreeMap<SocketAddr, bool>,
}

/// What routes stand on.
#[derive(Debug)]
struct Link {
    index: u32,
    _tun: Tun,
}

/// A detour cannot be made or taken away.
#[derive(Debug, thiserror::Error)]
pub enum DetourError {
    /// There is no link for it.
    #[error("there is no link {LINK} for it")]
    Tun(#[source] TunError),
    /// The link is not as it has to be.
    #[error("the link {LINK} is not as it has to be")]
    Link(#[source] InterfaceError),
    /// The kernel refused.
    #[error("the kernel refuses to {what}")]
    Refused {
        /// What.
        what: String,
        /// Its answer.
        #[source]
        source: io::Error,
    },
}

/// Which packets a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// Those of new connections.
    New,
    /// Those of connections that run over it.
    Running,
}

impl Detours {
    /// Those of the network namespace of the calling thread: none yet.
    ///
    /// # Errors
    ///
    /// The kernel refused a socket.
    pub fn open() -> Result<Self, DetourError> {
        let requests = Requests::open().map_err(|source| refused("tell of its rules", source))?;
        Ok(Self {
            requests,
            link: None,
            standing: BTreeMap::new(),
        })
    }

    /// Removes rules of ours that an earlier process left, and tells how many. They did nothing any more.
    ///
    /// # Errors
    ///
    /// The kernel refused.
    pub fn clear(&mut self) -> Result<usize, DetourError> {
        let mut left = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RuleMessage::default();
            message.header.family = family;
            let told = self.requests.dump(Message::GetRule(message), |object| {
                if let Message::NewRule(message) = object
                    && is_ours(&message)
                {
                    left.push(message);
                }
            });
            match told {
                // A kernel without that family.
                Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => {}
                told => told.map_err(|source| refused("tell of its rules", source))?,
            }
        }
        let count = left.len();
        for message in left {
            self.remove(message)?;
        }
        Ok(count)
    }

    /// Leads new connections to these places here. Whoever is to take them has to
    /// [listen] already.
    ///
    /// # Errors
    ///
    /// The kernel refused; none of them stands then.
    pub fn put_up(&mut self, places: &[SocketAddr]) -> Result<(), DetourError> {
        let done = places.iter().try_for_each(|to| self.add(*to));
        if done.is_err() {
            let _ = self.take_down(places);
        }
        done
    }

    /// Leads new connections to where they went before. What runs goes on over the detour, as far as
    /// [it can be kept](keeps).
    ///
    /// # Errors
    ///
    /// The kernel refused.
    pub fn narrow(&mut self, places: &[SocketAddr]) -> Result<(), DetourError> {
        for to in places {
            self.remove(rule(*to, For::New))?;
            if let Some(takes_new) = self.standing.get_mut(to) {
                *takes_new = false;
            }
        }
        Ok(())
    }

    /// Takes them away, with all that runs over them.
    ///
    /// # Errors
    ///
    /// The kernel refused; the rest of them is gone.
    pub fn take_down(&mut self, places: &[SocketAddr]) -> Result<(), DetourError> {
        let mut done = Ok(());
        for to in places {
            done = done.and(self.remove(rule(*to, For::New)));
            if keeps(*to) {
                done = done.and(self.remove(rule(*to, For::Running)));
            }
            self.standing.remove(to);
        }
        let ours: BTreeSet<IpAddr> = self.standing.keys().map(SocketAddr::ip).collect();
        let link = self.link.as_ref().map(|link| link.index);
        for address in places.iter().map(SocketAddr::ip).collect::<BTreeSet<_>>() {
            if let (false, Some(index)) = (ours.contains(&address), link) {
                let gone = Message::DelRoute(route(address, index));
                match self.requests.change(gone, 0) {
                    Err(source) if source.raw_os_error() != Some(libc::ESRCH) => {
                        let what = format!("take the route to {address} away");
                        done = done.and(Err(refused(&what, source)));
                    }
                    Ok(()) | Err(_) => {}
                }
            }
        }
        if self.standing.is_empty() {
            self.link = None;
        }
        done
    }

    fn add(&mut self, to: SocketAddr) -> Result<(), DetourError> {
        let index = self.ensure_link()?;
        // A rule without its route would lead on to the tables behind it.
        let there = Message::NewRoute(route(to.ip(), index));
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        let done = self.requests.change(there, flags);
        done.map_err(|source| refused(&format!("add a route to {}", to.ip()), source))?;
        self.standing.insert(to, true);
        let running = keeps(to).then_some(For::Running);
        for kind in running.into_iter().chain([For::New]) {
            let flags = NLM_F_CREATE | NLM_F_EXCL;
            let message = Message::NewRule(rule(to, kind));
            match self.requests.change(message, flags) {
                // The same in every part, so it is ours.
                Err(source) if source.raw_os_error() == Some(libc::EEXIST) => {}
                done => done.map_err(|source| refused(&format!("add a rule for {to}"), source))?,
            }
        }
        Ok(())
    }

    fn remove(&mut self, message: RuleMessage) -> Result<(), DetourError> {
        match self.requests.change(Message::DelRule(message), 0) {
            Err(source)
                if !matches!(
                    source.raw_os_error(),
                    Some(libc::ENOENT | libc::EAFNOSUPPORT)
                ) =>
            {
                Err(refused("take a rule away", source))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn ensure_link(&mut self) -> Result<u32, DetourError> {
        if let Some(link) = &self.link {
            return Ok(link.index);
        }
        let tun = Tun::open(LINK).map_err(DetourError::Tun)?;
        let interface = Interface::set_up(&tun, MTU).map_err(DetourError::Link)?;
        let index = interface.index();
        let group = LinkUnspec::new_with_index(index).link_group(GROUP).build();
        let done = self.requests.change(Message::SetLink(group), 0);
        done.map_err(|source| refused(&format!("put {LINK} into the group {GROUP}"), source))?;
        self.link = Some(Link { index, _tun: tun });
        Ok(index)
    }
}

/// Listens at a place that is not this host's, for what a detour leads here. It does not block.
///
/// # Errors
///
/// The kernel's answer: `EADDRINUSE` where somebody else listens there, or on all addresses of that port.
pub fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = open(at)?;
    socket.set_reuse_address(true)?;
    let (level, option) = match at {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
        SocketAddr::V6(_) => {
            socket.set_only_v6(true)?;
            (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT)
        }
    };
    let on: libc::c_int = 1;
    set_option(socket.as_fd(), level, option, &on)?;
    socket.bind(&at.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Connects without a detour: the place may be an endpoint's that this host answers for because the tunnel is
/// down.
///
/// # Errors
///
/// The kernel's answer.
pub async fn connect(to: SocketAddr) -> io::Result<tokio::net::TcpStream> {
    TcpSocket::from_std_stream(passing(to)?).connect(to).await
}

/// A socket that passes every detour, to connect to a place of that family. It does not block.
fn passing(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = open(to)?;
    socket.set_mark(PASSES)?;
    Ok(socket.into())
}

/// Whether connections over a detour to that place go on when new ones do not take it any more: they are known
/// by their source, which is the same for all of them in IPv4 alone.
#[must_use]
pub const fn keeps(to: SocketAddr) -> bool {
    to.is_ipv4()
}

fn open(at: SocketAddr) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking();
    Socket::new(Domain::for_address(at), kind, Some(Protocol::TCP))
}

fn rule(to: SocketAddr, kind: For) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = family(to.ip());
    message.header.dst_len = IpNet::from(to.ip()).prefix_len();
    message.header.action = RuleAction::ToTable;
    let port = to.port();
    message.attributes = vec![
        RuleAttribute::Destination(to.ip()),
        RuleAttribute::Iifname("lo".to_owned()),
        RuleAttribute::Table(TABLE),
        RuleAttribute::Protocol(RouteProtocol::from(PROTOCOL)),
        RuleAttribute::IpProtocol(IpProtocol::Tcp),
        RuleAttribute::DestinationPortRange(RulePortRange {
            start: port,
            end: port,
        }),
    ];
    message.attributes.extend(match kind {
        For::New => vec![
            RuleAttribute::Priority(PRIORITY),
            RuleAttribute::FwMark(0),
            RuleAttribute::FwMask(PASSES),
        ],
        For::Running => {
            message.header.src_len = IpNet::from(SOURCE).prefix_len();
            vec![
                RuleAttribute::Priority(PRIORITY + 1),
                RuleAttribute::Source(SOURCE),
            ]
        }
    });
    message
}

fn is_ours(message: &RuleMessage) -> bool {
    let has = |wanted: &RuleAttribute| message.attributes.contains(wanted);
    has(&RuleAttribute::Protocol(RouteProtocol::from(PROTOCOL)))
        && has(&RuleAttribute::Table(TABLE))
}

fn route(to: IpAddr, index: u32) -> RouteMessage {
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    header.address_family = family(to);
    header.destination_prefix_length = IpNet::from(to).prefix_len();
    header.protocol = RouteProtocol::from(PROTOCOL);
    header.scope = RouteScope::Host;
    header.kind = RouteType::Local;
    message.attributes = vec![
        RouteAttribute::Destination(to.into()),
        RouteAttribute::Oif(index),
        RouteAttribute::Table(TABLE),
    ];
    if to.is_ipv4() {
        let source = RouteAttribute::PrefSource(SOURCE.into());
        message.attributes.push(source);
    }
    message
}

fn refused(what: &str, source: io::Error) -> DetourError {
    let what = what.to_owned();
    DetourError::Refused { what, source }
}

impl Coded for DetourError {
    fn problem(&self) -> Problem {
        match self {
            Self::Tun(error) => error.problem(),
            Self::Link(error) => error.problem(),
            Self::Refused { source, .. } => {
                privilege::problem(Code::NetKernel, self.to_string(), source)
            }
        }
    }
}

/// The bit among a socket's marks that says that it passes every detour.
pub const PASSES: u32 = 0x0800_0000;
/// The link that routes stand on.
pub const LINK: &str = "kedge-lan";

/// Where connections over a detour come from.
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// A table that nobody else is likely to use: our protocol number, twice.
const TABLE: u32 = 107_107;
/// Behind the table of local addresses, and before all that people and other programs usually add.
const PRIORITY: u32 = 107;
const MTU: u16 = 1_500;
const BACKLOG: i32 = 256;

#[cfg(test)]
mod tests;
