//! Links for labs and tests: veth pairs across namespaces, bridges, addresses, routes.
//!
//! Blocking, and in the namespace of the thread that opened the socket. What is made here is the
//! furniture of a lab and carries no [`PROTOCOL`](crate::PROTOCOL); addresses that Kedge owns are
//! written by [`address`](crate::address) alone.

use std::{fs, io, net::IpAddr, os::fd::AsRawFd};

use ipnet::IpNet;
use kedge_core::{Code, Coded, Fix, Problem};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage as Message,
    address::{AddressHeaderFlags, AddressMessage},
    link::{InfoData, InfoVeth, LinkAttribute, LinkFlags, LinkMessage},
};
use rtnetlink::{LinkBridge, LinkMessageBuilder, LinkUnspec, LinkVeth, RouteMessageBuilder};

use crate::{monitor::Address, netns::Namespace, privilege, rtnl::Requests};

/// The links of one namespace.
#[derive(Debug)]
pub struct Links {
    socket: Requests,
}

/// A link as the kernel shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index in this namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is set up; says nothing about carrier.
    pub up: bool,
    /// Whether frames can pass: up, with carrier.
    pub running: bool,
    /// Its hardware address, if it has one of six bytes.
    pub mac: Option<[u8; 6]>,
}

/// Why a link could not be made, changed or read.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No netlink socket.
    #[error("cannot open a netlink socket")]
    Open(#[source] io::Error),
    /// The kernel refused.
    #[error("cannot {what}")]
    Refused {
        /// What was asked for.
        what: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// There is no such link here.
    #[error("no link {0} in this namespace")]
    Missing(String),
    /// An address and a gateway of different families.
    #[error("{gateway} cannot be the gateway for {destination}")]
    Family {
        /// Where the route leads.
        destination: IpNet,
        /// The gateway that was asked for.
        gateway: IpAddr,
    },
}

impl Links {
    /// Opens a netlink socket in the calling thread's namespace.
    ///
    /// # Errors
    /// When there are no file descriptors left.
    pub fn open() -> Result<Self, LinkError> {
        Requests::open()
            .map(|socket| Self { socket })
            .map_err(LinkError::Open)
    }

    /// Makes a veth pair: one end here, the other end in `peer`, or here too.
    ///
    /// # Errors
    /// When a name is taken, and without privilege.
    pub fn veth(
        &mut self,
        name: &str,
        peer_name: &str,
        peer: Option<&Namespace>,
    ) -> Result<(), LinkError> {
        let mut far = LinkMessageBuilder::<LinkUnspec>::default().name(peer_name);
        if let Some(peer) = peer {
            let fd = peer.file().as_raw_fd();
            far = far.append_extra_attribute(LinkAttribute::NetNsFd(fd));
        }
        let pair = LinkVeth::new(name, peer_name)
            .set_info_data(InfoData::Veth(InfoVeth::Peer(far.build())));
        self.create(Message::NewLink(pair.build()), || {
            format!("make the veth pair {name}")
        })
    }

    /// Makes a bridge, set up, without spanning tree: its ports forward at once.
    ///
    /// # Errors
    /// When the name is taken, and without privilege.
    pub fn bridge(&mut self, name: &str) -> Result<(), LinkError> {
        let bridge = LinkBridge::new(name).build();
        self.create(Message::NewLink(bridge), || {
            format!("make the bridge {name}")
        })
    }

    /// Makes a link a port of a bridge.
    ///
    /// # Errors
    /// When one of them does not exist.
    pub fn attach(&mut self, name: &str, bridge: &str) -> Result<(), LinkError> {
        let bridge_index = self.index(bridge)?;
        self.change(
            name,
            |link| link.controller(bridge_index),
            &format!("attached to {bridge}"),
        )
    }

    /// Sets a link's MTU, in bytes.
    ///
    /// # Errors
    /// When it does not exist, or cannot carry that much.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<(), LinkError> {
        self.change(
            name,
            |link| link.mtu(mtu),
            &format!("given an MTU of {mtu}"),
        )
    }

    /// Sets a link up.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn up(&mut self, name: &str) -> Result<(), LinkError> {
        self.change(name, LinkMessageBuilder::up, "up")
    }

    /// Sets a link down.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn down(&mut self, name: &str) -> Result<(), LinkError> {
        self.change(name, LinkMessageBuilder::down, "down")
    }

    /// Gives a link a hardware address.
    ///
    /// # Errors
    /// When it does not exist or the kernel refuses the address.
    pub fn set_mac(&mut self, name: &str, mac: [u8; 6]) -> Result<(), LinkError> {
        self.change(
            name,
            |link| link.address(mac.to_vec()),
            "given a hardware address",
        )
    }

    /// Removes a link; of a veth pair, both ends.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn delete(&mut self, name: &str) -> Result<(), LinkError> {
        let link = LinkUnspec::new_with_index(self.index(name)?).build();
        self.send(Message::DelLink(link), 0, || {
            format!("remove the link {name}")
        })
    }

    /// Adds an address with its on-link prefix. IPv6 addresses skip duplicate detection.
    ///
    /// # Errors
    /// When the link does not exist or has the address.
    pub fn add_address(&mut self, name: &str, address: IpNet) -> Result<(), LinkError> {
        let message = address_message(self.index(name)?, address);
        self.create(Message::NewAddress(message), || {
            format!("add {address} to {name}")
        })
    }

    /// Removes an address.
    ///
    /// # Errors
    /// When the link does not have it.
    pub fn delete_address(&mut self, name: &str, address: IpNet) -> Result<(), LinkError> {
        let message = address_message(self.index(name)?, address);
        let what = || format!("remove {address} from {name}");
        self.send(Message::DelAddress(message), 0, what)
    }

    /// The addresses of a link, in the kernel's order.
    ///
    /// # Errors
    /// When the link does not exist.
    pub fn addresses(&mut self, name: &str) -> Result<Vec<IpNet>, LinkError> {
        let index = self.index(name)?;
        let mut found = Vec::new();
        let all = Message::GetAddress(AddressMessage::default());
        let each = |message| match message {
            Message::NewAddress(address) if address.header.index == index => {
                found.extend(Address::read(&address).map(|address| address.net));
            }
            _ => {}
        };
        self.socket
            .dump(all, each)
            .map_err(|source| LinkError::Refused {
                what: format!("read the addresses of {name}"),
                source,
            })?;
        Ok(found)
    }

    /// Adds a route through a gateway.
    ///
    /// # Errors
    /// When the gateway is not on-link or the route exists.
    pub fn add_route(&mut self, destination: IpNet, gateway: IpAddr) -> Result<(), LinkError> {
        let family = |_| LinkError::Family {
            destination,
            gateway,
        };
        let route = RouteMessageBuilder::<IpAddr>::new()
            .destination_prefix(destination.network(), destination.prefix_len())
            .map_err(family)?
            .gateway(gateway)
            .map_err(|_| LinkError::Family {
                destination,
                gateway,
            })?
            .build();
        self.create(Message::NewRoute(route), || {
            format!("route {destination} via {gateway}")
        })
    }

    /// Every link of the namespace.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn list(&mut self) -> Result<Vec<Link>, LinkError> {
        let mut found = Vec::new();
        let all = Message::GetLink(LinkMessage::default());
        self.socket
            .dump(all, |message| found.extend(link_of(&message)))
            .map_err(|source| LinkError::Refused {
                what: "list the links".to_owned(),
                source,
            })?;
        Ok(found)
    }

    /// One link.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn show(&mut self, name: &str) -> Result<Link, LinkError> {
        let found = self.list()?.into_iter().find(|link| link.name == name);
        found.ok_or_else(|| LinkError::Missing(name.to_owned()))
    }

    /// A link's index.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn index(&mut self, name: &str) -> Result<u32, LinkError> {
        self.show(name).map(|link| link.index)
    }

    fn change(
        &mut self,
        name: &str,
        change: impl FnOnce(LinkMessageBuilder<LinkUnspec>) -> LinkMessageBuilder<LinkUnspec>,
        what: &str,
    ) -> Result<(), LinkError> {
        let link = change(LinkUnspec::new_with_index(self.index(name)?)).build();
        self.send(Message::SetLink(link), 0, || format!("have {name} {what}"))
    }

    fn create(&mut self, message: Message, what: impl FnOnce() -> String) -> Result<(), LinkError> {
        self.send(message, NLM_F_CREATE | NLM_F_EXCL, what)
    }

    fn send(
        &mut self,
        message: Message,
        flags: u16,
        what: impl FnOnce() -> String,
    ) -> Result<(), LinkError> {
        let refused = |source| LinkError::Refused {
            what: what(),
            source,
        };
        self.socket.change(message, flags).map_err(refused)
    }
}

