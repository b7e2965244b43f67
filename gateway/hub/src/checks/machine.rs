//! Which host is asked where, and what follows from its answers. No I/O.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
};

use kedge_control::{
    frontend::{ClientIp, Offer, Pool, Protocol},
    site::Action,
};

/// The hosts that are asked. None are where Envoy can ask each back end itself.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    relaxed: bool,
    hosts: BTreeMap<String, Host>,
    /// Those that get nothing.
    down: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    /// Where it is asked next.
    at: SocketAddr,
    /// Where else it can be, in the order in which that is tried: a service that nobody serves refuses at all
    /// hosts of its cluster, and they are there.
    others: VecDeque<SocketAddr>,
    /// Whether it answers, as far as is believed.
    answers: bool,
    /// How many times in a row it did otherwise.
    otherwise: usize,
}

/// What came of asking a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Its name.
    pub host: String,
    /// Where it was asked.
    pub at: SocketAddr,
    /// Whether it took the connection.
    pub answered: bool,
}

impl Machine {
    /// Takes what is offered. The hosts of which something else is to be said now.
    pub fn want(&mut self, offer: &Offer) -> Vec<String> {
        let bound = if self.relaxed { TIGHTEN } else { RELAX };
        self.relaxed = checked(offer) > bound;
        let mut before = std::mem::take(&mut self.hosts);
        if self.relaxed {
            let host = |(name, ports): (String, Vec<SocketAddr>)| {
                let known = before.remove(&name);
                let host = known.map_or_else(|| Host::new(&ports), |it| it.with(&ports))?;
                Some((name, host))
            };
            self.hosts = representatives(offer)
                .into_iter()
                .filter_map(host)
                .collect();
        }
        let hosts = &self.hosts;
        let is_up = |name: &String| hosts.get(name).is_none_or(|host| host.answers);
        self.down.extract_if(.., is_up).collect()
    }

    /// Whether hosts are asked, and each of their back ends less often.
    pub const fn is_relaxed(&self) -> bool {
        self.relaxed
    }

    /// Who is asked, and where.
    pub fn asked(&self) -> impl Iterator<Item = (&String, SocketAddr)> {
        self.hosts.iter().map(|(name, host)| (name, host.at))
    }

    /// Takes one round of answers, of the hosts whose tunnels live. The hosts of which something else is to be
    /// said now.
    ///
    /// Where none of them answers any more it is not they who are silent.
    pub fn hear(&mut self, round: Vec<Answer>) -> Vec<String> {
        let mut any_answers = false;
        for Answer { host, at, answered } in round {
            if let Some(known) = self.hosts.get_mut(&host).filter(|known| known.at == at) {
                known.take(answered);
                any_answers |= known.is_heard();
            }
        }
        let silent = self.hosts.iter().filter(|(_, host)| !host.answers);
        let silent = silent.filter(|_| any_answers).map(|(name, _)| name.clone());
        let before = std::mem::replace(&mut self.down, silent.collect());
        before.symmetric_difference(&self.down).cloned().collect()
    }

    /// Whether a host gets nothing, though its tunnel may live.
    pub fn is_down(&self, host: &str) -> bool {
        self.down.contains(host)
    }
}

impl Host {
    /// One that is believed to answer until it does not.
    fn new(ports: &[SocketAddr]) -> Option<Self> {
        let (at, others) = ports.split_first()?;
        Some(Self {
            at: *at,
            others: others.iter().copied().collect(),
            answers: true,
            otherwise: 0,
        })
    }

    /// The same host with these ports: where it is asked stays while it is one of them.
    fn with(self, ports: &[SocketAddr]) -> Option<Self> {
        if !ports.contains(&self.at) {
            return Self::new(ports);
        }
        let others = ports.iter().filter(|port| **port != self.at);
        Some(Self {
            others: others.copied().collect(),
            ..self
        })
    }

    /// Whether it answers, and did so lately. One with many ports may have long to go until it is down.
    const fn is_heard(&self) -> bool {
        self.answers && self.otherwise < FALL
    }

