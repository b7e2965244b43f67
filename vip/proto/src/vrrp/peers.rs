//! Who hears our adverts, and whose we hear.

use std::{net::IpAddr, sync::Arc};

use super::{ConfigError, Notice};
use crate::wire::{Addresses, ip, vrrp::Received};

/// Where adverts go, and whose count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Peers {
    /// To the group of RFC 9568; those sent to the group count, with TTL 255.
    #[default]
    Group,
    /// To each of these routers, for networks without multicast; only theirs count, and only if
    /// they were sent to this host.
    Unicast {
        /// The other routers, of the family of the addresses.
        routers: Arc<[IpAddr]>,
        /// The lowest TTL to accept: 255 for routers on this link, less across others.
        min_ttl: u8,
    },
}

impl Peers {
    /// Where an advert of a family is sent.
    pub fn destinations(&self, ipv6: bool) -> impl Iterator<Item = IpAddr> + '_ {
        let (group, routers): (_, &[IpAddr]) = match self {
            Self::Group => (Some(ip::group(ipv6)), &[]),
            Self::Unicast { routers, .. } => (None, routers),
        };
        group.into_iter().chain(routers.iter().copied())
    }

    pub(super) fn check(&self, addresses: &Addresses) -> Result<(), ConfigError> {
        let Self::Unicast { routers, .. } = self else {
            return Ok(());
        };
        let bad = |peer: &&IpAddr| {
            peer.is_ipv6() != addresses.is_ipv6()
                || peer.is_multicast()
                || peer.is_unspecified()
                || addresses.contains(**peer)
        };
        match routers.iter().find(bad) {
            Some(peer) => Err(ConfigError::BadPeer(*peer)),
            None if routers.is_empty() => Err(ConfigError::NoPeer),
            None => Ok(()),
        }
    }

    /// Why an advert does not count: a router that is sent unicast takes nothing from the group, and
    /// the other way round, as keepalived has it.
    pub(super) fn objection(&self, received: &Received) -> Option<Notice> {
        let (src, ttl) = (received.src, received.ttl);
        let to_group = received.dst.is_multicast();
        match self {
            Self::Group if to_group => None,
            Self::Group => Some(Notice::OtherDelivery { src, to_group }),
            Self::Unicast { .. } if to_group => Some(Notice::OtherDelivery { src, to_group }),
            Self::Unicast { routers, .. } if !routers.contains(&src) => {
                Some(Notice::UnknownPeer { src })
            }
            Self::Unicast { min_ttl, .. } => (ttl < *min_ttl).then_some(Notice::TooFar {
                src,
                ttl,
                min_ttl: *min_ttl,
            }),
        }
    }
}