/// The kernel's number for the interface `name` of this thread's network namespace, which may be
/// written as that number.
#[must_use]
pub fn number_of(name: &str) -> Option<u32> {
    name.parse().ok().or_else(|| crate::tun::index(name).ok())
}

/// Writes a key below `/proc/sys/net`, such as `ipv4/ip_forward`, in the calling thread's
/// namespace.
///
/// # Errors
/// When there is no such key; `br_netfilter`'s appear with the module.
pub fn sysctl(key: &str, value: &str) -> Result<(), LinkError> {
    fs::write(format!("/proc/sys/net/{key}"), value).map_err(|source| LinkError::Refused {
        what: format!("set net/{key} to {value}"),
        source,
    })
}

impl Coded for LinkError {
    fn problem(&self) -> Problem {
        let source = std::error::Error::source(self).and_then(|err| err.downcast_ref());
        let (code, fix) = if source.is_some_and(privilege::is_missing) {
            (Code::NetPermission, "run the command as root")
        } else {
            (
                Code::NetKernel,
                "see what the kernel said, and `ip link` inside the namespace",
            )
        };
        let mut problem = Problem::new(code, self.to_string()).fix(Fix::text(fix));
        if let Some(source) = source {
            problem = problem.caused_by(source);
        }
        problem.consequence("the network is not as asked for")
    }
}

fn address_message(index: u32, address: IpNet) -> AddressMessage {
    let mut message = match address {
        IpNet::V4(net) => rtnetlink::AddressMessageBuilder::<std::net::Ipv4Addr>::new()
            .address(net.addr(), net.prefix_len())
            .index(index)
            .build(),
        IpNet::V6(net) => rtnetlink::AddressMessageBuilder::<std::net::Ipv6Addr>::new()
            .address(net.addr(), net.prefix_len())
            .index(index)
            .build(),
    };
    if address.addr().is_ipv6() {
        message.header.flags |= AddressHeaderFlags::Nodad;
    }
    message
}

fn link_of(message: &Message) -> Option<Link> {
    let Message::NewLink(message) = message else {
        return None;
    };
    if message.header.interface_family != AddressFamily::Unspec {
        return None;
    }
    let name = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name.clone()),
            _ => None,
        })?;
    let mac = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::Address(bytes) => bytes.as_slice().try_into().ok(),
            _ => None,
        });
    let flags = message.header.flags;
    Some(Link {
        index: message.header.index,
        name,
        up: flags.contains(LinkFlags::Up),
        running: flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
        mac,
    })
}

#[cfg(test)]
mod tests;
