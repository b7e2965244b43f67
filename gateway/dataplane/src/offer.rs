//! What of an offer the built-in proxy serves, and why it does not serve the rest.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use ipnet::IpNet;
use kedge_control::{
    balance::{Listener, Member},
    frontend::{Affinity, ClientIp, Frontend, Offer, Policy, Pool, Protocol, is_server_name},
    report::{Unserved, UnservedReason},
    site::Site,
};

/// What the built-in proxy makes of a frontend: what it listens for, or why it does not serve it.
pub type Verdict = Result<(Carries, Listener), Unserved>;

/// What a listener carries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carries {
    /// TCP connections.
    Connections {
        /// Whether members are told who the client is.
        told: ClientIp,
        /// The addresses that clients may have; any without one.
        ranges: Vec<IpNet>,
    },
    /// TCP connections of clients that ask for one of these names by TLS, which stays as it is. Others
    /// with other names share the place.
    Named {
        /// The names, in lower case.
        names: Vec<String>,
        /// Whether members are told who the client is.
        told: ClientIp,
    },
    /// UDP datagrams; a session ends after so much silence of both sides.
    Datagrams {
        /// How much.
        idle: Duration,
        /// The addresses that clients may have; any without one.
        ranges: Vec<IpNet>,
    },
}

impl Carries {
    /// Whether members are told who the client is.
    pub(crate) const fn told(&self) -> ClientIp {
        match self {
            Self::Connections { told, .. } | Self::Named { told, .. } => *told,
            Self::Datagrams { .. } => ClientIp::Hidden,
        }
    }

    /// The addresses that clients may have.
    pub(crate) fn ranges(&self) -> &[IpNet] {
        match self {
            Self::Connections { ranges, .. } | Self::Datagrams { ranges, .. } => ranges,
            Self::Named { .. } => &[],
        }
    }
}

/// Where a listener is: whether it carries datagrams, and its address. Both protocols have every port.
pub type Place = (bool, SocketAddr);

/// The place of a listener.
#[must_use]
pub const fn place(carries: &Carries, listener: &Listener) -> Place {
    let at = SocketAddr::new(listener.address, listener.port);
    (matches!(carries, Carries::Datagrams { .. }), at)
}

/// Every frontend of an offer, in its order, with what is made of it. Nothing is left out in silence.
#[must_use]
pub fn served(offer: &Offer) -> Vec<(&Frontend, Verdict)> {
    let pools = offer.pools.iter();
    let pools: BTreeMap<(&str, &str), &Pool> = pools
        .map(|pool| ((&*pool.tenant, &*pool.name), pool))
        .collect();
    let mut taken = Taken::default();
    let frontends = offer.frontends.iter().map(|frontend| {
        let pool = pools.get(&(&*frontend.tenant, &*frontend.pool)).copied();
        let verdict = checked(frontend, pool).and_then(|(carries, listener)| {
            let taken = taken.take(frontend, place(&carries, &listener));
            taken.map_err(|text| (UnservedReason::PortInUse, text))?;
            Ok((carries, listener))
        });
        let verdict = verdict.map_err(|(reason, message)| Unserved {
            frontend: frontend.name.clone(),
            reason,
            message,
        });
        (frontend, verdict)
    });
    frontends.collect()
}

/// Every site of an offer: none is served.
#[must_use]
pub fn unserved_sites(offer: &Offer) -> Vec<Unserved> {
    let unserved = |site: &Site| Unserved {
        frontend: site.name.clone(),
        reason: UnservedReason::Unsupported,
        message:
            "the built-in proxy does not do that: HTTP; a gateway with `proxy.engine: envoy` does"
                .to_owned(),
    };
    offer.sites.iter().map(unserved).collect()
}

/// Who has which place, and who which name there.
#[derive(Default)]
struct Taken<'a> {
    alone: BTreeMap<Place, &'a str>,
    /// The first of those whom names tell apart.
    shared: BTreeMap<Place, &'a str>,
    names: BTreeMap<(Place, &'a str), &'a str>,
}

