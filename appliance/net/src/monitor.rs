//! Links, addresses and routes as the kernel has them, and their changes.
//!
//! A [`Monitor`] is level-triggered: after [`Monitor::drain`] it holds what the kernel holds, and
//! says only *which kind* of thing changed. When the kernel dropped notifications because they
//! were not taken in time, everything is read again.

mod observed;
mod quiet;

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
};

use kedge_core::{Code, Coded, Problem};
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::AddressMessage,
    link::LinkMessage,
    route::{RouteAddress, RouteAttribute, RouteMessage},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use tokio::io::unix::AsyncFd;

pub use self::observed::{Address, DefaultRoute, Link, MacText};
use crate::{
    privilege,
    rtnl::{self, Requests},
    sys,
    udp::Family,
};

/// The kernel's network as last seen, and the socket on which changes arrive.
#[derive(Debug)]
pub struct Monitor {
    events: Socket,
    requests: Requests,
    buffer: Vec<u8>,
    links: BTreeMap<u32, Link>,
    resyncs: u64,
    /// Notifications were lost and not everything could be read again since.
    behind: bool,
    unreadable: u64,
}

/// The kinds of things that changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// A link came, went or changed.
    pub links: bool,
    /// An address came, went or changed in more than its lifetime.
    pub addresses: bool,
    /// Notifications were lost and everything was read again.
    pub resynced: bool,
}

