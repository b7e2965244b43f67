//! Routes of the main table that come and go, one by one and with the moment at which that was heard.
//!
//! [`crate::monitor`] leaves them out, since a host that carries a full table would drown in them; here
//! somebody asks for nothing else.

use std::{collections::VecDeque, io, net::IpAddr, os::fd::AsFd as _, time::Duration};

use ipnet::IpNet;
use kedge_core::Instant;
use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::{
    RouteNetlinkMessage,
    route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{clock, rtnl};

/// What comes and goes, in the order in which the kernel told it.
#[derive(Debug)]
pub struct RouteEvents {
    socket: Socket,
    buffer: Vec<u8>,
    heard: VecDeque<RouteEvent>,
}

/// A route came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteEvent {
    /// Where it leads.
    pub destination: IpNet,
    /// Whether it came, or was replaced; else it went.
    pub is_there: bool,
    /// When that was heard.
    pub at: Instant,
}

impl RouteEvents {
    /// Those of the network namespace of the calling thread, from here on.
    ///
    /// # Errors
    ///
    /// The kernel refused a socket.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, GROUPS))?;
        socket.set_non_blocking(true)?;
        // Best effort: a burst then fits.
        let _ = socket.set_rx_buf_sz(1_u32 << 20);
        Ok(Self {
            socket,
            buffer: Vec::with_capacity(rtnl::BUFFER),
            heard: VecDeque::new(),
        })
    }

    /// Waits for the next one, `within` at most.
    ///
    /// # Errors
    ///
    /// The socket broke, or so much came that the kernel dropped some of it (`ENOBUFS`).
    pub fn next(&mut self, within: Duration) -> io::Result<Option<RouteEvent>> {
        if let Some(heard) = self.heard.pop_front() {
            return Ok(Some(heard));
        }
        let limit = Timespec::try_from(within).map_err(io::Error::other)?;
        let socket = self.socket.as_fd();
        let ready = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&limit));
        match ready {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let at = clock::now();
        match rtnl::receive(&self.socket, &mut self.buffer) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        // Of a kind that this library cannot read nobody waits for any.
        for message in rtnl::messages(&self.buffer).flatten() {
            let (route, is_there) = match message.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => (route, true),
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelRoute(route)) => {
                    (route, false)
                }
                _ => continue,
            };
            if let Some(destination) = destination(&route) {
                self.heard.push_back(RouteEvent {
                    destination,
                    is_there,
                    at,
                });
            }
        }
        Ok(self.heard.pop_front())
    }
}

/// Where a route of the main table leads; the default routes say nothing of it.
fn destination(route: &RouteMessage) -> Option<IpNet> {
    if route.header.table != RouteHeader::RT_TABLE_MAIN {
        return None;
    }
    let address = route.attributes.iter().find_map(|it| match it {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    })?;
    IpNet::new(address, route.header.destination_prefix_length).ok()
}

/// `RTMGRP_IPV4_ROUTE` and `RTMGRP_IPV6_ROUTE`.
const GROUPS: u32 = 0x40 | 0x400;

#[cfg(test)]
mod tests {
    use super::*;

    /// `RT_TABLE_LOCAL`.
    const LOCAL: u8 = 255;

    #[test]
    fn a_route_of_the_main_table_has_its_destination_and_no_other_has() {
        let mut route = RouteMessage::default();
        route.header.table = RouteHeader::RT_TABLE_MAIN;
        route.header.destination_prefix_length = 32;
        assert_eq!(destination(&route), None);
        let address = RouteAddress::Inet([192, 0, 2, 10].into());
        route.attributes = vec![RouteAttribute::Destination(address)];
        assert_eq!(destination(&route), Some("192.0.2.10/32".parse().unwrap()));
        route.header.table = LOCAL;
        assert_eq!(destination(&route), None);
    }

    #[test]
    fn nothing_is_heard_while_nothing_happens() {
        let mut events = RouteEvents::open().unwrap();
        let heard = events.next(Duration::from_millis(1)).unwrap();
        // Another test may change something.
        assert!(heard.is_none_or(|it| it.at <= clock::now()));
    }
}