impl<'a> Taken<'a> {
    fn take(&mut self, frontend: &'a Frontend, place: Place) -> Result<(), String> {
        let in_use = |by: &&str| Err(format!("{by} has the address and port"));
        let Protocol::TlsPassthrough { server_names } = &frontend.protocol else {
            let other = self.alone.get(&place).or_else(|| self.shared.get(&place));
            if let Some(other) = other {
                return in_use(other);
            }
            self.alone.insert(place, &frontend.name);
            return Ok(());
        };
        if let Some(other) = self.alone.get(&place) {
            return in_use(other);
        }
        let mut names = server_names.iter();
        let other = names.find_map(|name| Some((name, self.names.get(&(place, &**name))?)));
        if let Some((name, by)) = other {
            return Err(format!("{by} has the name {name} there"));
        }
        self.shared.entry(place).or_insert(&frontend.name);
        for name in server_names {
            self.names.insert((place, name), &frontend.name);
        }
        Ok(())
    }
}

fn checked(
    frontend: &Frontend,
    pool: Option<&Pool>,
) -> Result<(Carries, Listener), (UnservedReason, String)> {
    let Some(pool) = pool else {
        let text = "its tenant has no pool of that name".to_owned();
        return Err((UnservedReason::Invalid, text));
    };
    if let Some(what) = beyond(frontend, pool) {
        let text = format!("the built-in proxy does not do that: {what}");
        return Err((UnservedReason::Unsupported, text));
    }
    let told = frontend.client_ip;
    let ranges = frontend.source_ranges.clone();
    let carries = match &frontend.protocol {
        // A session that nothing ever ends would be kept for good.
        Protocol::Udp => Carries::Datagrams {
            idle: Duration::from_secs(u64::from(pool.limits.idle_seconds.max(1))),
            ranges,
        },
        Protocol::Tcp => Carries::Connections { told, ranges },
        Protocol::TlsPassthrough { server_names } => {
            let names = server_names.clone();
            wrong(&names).map_or(Ok(Carries::Named { names, told }), |text| {
                Err((UnservedReason::Invalid, text))
            })?
        }
    };
    let members = pool.members.iter().map(|member| Member {
        host: member.host.clone(),
        address: member.address,
        port: member.port.get(),
        draining: member.draining,
    });
    let listener = Listener {
        name: frontend.name.clone(),
        address: frontend.address,
        port: frontend.port.get(),
        members: members.collect(),
    };
    Ok((carries, listener))
}

/// What is wrong with names that clients are to ask for.
fn wrong(names: &[String]) -> Option<String> {
    if names.is_empty() {
        return Some("no name is passed through".to_owned());
    }
    let wrong = names.iter().find(|name| !is_server_name(name));
    wrong.map(|name| format!("{name:?} is no DNS name in lower case (RFC 1123 section 2.1)"))
}

/// What of it only Envoy does. Members are chosen by their open connections, equals in turn: that is
/// as good as in turn alone.
fn beyond(frontend: &Frontend, pool: &Pool) -> Option<&'static str> {
    if frontend.client_ip != ClientIp::Hidden && frontend.protocol == Protocol::Udp {
        return Some("the PROXY protocol before datagrams");
    }
    if matches!(frontend.protocol, Protocol::TlsPassthrough { .. })
        && !frontend.source_ranges.is_empty()
    {
        return Some("to tell clients apart by their addresses where names share a port");
    }
    if let Protocol::TlsPassthrough { server_names } = &frontend.protocol
        && server_names.iter().any(|name| name.starts_with("*."))
    {
        return Some("names with a wildcard");
    }
    if pool.affinity != Affinity::None {
        return Some("to keep a client with a backend");
    }
    match pool.policy {
        Policy::RoundRobin | Policy::LeastConnections => {}
        Policy::Maglev => return Some("the policy Maglev"),
    }
    if pool.health.is_some() {
        return Some("active health checks; a backend is left out after a connect that fails");
    }
    let mut weights = pool.members.iter().map(|member| member.weight);
    let first = weights.next();
    if weights.any(|weight| Some(weight) != first) {
        return Some("weights");
    }
    None
}

#[cfg(test)]
mod tests;
