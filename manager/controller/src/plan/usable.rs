//! Addresses that no other machine reaches make no endpoint, whatever a host reports.

use std::{fmt, net::IpAddr};

/// Why an address makes no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It names no interface.
    Unspecified,
    /// It leads to whoever uses it.
    Loopback,
    /// It means something on one link only.
    LinkLocal,
    /// It is a group's.
    Multicast,
    /// It is everybody's.
    Broadcast,
}

/// Why the address makes no endpoint; `None` when it may.
#[must_use]
pub const fn refusal(address: IpAddr) -> Option<Refusal> {
    // An IPv4 address in IPv6 clothes is the IPv4 address.
    let address = address.to_canonical();
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    if address.is_unspecified() {
        Some(Refusal::Unspecified)
    } else if address.is_loopback() {
        Some(Refusal::Loopback)
    } else if link_local {
        Some(Refusal::LinkLocal)
    } else if address.is_multicast() {
        Some(Refusal::Multicast)
    } else if broadcast {
        Some(Refusal::Broadcast)
    } else {
        None
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "the unspecified address",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "the broadcast address",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_others_reach_are_usable() {
        for (text, why) in [
            ("0.0.0.0", Some(Refusal::Unspecified)),
            ("::", Some(Refusal::Unspecified)),
            ("127.0.0.1", Some(Refusal::Loopback)),
            ("127.255.0.9", Some(Refusal::Loopback)),
            ("::1", Some(Refusal::Loopback)),
            ("::ffff:127.0.0.1", Some(Refusal::Loopback)),
            ("169.254.0.1", Some(Refusal::LinkLocal)),
            ("::ffff:169.254.1.1", Some(Refusal::LinkLocal)),
            ("fe80::1", Some(Refusal::LinkLocal)),
            ("febf::1", Some(Refusal::LinkLocal)),
            ("224.0.0.18", Some(Refusal::Multicast)),
            ("ff02::12", Some(Refusal::Multicast)),
            ("255.255.255.255", Some(Refusal::Broadcast)),
            ("10.20.14.11", None),
            ("169.253.255.255", None),
            ("198.51.100.7", None),
            ("2001:db8::7", None),
            ("fd6b:6564:6765::a", None),
            ("fec0::1", None),
        ] {
            assert_eq!(refusal(text.parse().unwrap()), why, "{text}");
        }
    }
}
