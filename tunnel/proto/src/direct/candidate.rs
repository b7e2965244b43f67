//! Where a host may be called, and what its NAT does to that.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
};

use ipnet::IpNet;

/// A place where a host says it may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Who knows of it.
    pub kind: CandidateKind,
    /// The place.
    pub at: SocketAddr,
}

/// Who knows of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CandidateKind {
    /// An address of the host's own interfaces.
    Host,
    /// Named by its configuration, such as a forwarded port.
    Configured,
}

/// What the NAT in front of a host does, as far as it can be told from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nat {
    /// Nobody can tell: fewer than two gateways see the host through it.
    #[default]
    Unknown,
    /// There is none: a gateway sees an address of the host's own.
    Open,
    /// One port for everybody (RFC 4787: endpoint-independent mapping).
    Cone,
    /// Another port for each destination. Nobody else can know which one it will be.
    Symmetric,
}

impl Nat {
    /// What gateways' views of one socket say, whose own addresses are `own`.
    #[must_use]
    pub fn of(own: &[Candidate], seen: impl IntoIterator<Item = SocketAddr>) -> Self {
        let is_own = |at: &SocketAddr| {
            let mut hosts = own.iter().filter(|it| it.kind == CandidateKind::Host);
            hosts.any(|it| it.at == *at)
        };
        let (own, translated): (Vec<SocketAddr>, Vec<SocketAddr>) =
            seen.into_iter().partition(is_own);
        let mut ports: BTreeMap<bool, Vec<u16>> = BTreeMap::new();
        for at in &translated {
            ports.entry(at.is_ipv4()).or_default().push(at.port());
        }
        let differ = |ports: &Vec<u16>| ports.iter().any(|port| Some(port) != ports.first());
        if ports.values().any(differ) {
            Self::Symmetric
        } else if ports.values().any(|ports| ports.len() >= 2) {
            Self::Cone
        } else if translated.is_empty() && !own.is_empty() {
            Self::Open
        } else {
            Self::Unknown
        }
    }

    /// As a byte of the wire.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Open => 1,
            Self::Cone => 2,
            Self::Symmetric => 3,
        }
    }

    /// From a byte of the wire; what a later version says is not known.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::Open,
            2 => Self::Cone,
            3 => Self::Symmetric,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Nat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Open => "open",
            Self::Cone => "cone",
            Self::Symmetric => "symmetric",
        })
    }
}

/// The places to call of all that a host says and of where gateways see it, the likeliest first, ten at
/// most. `inside` leads into the tunnel. With `near` alone only addresses of a network behind the same
/// NAT are left.
///
/// What a host says of itself counts only where it cannot be aimed at a stranger: private addresses, and
/// those that a gateway has seen it at (section 4.1 of RFC 8445 has no such rule, its candidates come
/// with consent checks of their own).
pub(super) fn places(
    said: &[Candidate],
    seen: &[SocketAddr],
    inside: &[IpNet],
    near: bool,
) -> Vec<SocketAddr> {
    let counts = |it: &&Candidate| {
        let ip = it.at.ip();
        let private = is_private(ip);
        let observed = seen.iter().any(|at| at.ip() == ip);
        if near { private } else { private || observed }
    };
    let host = |kind| said.iter().filter(move |it| it.kind == kind).filter(counts);
    let reflexive = seen.iter().copied().filter(|_| !near);
    let all = host(CandidateKind::Host)
        .map(|it| it.at)
        .chain(reflexive)
        .chain(host(CandidateKind::Configured).map(|it| it.at));
    let mut places: Vec<SocketAddr> = Vec::new();
    for at in all {
        let leads_inside = inside.iter().any(|net| net.contains(&at.ip()));
        if places.len() < PLACES && is_callable(at) && !leads_inside && !places.contains(&at) {
            places.push(at);
        }
    }
    places
}

