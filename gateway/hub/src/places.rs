//! Where the hosts of this gateway are, and what follows from it.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use kedge_control::local::GatewayUse;
use kedge_core::Instant;
use kedge_net::clock;
use kedge_tunnel_proto::echo::{Claim, Claims};
use tokio::sync::mpsc;
use tracing::debug;

use crate::{
    claims::{Heard, Relay, log, newest, place},
    hub::Hub,
    liveness::is_alive,
};

/// What hosts and other gateways say.
pub(crate) struct Places {
    claims: Claims,
    relay: Option<(Relay, Vec<IpAddr>, u64)>,
    /// For whoever answers the hosts' echo.
    pub say: mpsc::Sender<(IpAddr, Claim)>,
    pub said: mpsc::Receiver<(IpAddr, Claim)>,
    tell: mpsc::Sender<Heard>,
    pub told: mpsc::Receiver<Heard>,
}

impl Places {
    /// Nothing was said yet.
    pub fn new() -> Self {
        let (say, said) = mpsc::channel(QUEUE);
        let (tell, told) = mpsc::channel(QUEUE);
        Self {
            claims: Claims::default(),
            relay: None,
            say,
            said,
            tell,
            told,
        }
    }
}

impl Hub {
    /// Has the tunnel as it is planned, with packets going where hosts are.
    pub fn want_tunnel(&mut self) {
        let (claims, neighbors) = (&self.places.claims, &self.plan.neighbors);
        let mut wish = self.plan.tunnel.clone();
        // Without other gateways packets go where they are planned to.
        if !neighbors.is_empty() {
            let stats = self.keeper.device().map(|device| device.stats());
            let stats = stats.unwrap_or_default();
            let heard: BTreeMap<&str, Instant> = stats
                .iter()
                .filter_map(|peer| Some((peer.name.as_str(), peer.last_authenticated_data?)))
                .collect();
            let (now, lost) = (clock::now(), self.sessions.lost());
            let alive = |peer: &str| {
                let (heard, lost) = (heard.get(peer), lost.get(peer));
                is_alive(now, heard.copied(), lost.copied())
            };
            wish = wish.map(|wish| place(wish, claims, neighbors, alive));
        }
        self.keeper.want(wish);
    }

    /// Takes what a host says of itself, and tells the other gateways.
    pub fn hear_host(&mut self, host: IpAddr, claim: Claim) {
        let Some(name) = self.host_at(host).map(str::to_owned) else {
            return;
        };
        if self.places.claims.take(host, claim) {
            self.log_place(&name, &claim);
            self.want_tunnel();
            if let Some((relay, ..)) = &mut self.places.relay {
                relay.tell_news(&self.plan.neighbors, (host, claim));
            }
        }
    }

    /// Takes what another gateway heard of hosts. It is not told any further.
    pub fn hear_gateway(&mut self, (from, claims): Heard) {
        let mut known = self.plan.neighbors.iter();
        if !known.any(|neighbor| neighbor.addresses.contains(&from)) {
            debug!(%from, "claims of somebody who is no gateway ignored");
            return;
        }
        let mut news = false;
        for (host, claim) in claims {
            let Some(name) = self.host_at(host).map(str::to_owned) else {
                continue;
            };
            if self.places.claims.take(host, claim) {
                self.log_place(&name, &claim);
                news = true;
            }
        }
        if news {
            self.want_tunnel();
        }
    }

    /// What is due about once a second: what was lost on the way is told again.
    pub fn tell_gateways(&mut self) {
        let hosts: Vec<IpAddr> = self.hosts_of_plan().map(|(address, _)| address).collect();
        self.places.claims.keep(|host| hosts.contains(&host));
        self.open_relay();
        if let Some((relay, ..)) = &mut self.places.relay
            && relay.is_due(clock::now())
        {
            relay.tell(&self.plan.neighbors, self.places.claims.iter());
        }
    }

    /// Where a host is, for people.
    pub fn place_of(&self, addresses: &[IpNet]) -> Option<GatewayUse> {
        let claim = newest(&self.places.claims, addresses)?;
        let active = self.keys.are(&claim.gateway);
        let mut neighbors = self.plan.neighbors.iter();
        let because = if active {
            "the host sends through this gateway".to_owned()
        } else if let Some(at) = neighbors.find(|it| it.has(&claim.gateway)) {
            format!("the host sends through {}", at.peer)
        } else {
            "the host sends through a gateway that is not known here".to_owned()
        };
        Some(GatewayUse {
            active,
            because,
            ..GatewayUse::default()
        })
    }

    fn log_place(&self, host: &str, claim: &Claim) {
        let mut neighbors = self.plan.neighbors.iter();
        let at = neighbors.find(|it| it.has(&claim.gateway));
        let at = match at {
            Some(at) => at.peer.as_str(),
            None if self.keys.are(&claim.gateway) => "this gateway",
            None => "a gateway that is not known here",
        };
        log(host, at);
    }

    fn hosts_of_plan(&self) -> impl Iterator<Item = (IpAddr, &str)> {
        let peers = self.plan.tunnel.iter().flat_map(|wish| &wish.peers);
        // Where tenants are apart an address alone says nothing.
        let hosts = peers.filter(|peer| !peer.relays && peer.realm.is_none());
        hosts.flat_map(|peer| {
            let addresses = peer.allowed_ips.iter().map(IpNet::addr);
            addresses.map(|address| (address, peer.name.as_str()))
        })
    }

    pub(crate) fn host_at(&self, address: IpAddr) -> Option<&str> {
        let mut all = self.hosts_of_plan();
        all.find_map(|(at, name)| (at == address).then_some(name))
    }

    fn open_relay(&mut self) {
        let wanted: Vec<IpAddr> = match (self.keeper.device(), &self.plan.tunnel) {
            (Some(_), Some(wish)) if !self.plan.neighbors.is_empty() => {
                wish.addresses.iter().map(IpNet::addr).collect()
            }
            _ => Vec::new(),
        };
        let opening = self.keeper.openings();
        let relay = &mut self.places.relay;
        if wanted.is_empty() {
            *relay = None;
        } else if relay
            .as_ref()
            .is_none_or(|(_, on, at)| *on != wanted || *at != opening)
        {
            *relay = None;
            match Relay::start(&wanted, &self.places.tell) {
                Ok(started) => *relay = Some((started, wanted, opening)),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    debug!(error, "other gateways are not heard yet");
                }
            }
        }
    }
}

/// What may wait for the loop; more comes again within a second.
const QUEUE: usize = 256;