    fn take(&mut self, answered: bool) {
        if !answered && let Some(next) = self.others.pop_front() {
            self.others.push_back(std::mem::replace(&mut self.at, next));
        }
        if answered == self.answers {
            self.otherwise = 0;
            return;
        }
        self.otherwise += 1;
        let enough = match self.answers {
            true => FALL.max(1 + self.others.len()),
            false => RISE,
        };
        if self.otherwise >= enough {
            self.answers = answered;
            self.otherwise = 0;
        }
    }
}

/// How many back ends Envoy would ask, each as often as it is in a cluster.
fn checked(offer: &Offer) -> usize {
    let mut clusters: BTreeSet<(&str, &str, Way<'_>)> = BTreeSet::new();
    for frontend in &offer.frontends {
        let of = (&*frontend.tenant, &*frontend.pool);
        match &frontend.protocol {
            Protocol::Tcp | Protocol::Udp => {
                clusters.insert((of.0, of.1, Way::Plain(frontend.client_ip)));
            }
            Protocol::TlsPassthrough { server_names } => {
                let names = server_names.iter().map(|name| Way::Name(name));
                clusters.extend(names.map(|way| (of.0, of.1, way)));
            }
        }
    }
    for site in &offer.sites {
        for route in &site.routes {
            if let Action::Forward {
                backends, mirrors, ..
            } = &route.action
            {
                let backends = backends.iter().map(|backend| &*backend.pool);
                let pools = backends.chain(mirrors.iter().map(|mirror| &*mirror.pool));
                clusters.extend(pools.map(|pool| (&*site.tenant, pool, Way::Http)));
            }
        }
    }
    let pools = checked_pools(offer);
    let pools = pools.map(|pool| ((&*pool.tenant, &*pool.name), pool.members.len()));
    let pools: BTreeMap<(&str, &str), usize> = pools.collect();
    let members = clusters
        .iter()
        .map(|(tenant, pool, _)| pools.get(&(*tenant, *pool)));
    members.flatten().sum()
}

/// How clients get to a pool: each is a cluster of its own.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Way<'a> {
    Plain(ClientIp),
    Name(&'a str),
    Http,
}

fn checked_pools(offer: &Offer) -> impl Iterator<Item = &Pool> {
    offer.pools.iter().filter(|pool| pool.health.is_some())
}

/// The ports of each host that stand for it, at most [`PORTS`]: those that most pools lead to first, of equals the
/// lowest.
fn representatives(offer: &Offer) -> BTreeMap<String, Vec<SocketAddr>> {
    let mut hosts: BTreeMap<&str, BTreeMap<SocketAddr, usize>> = BTreeMap::new();
    for member in checked_pools(offer).flat_map(|pool| &pool.members) {
        // What is being left may stop to answer.
        if !member.draining {
            let at = SocketAddr::new(member.address, member.port.get());
            *hosts
                .entry(&member.host)
                .or_default()
                .entry(at)
                .or_default() += 1;
        }
    }
    let ports = |ports: BTreeMap<SocketAddr, usize>| {
        let mut ports: Vec<(SocketAddr, usize)> = ports.into_iter().collect();
        ports.sort_by_key(|(_, pools)| Reverse(*pools));
        ports.into_iter().map(|(at, _)| at).take(PORTS).collect()
    };
    let hosts = hosts.into_iter();
    hosts
        .map(|(host, of)| (host.to_owned(), ports(of)))
        .collect()
}

/// Above so many back ends Envoy asks each of them less often, and hosts are asked instead. Each check is a
/// connection through a tunnel: at one each second a thousand are a thousand SYNs a second, of which every host
/// answers as many as it has ports. One for each host does not grow with the services on it.
const RELAX: usize = 1_000;
/// At so many it goes back: a back end that comes and goes at the bound would make all clusters anew each time.
const TIGHTEN: usize = 800;
/// Refusals in a row after which a host is down, or one of each port that stands for it where those are more.
const FALL: usize = 3;
/// Answers in a row after which it is not.
const RISE: usize = 2;
/// How many ports stand for a host. Some of a cluster's services may be without pods at any time; each port more is
/// a second more until a host is down whose tunnel goes on to live.
const PORTS: usize = 5;

#[cfg(test)]
mod tests;
