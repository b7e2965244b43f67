//! Neighbours and routes as people see them.

use std::collections::BTreeMap;

use kedge_control::local::{BgpNeighbor, BgpReceived, BgpRoute, BgpRouteList, BgpTold};
use kedge_core::{Name, bgp::SessionState};
use kedge_host::wall;
use kedge_net::clock;
use kedge_vip_speaker::bgp::{
    Attributes, BgpSnapshot, Family, HeardRoute, NextHop, Prefix, View, What,
};

use super::Neighbors;

/// Whose routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// What neighbours are told of.
    Advertised,
    /// What they told of last.
    Received,
}

impl Neighbors {
    /// Every neighbour, by name.
    pub fn list(&self) -> Vec<BgpNeighbor> {
        let snapshot = self.bgp.snapshot();
        snapshot.iter().map(|it| self.describe(it)).collect()
    }

    /// The routes on the sessions, or on that of one neighbour; `vips` says whose VIP is where.
    pub fn routes(
        &self,
        direction: Direction,
        only: Option<&str>,
        vips: &BTreeMap<Prefix, Name>,
    ) -> BgpRouteList {
        let snapshot = self.bgp.snapshot();
        let meant = snapshot.iter();
        let meant = meant.filter(|it| only.is_none_or(|only| it.spec.name.as_str() == only));
        let items = meant.flat_map(|it| match direction {
            Direction::Advertised => advertised(it, vips),
            Direction::Received => it.heard.iter().map(|route| received(it, route)).collect(),
        });
        BgpRouteList {
            items: items.collect(),
        }
    }

    /// What each neighbour makes of a destination.
    pub fn told(&self, prefix: &Prefix) -> Vec<BgpTold> {
        let offered = self.offers.contains_key(prefix);
        let snapshot = self.bgp.snapshot();
        let all = snapshot.iter().map(|it| {
            let (told, because) = told(it, prefix, offered);
            BgpTold {
                neighbor: it.spec.name.to_string(),
                told,
                because,
            }
        });
        all.collect()
    }

    fn describe(&self, it: &BgpSnapshot) -> BgpNeighbor {
        let BgpSnapshot { spec, view, .. } = it;
        let config = &spec.config;
        let counts = &view.counts;
        let peer = view.peer.as_ref();
        let up = peer.filter(|_| view.state == SessionState::Established);
        let families = up.map_or(config.families, |peer| peer.agreed.families);
        let hold = up.map_or(config.hold_time, |peer| peer.agreed.hold_time);
        BgpNeighbor {
            name: spec.name.to_string(),
            address: it.peer,
            port: spec.port,
            interface: spec.interface.clone(),
            asn: match peer {
                Some(peer) => Some(peer.asn),
                None => config.peer_as.number(config.local_as),
            },
            local_asn: config.local_as,
            multihop: spec.multihop,
            ttl_security: spec.ttl_security,
            password: spec.password.is_some() || spec.tcp_ao.is_some(),
            passive: config.passive,
            state: view.state,
            because: view.because.to_string(),
            since: wall::rfc3339_micros(it.since),
            state_seconds: clock::now().since(view.since).as_secs_f64(),
            local: it.ends.map(|(ours, _)| ours),
            remote: it.ends.map(|(_, theirs)| theirs),
            router_id: peer.map(|peer| peer.router_id),
            hold_seconds: hold.secs(),
            families: words(families),
            bfd: self.paths.get(&spec.name).map(ToString::to_string),
            advertised: view.told.len(),
            received: BgpReceived {
                announced: counts.routes_announced,
                withdrawn: counts.routes_withdrawn,
                refused: counts.routes_refused,
                standing: view.standing,
            },
            messages_received: counts.messages_in,
            messages_sent: counts.messages_out,
            established: counts.established,
            lost: counts.lost,
            notification: view.notification.as_ref().map(|(_, it)| it.to_string()),
            refused: it
                .refused
                .iter()
                .map(|(reason, count)| ((*reason).to_owned(), *count))
                .collect(),
            problems: it.problems.clone(),
        }
    }
}

fn words([four, six]: [bool; 2]) -> Vec<String> {
    let all = [(four, "ipv4"), (six, "ipv6")];
    let spoken = all.into_iter().filter(|(is_spoken, _)| *is_spoken);
    spoken.map(|(_, word)| word.to_owned()).collect()
}

fn advertised(it: &BgpSnapshot, vips: &BTreeMap<Prefix, Name>) -> Vec<BgpRoute> {
    let all = it.view.told.iter().map(|(prefix, path)| BgpRoute {
        vip: vips.get(prefix).map(ToString::to_string),
        ..route(it, prefix, &path.next_hop, &path.attributes)
    });
    all.collect()
}

fn received(it: &BgpSnapshot, heard: &HeardRoute) -> BgpRoute {
    let mut told = match &heard.what {
        What::Announced(next_hop, attributes) => route(it, &heard.prefix, next_hop, attributes),
        What::Withdrawn => bare(it, &heard.prefix, "withdrawn"),
        What::Refused(fault) => BgpRoute {
            flaw: Some(fault.to_string()),
            ..bare(it, &heard.prefix, "refused")
        },
    };
    told.age_seconds = Some(clock::now().since(heard.at).as_secs_f64());
    told
}

fn route(
    it: &BgpSnapshot,
    prefix: &Prefix,
    next_hop: &NextHop,
    attributes: &Attributes,
) -> BgpRoute {
    BgpRoute {
        next_hop: Some(next_hop.to_string()),
        as_path: attributes.as_path.to_string(),
        origin: attributes.origin.to_string(),
        med: attributes.med,
        local_pref: attributes.local_pref,
        communities: attributes.communities.clone(),
        extended_communities: attributes.extended.clone(),
        large_communities: attributes.large.clone(),
        ..bare(it, prefix, "announced")
    }
}

/// A destination without a path.
fn bare(it: &BgpSnapshot, prefix: &Prefix, what: &str) -> BgpRoute {
    BgpRoute {
        neighbor: it.spec.name.to_string(),
        prefix: prefix.to_string(),
        vip: None,
        what: what.to_owned(),
        next_hop: None,
        as_path: String::new(),
        origin: String::new(),
        med: None,
        local_pref: None,
        communities: Vec::new(),
        extended_communities: Vec::new(),
        large_communities: Vec::new(),
        age_seconds: None,
        flaw: None,
    }
}

/// Whether a neighbour is told of a destination, and why.
fn told(it: &BgpSnapshot, prefix: &Prefix, offered: bool) -> (bool, String) {
    let View { told, state, .. } = &it.view;
    let family = prefix.family();
    if let Some(path) = told.get(prefix) {
        return (true, format!("packets go to {}", path.next_hop));
    }
    let agreed = it.view.peer.as_ref().map(|peer| peer.agreed.families);
    let speaks = agreed.is_none_or(|[four, six]| match family {
        Family::Ipv4 => four,
        Family::Ipv6 => six,
    });
    let because = if !offered {
        "this host does not offer it".to_owned()
    } else if *state != SessionState::Established {
        format!("its session is {state}: {}", it.view.because)
    } else if !it.spec.config.policy.exports(prefix) {
        "neither its `export` nor the VIP's `bgp.neighbors` allows it".to_owned()
    } else if !speaks {
        format!("routes of {family} are not exchanged with it")
    } else if it.view.without_next_hop.contains(prefix) {
        "this host's end of the session has no address of that family".to_owned()
    } else {
        "it is about to be told".to_owned()
    };
    (false, because)
}
