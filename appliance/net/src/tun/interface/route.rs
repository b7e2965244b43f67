//! Routes of ours: into the tunnel, as large as the way to each peer carries, and nowhere when it is
//! gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage as Message,
    route::{
        RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope,
        RouteType,
    },
};
use rustix::io::Errno;

use super::{Interface, InterfaceError};
use crate::{PROTOCOL, rtnl::family};

/// A prefix that leads into the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lead {
    /// The prefix.
    pub prefix: IpNet,
    /// The largest packet that goes there; `None` is the interface's MTU.
    pub mtu: Option<u16>,
}

impl From<IpNet> for Lead {
    fn from(prefix: IpNet) -> Self {
        Self { prefix, mtu: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Tunnel,
    Unreachable,
}

/// A route of ours, as far as it is compared: its kind, its prefix, its MTU.
pub(super) type Own = (Kind, IpNet, Option<u32>);

impl Interface {
    /// Leads exactly `desired` into the tunnel, and nowhere when the tunnel is gone, and tells how many
    /// routes came and went. Of leads with one prefix the first counts. One that only gets another
    /// MTU is replaced: no packet misses it.
    ///
    /// # Errors
    ///
    /// The kernel refused; what was done before stays.
    pub fn set_leads(&mut self, desired: &[Lead]) -> Result<usize, InterfaceError> {
        let desired = table(desired);
        let observed = self.routes()?;
        let wanted = routes_of(&desired);
        let changes = observed.symmetric_difference(&wanted).count();
        let of = |kind: Kind| -> BTreeMap<IpNet, Option<u32>> {
            let seen = observed.iter().filter(|(seen, ..)| *seen == kind);
            seen.map(|(_, prefix, mtu)| (*prefix, *mtu)).collect()
        };
        let (tunnel, unreachable) = (of(Kind::Tunnel), of(Kind::Unreachable));
        // The order keeps packets off the default route at every step.
        for prefix in desired.keys().filter(|it| !unreachable.contains_key(it)) {
            self.add_route(Kind::Unreachable, *prefix, None, NLM_F_EXCL)?;
        }
        for (prefix, mtu) in &desired {
            match tunnel.get(prefix) {
                Some(seen) if seen == mtu => {}
                Some(_) => self.add_route(Kind::Tunnel, *prefix, *mtu, NLM_F_REPLACE)?,
                None => self.add_route(Kind::Tunnel, *prefix, *mtu, NLM_F_EXCL)?,
            }
        }
        let gone = |prefix: &&IpNet| !desired.contains_key(*prefix);
        self.remove_routes(Kind::Tunnel, tunnel.keys().filter(gone))?;
        self.remove_routes(Kind::Unreachable, unreachable.keys().filter(gone))?;
        Ok(changes)
    }

    /// Whether the routes of ours are these.
    pub(super) fn leads(&mut self, desired: &[Lead]) -> Result<bool, InterfaceError> {
        Ok(self.routes()? == routes_of(&table(desired)))
    }

    pub(super) fn remove_routes<'a>(
        &mut self,
        kind: Kind,
        prefixes: impl Iterator<Item = &'a IpNet>,
    ) -> Result<(), InterfaceError> {
        for prefix in prefixes {
            let message = Message::DelRoute(self.route(kind, *prefix, None));
            self.change(message, 0, &[Errno::SRCH], || {
                format!("remove the route {prefix}")
            })?;
        }
        Ok(())
    }

    fn add_route(
        &mut self,
        kind: Kind,
        prefix: IpNet,
        mtu: Option<u32>,
        flag: u16,
    ) -> Result<(), InterfaceError> {
        let message = Message::NewRoute(self.route(kind, prefix, mtu));
        self.change(message, NLM_F_CREATE | flag, &[Errno::EXIST], || {
            format!("route {prefix}")
        })
    }

    pub(super) fn routes(&mut self) -> Result<BTreeSet<Own>, InterfaceError> {
        let mut found = BTreeSet::new();
        let (index, metric, name) = (self.index, self.metric, &self.name);
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            // Kernels that know filters tell no more than ours.
            message.header.protocol = RouteProtocol::from(PROTOCOL);
            self.requests
                .dump(Message::GetRoute(message), |object| {
                    if let Message::NewRoute(message) = object {
                        found.extend(own_route(&message, index, metric));
                    }
                })
                .map_err(|source| InterfaceError {
                    what: format!("read routes of {name}"),
                    source,
                })?;
        }
        Ok(found)
    }

