//! BFD with every host that wants it, inside its tunnel: hosts leave a gateway that is silent within a
//! second, and one that is going to stop before it does. A host that connections go to is asked for it: they
//! leave one that is silent as quickly, and hosts that none go to say nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use kedge_control::local::{BfdSession, BfdSessionList};
use kedge_core::{Code, Instant, Name, Problem, bfd::Liveness};
use kedge_host::wall;
use kedge_net::clock;
use kedge_tunnel_device::PeerSpec;
use kedge_vip_speaker::bfd::{Bfd, BfdEvent, BfdSnapshot, BfdSpec, Config, Interval};
use tracing::{info, warn};

use crate::{bounds::Plan, tenants::path_of};

/// The sessions of this gateway.
pub(crate) struct Sessions {
    bfd: Bfd,
    /// Whose session has which name.
    hosts: BTreeMap<Name, String>,
    wanted: Vec<BfdSpec>,
    /// Since when a host is lost.
    lost: BTreeMap<Name, Instant>,
}

/// How far hosts are told that this gateway is going to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Hosts that were heard by BFD.
    pub hosts: usize,
    /// Those that have not answered yet.
    pub waiting: usize,
}

impl Sessions {
    /// None yet.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left.
    pub fn new() -> Result<Self, Problem> {
        let refused = |error: io::Error| {
            Problem::new(Code::SysUnexpected, "BFD cannot be prepared").evidence(error.to_string())
        };
        Ok(Self {
            bfd: Bfd::new(true).map_err(refused)?,
            hosts: BTreeMap::new(),
            wanted: Vec::new(),
            lost: BTreeMap::new(),
        })
    }

    /// Has one with every host of `tunnel`. While it drains each host is told that this gateway is
    /// going to stop, which is no failure.
    pub fn want(&mut self, plan: &Plan, drains: bool) {
        let mut wanted = Vec::new();
        let mut hosts = BTreeMap::new();
        let serving = serving(plan);
        if let Some(wish) = &plan.tunnel {
            let all = wish.peers.iter();
            for peer in all.filter(|peer| !peer.relays) {
                let inside = path_of(plan, peer.realm).map(Arc::from);
                if peer.realm.is_some() && inside.is_none() {
                    continue;
                }
                let spec = name(peer).zip(ends(&wish.addresses, &peer.allowed_ips));
                let Some((name, (local, remote))) = spec else {
                    continue;
                };
                hosts.insert(name.clone(), peer.name.clone());
                let asks = serving.contains(peer.name.as_str());
                wanted.push(BfdSpec {
                    inside,
                    ..spec_of(name, [local, remote], asks, drains)
                });
            }
        }
        self.lost.retain(|name, _| hosts.contains_key(name));
        self.hosts = hosts;
        if self.wanted != wanted {
            self.wanted.clone_from(&wanted);
            self.bfd.apply(wanted);
        }
    }

