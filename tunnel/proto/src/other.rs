//! Places that are reached by the other UDP port of this end (docs/adr/0062).
//!
//! A gateway that listens on two ports has to answer from the one it was called at: who is called from
//! another one has a firewall on the way that takes the answer for a stranger's. So the same address is two
//! places, and whoever knows peers by where they are knows by which port as well.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// The place that stands for an address which is reached by the other port.
#[must_use]
pub fn by_other(at: SocketAddr) -> SocketAddr {
    let (address, scope) = match at {
        SocketAddr::V4(at) => (at.ip().to_ipv6_mapped(), 0),
        SocketAddr::V6(at) => (*at.ip(), at.scope_id()),
    };
    SocketAddr::V6(SocketAddrV6::new(address, at.port(), MARK, scope))
}

/// Whether a place is reached by the other port.
#[must_use]
pub fn is_by_other(place: SocketAddr) -> bool {
    matches!(place, SocketAddr::V6(place) if place.flowinfo() == MARK)
}

/// The address of a place, whichever port it is reached by.
#[must_use]
pub fn address(place: SocketAddr) -> SocketAddr {
    match place {
        SocketAddr::V6(it) if it.flowinfo() == MARK => match it.ip().to_canonical() {
            IpAddr::V4(ip) => SocketAddr::from((ip, it.port())),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, it.port(), 0, it.scope_id()).into(),
        },
        _ => place,
    }
}

/// A flow label has 20 bits, and sockets are not asked for it: no address that comes has this one.
const MARK: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_two_places() {
        for text in [
            "192.0.2.1:1000",
            "[2001:db8::1]:1000",
            "[fe80::1%3]:7",
            "0.0.0.0:0",
        ] {
            let at: SocketAddr = text.parse().unwrap();
            let place = by_other(at);
            assert!(is_by_other(place) && !is_by_other(at));
            assert_ne!(place, at);
            assert_eq!((address(place), address(at)), (at, at));
            assert_eq!(by_other(address(place)), place);
        }
    }
}
