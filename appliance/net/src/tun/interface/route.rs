//! Routes of ours: into the tunnel, and nowhere when it is gone.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteType,
};

use super::MAIN_TABLE;
use crate::PROTOCOL;

/// A route of ours, as far as it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Tunnel,
    Unreachable,
}

/// The kind and prefix of a route that is this interface's and ours.
pub(super) fn own_route(message: &RouteMessage, index: u32, metric: u32) -> Option<(Kind, IpNet)> {
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
    let address = message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
            _ => None,
        })?;
    Some((
        kind,
        IpNet::new(address, header.destination_prefix_length).ok()?,
    ))
}

/// Both routes of each prefix.
pub(super) fn routes_of(prefixes: &BTreeSet<IpNet>) -> BTreeSet<(Kind, IpNet)> {
    let of = |kind| prefixes.iter().map(move |prefix| (kind, *prefix));
    of(Kind::Tunnel).chain(of(Kind::Unreachable)).collect()
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