/// Whether a datagram may be sent there at all.
fn is_callable(at: SocketAddr) -> bool {
    let ip = at.ip();
    let special = match ip {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast() || v4.octets()[0] == 0,
        // Without its interface a link-local address says nothing.
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
    };
    at.port() != 0 && !(special || ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

/// RFC 1918 and RFC 4193.
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_private(),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

/// Candidates of a host at most, and places called of it.
pub const PLACES: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn host(text: &str) -> Candidate {
        Candidate {
            kind: CandidateKind::Host,
            at: at(text),
        }
    }

    #[test]
    fn what_gateways_see_tells_the_nat() {
        let own = [host("192.168.1.5:5000"), host("[2001:db8::5]:5000")];
        for (seen, nat) in [
            (&[][..], Nat::Unknown),
            (&["198.51.100.7:5000"], Nat::Unknown),
            (&["198.51.100.7:61000", "198.51.100.7:61000"], Nat::Cone),
            (
                &["198.51.100.7:61000", "198.51.100.7:61001"],
                Nat::Symmetric,
            ),
            (&["192.168.1.5:5000"], Nat::Open),
            // A gateway on the LAN sees no NAT, and says nothing of the one that is there.
            (&["192.168.1.5:5000", "198.51.100.7:61000"], Nat::Unknown),
            (
                &[
                    "192.168.1.5:5000",
                    "198.51.100.7:61000",
                    "198.51.100.7:61000",
                ],
                Nat::Cone,
            ),
            // Each family has a mapping of its own.
            (
                &["198.51.100.7:61000", "[2001:db8:1::9]:5000"],
                Nat::Unknown,
            ),
            (&["[2001:db8::5]:5000", "192.168.1.5:5000"], Nat::Open),
        ] {
            let seen: Vec<SocketAddr> = seen.iter().map(|text| at(text)).collect();
            assert_eq!(Nat::of(&own, seen.clone()), nat, "{seen:?}");
            assert_eq!(Nat::from_byte(nat.byte()), nat);
        }
    }

    #[test]
    fn nobody_aims_calls_at_a_stranger() {
        let seen = [at("198.51.100.7:61000")];
        let inside = ["198.18.0.0/16".parse().unwrap()];
        for (said, counts) in [
            ("192.168.1.5:5000", true),
            ("10.1.2.3:5000", true),
            ("[fd12::5]:5000", true),
            // Seen there by a gateway, at whatever port.
            ("198.51.100.7:7000", true),
            ("203.0.113.1:5000", false),
            ("[2001:db8::5]:5000", false),
            ("127.0.0.1:5000", false),
            ("224.0.0.1:5000", false),
            ("255.255.255.255:5000", false),
            ("169.254.1.1:5000", false),
            ("[fe80::1]:5000", false),
            ("[::1]:5000", false),
            ("[::ffff:10.1.2.3]:5000", false),
            ("0.1.2.3:5000", false),
            ("10.1.2.3:0", false),
            ("198.18.0.9:5000", false),
        ] {
            for kind in [CandidateKind::Host, CandidateKind::Configured] {
                let said = [Candidate { kind, at: at(said) }];
                let places = places(&said, &seen, &inside, false);
                assert_eq!(places.contains(&said[0].at), counts, "{said:?}");
                assert!(places.contains(&seen[0]));
            }
        }
    }

    #[test]
    fn behind_the_same_nat_only_addresses_of_the_site_are_left() {
        let seen = [at("198.51.100.7:61000")];
        let said = [host("192.168.1.5:5000"), host("198.51.100.7:7000")];
        assert_eq!(places(&said, &seen, &[], true), [said[0].at]);
    }

    #[test]
    fn ten_places_are_called_at_most() {
        let said: Vec<Candidate> = (1..60)
            .map(|number| host(&format!("10.0.0.{number}:1")))
            .collect();
        assert_eq!(places(&said, &[], &[], false).len(), PLACES);
    }
}
