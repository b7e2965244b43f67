//! An address of ours as the kernel is told of it.

use ipnet::IpNet;
use netlink_packet_route::{
    AddressFamily,
    address::{
        AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressProtocol,
        CacheInfo,
    },
};

use super::{LEASE, Lifetime};
use crate::PROTOCOL;

/// The whole address. A renewal is the same message: the kernel clears whatever is left out, our
/// protocol number first.
pub(super) fn whole(ifindex: u32, net: IpNet, lifetime: Lifetime) -> AddressMessage {
    let mut flags = AddressFlags::Noprefixroute;
    if net.addr().is_ipv6() {
        flags |= AddressFlags::Nodad;
    }
    let mut spans = CacheInfo::default();
    (spans.ifa_valid, spans.ifa_preferred) = match lifetime {
        Lifetime::Permanent => (u32::MAX, u32::MAX),
        Lifetime::Leased => {
            let seconds = u32::try_from(LEASE.as_secs()).unwrap_or(u32::MAX);
            // A deprecated IPv6 address is not chosen as a source; IPv4 knows no such thing.
            (seconds, if net.addr().is_ipv6() { 0 } else { seconds })
        }
    };
    let mut message = bare(ifindex, net);
    message.attributes.extend([
        AddressAttribute::Address(net.addr()),
        AddressAttribute::Flags(flags),
        AddressAttribute::CacheInfo(spans),
        AddressAttribute::Protocol(AddressProtocol::Other(PROTOCOL)),
    ]);
    message
}

/// Which address, and nothing about it.
pub(super) fn bare(ifindex: u32, net: IpNet) -> AddressMessage {
    let mut message = AddressMessage::default();
    let header = &mut message.header;
    header.family = if net.addr().is_ipv6() {
        AddressFamily::Inet6
    } else {
        AddressFamily::Inet
    };
    header.prefix_len = net.prefix_len();
    header.flags = AddressHeaderFlags::empty();
    header.index = ifindex;
    message.attributes = vec![AddressAttribute::Local(net.addr())];
    message
}

/// What `ip address` shows beside an IPv4 address, as `eth0:kedge`: many tools do not show whose number
/// it carries. IPv6 has no labels, and a long name of a link leaves no place for one. It is for people:
/// the number decides what is ours.
pub(super) fn label(link: &str, net: IpNet) -> Option<AddressAttribute> {
    let label = format!("{link}:kedge");
    (net.addr().is_ipv4() && label.len() <= LONGEST).then_some(AddressAttribute::Label(label))
}

/// `IFNAMSIZ`, less the byte that ends it.
const LONGEST: usize = 15;
