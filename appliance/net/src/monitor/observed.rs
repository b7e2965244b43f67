//! What the kernel's messages mean to Kedge.

use std::{fmt, net::IpAddr};

use ipnet::IpNet;
use netlink_packet_route::{
    AddressFamily,
    address::{AddressAttribute, AddressFlags, AddressMessage},
    link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage},
    route::{RouteAddress, RouteAttribute, RouteMessage, RouteType},
};

use crate::{sys::packet::Mac, virtual_link::GROUP};

/// A link and the addresses on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number for it; another one when the link is made anew.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its hardware address, when it has an Ethernet one.
    pub mac: Option<Mac>,
    /// The largest packet it takes.
    pub mtu: u32,
    /// An administrator set it up.
    pub up: bool,
    /// There is a signal (`IFF_LOWER_UP`).
    pub carrier: bool,
    /// It is a loopback device.
    pub loopback: bool,
    /// It can carry multicast.
    pub multicast: bool,
    /// The driver's kind, such as `veth`, `bridge`, `tun`; none for a physical device.
    pub kind: Option<String>,
    /// The link this one is a port of.
    pub master: Option<u32>,
    /// The link below this one, in this namespace.
    pub below: Option<u32>,
    /// The group somebody put it in; 0 is nobody's.
    pub group: u32,
    /// Its addresses, in the kernel's order.
    pub addresses: Vec<Address>,
}

/// An address on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address with its prefix length.
    pub net: IpNet,
    /// The other end of a point-to-point link.
    pub peer: Option<IpAddr>,
    /// `IFA_PROTO`: who installed it; 0 when nobody said.
    pub protocol: u8,
    /// The kernel's scope number: 0 global, 253 link, 254 host.
    pub scope: u8,
    /// It has no end (`IFA_F_PERMANENT`).
    pub permanent: bool,
    /// Duplicate address detection has not finished.
    pub tentative: bool,
    /// Not to be used for new connections.
    pub deprecated: bool,
    /// A privacy address.
    pub temporary: bool,
}

/// A default route of the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    /// The next hop; none on a point-to-point link.
    pub gateway: Option<IpAddr>,
    /// The outgoing link.
    pub ifindex: u32,
    /// The metric; lower is better.
    pub metric: u32,
    /// The preferred source address.
    pub source: Option<IpAddr>,
}

/// A hardware address as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacText(pub Mac);

impl Link {
    /// Whether frames can pass: set up and with a signal.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.up && self.carrier
    }

    /// Whether it is a [virtual link](crate::virtual_link) of ours.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        self.group == GROUP && self.kind.as_deref() == Some("macvlan")
    }

    pub(crate) fn read(message: &LinkMessage) -> Option<Self> {
        if !is_whole_link(message) {
            return None;
        }
        let flags = message.header.flags;
        let mut link = Self {
            index: message.header.index,
            up: flags.contains(LinkFlags::Up),
            carrier: flags.contains(LinkFlags::LowerUp),
            loopback: flags.contains(LinkFlags::Loopback),
            multicast: flags.contains(LinkFlags::Multicast),
            ..Self::default()
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::Address(bytes) if !link.loopback => {
                    link.mac = bytes.as_slice().try_into().ok();
                }
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                LinkAttribute::Controller(master) => {
                    link.master = Some(*master).filter(|master| *master != 0);
                }
                LinkAttribute::Link(below) => {
                    link.below = Some(*below).filter(|below| *below != 0);
                }
                LinkAttribute::Group(group) => link.group = *group,
                LinkAttribute::LinkInfo(infos) => {
                    link.kind = infos.iter().find_map(|info| match info {
                        LinkInfo::Kind(kind) => Some(kind.to_string()),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        Some(link)
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.index == other.index
            && self.name == other.name
            && self.mac == other.mac
            && self.mtu == other.mtu
            && self.up == other.up
            && self.carrier == other.carrier
            && self.multicast == other.multicast
            && self.master == other.master
            && self.group == other.group
    }

    /// Adds or replaces an address; whether anything but its lifetime changed.
    pub(super) fn put(&mut self, address: Address) -> bool {
        match self
            .addresses
            .iter_mut()
            .find(|known| known.is_same(&address))
        {
            Some(known) if *known == address => false,
            Some(known) => {
                *known = address;
                true
            }
            None => {
                self.addresses.push(address);
                true
            }
        }
    }

    pub(super) fn remove(&mut self, address: &Address) -> bool {
        let before = self.addresses.len();
        self.addresses.retain(|known| !known.is_same(address));
        before != self.addresses.len()
    }
}

impl Address {
    pub(crate) fn read(message: &AddressMessage) -> Option<Self> {
        let mut flags = AddressFlags::from_bits_retain(message.header.flags.bits().into());
        let (mut local, mut address, mut protocol) = (None, None, 0);
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(ip) => local = Some(*ip),
                AddressAttribute::Address(ip) => address = Some(*ip),
                AddressAttribute::Flags(all) => flags = *all,
                AddressAttribute::Protocol(number) => protocol = u8::from(*number),
                _ => {}
            }
        }
        // On a point-to-point link `local` is ours and `address` the peer's.
        let own = local.or(address)?;
        Some(Self {
            net: IpNet::new(own, message.header.prefix_len).ok()?,
            peer: address.filter(|peer| *peer != own),
            protocol,
            scope: message.header.scope.into(),
            permanent: flags.contains(AddressFlags::Permanent),
            tentative: flags.contains(AddressFlags::Tentative),
            deprecated: flags.contains(AddressFlags::Deprecated),
            // `IFA_F_TEMPORARY` and `IFA_F_SECONDARY` are one bit with two names.
            temporary: own.is_ipv6() && flags.contains(AddressFlags::Secondary),
        })
    }

    fn is_same(&self, other: &Self) -> bool {
        self.net == other.net && self.peer == other.peer
    }
}

impl DefaultRoute {
    pub(super) fn read(message: &RouteMessage) -> Option<Self> {
        let header = &message.header;
        if header.destination_prefix_length != 0
            || header.kind != RouteType::Unicast
            || header.table != netlink_packet_route::route::RouteHeader::RT_TABLE_MAIN
        {
            return None;
        }
        let mut route = Self {
            gateway: None,
            ifindex: 0,
            metric: 0,
            source: None,
        };
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Gateway(address) => route.gateway = ip(address),
                RouteAttribute::PrefSource(address) => route.source = ip(address),
                RouteAttribute::Oif(ifindex) => route.ifindex = *ifindex,
                RouteAttribute::Priority(metric) => route.metric = *metric,
                _ => {}
            }
        }
        Some(route).filter(|route| route.ifindex != 0)
    }
}

impl fmt::Display for MacText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

pub(super) fn is_whole_link(message: &LinkMessage) -> bool {
    message.header.interface_family == AddressFamily::Unspec
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some((*v4).into()),
        RouteAddress::Inet6(v6) => Some((*v6).into()),
        _ => None,
    }
}

pub(super) const FAMILIES: [AddressFamily; 2] = [AddressFamily::Inet, AddressFamily::Inet6];
