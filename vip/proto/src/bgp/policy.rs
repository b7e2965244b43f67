//! What a neighbour is told of what this host offers.

use std::{collections::BTreeMap, net::IpAddr};

use kedge_core::bgp::{Community, ExtendedCommunity, LargeCommunity};

use super::{Agreed, Config, Path, Place};
use crate::wire::bgp::{AsPath, Attributes, Family, NextHop, Prefix};

/// Everything that this host offers.
pub type Offers = BTreeMap<Prefix, Offer>;

/// What a VIP wants said of its routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offer {
    /// MULTI_EXIT_DISC.
    pub med: Option<u32>,
    /// LOCAL_PREF, to neighbours of our autonomous system.
    pub local_pref: Option<u32>,
    /// How often our autonomous system stands in the path beyond the once that it must; to
    /// neighbours of others.
    pub prepend: u8,
    /// Communities.
    pub communities: Vec<Community>,
    /// Extended communities.
    pub extended: Vec<ExtendedCommunity>,
    /// Large communities.
    pub large: Vec<LargeCommunity>,
    /// The route goes away soon, and others should be preferred (RFC 8326).
    pub leaving: bool,
}

/// What is said of all routes to a neighbour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// What routes say that say nothing else; communities and prepending are added.
    pub offer: Offer,
    /// The destinations of which routes may be told, and those within them; `None`: of all that is
    /// offered.
    pub export: Option<Vec<Prefix>>,
}

impl Policy {
    /// Nothing is added or held back.
    pub const NONE: Self = Self {
        offer: Offer {
            med: None,
            local_pref: None,
            prepend: 0,
            communities: Vec::new(),
            extended: Vec::new(),
            large: Vec::new(),
            leaving: false,
        },
        export: None,
    };

    /// Whether a route may be told.
    #[must_use]
    pub fn exports(&self, prefix: &Prefix) -> bool {
        let holds = |list: &Vec<Prefix>| list.iter().any(|outer| outer.contains(prefix));
        self.export.as_ref().is_none_or(holds)
    }
}

/// What is said of a route over a session. Whether it may be said is looked at last: a destination
/// outside of the export list is never part of a message, whatever else is wrong.
#[must_use]
pub(super) fn path(
    config: &Config,
    agreed: &Agreed,
    place: &Place,
    leaving: bool,
    prefix: &Prefix,
    offer: &Offer,
) -> Option<Path> {
    if !agreed.speaks(prefix.family()) {
        return None;
    }
    let next_hop = next_hop(config, agreed, place, prefix.family())?;
    let attributes = attributes(config, leaving, offer);
    let path = Path {
        attributes,
        next_hop,
    };
    config.policy.exports(prefix).then_some(path)
}

fn attributes(config: &Config, leaving: bool, offer: &Offer) -> Attributes {
    let peer = &config.policy.offer;
    let is_internal = config.is_internal();
    let leaving = leaving || offer.leaving || peer.leaving;
    let hops = 1 + usize::from(offer.prepend) + usize::from(peer.prepend);
    // Within our autonomous system its number would be a loop (RFC 4271 section 5.1.2).
    let hops = if is_internal { 0 } else { hops };
    let local_pref = offer.local_pref.or(peer.local_pref).unwrap_or(LOCAL_PREF);
    let local_pref = if leaving { 0 } else { local_pref };
    let mut communities = joined(&offer.communities, &peer.communities);
    if leaving && !communities.contains(&Community::GRACEFUL_SHUTDOWN) {
        communities.push(Community::GRACEFUL_SHUTDOWN);
        communities.sort_unstable();
    }
    Attributes {
        med: offer.med.or(peer.med),
        local_pref: is_internal.then_some(local_pref),
        communities,
        extended: joined(&offer.extended, &peer.extended),
        large: joined(&offer.large, &peer.large),
        ..Attributes::new(AsPath::sequence(&vec![config.local_as; hops]))
    }
}

/// Where packets to routes of a family go: where it was configured, or to our end of the session.
/// Routes of IPv4 over a session of IPv6 go to an address of IPv4 of the interface, or where both
/// agreed on that to the session's own. `None`: there is no address for them.
#[must_use]
pub fn next_hop(
    config: &Config,
    agreed: &Agreed,
    place: &Place,
    family: Family,
) -> Option<NextHop> {
    let [four, six] = config.next_hops;
    let over_six = || {
        place
            .v6
            .map(|v6| NextHop::V6(v6, place.link_local.filter(|ll| *ll != v6)))
    };
    match family {
        Family::Ipv4 => match four {
            Some(IpAddr::V4(v4)) => Some(NextHop::V4(v4)),
            Some(IpAddr::V6(v6)) if agreed.context.extended_next_hop => Some(NextHop::V6(v6, None)),
            Some(IpAddr::V6(_)) | None => match place.v4 {
                Some(v4) => Some(NextHop::V4(v4)),
                None => over_six().filter(|_| agreed.context.extended_next_hop),
            },
        },
        Family::Ipv6 => match six {
            Some(IpAddr::V6(v6)) => Some(NextHop::V6(v6, None)),
            Some(IpAddr::V4(_)) | None => over_six(),
        },
    }
}

/// Both, each once, in order.
fn joined<T: Copy + Ord>(one: &[T], other: &[T]) -> Vec<T> {
    let mut all: Vec<T> = one.iter().chain(other).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// What is usual.
const LOCAL_PREF: u32 = 100;
