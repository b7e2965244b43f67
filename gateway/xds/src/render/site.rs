//! Sites: which names are served where, and what is told of that.
//!
//! | of sites | becomes |
//! |---|---|
//! | all that are served plain on an address and port | listener and routes `http/ADDRESS:PORT` |
//! | a certificate, for the names it is shown for | a chain of the listener `tls/ADDRESS:PORT`, and a secret |
//! | a tenant's, on an address and port of TLS | routes `tls/ADDRESS:PORT/TENANT` |
//! | a pool | cluster and members `h/TENANT/POOL` |
//!
//! Sites of one tenant share names: what one name serves is made of all of them.

mod certificate;
mod check;
mod connections;
mod cors;
mod hosts;
mod names;
mod order;
mod regex;
mod route;
mod routes;
mod secret;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    num::NonZeroU16,
};

use kedge_control::{
    frontend::{Pool, PoolMember, ProxyProtocol},
    site::{Action, Certificate, Site},
};

use super::{Here, Rendered, Told, check::Pools, cluster, endpoint};
use crate::{Key, Kind, resource::Resource};
use certificate::Pem;
pub use connections::{Chain, FORM};
pub use hosts::covers;
use names::Names;

/// A site that can be told.
pub struct Good<'a> {
    pub site: &'a Site,
    /// The names it has certificates for.
    pub secured: BTreeMap<&'a str, &'a Certificate>,
    /// Its certificates as they are told, in their order.
    pems: Vec<Pem>,
}

impl<'a> Good<'a> {
    fn at(&self, port: Option<NonZeroU16>) -> Option<SocketAddr> {
        port.map(|port| SocketAddr::new(self.site.address, port.get()))
    }

    /// Where it is served plain.
    fn plain(&self) -> Option<SocketAddr> {
        self.at(self.site.http)
    }

    /// Where it is served over TLS, for names that somebody of its tenant has a certificate for.
    fn tls(&self) -> Option<SocketAddr> {
        self.at(self.site.https)
    }

    fn pem(&self, of: &Certificate) -> Option<&Pem> {
        let certificates = self.site.certificates.iter().zip(&self.pems);
        let mut same = certificates.filter(|(one, _)| std::ptr::eq(*one, of));
        same.next().map(|(_, pem)| pem)
    }
}

/// Renders sites, but for the listeners of TLS: those of their chains are returned.
pub fn render<'a>(
    sites: &[Good<'a>],
    pools: &Pools<'a>,
    (here, outer): (&Here, Option<&ProxyProtocol>),
    rendered: &mut Rendered,
) -> BTreeMap<SocketAddr, Vec<Chain>> {
    let mut told: Vec<BTreeSet<Key>> = vec![BTreeSet::new(); sites.len()];
    clusters(sites, pools, here, rendered, &mut told);
    let mut plain: BTreeMap<SocketAddr, BTreeMap<&str, Vec<usize>>> = BTreeMap::new();
    let mut tls = plain.clone();
    for (index, good) in sites.iter().enumerate() {
        for (places, at) in [(&mut plain, good.plain()), (&mut tls, good.tls())] {
            if let Some(at) = at {
                let tenants = places.entry(at).or_default();
                tenants.entry(&good.site.tenant).or_default().push(index);
            }
        }
    }
    let of = |indices: &[usize]| -> Vec<&Good<'a>> {
        indices
            .iter()
            .filter_map(|index| sites.get(*index))
            .collect()
    };
    let mut note = |indices: &[usize], key: &Key| {
        for index in indices {
            if let Some(keys) = told.get_mut(*index) {
                keys.insert(key.clone());
            }
        }
    };
    for (at, tenants) in &plain {
        let names: Vec<Names<'_>> = tenants
            .values()
            .map(|indices| Names::plain(&of(indices)))
            .collect();
        let made = [
            connections::plain(*at, outer),
            routes::plain(*at, &names, pools),
        ];
        for resource in made {
            for indices in tenants.values() {
                note(indices, &key(&resource));
            }
            rendered.resources.push(resource);
        }
    }
    let mut chains: BTreeMap<SocketAddr, Vec<Chain>> = BTreeMap::new();
    for (at, tenants) in &tls {
        for (tenant, indices) in tenants {
            let of_tenant = of(indices);
            let names = Names::tls(&of_tenant);
            if names.is_empty() {
                continue;
            }
            let routes = routes::tls(*at, tenant, &names, pools);
            let listener = (Kind::Listener, super::names::tls_listener(*at).into());
            note(indices, &key(&routes));
            note(indices, &listener);
            for (secret, chain) in secret::render(*at, tenant, &of_tenant, &routes.name) {
                note(indices, &key(&secret));
                rendered.resources.push(secret);
                chains.entry(*at).or_default().push(chain);
            }
            rendered.resources.push(routes);
        }
    }
    let keys = told.into_iter().map(|keys| keys.into_iter().collect());
    rendered.sites = sites
        .iter()
        .zip(keys)
        .map(|(good, keys)| Told {
            site: good.site.name.clone(),
            keys,
        })
        .collect();
    chains
}

fn clusters(
    sites: &[Good<'_>],
    pools: &Pools<'_>,
    here: &Here,
    rendered: &mut Rendered,
    told: &mut [BTreeSet<Key>],
) {
    let mut done = BTreeSet::new();
    for (good, told) in sites.iter().zip(told) {
        let tenant = &*good.site.tenant;
        let used = good
            .site
            .routes
            .iter()
            .filter_map(|route| match &route.action {
                Action::Forward {
                    backends, mirrors, ..
                } => {
                    let backends = backends.iter().filter(|backend| backend.weight > 0);
                    let backends = backends.map(|backend| &*backend.pool);
                    Some(backends.chain(mirrors.iter().map(|mirror| &*mirror.pool)))
                }
                Action::Redirect { .. } | Action::Answer { .. } => None,
            });
        for pool in used.flatten() {
            let Some(pool) = pools.get(&(tenant, pool)) else {
                continue;
            };
            let name = super::names::http_cluster(tenant, &pool.name);
            told.insert((Kind::Cluster, name.as_str().into()));
            if done.insert(name.clone()) {
                let resources = &mut rendered.resources;
                resources.push(cluster::http(&name, pool, here));
                let members = stays(pool);
                resources.push(endpoint::render(&name, &members, here));
                rendered.members.add(name, &members);
            }
        }
    }
}

/// The members requests may go to. One that is being left is no member here: Envoy ends what it answers
/// still, and then its connections, which it would keep open without a request to a draining one.
fn stays(pool: &Pool) -> Vec<PoolMember> {
    let stays = pool.members.iter().filter(|member| !member.draining);
    stays.cloned().collect()
}

fn key(resource: &Resource) -> Key {
    (resource.kind, resource.name.clone())
}

#[cfg(test)]
mod tests;
