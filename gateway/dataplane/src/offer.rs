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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carries {
    /// TCP connections.
    Connections,
    /// UDP datagrams; a session ends after so much silence of both sides.
    Datagrams {
        /// How much.
        idle: Duration,
    },
}

impl Carries {
    /// Whether both are of one protocol: then they exclude each other at one place.
    #[must_use]
    pub const fn is_like(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Connections, Self::Connections)
                | (Self::Datagrams { .. }, Self::Datagrams { .. })
        )
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
    let carries = match frontend.protocol {
        // A session that nothing ever ends would be kept for good.
        Protocol::Udp => Carries::Datagrams {
            idle: Duration::from_secs(u64::from(pool.limits.idle_seconds.max(1))),
        },
        Protocol::Tcp | Protocol::TlsPassthrough { .. } => Carries::Connections,
    };
    let mut taken = taken.iter();
    let other = taken.find(|(other, at)| {
        other.is_like(carries) && (at.address, at.port) == (frontend.address, port)
    });
    if let Some((_, other)) = other {
        let text = format!("{} has the address and port", other.name);
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

/// What of it only Envoy does. Members are chosen by their open connections, equals in turn: that is
/// as good as in turn alone.
fn beyond(frontend: &Frontend, pool: &Pool) -> Option<&'static str> {
    match frontend.protocol {
        Protocol::Tcp | Protocol::Udp => {}
        Protocol::TlsPassthrough { .. } => return Some("TLS by the name that is asked for"),
    }
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
mod tests {
    use kedge_control::frontend::{Health, PoolMember};

    use super::*;

    fn offer(change: impl FnOnce(&mut Frontend, &mut Pool)) -> Offer {
        let mut frontend = Frontend {
            name: "ns/web/http".to_owned(),
            tenant: "t".to_owned(),
            address: "203.0.113.7".parse().unwrap(),
            port: 80.try_into().unwrap(),
            protocol: Protocol::Tcp,
            pool: "ns/web/http".to_owned(),
            client_ip: ClientIp::Hidden,
        };
        let mut pool = Pool {
            name: "ns/web/http".to_owned(),
            tenant: "t".to_owned(),
            members: vec![PoolMember {
                host: "ns/a".to_owned(),
                address: "fd00::a".parse().unwrap(),
                port: 30080.try_into().unwrap(),
                weight: 1,
            }],
            ..Pool::default()
        };
        change(&mut frontend, &mut pool);
        Offer {
            frontends: vec![frontend],
            pools: vec![pool],
        }
    }

    #[test]
    fn a_tcp_frontend_is_served_with_the_members_of_its_pool() {
        let served = served(&offer(|_, _| {}));
        assert_eq!(served.refused, []);
        let (carries, listener) = &served.listeners[0];
        assert_eq!(*carries, Carries::Connections);
        assert_eq!((listener.name.as_str(), listener.port), ("ns/web/http", 80));
        assert_eq!(listener.members[0].port, 30080);
        assert_eq!(listener.members[0].host, "ns/a");
    }

    #[test]
    fn what_the_proxy_does_not_do_is_refused_and_never_left_out_in_silence() {
        type Change = fn(&mut Frontend, &mut Pool);
        let table: [(Change, UnservedReason, &str); 8] = [
            (
                |f, _| {
                    let server_names = vec!["a.example".to_owned()];
                    f.protocol = Protocol::TlsPassthrough { server_names };
                },
                UnservedReason::Unsupported,
                "TLS",
            ),
            (
                |f, _| f.client_ip = ClientIp::ProxyV2,
                UnservedReason::Unsupported,
                "PROXY",
            ),
            (
                |_, p| p.affinity = Affinity::ClientIp,
                UnservedReason::Unsupported,
                "keep a client",
            ),
            (
                |_, p| p.policy = Policy::Maglev,
                UnservedReason::Unsupported,
                "Maglev",
            ),
            (
                |_, p| {
                    p.health = Some(Health {
                        interval_seconds: 1.0,
                        timeout_seconds: 1.0,
                        fall: 1,
                        rise: 1,
                    });
                },
                UnservedReason::Unsupported,
                "health",
            ),
            (
                |_, p| p.members[0].weight = 2,
                UnservedReason::Unsupported,
                "weights",
            ),
            (
                |_, p| p.tenant = "other".to_owned(),
                UnservedReason::Invalid,
                "no pool",
            ),
            (
                |f, _| f.pool = "else".to_owned(),
                UnservedReason::Invalid,
                "no pool",
            ),
        ];
        for (change, reason, said) in table {
            let served = served(&offer(change));
            assert_eq!(served.listeners, [], "{said}");
            assert_eq!(served.refused[0].reason, reason, "{said}");
            assert!(
                served.refused[0].message.contains(said),
                "{}",
                served.refused[0].message
            );
        }
    }

    #[test]
    fn datagrams_and_connections_share_a_port() {
        let mut both = offer(|_, _| {});
        let mut other = both.frontends[0].clone();
        other.name = "ns/web/udp".to_owned();
        other.protocol = Protocol::Udp;
        both.frontends.push(other);
        both.pools[0].limits.idle_seconds = 0;
        let served = served(&both);
        assert_eq!(served.refused, []);
        let idle = Duration::from_secs(1);
        assert_eq!(served.listeners[1].0, Carries::Datagrams { idle });
    }

    #[test]
    fn the_first_of_two_at_one_place_is_served_and_the_other_told() {
        let mut both = offer(|_, _| {});
        let mut other = both.frontends[0].clone();
        other.name = "ns/other/http".to_owned();
        both.frontends.push(other);
        let served = served(&both);
        assert_eq!(served.listeners.len(), 1);
        assert_eq!(served.refused[0].frontend, "ns/other/http");
        assert_eq!(served.refused[0].reason, UnservedReason::PortInUse);
        assert!(served.refused[0].message.contains("ns/web/http"));
    }
}
