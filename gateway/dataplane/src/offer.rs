//! What of an offer the built-in proxy serves, and why it does not serve the rest.

use std::{collections::BTreeMap, time::Duration};

use kedge_control::{
    balance::{Listener, Member},
    frontend::{Affinity, ClientIp, Frontend, Offer, Policy, Pool, Protocol},
    report::{Unserved, UnservedReason},
};

/// An offer as the built-in proxy serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// What it listens for, in the order of the offer.
    pub listeners: Vec<(Carries, Listener)>,
    /// What it does not serve. Nothing is left out in silence.
    pub refused: Vec<Unserved>,
}

/// What a listener carries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carries {
    /// TCP connections.
    Connections,
    /// TCP connections of clients that ask for one of these names by TLS, which stays as it is. Others
    /// with other names share the place.
    Named {
        /// The names, in lower case.
        names: Vec<String>,
    },
    /// UDP datagrams; a session ends after so much silence of both sides.
    Datagrams {
        /// How much.
        idle: Duration,
    },
}

impl Carries {
    /// Whether both are of one protocol: then they exclude each other at one place, unless names tell
    /// them apart.
    #[must_use]
    pub const fn is_like(&self, other: &Self) -> bool {
        matches!(self, Self::Datagrams { .. }) == matches!(other, Self::Datagrams { .. })
    }
}

/// Sorts an offer into what is served and what is not.
#[must_use]
pub fn served(offer: &Offer) -> Served {
    let pools = offer.pools.iter();
    let pools: BTreeMap<(&str, &str), &Pool> = pools
        .map(|pool| ((&*pool.tenant, &*pool.name), pool))
        .collect();
    let mut served = Served::default();
    for frontend in &offer.frontends {
        let pool = pools.get(&(&*frontend.tenant, &*frontend.pool)).copied();
        match checked(frontend, pool, &served.listeners) {
            Ok(listener) => served.listeners.push(listener),
            Err((reason, message)) => served.refused.push(Unserved {
                frontend: frontend.name.clone(),
                reason,
                message,
            }),
        }
    }
    served
}

fn checked(
    frontend: &Frontend,
    pool: Option<&Pool>,
    taken: &[(Carries, Listener)],
) -> Result<(Carries, Listener), (UnservedReason, String)> {
    let Some(pool) = pool else {
        let text = "its tenant has no pool of that name".to_owned();
        return Err((UnservedReason::Invalid, text));
    };
    if let Some(what) = beyond(frontend, pool) {
        let text = format!("the built-in proxy does not do that: {what}");
        return Err((UnservedReason::Unsupported, text));
    }
    let port = frontend.port.get();
    let carries = match &frontend.protocol {
        // A session that nothing ever ends would be kept for good.
        Protocol::Udp => Carries::Datagrams {
            idle: Duration::from_secs(u64::from(pool.limits.idle_seconds.max(1))),
        },
        Protocol::Tcp => Carries::Connections,
        Protocol::TlsPassthrough { server_names } => {
            let names = server_names.clone();
            wrong(&names).map_or(Ok(Carries::Named { names }), |text| {
                Err((UnservedReason::Invalid, text))
            })?
        }
    };
    let at = (frontend.address, port);
    let here = taken
        .iter()
        .filter(|(_, one)| (one.address, one.port) == at);
    for (other, one) in here.filter(|(other, _)| other.is_like(&carries)) {
        let text = match (other, &carries) {
            (Carries::Named { names: taken }, Carries::Named { names }) => {
                let Some(name) = names.iter().find(|name| taken.contains(name)) else {
                    continue;
                };
                format!("{} has the name {name} there", one.name)
            }
            _ => format!("{} has the address and port", one.name),
        };
        return Err((UnservedReason::PortInUse, text));
    }
    let members = pool.members.iter().map(|member| Member {
        host: member.host.clone(),
        address: member.address,
        port: member.port.get(),
    });
    let listener = Listener {
        name: frontend.name.clone(),
        address: frontend.address,
        port,
        members: members.collect(),
    };
    Ok((carries, listener))
}

/// What is wrong with names that clients are to ask for.
fn wrong(names: &[String]) -> Option<String> {
    if names.is_empty() {
        return Some("no name is passed through".to_owned());
    }
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_edge = label.starts_with('-') || label.ends_with('-');
        (1..=63).contains(&label.len()) && !is_edge && label.bytes().all(inner)
    };
    let is_name = |name: &str| name.len() <= 253 && name.split('.').all(is_label);
    let wrong = names.iter().find(|name| !is_name(name));
    wrong.map(|name| format!("{name:?} is no DNS name in lower case (RFC 1123 section 2.1)"))
}

/// What of it only Envoy does. Members are chosen by their open connections, equals in turn: that is
/// as good as in turn alone.
fn beyond(frontend: &Frontend, pool: &Pool) -> Option<&'static str> {
    if frontend.client_ip != ClientIp::Hidden {
        return Some("the PROXY protocol");
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
    if pool.members.iter().any(|member| member.weight != 1) {
        return Some("weights");
    }
    None
}

#[cfg(test)]
mod tests;
