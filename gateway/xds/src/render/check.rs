//! What of an offer can be told: Envoy refuses a whole response for one field it does not take, so
//! nothing is told that it would not.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use kedge_control::frontend::{Frontend, Health, Offer, Pool};

use super::{site::Good, taken::Taken};

/// A frontend or a site that is not served, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub frontend: String,
    /// Why.
    pub reason: Reason,
}

/// Why a frontend or a site is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Another has its address and port.
    PortInUse {
        /// Which one.
        by: String,
    },
    /// Another serves this name there, or passes TLS through for it.
    NameInUse {
        /// The name.
        name: String,
        /// Which one.
        by: String,
    },
    /// Its pool is not there, or is another tenant's.
    NoPool,
    /// Envoy does not do it here.
    Unsupported(&'static str),
    /// A value is none that can be told.
    Invalid(&'static str),
    /// A value of one of its routes is none that can be told.
    Route {
        /// Which one, from 1.
        number: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// One of its certificates is none that can be shown.
    Certificate {
        /// The first name it is for.
        host: String,
        /// What is wrong.
        what: &'static str,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortInUse { by } => write!(f, "{by} has the address and port"),
            Self::NameInUse { name, by } => write!(f, "{by} has the name {name} there"),
            Self::NoPool => f.write_str("its tenant has no pool of that name"),
            Self::Unsupported(what) | Self::Invalid(what) => f.write_str(what),
            Self::Route { number, what } => write!(f, "its route {number}: {what}"),
            Self::Certificate { host, what } => write!(f, "its certificate for {host}: {what}"),
        }
    }
}

/// What of an offer can be told, and what cannot.
#[derive(Default)]
pub struct Checked<'a> {
    /// The pools, by tenant and name.
    pub pools: Pools<'a>,
    /// Frontends with their pools, in the order of the offer.
    pub frontends: Vec<(&'a Frontend, &'a Pool)>,
    /// Sites, in the same order.
    pub sites: Vec<Good<'a>>,
    pub refused: Vec<Refused>,
}

/// Pools, by tenant and name.
pub type Pools<'a> = BTreeMap<(&'a str, &'a str), &'a Pool>;

/// Finds out what can be told. Where two want one thing, frontends go before sites.
pub fn check(offer: &Offer) -> Checked<'_> {
    let pools = offer.pools.iter();
    let mut checked = Checked {
        pools: pools
            .map(|pool| ((&*pool.tenant, &*pool.name), pool))
            .collect(),
        ..Checked::default()
    };
    let mut taken = Taken::default();
    // For Envoy a chain without sources is everybody's.
    let outer = offer.proxy_protocol.as_ref();
    let reached = match outer {
        Some(outer) if outer.from.is_empty() => {
            Err(Reason::Invalid("the PROXY protocol is taken from nobody"))
        }
        Some(_) | None => Ok(()),
    };
    for frontend in &offer.frontends {
        let pool = checked.pools.get(&(&*frontend.tenant, &*frontend.pool));
        let good = pool.ok_or(Reason::NoPool).and_then(|pool| {
            reached.clone()?;
            pool_of(pool)?;
            taken.frontend(frontend)?;
            Ok(*pool)
        });
        match good {
            Ok(pool) => checked.frontends.push((frontend, pool)),
            Err(reason) => checked.refuse(&frontend.name, reason),
        }
    }
    for site in &offer.sites {
        let good = Good::check(site, &checked.pools).and_then(|good| {
            reached.clone()?;
            let names: Vec<&str> = good.secured.keys().copied().collect();
            taken.site(site, &names)?;
            Ok(good)
        });
        match good {
            Ok(good) => checked.sites.push(good),
            Err(reason) => checked.refuse(&site.name, reason),
        }
    }
    checked
}

impl Checked<'_> {
    fn refuse(&mut self, name: &str, reason: Reason) {
        self.refused.push(Refused {
            frontend: name.to_owned(),
            reason,
        });
    }
}

pub fn pool_of(pool: &Pool) -> Result<(), Reason> {
    let mut members = BTreeSet::new();
    let is_twice = |at| !members.insert(at);
    if pool
        .members
        .iter()
        .map(|one| (one.address, one.port))
        .any(is_twice)
    {
        return Err(Reason::Invalid("a member stands twice in its pool"));
    }
    if pool
        .members
        .iter()
        .any(|one| one.address.is_unspecified() || one.address.is_multicast())
    {
        return Err(Reason::Invalid("a member's address is none of a host"));
    }
    if pool.limits.connections == 0 {
        return Err(Reason::Invalid("a pool must take at least one connection"));
    }
    pool.health.as_ref().map_or(Ok(()), health)
}

fn health(health: &Health) -> Result<(), Reason> {
    if !(0.01..=3_600.0).contains(&health.interval_seconds) {
        return Err(Reason::Invalid("checks are 10 ms to an hour apart"));
    }
    // A new cluster keeps all others waiting until its first checks are over.
    if !(0.01..=5.0).contains(&health.timeout_seconds) {
        return Err(Reason::Invalid("a check takes 10 ms to 5 s"));
    }
    if health.fall == 0 || health.rise == 0 {
        return Err(Reason::Invalid(
            "checks must fail and succeed at least once to count",
        ));
    }
    Ok(())
}
