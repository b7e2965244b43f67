//! What a gateway offers, as Envoy is told it.
//!
//! | of the offer | becomes |
//! |---|---|
//! | a pool that a TCP frontend leads to | cluster and members `t/TENANT/POOL` |
//! | a name that TLS is passed through for | cluster and members `sni/NAME`, of its frontend's pool |
//! | a TCP frontend | listener `tcp/ADDRESS:PORT` |
//! | all frontends that pass TLS through on an address and port | one listener `tls/ADDRESS:PORT` |
//!
//! A listener that stands for many names never changes when a name comes or goes: it leads to the
//! cluster called after the name the client asks for. The prefix keeps clients from asking for a cluster
//! that is not theirs to ask for.
//!
//! A listener's name holds its address: one that moves is another, and none ever waits for an address
//! that one of its own has.

mod check;
mod cluster;
mod endpoint;
mod listener;
mod proto;

use std::collections::{BTreeMap, BTreeSet};

use kedge_control::frontend::{Frontend, Offer, Pool, Protocol};
use serde::Serialize;

use crate::resource::Resource;

pub use check::{Reason, Refused};

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
}

/// Everything Envoy is to hold, and what of the offer cannot be.
#[must_use]
pub fn render(offer: &Offer, here: &Here) -> (Vec<Resource>, Vec<Refused>) {
    let (frontends, refused) = check::check(offer);
    let mut resources = Vec::new();
    let mut clusters = BTreeSet::new();
    let mut shared = BTreeSet::new();
    for (frontend, pool) in frontends {
        for way in ways(frontend, pool) {
            if clusters.insert(way.cluster.clone()) {
                resources.push(cluster::render(&way, here));
                resources.push(endpoint::render(&way, here));
            }
        }
        match &frontend.protocol {
            Protocol::TlsPassthrough { .. } => {
                if shared.insert((frontend.address, frontend.port)) {
                    resources.push(listener::passthrough(frontend.address, frontend.port));
                }
            }
            Protocol::Tcp | Protocol::Udp => resources.push(listener::tcp(frontend, pool)),
        }
    }
    (resources, refused)
}

/// The members of every cluster that leads to this host, as they are told from here on.
#[must_use]
pub fn of_host(offer: &Offer, here: &Here, host: &str) -> Vec<Resource> {
    let (frontends, _) = check::check(offer);
    let mut told = BTreeSet::new();
    let leads = |pool: &Pool| pool.members.iter().any(|member| member.host == host);
    let frontends = frontends.into_iter().filter(|(_, pool)| leads(pool));
    let ways = frontends.flat_map(|(frontend, pool)| ways(frontend, pool));
    ways.filter(|way| told.insert(way.cluster.clone()))
        .map(|way| endpoint::render(&way, here))
        .collect()
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
    match &frontend.protocol {
        Protocol::TlsPassthrough { server_names } => server_names
            .iter()
            .map(|name| way(format!("sni/{name}")))
            .collect(),
        Protocol::Tcp | Protocol::Udp => vec![way(cluster::name(frontend, pool))],
    }
}

#[cfg(test)]
mod tests;
