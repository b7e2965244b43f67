//! By which link the way to somebody begins, and what that carries.

mod changes;

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage as Message,
    link::{LinkAttribute, LinkMessage},
    route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteVia},
};

pub use self::changes::Changes;
use crate::rtnl::Requests;

/// How a way begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The index of the interface it leaves by.
    pub link: u32,
    /// The router it goes to; `None` where whoever is meant is on the link.
    pub router: Option<IpAddr>,
    /// The MTU of its route where it has one, else that of the interface. What routers have said of the path
    /// is left out.
    pub mtu: u32,
}

/// Asks the kernel for ways, in the namespace of the thread that opened it.
#[derive(Debug)]
pub struct Underlay(Requests);

impl Underlay {
    /// Opens a socket for questions.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    pub fn open() -> io::Result<Self> {
        Requests::open().map(Self)
    }

    /// The way to `to`.
    ///
    /// # Errors
    ///
    /// There is none, or the kernel did not answer.
    pub fn way(&mut self, to: SocketAddr) -> io::Result<Way> {
        // The route as it was configured, without what the kernel has learned of the path.
        let configured = self.route(to.ip(), RouteFlags::FibMatch)?;
        let (link, router) = match outgoing(&configured) {
            Some(link) => (link, router(&configured)),
            // One of several.
            None => {
                let chosen = self.route(to.ip(), RouteFlags::empty())?;
                let link = outgoing(&chosen).ok_or(io::ErrorKind::HostUnreachable)?;
                (link, router(&chosen))
            }
        };
        let mtu = self.link_mtu(link)?;
        let mtu = metric(&configured).map_or(mtu, |metric| metric.min(mtu));
        Ok(Way { link, router, mtu })
    }

    /// The MTU of the way to `to`.
    ///
    /// # Errors
    ///
    /// As [`way`](Self::way).
    pub fn mtu(&mut self, to: SocketAddr) -> io::Result<u32> {
        self.way(to).map(|way| way.mtu)
    }

    fn route(&mut self, to: IpAddr, flags: RouteFlags) -> io::Result<RouteMessage> {
        let mut message = RouteMessage::default();
        let (family, length, address) = match to {
            IpAddr::V4(to) => (AddressFamily::Inet, 32, RouteAddress::Inet(to)),
            IpAddr::V6(to) => (AddressFamily::Inet6, 128, RouteAddress::Inet6(to)),
        };
        message.header.address_family = family;
        message.header.destination_prefix_length = length;
        message.header.flags = flags;
        let destination = RouteAttribute::Destination(address);
        message.attributes.push(destination);
        match self.0.get(Message::GetRoute(message))? {
            Message::NewRoute(route) => Ok(route),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn link_mtu(&mut self, index: u32) -> io::Result<u32> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        let answer = self.0.get(Message::GetLink(message))?;
        let Message::NewLink(link) = answer else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mtu = link
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                LinkAttribute::Mtu(mtu) => Some(*mtu),
                _ => None,
            });
        mtu.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn outgoing(route: &RouteMessage) -> Option<u32> {
    route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        })
}

fn router(route: &RouteMessage) -> Option<IpAddr> {
    let mut attributes = route.attributes.iter();
    attributes.find_map(|attribute| match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(router)) => Some((*router).into()),
        RouteAttribute::Gateway(RouteAddress::Inet6(router)) => Some((*router).into()),
        RouteAttribute::Via(RouteVia::Inet6(router)) => Some((*router).into()),
        _ => None,
    })
}

fn metric(route: &RouteMessage) -> Option<u32> {
    let metrics = route
        .attributes
        .iter()
        .filter_map(|attribute| match attribute {
            RouteAttribute::Metrics(metrics) => Some(metrics),
            _ => None,
        });
    metrics.flatten().find_map(|metric| match metric {
        RouteMetric::Mtu(mtu) => Some(*mtu),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