    /// Waits for something to happen.
    pub async fn event(&mut self) -> BfdEvent {
        match self.bfd.event().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Every host that is lost, and since when.
    pub fn lost(&self) -> BTreeMap<&str, Instant> {
        let lost = self.lost.iter();
        lost.filter_map(|(name, since)| Some((self.hosts.get(name)?.as_str(), *since)))
            .collect()
    }

    /// Takes what happened, and writes it into the log.
    pub fn hear(&mut self, event: &BfdEvent) {
        match event.liveness {
            Liveness::Lost => {
                self.lost
                    .entry(event.name.clone())
                    .or_insert(event.boottime);
            }
            Liveness::Alive | Liveness::Unknown => {
                self.lost.remove(&event.name);
            }
        }
        let host = self.hosts.get(&event.name).map(String::as_str);
        let (from, to) = (event.from.to_string(), event.to.to_string());
        let because = &event.because;
        if event.liveness == Liveness::Lost && from == "Up" {
            warn!(host, from, to, because, "a BFD session lost its host");
        } else {
            info!(host, from, to, because, "a BFD session changed");
        }
    }

    /// How far hosts are told.
    pub fn told(&self) -> Told {
        let snapshot = self.bfd.snapshot();
        let heard = snapshot
            .iter()
            .filter(|it| it.view.remote.heard_at.is_some());
        let mut told = Told::default();
        for session in heard {
            told.hosts += 1;
            // Whoever has heard it is down as well (RFC 5880 section 6.8.6).
            let state = session.view.remote.state;
            told.waiting += usize::from(state == kedge_core::bfd::SessionState::Up);
        }
        told
    }

    /// Every session that is asked for, under the name of its host.
    pub fn list(&self) -> BfdSessionList {
        let snapshot = self.bfd.snapshot();
        let asked =
            |it: &&BfdSnapshot| !it.spec.config.passive || it.view.remote.heard_at.is_some();
        let items = snapshot.iter().filter(asked).map(|it| {
            let session = it.tell(clock::now(), wall::rfc3339_micros(it.since));
            let host = self.hosts.get(&it.spec.name);
            BfdSession {
                name: host.cloned().unwrap_or(session.name),
                ..session
            }
        });
        let mut items: Vec<BfdSession> = items.collect();
        items.sort_by(|one, other| one.name.cmp(&other.name));
        BfdSessionList { items }
    }

    /// What is wrong. That a host does not speak BFD is its own business.
    pub fn problems(&self) -> impl Iterator<Item = Problem> {
        let snapshot = self.bfd.snapshot();
        let all = snapshot.iter().flat_map(|it| &it.problems);
        let taken = all.filter(|it| it.code == Code::BfdPortInUse).cloned();
        let taken: Vec<Problem> = taken.take(1).collect();
        self.bfd.problem().into_iter().chain(taken)
    }

    /// Tells every host that this gateway stops. Whether any of them was there.
    pub async fn leave(mut self) -> bool {
        let any = self.told().hosts > 0;
        self.bfd.shutdown(LEAVE).await;
        any
    }
}

/// A host has the session under a name that outlives a change of what it is called.
fn name(peer: &PeerSpec) -> Option<Name> {
    let mut text = "host-".to_owned();
    peer.public_key.write_hex(&mut text);
    text.truncate(5 + 32);
    text.parse().ok()
}

/// The first of our own addresses that the host has one of the same family for, and that.
fn ends(own: &[IpNet], theirs: &[IpNet]) -> Option<(IpAddr, IpAddr)> {
    own.iter().find_map(|local| {
        let local = local.addr();
        let remote = theirs.iter().map(IpNet::addr);
        let remote = remote
            .into_iter()
            .find(|remote| remote.is_ipv4() == local.is_ipv4())?;
        Some((local, remote))
    })
}

/// The hosts that connections go to.
fn serving(plan: &Plan) -> BTreeSet<&str> {
    let of_listeners = plan.listeners.iter().flat_map(|it| &it.members);
    let of_pools = plan.offer.pools.iter().flat_map(|it| &it.members);
    of_listeners
        .map(|it| it.host.as_str())
        .chain(of_pools.map(|it| it.host.as_str()))
        .collect()
}

/// Whoever begins it, the host says how quick it is to be.
fn spec_of(name: Name, ends: [IpAddr; 2], asks: bool, drains: bool) -> BfdSpec {
    let spec = BfdSpec::in_tunnel(name, ends, QUICKEST);
    BfdSpec {
        config: Config {
            passive: !asks,
            shutdown: drains,
            ..spec.config
        },
        ..spec
    }
}

const QUICKEST: Interval = Interval::from_micros(100_000);
/// How long hosts may take to answer a goodbye.
const LEAVE: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_those_of_the_gateways_first_address_that_fits() {
        let nets =
            |all: &[&str]| -> Vec<IpNet> { all.iter().map(|net| net.parse().unwrap()).collect() };
        let own = nets(&["fd6b::1/128", "198.18.0.1/32"]);
        for (theirs, expected) in [
            (
                &["198.18.0.9/32", "fd6b::9/128"][..],
                Some(("fd6b::1", "fd6b::9")),
            ),
            (&["198.18.0.9/32"], Some(("198.18.0.1", "198.18.0.9"))),
            (&[], None),
        ] {
            let expected =
                expected.map(|(a, b)| (a.parse::<IpAddr>().unwrap(), b.parse::<IpAddr>().unwrap()));
            assert_eq!(ends(&own, &nets(theirs)), expected, "{theirs:?}");
        }
    }
}