    fn route(&self, kind: Kind, prefix: IpNet, mtu: Option<u32>) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header.address_family = family(prefix.addr());
        message.header.destination_prefix_length = prefix.prefix_len();
        message.header.table = MAIN_TABLE;
        message.header.protocol = RouteProtocol::from(PROTOCOL);
        let destination = prefix.network().into();
        message
            .attributes
            .push(RouteAttribute::Destination(destination));
        match kind {
            Kind::Tunnel => {
                message.header.kind = RouteType::Unicast;
                message.header.scope = RouteScope::Link;
                message.attributes.push(RouteAttribute::Oif(self.index));
                if let Some(mtu) = mtu {
                    let metrics = vec![RouteMetric::Mtu(mtu)];
                    message.attributes.push(RouteAttribute::Metrics(metrics));
                }
            }
            Kind::Unreachable => {
                message.header.kind = RouteType::Unreachable;
                message.header.scope = RouteScope::Universe;
                message
                    .attributes
                    .push(RouteAttribute::Priority(self.metric));
            }
        }
        message
    }
}

/// What is known of a route that is this interface's and ours.
fn own_route(message: &RouteMessage, index: u32, metric: u32) -> Option<Own> {
    let header = &message.header;
    if header.protocol != RouteProtocol::from(PROTOCOL) || header.table != MAIN_TABLE {
        return None;
    }
    let has = |wanted: &RouteAttribute| message.attributes.contains(wanted);
    let kind = match header.kind {
        RouteType::Unicast if has(&RouteAttribute::Oif(index)) => Kind::Tunnel,
        RouteType::Unreachable if has(&RouteAttribute::Priority(metric)) => Kind::Unreachable,
        _ => return None,
    };
    let attributes = message.attributes.iter();
    let address = attributes.clone().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    })?;
    let metrics = attributes.filter_map(|attribute| match attribute {
        RouteAttribute::Metrics(metrics) => Some(metrics),
        _ => None,
    });
    let mtu = metrics.flatten().find_map(|metric| match metric {
        RouteMetric::Mtu(mtu) => Some(*mtu),
        _ => None,
    });
    let prefix = IpNet::new(address, header.destination_prefix_length).ok()?;
    Some((kind, prefix, mtu.filter(|_| kind == Kind::Tunnel)))
}

/// The MTU of each prefix.
fn table(leads: &[Lead]) -> BTreeMap<IpNet, Option<u32>> {
    let mut table = BTreeMap::new();
    for lead in leads {
        let mtu = lead.mtu.map(u32::from);
        table.entry(lead.prefix.trunc()).or_insert(mtu);
    }
    table
}

/// Both routes of each prefix.
fn routes_of(leads: &BTreeMap<IpNet, Option<u32>>) -> BTreeSet<Own> {
    let tunnel = leads.iter().map(|(to, mtu)| (Kind::Tunnel, *to, *mtu));
    let unreachable = leads.keys().map(|to| (Kind::Unreachable, *to, None));
    tunnel.chain(unreachable).collect()
}

/// The metric of the `unreachable` routes of the interface `name`.
pub(super) fn metric(name: &str) -> u32 {
    METRIC + u32::from(hash(name))
}

/// FNV-1a folded to 16 bits.
fn hash(name: &str) -> u16 {
    let folded = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let [a, b, c, d] = folded.to_be_bytes();
    u16::from_be_bytes([a ^ c, b ^ d])
}

/// Worse than any metric a person or a routing daemon gives.
const METRIC: u32 = 0x7000_0000;

const MAIN_TABLE: u8 = 254;
