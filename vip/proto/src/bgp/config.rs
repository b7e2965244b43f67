//! What a session is told of its neighbour.

use std::{net::IpAddr, time::Duration};

use kedge_core::bgp::{Asn, PeerAs, RouterId};

use super::Policy;
use crate::wire::bgp::{Family, HoldTime, Text};

/// How a session runs. Every change is allowed at any time; what was said in OPEN changes with a new
/// session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Our autonomous system.
    pub local_as: Asn,
    /// The neighbour's.
    pub peer_as: PeerAs,
    /// Our name, unique within our autonomous system.
    pub router_id: RouterId,
    /// After how much silence the neighbour is gone; the shorter one of both sides counts.
    pub hold_time: HoldTime,
    /// How long a call may take, and how long to wait before the next one.
    pub connect_retry: Duration,
    /// Whether to wait for the neighbour's call.
    pub passive: bool,
    /// The kinds of routes to exchange: IPv4, IPv6.
    pub families: [bool; 2],
    /// Whether routes of IPv4 may go over IPv6 (RFC 8950).
    pub extended_next_hop: bool,
    /// How many destinations the neighbour may announce.
    pub max_prefixes: Option<u32>,
    /// How long routes are said to go away before they do, as the session is left (RFC 8326).
    pub graceful: Duration,
    /// What is said of routes.
    pub policy: Policy,
    /// Where packets to routes of IPv4 and IPv6 go, where that is not the session's own address.
    pub next_hops: [Option<IpAddr>; 2],
    /// Whether no session comes about before BFD sees the neighbour; one that it lost is waited for in any
    /// case.
    pub strict_bfd: bool,
    /// Whether the session is kept down, and what the neighbour is told of it.
    pub shutdown: Option<Text>,
}

impl Config {
    /// That of a neighbour, with what is usual.
    #[must_use]
    pub const fn new(local_as: Asn, peer_as: Asn, router_id: RouterId) -> Self {
        Self {
            local_as,
            peer_as: PeerAs::Number(peer_as),
            router_id,
            hold_time: HoldTime::DEFAULT,
            connect_retry: Self::CONNECT_RETRY,
            passive: false,
            families: [true, true],
            extended_next_hop: false,
            max_prefixes: None,
            graceful: Duration::ZERO,
            policy: Policy::NONE,
            next_hops: [None, None],
            strict_bfd: false,
            shutdown: None,
        }
    }

    /// 5 s.
    pub const CONNECT_RETRY: Duration = Duration::from_secs(5);

    /// Whether the neighbour is of our autonomous system.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.peer_as.is_internal(self.local_as)
    }

    /// Whether routes of a family are exchanged.
    #[must_use]
    pub const fn speaks(&self, family: Family) -> bool {
        let [four, six] = self.families;
        match family {
            Family::Ipv4 => four,
            Family::Ipv6 => six,
        }
    }

    /// Whether a neighbour that knows the one has to be told anew for the other. That its routes are
    /// counted is nothing it is told, but they have to be counted from the first one on.
    pub(super) fn differs_in_open(&self, other: &Self) -> bool {
        let said = |config: &Self| {
            let names = (config.local_as, config.peer_as, config.router_id);
            (
                names,
                config.hold_time,
                config.families,
                config.extended_next_hop,
                config.max_prefixes.is_some(),
            )
        };
        said(self) != said(other)
    }
}
