//! What a gateway offers, as Envoy is told it.
//!
//! | of the offer | becomes |
//! |---|---|
//! | a pool that a TCP frontend leads to | cluster and members `t/TENANT/POOL` |
//! | a name that TLS is passed through for | cluster and members `sni/ADDRESS:PORT/NAME`, of its frontend's pool |
//! | a TCP frontend | listener `tcp/ADDRESS:PORT` |
//! | all frontends that pass TLS through on an address and port | one listener `tls/ADDRESS:PORT` |
//! | a site | what [`site`] says; its part of TLS in the same listener |
//!
//! A listener that stands for many names never changes when a name comes or goes: it leads to the
//! cluster called after the name the client asks for. The prefix keeps clients from asking for a cluster
//! that is not theirs to ask for.
//!
//! A TCP frontend that lets in some clients alone has its listener ask for their addresses: [`ranges`].
//!
//! Where clients come through load balancers, every listener takes connections of those alone: [`outer`].
//!
//! A listener's name holds its address: one that moves is another, and none ever waits for an address
//! that one of its own has.

mod check;
mod cluster;
mod endpoint;
mod listener;
mod members;
pub mod names;
mod outer;
mod proto;
mod ranges;
mod site;
mod taken;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use kedge_control::frontend::{Frontend, Offer, Pool, Protocol};
use serde::Serialize;

use crate::{resource::Resource, wanted::Key};

pub use check::{Reason, Refused};
pub use members::Members;

/// What the tunnel says of each host; one that is not here was not heard yet.
pub type Lives = BTreeMap<String, Life>;

/// What the tunnel says of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Life {
    /// It answers.
    Alive,
    /// It does not.
    Dead,
    /// It answers, and is to be left: what is open stays, nothing new comes.
    Draining,
}

/// What is known beside the offer.
#[derive(Clone, Debug, Default)]
pub struct Here {
    /// The hosts.
    pub lives: Lives,
    /// The network namespace of each tenant, as a path; a tenant without one uses the gateway's own.
    pub namespaces: BTreeMap<String, String>,
    /// The same for pools of the gateway itself, by name: their members are some tenant's hosts.
    pub own: BTreeMap<String, String>,
    /// Whether there are so many checks that each is made less often.
    pub relaxed: bool,
}

impl Here {
    /// The network namespace that connections to a pool's members begin in.
    fn namespace(&self, pool: &Pool) -> Option<&String> {
        let own = self.own.get(&pool.name).filter(|_| pool.tenant.is_empty());
        own.or_else(|| self.namespaces.get(&pool.tenant))
    }
}

/// What Envoy is told of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Its name.
    pub site: String,
    /// What it needs to be served.
    pub keys: Vec<Key>,
}

/// An offer as Envoy is told it.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// Everything Envoy is to hold.
    pub resources: Vec<Resource>,
    /// What of the offer it cannot.
    pub refused: Vec<Refused>,
    /// The members of what it is to hold, for when a host lives or dies.
    pub members: Members,
    /// The sites that are told.
    pub sites: Vec<Told>,
}

/// Renders an offer. What of it Envoy would refuse is left out, with the reason.
#[must_use]
pub fn render(offer: &Offer, here: &Here) -> Rendered {
    let checked = check::check(offer);
    let outer = offer.proxy_protocol.as_ref();
    let mut rendered = Rendered {
        refused: checked.refused,
        ..Rendered::default()
    };
    let resources = &mut rendered.resources;
    let mut clusters = BTreeSet::new();
    let mut tls: BTreeMap<SocketAddr, BTreeSet<&str>> = BTreeMap::new();
    for (frontend, pool) in checked.frontends {
        for way in ways(frontend, pool) {
            if clusters.insert(way.cluster.clone()) {
                resources.push(cluster::render(&way, here));
                resources.push(endpoint::render(&way.cluster, &pool.members, here));
                rendered.members.add(way.cluster, &pool.members);
            }
        }
        match &frontend.protocol {
            Protocol::TlsPassthrough { server_names } => {
                let at = SocketAddr::new(frontend.address, frontend.port.get());
                let passed = tls.entry(at).or_default();
                passed.extend(server_names.iter().map(String::as_str));
            }
            Protocol::Tcp | Protocol::Udp => {
                resources.push(listener::tcp(frontend, pool, outer));
            }
        }
    }
    let chains = site::render(&checked.sites, &checked.pools, (here, outer), &mut rendered);
    for at in chains.keys() {
        tls.entry(*at).or_default();
    }
    for (at, passed) in tls {
        let chains = chains.get(&at).map_or(&[] as &[_], Vec::as_slice);
        rendered
            .resources
            .push(listener::tls(at, &passed, chains, outer));
    }
    rendered
}

/// A cluster: its name, and what it is made of.
struct Way<'a> {
    cluster: String,
    frontend: &'a Frontend,
    pool: &'a Pool,
}

fn ways<'a>(frontend: &'a Frontend, pool: &'a Pool) -> Vec<Way<'a>> {
    let way = |cluster| Way {
        cluster,
        frontend,
        pool,
    };
    let at = SocketAddr::new(frontend.address, frontend.port.get());
    match &frontend.protocol {
        Protocol::TlsPassthrough { server_names } => server_names
            .iter()
            .map(|name| way(names::passthrough(at, name)))
            .collect(),
        Protocol::Tcp | Protocol::Udp => {
            let cluster = names::cluster(&pool.tenant, &pool.name, frontend.client_ip);
            vec![way(cluster)]
        }
    }
}

#[cfg(test)]
mod tests;
