//! What routers are told, as people see it.

use std::{collections::BTreeMap, net::IpAddr};

use kedge_control::local::{
    AnycastVip, BgpExplanation, BgpMode as Told, BgpNeighborList, BgpRouteList,
};
use kedge_core::{Name, vip::RouterState};
use kedge_net::clock;
use kedge_vip_speaker::bgp::Prefix;

use super::Agent;
use crate::{bgp::Direction, config::BgpMode};

impl Agent {
    /// Every neighbour, and what they are told of.
    pub fn bgp(&self) -> BgpNeighborList {
        let config = self.live.config().bgp.as_ref();
        let session = config.and_then(|config| config.neighbors.first());
        let session = session.map(|neighbor| &neighbor.spec.config);
        let offered = self.announcing.offered.keys();
        BgpNeighborList {
            mode: match config.map(|config| config.mode) {
                None => Told::Off,
                Some(BgpMode::Own) => Told::Own,
                Some(BgpMode::Table(_)) => Told::RouteTableOnly,
            },
            table: config.and_then(|config| match config.mode {
                BgpMode::Table(table) => Some(table),
                BgpMode::Own => None,
            }),
            asn: session.map(|session| session.local_as),
            router_id: session.map(|session| session.router_id),
            routes: offered.map(ToString::to_string).collect(),
            items: self.announcing.neighbors.list(),
        }
    }

    /// The routes on the sessions with neighbours, or with one of them.
    pub fn bgp_routes(&self, direction: Direction, only: Option<&str>) -> BgpRouteList {
        let vips = self.prefixes();
        self.announcing.neighbors.routes(direction, only, &vips)
    }

    /// Why a destination is told, and to whom.
    pub fn explain_bgp(&self, prefix: &Prefix) -> BgpExplanation {
        let vips = self.prefixes();
        let vip = vips.get(prefix);
        let offered = self.announcing.offered.contains_key(prefix);
        BgpExplanation {
            prefix: prefix.to_string(),
            vip: vip.map(ToString::to_string),
            offered,
            because: match vip {
                None => "it is the address of no VIP of this host".to_owned(),
                Some(vip) => self.reason(vip),
            },
            items: self.announcing.neighbors.told(prefix),
        }
    }

    /// The VIPs that every healthy host has.
    pub fn anycast(&self) -> Vec<AnycastVip> {
        let now = clock::now();
        let all = self.announcing.anycast.shown().map(|one| AnycastVip {
            name: one.vip.name.to_string(),
            addresses: one.vip.addresses.clone(),
            state: one.phase.word().to_owned(),
            because: one.because.to_owned(),
            state_seconds: now.since(one.since).as_secs_f64(),
        });
        all.collect()
    }

    /// Why a VIP is told of, or is not.
    fn reason(&self, name: &Name) -> String {
        if self.live.config().bgp.is_none() {
            return "BGP is not configured".to_owned();
        }
        let mut anycast = self.announcing.anycast.shown();
        if let Some(one) = anycast.find(|one| one.vip.name == *name) {
            return format!("{} is {} here: {}", name, one.phase.word(), one.because);
        }
        let is_told = self
            .desired
            .vip(name)
            .is_some_and(|vip| vip.announced.is_some());
        if !is_told {
            return format!("{name} has no `bgp` in its `via`");
        }
        let Some(vip) = self.snapshot(name.as_str()) else {
            return format!("{name} is about to take part");
        };
        let state = self.announcing.ownership.state(name);
        let state = state.unwrap_or(RouterState::Initialize);
        format!("{name} is {state} here: {}", vip.because)
    }

    /// Which VIP an address is of.
    fn prefixes(&self) -> BTreeMap<Prefix, Name> {
        let elected = self.desired.vips.iter().flat_map(|vip| {
            let held: Vec<IpAddr> = vip.spec.held().collect();
            held.into_iter().map(|address| (address, &vip.spec.name))
        });
        let anycast = self.desired.anycast.iter();
        let anycast = anycast.flat_map(|vip| vip.addresses.iter().map(|it| (*it, &vip.name)));
        let all = elected.chain(anycast);
        all.map(|(address, name)| (Prefix::host(address), name.clone()))
            .collect()
    }
}