/// The network cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// No socket for notifications.
    #[error("cannot open a netlink socket")]
    Open(#[source] io::Error),
    /// The kernel did not tell what there is.
    #[error("cannot read links, addresses and routes from the kernel")]
    Read(#[source] io::Error),
}

impl Monitor {
    /// Observes the network namespace of the calling thread, whatever threads use it later.
    ///
    /// # Errors
    ///
    /// The kernel refused a socket or its contents.
    pub fn open() -> Result<Self, MonitorError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, GROUPS))?;
            socket.set_non_blocking(true)?;
            // Best effort: a burst of changes then fits, and a larger one leads to a resync.
            let _ = socket.set_rx_buf_sz(1_u32 << 20);
            Ok((socket, Requests::open()?))
        };
        let (events, requests) = open().map_err(MonitorError::Open)?;
        let mut monitor = Self {
            events,
            requests,
            buffer: Vec::with_capacity(rtnl::BUFFER),
            links: BTreeMap::new(),
            resyncs: 0,
            behind: false,
            unreadable: 0,
        };
        monitor.read_all().map_err(MonitorError::Read)?;
        Ok(monitor)
    }

    /// Every link, by index.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.values()
    }

    /// The link with that index.
    #[must_use]
    pub fn link(&self, ifindex: u32) -> Option<&Link> {
        self.links.get(&ifindex)
    }

    /// The link of that name.
    #[must_use]
    pub fn link_named(&self, name: &str) -> Option<&Link> {
        self.links.values().find(|link| link.name == name)
    }

    /// How often notifications were lost and everything was read again.
    #[must_use]
    pub fn resyncs(&self) -> u64 {
        self.resyncs
    }

    /// How many notifications could not be read.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Takes every queued notification. Never waits.
    ///
    /// # Errors
    ///
    /// The socket broke, or a resync failed; the next call tries that again.
    pub fn drain(&mut self) -> Result<Changes, MonitorError> {
        let mut changes = Changes::default();
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = loop {
            match rtnl::receive(&self.events, &mut buffer) {
                Ok(()) => self.take(&buffer, &mut changes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    changes.resynced = true;
                }
                Err(error) => break Err(MonitorError::Read(error)),
            }
        };
        self.buffer = buffer;
        self.behind |= changes.resynced || outcome.is_err();
        outcome?;
        if self.behind {
            self.read_all().map_err(MonitorError::Read)?;
            self.behind = false;
            self.resyncs += 1;
            changes = Changes {
                links: true,
                addresses: true,
                resynced: true,
            };
        }
        Ok(changes)
    }

    /// The default routes of the main table, best metric first.
    ///
    /// They are asked for and not watched: a host that carries a full routing table would drown
    /// in notifications that mean nothing to it.
    ///
    /// # Errors
    ///
    /// The kernel did not answer.
    pub fn default_routes(&mut self) -> Result<Vec<DefaultRoute>, MonitorError> {
        let mut routes = Vec::new();
        for family in observed::FAMILIES {
            let mut request = RouteMessage::default();
            request.header.address_family = family;
            request.header.table = netlink_packet_route::route::RouteHeader::RT_TABLE_MAIN;
            self.requests
                .dump(RouteNetlinkMessage::GetRoute(request), |message| {
                    if let RouteNetlinkMessage::NewRoute(route) = message {
                        routes.extend(DefaultRoute::read(&route));
                    }
                })
                .map_err(MonitorError::Read)?;
        }
        routes.sort_by_key(|route| (route.gateway.is_some_and(|ip| ip.is_ipv6()), route.metric));
        Ok(routes)
    }

    /// The router of a family behind a link: the next hop of a packet that leaves the site there.
    /// One question, however large the routing table is.
    pub fn gateway(&mut self, ifindex: u32, family: Family) -> Option<IpAddr> {
        let (family, length, far) = match family {
            Family::V4 => (AddressFamily::Inet, 32, RouteAddress::Inet(FAR_AWAY)),
            Family::V6 => (AddressFamily::Inet6, 128, RouteAddress::Inet6(FAR_AWAY_V6)),
        };
        let mut request = RouteMessage::default();
        request.header.address_family = family;
        request.header.destination_prefix_length = length;
        request.attributes = vec![
            RouteAttribute::Destination(far),
            RouteAttribute::Oif(ifindex),
        ];
        let answer = self.requests.get(RouteNetlinkMessage::GetRoute(request));
        let Ok(RouteNetlinkMessage::NewRoute(route)) = answer else {
            return None;
        };
        route
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                RouteAttribute::Gateway(RouteAddress::Inet(gateway)) => Some((*gateway).into()),
                RouteAttribute::Gateway(RouteAddress::Inet6(gateway)) => Some((*gateway).into()),
                _ => None,
            })
    }

    fn read_all(&mut self) -> io::Result<()> {
        let mut links = BTreeMap::new();
        let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
        self.requests.dump(request, |message| {
            if let RouteNetlinkMessage::NewLink(link) = message
                && let Some(link) = Link::read(&link)
            {
                links.insert(link.index, link);
            }
        })?;
        let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        self.requests.dump(request, |message| {
            if let RouteNetlinkMessage::NewAddress(address) = message
                && let Some(link) = links.get_mut(&address.header.index)
            {
                link.addresses.extend(Address::read(&address));
            }
        })?;
        self.links = links;
        Ok(())
    }

    fn take(&mut self, datagram: &[u8], changes: &mut Changes) {
        for message in rtnl::messages(datagram) {
            let Ok(message) = message else {
                self.unreadable += 1;
                continue;
            };
            let NetlinkPayload::InnerMessage(message) = message.payload else {
                continue;
            };
            match message {
                RouteNetlinkMessage::NewLink(message) => {
                    let Some(mut link) = Link::read(&message) else {
                        continue;
                    };
                    let known = self.links.entry(link.index).or_default();
                    link.addresses = std::mem::take(&mut known.addresses);
                    changes.links |= !known.is_like(&link);
                    *known = link;
                }
                // A port leaving a bridge is a `DelLink` of the bridge family: the link stays.
                RouteNetlinkMessage::DelLink(message) if observed::is_whole_link(&message) => {
                    changes.links |= self.links.remove(&message.header.index).is_some();
                }
                RouteNetlinkMessage::NewAddress(message) => {
                    let Some(address) = Address::read(&message) else {
                        continue;
                    };
                    let Some(link) = self.links.get_mut(&message.header.index) else {
                        continue;
                    };
                    changes.addresses |= link.put(address);
                }
                RouteNetlinkMessage::DelAddress(message) => {
                    let Some(address) = Address::read(&message) else {
                        continue;
                    };
                    let Some(link) = self.links.get_mut(&message.header.index) else {
                        continue;
                    };
                    changes.addresses |= link.remove(&address);
                }
                _ => {}
            }
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

impl AsRawFd for Monitor {
    fn as_raw_fd(&self) -> RawFd {
        self.events.as_raw_fd()
    }
}

/// A [`Monitor`] for asynchronous code. It does not see our own addresses being renewed.
#[derive(Debug)]
pub struct Watch(AsyncFd<Monitor>);

impl Watch {
    /// Observes the network namespace of the calling thread, on the current runtime.
    ///
    /// # Errors
    ///
    /// As [`Monitor::open`].
    pub fn open() -> Result<Self, MonitorError> {
        let monitor = Monitor::open()?;
        monitor.leave_out_own()?;
        sys::monitor::watch(monitor)
            .map(Self)
            .map_err(MonitorError::Open)
    }

    /// Waits until something changed. Loses nothing when it is cancelled.
    ///
    /// # Errors
    ///
    /// As [`Monitor::drain`].
    pub async fn changed(&mut self) -> Result<Changes, MonitorError> {
        loop {
            let mut ready = self.0.readable_mut().await.map_err(MonitorError::Read)?;
            // Cleared first: a notification that arrives while draining makes it ready again.
            ready.clear_ready();
            let changes = ready.get_inner_mut().drain()?;
            if changes != Changes::default() {
                return Ok(changes);
            }
        }
    }

    /// What is there.
    #[must_use]
    pub fn monitor(&self) -> &Monitor {
        self.0.get_ref()
    }

    /// The default routes of the main table, best metric first.
    ///
    /// # Errors
    ///
    /// As [`Monitor::default_routes`].
    pub fn default_routes(&mut self) -> Result<Vec<DefaultRoute>, MonitorError> {
        self.0.get_mut().default_routes()
    }
}

impl Coded for MonitorError {
    fn problem(&self) -> Problem {
        let (Self::Open(error) | Self::Read(error)) = self;
        privilege::problem(Code::NetKernel, self.to_string(), error)
    }
}

/// Addresses that are nobody's (RFC 5737, RFC 3849), so only a default route leads there.
const FAR_AWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FAR_AWAY_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

const GROUPS: u32 =
    group(libc::RTNLGRP_LINK) | group(libc::RTNLGRP_IPV4_IFADDR) | group(libc::RTNLGRP_IPV6_IFADDR);

const fn group(number: libc::c_uint) -> u32 {
    1 << (number - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_link_is_seen_with_its_address() {
        let monitor = Monitor::open().unwrap();
        let lo = monitor.link_named("lo").expect("a link named lo");
        assert!(lo.loopback);
        assert_eq!(monitor.link(lo.index), Some(lo));
        if lo.up {
            assert!(
                lo.addresses
                    .iter()
                    .any(|address| address.net.addr().is_loopback())
            );
        }
    }

    #[test]
    fn nothing_changes_while_nothing_changes() {
        let mut monitor = Monitor::open().unwrap();
        let before: Vec<_> = monitor.links().cloned().collect();
        monitor.read_all().unwrap();
        assert_eq!(before.len(), monitor.links().count());
    }

    #[test]
    fn what_could_not_be_read_again_is_read_by_the_next_call() {
        let mut monitor = Monitor::open().unwrap();
        monitor.links.clear();
        monitor.behind = true;
        let changes = monitor.drain().unwrap();
        assert!(changes.resynced && changes.links && changes.addresses);
        assert!(monitor.link_named("lo").is_some());
        assert!(!monitor.drain().unwrap().resynced, "once");
    }

    #[tokio::test]
    async fn watching_is_possible_in_asynchronous_code() {
        let mut watch = Watch::open().unwrap();
        assert!(watch.monitor().link_named("lo").is_some());
        assert!(watch.default_routes().is_ok());
    }
}
