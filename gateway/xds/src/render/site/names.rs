//! The names of a tenant at one address and port, each with what it serves.

use std::{collections::BTreeMap, num::NonZeroU16};

use kedge_control::site::{PathMatch, Route};

use super::{Good, hosts, order};

/// A tenant's names at one address and port.
pub struct Names<'a> {
    pub tenant: &'a str,
    /// What names serve, and which names serve alike.
    pub alike: Vec<(Vec<&'a str>, Host<'a>)>,
}

/// What a name serves.
pub struct Host<'a> {
    /// The port of TLS that everything is sent to, but for the challenges of ACME.
    pub secured: Option<NonZeroU16>,
    /// Its routes: what stands before another one decides.
    pub routes: Vec<&'a Route>,
}

impl<'a> Names<'a> {
    /// Those of sites that are served plain.
    pub fn plain(sites: &[&Good<'a>]) -> Self {
        let mut names: BTreeMap<&'a str, Option<NonZeroU16>> = BTreeMap::new();
        for good in sites {
            names.extend(good.site.hosts.iter().map(|host| (&**host, None)));
        }
        for good in sites.iter().filter(|good| good.site.redirect) {
            for name in good.secured.keys() {
                names.insert(name, good.site.https);
            }
        }
        Self::of(sites, names)
    }

    /// Those of sites that are served over TLS: all that one of them has a certificate for.
    pub fn tls(sites: &[&Good<'a>]) -> Self {
        let names = sites.iter().flat_map(|good| good.secured.keys());
        Self::of(sites, names.map(|name| (*name, None)).collect())
    }

    fn of(sites: &[&Good<'a>], names: BTreeMap<&'a str, Option<NonZeroU16>>) -> Self {
        type Which = (Option<NonZeroU16>, Vec<(usize, usize)>);
        let mut alike: BTreeMap<Which, (Vec<&'a str>, Host<'a>)> = BTreeMap::new();
        for (name, secured) in names {
            let hosts = sites.iter().flat_map(|good| &good.site.hosts);
            let host = hosts::closest(hosts.map(|host| &**host), name).unwrap_or(name);
            let (which, routes) = routes(sites, host, secured.is_some());
            let (names, _) = alike
                .entry((secured, which))
                .or_insert_with(|| (Vec::new(), Host { secured, routes }));
            names.push(name);
        }
        let mut alike: Vec<_> = alike.into_values().collect();
        alike.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self {
            tenant: sites.first().map_or("", |good| &good.site.tenant),
            alike,
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.alike.is_empty()
    }
}

/// The routes of a name, in the order in which they decide, and which of the sites' they are.
fn routes<'a>(
    sites: &[&Good<'a>],
    host: &str,
    challenges: bool,
) -> (Vec<(usize, usize)>, Vec<&'a Route>) {
    let mut routes: Vec<((usize, usize), &'a Route)> = Vec::new();
    for (index, good) in sites.iter().enumerate() {
        if !good.site.hosts.iter().any(|own| own == host) {
            continue;
        }
        let of_host =
            |route: &&Route| route.hosts.is_empty() || route.hosts.iter().any(|own| own == host);
        let of_site = good.site.routes.iter().enumerate();
        let of_site = of_site.filter(|(_, route)| of_host(route));
        let of_site = of_site.filter(|(_, route)| !challenges || is_challenge(&route.matches.path));
        routes.extend(of_site.map(|(number, route)| ((index, number), route)));
    }
    routes.sort_by(|(_, one), (_, other)| order::compare(&one.matches, &other.matches));
    routes.into_iter().unzip()
}

/// Whether a challenge of ACME may be asked for by such a path.
fn is_challenge(path: &PathMatch) -> bool {
    match path {
        PathMatch::Exact(path) => path.starts_with(CHALLENGES),
        PathMatch::Prefix(path) => path.starts_with(CHALLENGES) || CHALLENGES.starts_with(&**path),
        PathMatch::Regex(_) => true,
    }
}

/// RFC 8555 section 8.3.
pub const CHALLENGES: &str = "/.well-known/acme-challenge/";
