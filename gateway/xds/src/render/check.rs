//! What of an offer can be told: Envoy refuses a whole response for one field it does not take, so
//! nothing is told that it would not.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
};

use kedge_control::frontend::{Frontend, Health, Offer, Pool, Protocol, is_server_name};

/// A frontend that is not served, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub frontend: String,
    /// Why.
    pub reason: Reason,
}

/// Why a frontend is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Another has its address and port.
    PortInUse {
        /// Which one.
        by: String,
    },
    /// Another passes TLS through for this name there.
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
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortInUse { by } => write!(f, "{by} has the address and port"),
            Self::NameInUse { name, by } => write!(f, "{by} has the name {name} there"),
            Self::NoPool => f.write_str("its tenant has no pool of that name"),
            Self::Unsupported(what) | Self::Invalid(what) => f.write_str(what),
        }
    }
}

/// Each frontend that can be told with its pool, in the order of the offer, and those that cannot.
pub fn check(offer: &Offer) -> (Vec<(&Frontend, &Pool)>, Vec<Refused>) {
    let pools = offer.pools.iter();
    let pools: BTreeMap<(&str, &str), &Pool> = pools
        .map(|pool| ((&*pool.tenant, &*pool.name), pool))
        .collect();
    let mut taken = Taken::default();
    let (mut good, mut refused) = (Vec::new(), Vec::new());
    for frontend in &offer.frontends {
        let pool = pools.get(&(&*frontend.tenant, &*frontend.pool));
        let checked = pool.ok_or(Reason::NoPool).and_then(|pool| {
            pool_of(pool)?;
            taken.take(frontend)?;
            Ok(*pool)
        });
        match checked {
            Ok(pool) => good.push((frontend, pool)),
            Err(reason) => refused.push(Refused {
                frontend: frontend.name.clone(),
                reason,
            }),
        }
    }
    (good, refused)
}

/// Who has which address, port and name.
#[derive(Default)]
struct Taken<'a> {
    alone: BTreeMap<(IpAddr, u16), &'a str>,
    shared: BTreeMap<(IpAddr, u16), &'a str>,
    names: BTreeMap<&'a str, (&'a str, &'a Frontend)>,
}

impl<'a> Taken<'a> {
    fn take(&mut self, frontend: &'a Frontend) -> Result<(), Reason> {
        let at = (frontend.address, frontend.port.get());
        let in_use = |by: &&str| Reason::PortInUse {
            by: (*by).to_owned(),
        };
        match &frontend.protocol {
            Protocol::Udp => Err(Reason::Unsupported("Envoy carries no UDP here")),
            Protocol::Tcp => {
                let other = self.alone.get(&at).or_else(|| self.shared.get(&at));
                if let Some(other) = other {
                    return Err(in_use(other));
                }
                self.alone.insert(at, &frontend.name);
                Ok(())
            }
            Protocol::TlsPassthrough { server_names } => {
                if let Some(other) = self.alone.get(&at) {
                    return Err(in_use(other));
                }
                self.names(frontend, server_names)?;
                self.shared.entry(at).or_insert(&frontend.name);
                Ok(())
            }
        }
    }

    /// A name leads to one pool, on whichever address it is asked for: clusters are called after it.
    fn names(&mut self, frontend: &'a Frontend, names: &'a [String]) -> Result<(), Reason> {
        if names.is_empty() {
            return Err(Reason::Invalid("no name is passed through"));
        }
        let mut own = BTreeSet::new();
        for name in names {
            if !is_server_name(name) || !own.insert(name) {
                return Err(Reason::Invalid(
                    "a server name is no lower-case DNS name of its own",
                ));
            }
            let other = self
                .names
                .get(&**name)
                .filter(|(_, other)| !alike(other, frontend));
            if let Some((by, _)) = other {
                return Err(Reason::NameInUse {
                    name: name.clone(),
                    by: (*by).to_owned(),
                });
            }
        }
        for name in names {
            self.names.entry(name).or_insert((&frontend.name, frontend));
        }
        Ok(())
    }
}

/// Whether two frontends lead to the same cluster.
fn alike(one: &Frontend, other: &Frontend) -> bool {
    let of = |frontend: &Frontend| {
        let pool = (frontend.tenant.clone(), frontend.pool.clone());
        (pool, frontend.client_ip)
    };
    let at = |frontend: &Frontend| (frontend.address, frontend.port);
    of(one) == of(other) && at(one) != at(other)
}

fn pool_of(pool: &Pool) -> Result<(), Reason> {
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
