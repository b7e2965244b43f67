//! What of the manager's wishes a gateway takes up: hosts with their own single addresses, and
//! listeners whose members are hosts. No I/O.

mod apart;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use ipnet::IpNet;
use kedge_control::{
    agent::{GatewayConfig as Wished, Mesh, PeerConfig},
    balance::{Listener, Member},
    frontend::Offer,
};
use kedge_core::{Code, Fix, Problem};
use kedge_tunnel_device::{PeerSpec, Workers, keeper::Wish, mtu};
use kedge_tunnel_proto::{keys::PublicKey, noise::CoreName, realm::Realm};

pub(crate) use self::apart::Apart;
use crate::{
    claims::{Neighbor, add_neighbors},
    config::TunnelConfig,
};

/// What this gateway does.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// The tunnel; `None` while the manager wants none.
    pub tunnel: Option<Wish>,
    /// Whether it is found out what the way to each peer carries.
    pub finds_paths: bool,
    /// The other gateways, which are peers of the tunnel.
    pub neighbors: Vec<Neighbor>,
    /// Hosts that are told of each other.
    pub meshes: Vec<Mesh>,
    /// The listeners.
    pub listeners: Vec<Listener>,
    /// What it serves of tenants.
    pub offer: Offer,
    /// What is left out, and why.
    pub problems: Vec<Problem>,
}

/// Holds the manager's wishes to the bounds of the gateway with the public key `own`.
pub(crate) fn plan(config: &TunnelConfig, own: &PublicKey, wished: &Wished, apart: &Apart) -> Plan {
    let mut problems = Vec::new();
    let tunnel = wished.tunnel.as_ref().map(|tunnel| {
        let mut peers: Vec<PeerSpec> = Vec::new();
        for peer in &tunnel.peers {
            match accept(peer, own, &peers, apart) {
                Ok(accepted) => {
                    problems.extend(unusable_endpoint(peer, &accepted));
                    peers.push(accepted);
                }
                Err(problem) => problems.push(*problem),
            }
        }
        Wish {
            ifname: config.interface.clone(),
            listen_port: config.listen_port,
            other_port: config.other_port,
            mtu: config
                .mtu
                .unwrap_or_else(|| mtu::wished(tunnel.mtu, &mut problems)),
            noise_core: CoreName::Boringtun,
            offload: config.offload,
            workers: Workers::of_gateway(config.workers),
            addresses: tunnel.addresses.clone(),
            peers,
            realms: apart.paths.clone(),
        }
    });
    let hosts: BTreeMap<&str, &PeerSpec> = tunnel
        .iter()
        .flat_map(|wish| wish.peers.iter())
        .map(|peer| (peer.name.as_str(), peer))
        .collect();
    let hosts = |member: &Member| -> Option<&PeerSpec> {
        let host = hosts.get(&*member.host)?;
        let its = host.allowed_ips.contains(&IpNet::from(member.address));
        its.then_some(*host)
    };
    let mut listeners = wished.listeners.clone();
    for listener in &mut listeners {
        let name = listener.name.clone();
        let mut realm = None;
        listener.members.retain(|member| {
            // All of a listener are one tenant's: that of the first.
            let host = hosts(member);
            let realm = host.map(|host| *realm.get_or_insert(host.realm));
            let inside = host.is_some_and(|host| Some(host.realm) == realm);
            if !inside {
                let at = SocketAddr::new(member.address, member.port);
                problems.push(
                    Problem::warning(
                        Code::TunOutsideBounds,
                        format!(
                            "the member {} of {name} is no host of the tunnel",
                            member.host
                        ),
                    )
                    .object(format!("listeners/{name}"))
                    .evidence(format!("{at} belongs to no peer"))
                    .consequence("it gets no connections")
                    .fix(Fix::text("look at the host at the manager").command("kedge fleet hosts")),
                );
            }
            inside
        });
    }
    let mut offer = wished.offer.clone();
    let peers = tunnel.iter().flat_map(|wish| &wish.peers);
    hold_members(&mut offer, peers, apart, &mut problems);
    let mut tunnel = tunnel;
    let neighbors = tunnel
        .as_mut()
        .map(|wish| add_neighbors(config, wish))
        .unwrap_or_default();
    let finds_paths = tunnel
        .as_ref()
        .is_some_and(|wish| config.mtu.is_none() && wish.mtu == mtu::DEFAULT);
    Plan {
        tunnel,
        finds_paths,
        neighbors,
        meshes: wished.meshes.clone(),
        listeners,
        offer,
        problems,
    }
}

/// A tenant's member is the host that it is said to be: nothing else is reached through its pool.
fn hold_members<'a>(
    offer: &mut Offer,
    peers: impl Iterator<Item = &'a PeerSpec>,
    apart: &Apart,
    problems: &mut Vec<Problem>,
) {
    let own = peers.flat_map(|peer| {
        let addresses = peer.allowed_ips.iter();
        addresses.map(|address| (peer.name.as_str(), *address, peer.realm))
    });
    let own: BTreeSet<(&str, IpNet, Option<Realm>)> = own.collect();
    for pool in &mut offer.pools {
        let name = pool.name.clone();
        let realm = apart.realms.get(&pool.tenant).copied();
        pool.members.retain(|member| {
            let is_its = own.contains(&(&*member.host, IpNet::from(member.address), realm));
            if !is_its {
                problems.push(outside(&member.host, &name, member.address));
            }
            is_its
        });
    }
}

fn outside(host: &str, of: &str, address: IpAddr) -> Problem {
    let what = format!("the member {host} of {of} is no host of the tunnel");
    Problem::warning(Code::TunOutsideBounds, what)
        .object(format!("listeners/{of}"))
        .evidence(format!("{address} is not an address of the peer {host}"))
        .consequence("it gets no connections")
        .fix(Fix::text("look at the host at the manager").command("kedge fleet hosts"))
}

/// Says that a peer is taken up without the endpoint it was given.
fn unusable_endpoint(wish: &PeerConfig, accepted: &PeerSpec) -> Option<Problem> {
    let endpoint = wish.endpoint.as_ref()?;
    if accepted.endpoint.is_some() {
        return None;
    }
    let name: String = wish.name.escape_debug().take(80).collect();
    let endpoint: String = endpoint.escape_debug().take(80).collect();
    Some(
        Problem::warning(
            Code::ConfigOutOfRange,
            format!("the endpoint of the host {name} cannot be used"),
        )
        .object(format!("tunnels/{name}"))
        .evidence(format!("`{endpoint}` is no address with a port"))
        .consequence("the host is reached only when it calls this gateway")
        .fix(Fix::text("look at its record at the manager").command("kedge fleet hosts")),
    )
}

/// A host with its single addresses. Its name is what listeners call it.
fn accept(
    wish: &PeerConfig,
    own: &PublicKey,
    peers: &[PeerSpec],
    apart: &Apart,
) -> Result<PeerSpec, Box<Problem>> {
    let name: String = wish.name.escape_debug().take(80).collect();
    let refuse = |code, why: String| {
        let what = format!("the host {name} cannot be a peer");
        let problem = Problem::new(code, what)
            .object(format!("tunnels/{name}"))
            .evidence(why)
            .consequence("it is not reached through this gateway")
            .fix(Fix::text("look at its record at the manager").command("kedge fleet hosts"));
        Err(Box::new(problem))
    };
    let key = match wish.public_key.parse::<PublicKey>() {
        Ok(key) => key,
        Err(error) => return refuse(Code::TunKey, error.to_string()),
    };
    if key == *own {
        // The device takes none of the peers when one of them is itself.
        return refuse(Code::TunKey, "it has this gateway's own key".to_owned());
    }
    if let Some(other) = peers.iter().find(|peer| peer.keys().any(|it| it == key)) {
        return refuse(Code::TunKey, format!("{} has the same key", other.name));
    }
    if peers.iter().any(|peer| peer.name == wish.name) {
        return refuse(Code::TunKey, "the manager names it twice".to_owned());
    }
    let realm = match apart.realm(&wish.tenant) {
        Ok(realm) => realm,
        Err(why) => return refuse(Code::TunOutsideBounds, why),
    };
    for prefix in &wish.allowed_ips {
        if prefix.prefix_len() != prefix.max_prefix_len() {
            let why = format!("{prefix} is more than a single address");
            return refuse(Code::TunOutsideBounds, why);
        }
        let mut others = peers.iter().filter(|peer| peer.realm == realm);
        if let Some(other) = others.find(|peer| peer.allowed_ips.contains(prefix)) {
            let why = format!("{prefix} belongs to {}", other.name);
            return refuse(Code::TunOutsideBounds, why);
        }
    }
    let is_taken = |key: PublicKey| peers.iter().any(|peer| peer.keys().any(|it| it == key));
    let keepalive = Duration::from_secs(u64::from(wish.keepalive_seconds));
    Ok(PeerSpec {
        name: wish.name.clone(),
        public_key: key,
        preshared_key: None,
        // Hosts call; where they are is learned from authenticated packets.
        endpoint: wish.endpoint.as_ref().and_then(|at| at.parse().ok()),
        allowed_ips: wish.allowed_ips.clone(),
        keepalive: (!keepalive.is_zero()).then_some(keepalive),
        always_up: false,
        accepts: Vec::new(),
        relays: false,
        realm,
        next_key: wish
            .next_public_key
            .as_ref()
            .and_then(|key| key.parse().ok())
            .filter(|key| *key != *own && !is_taken(*key))
            .map(Box::new),
    })
}

#[cfg(test)]
mod tests {
    use kedge_control::{
        agent::TunnelConfig as Tunnel,
        balance::Member,
        frontend::{Pool, PoolMember},
    };

    use kedge_tunnel_device::offload::Allowed;

    use super::*;

    const KEYS: [&str; 2] = [
        "tTpyVTmHt9KKrynwDulkOR1/XLh0MwK7k2eL7DHIjkk=",
        "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    ];

    const OWN: &str = "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

    fn host(name: &str, key: &str, prefix: &str) -> PeerConfig {
        PeerConfig {
            name: name.to_owned(),
            public_key: key.to_owned(),
            next_public_key: None,
            endpoint: None,
            tls_endpoint: None,
            tenant: String::new(),
            other_endpoint: None,
            allowed_ips: vec![prefix.parse().unwrap()],
            keepalive_seconds: 0,
        }
    }

    fn wished(peers: Vec<PeerConfig>, members: &[(&str, &str)]) -> Wished {
        Wished {
            tunnel: Some(Tunnel {
                addresses: vec!["fd6b:6564:6765::1/128".parse().unwrap()],
                mtu: 1400,
                peers,
            }),
            listeners: vec![Listener {
                name: "edge/edge/6443".to_owned(),
                address: "203.0.113.7".parse().unwrap(),
                port: 6443,
                members: members
                    .iter()
                    .map(|(host, address)| Member {
                        host: (*host).to_owned(),
                        address: address.parse().unwrap(),
                        port: 6443,
                        draining: false,
                    })
                    .collect(),
            }],
            ..Wished::default()
        }
    }

    fn config() -> TunnelConfig {
        TunnelConfig {
            key_rotation: None,
            tls_port: None,
            other_port: None,
            bench_mbps: 0,
            listen_port: 51820,
            interface: "kedge0".to_owned(),
            mtu: None,
            offload: Allowed::ALL,
            workers: None,
            gateways: BTreeMap::new(),
            behind: Vec::new(),
        }
    }

    #[test]
    fn hosts_and_their_listeners_are_taken_up() {
        let peers = vec![host("a", KEYS[0], "fd6b:6564:6765::a/128")];
        let plan = plan(
            &config(),
            &OWN.parse().unwrap(),
            &wished(peers, &[("a", "fd6b:6564:6765::a")]),
            &Apart::default(),
        );
        assert_eq!(plan.problems, []);
        let tunnel = plan.tunnel.unwrap();
        assert_eq!((tunnel.mtu, tunnel.listen_port), (1400, 51820));
        assert_eq!(tunnel.peers[0].name, "a");
        assert_eq!(plan.listeners[0].members.len(), 1);
    }

    #[test]
    fn a_host_never_gets_more_than_its_own_addresses() {
        let good = host("good", KEYS[1], "fd6b:6564:6765::b/128");
        for (bad, code) in [
            (host("bad", KEYS[0], "::/0"), Code::TunOutsideBounds),
            (
                host("bad", KEYS[0], "fd6b:6564:6765::/64"),
                Code::TunOutsideBounds,
            ),
            (
                host("bad", KEYS[0], "fd6b:6564:6765::b/128"),
                Code::TunOutsideBounds,
            ),
            (host("bad", KEYS[1], "fd6b:6564:6765::c/128"), Code::TunKey),
            (host("bad", OWN, "fd6b:6564:6765::c/128"), Code::TunKey),
            (host("bad", "x", "fd6b:6564:6765::c/128"), Code::TunKey),
            (host("good", KEYS[0], "fd6b:6564:6765::c/128"), Code::TunKey),
        ] {
            let plan = plan(
                &config(),
                &OWN.parse().unwrap(),
                &wished(vec![good.clone(), bad], &[]),
                &Apart::default(),
            );
            assert_eq!(plan.tunnel.unwrap().peers.len(), 1);
            assert_eq!(plan.problems[0].code, code);
        }
    }

    #[test]
    fn an_mtu_outside_its_bounds_is_told_and_not_taken_up() {
        for (mtu, configured, expected, problems) in [
            (1279, None, 1420, 1),
            (1280, None, 1280, 0),
            (9000, None, 9000, 0),
            (9001, None, 1420, 1),
            (9001, Some(1500), 1500, 0),
        ] {
            let config = TunnelConfig {
                mtu: configured,
                ..config()
            };
            let mut wished = wished(Vec::new(), &[]);
            wished.tunnel.as_mut().unwrap().mtu = mtu;
            let plan = plan(&config, &OWN.parse().unwrap(), &wished, &Apart::default());
            assert_eq!(plan.tunnel.unwrap().mtu, expected, "{mtu}");
            assert_eq!(plan.problems.len(), problems, "{mtu}");
            for problem in plan.problems {
                assert_eq!(problem.code, Code::ConfigOutOfRange);
                assert!(problem.what.contains(&mtu.to_string()), "{}", problem.what);
            }
        }
    }

    #[test]
    fn an_endpoint_that_is_none_is_told_and_the_host_may_still_call() {
        let mut peer = host("a", KEYS[0], "fd6b:6564:6765::a/128");
        for (endpoint, problems) in [("203.0.113.7:51820", 0), ("nowhere", 1)] {
            peer.endpoint = Some(endpoint.to_owned());
            let wished = wished(vec![peer.clone()], &[]);
            let plan = plan(&config(), &OWN.parse().unwrap(), &wished, &Apart::default());
            let peer = &plan.tunnel.unwrap().peers[0];
            assert_eq!(peer.endpoint, endpoint.parse().ok());
            assert_eq!(plan.problems.len(), problems, "{endpoint}");
            for problem in plan.problems {
                assert_eq!(problem.code, Code::ConfigOutOfRange);
                assert!(problem.evidence[0].contains("nowhere"));
            }
        }
    }

    #[test]
    fn members_outside_the_tunnel_get_no_connections() {
        let peers = vec![host("a", KEYS[0], "fd6b:6564:6765::a/128")];
        let members = [("a", "fd6b:6564:6765::a"), ("x", "127.0.0.1")];
        let plan = plan(
            &config(),
            &OWN.parse().unwrap(),
            &wished(peers, &members),
            &Apart::default(),
        );
        assert_eq!(plan.listeners[0].members.len(), 1);
        assert_eq!(plan.problems[0].code, Code::TunOutsideBounds);
    }

    #[test]
    fn a_tenants_pool_leads_to_the_hosts_it_names_and_to_nobody_elses_address() {
        let peers = vec![
            host("a", KEYS[0], "fd6b:6564:6765::a/128"),
            host("b", KEYS[1], "fd6b:6564:6765::b/128"),
        ];
        let mut wished = wished(peers, &[]);
        let member = |host: &str, address: &str| PoolMember {
            host: host.to_owned(),
            address: address.parse().unwrap(),
            port: 80.try_into().unwrap(),
            weight: 1,
            draining: false,
        };
        wished.offer.pools.push(Pool {
            name: "ns/web/http".to_owned(),
            members: vec![
                member("a", "fd6b:6564:6765::a"),
                member("a", "fd6b:6564:6765::b"),
                member("x", "127.0.0.1"),
            ],
            ..Pool::default()
        });
        let plan = plan(&config(), &OWN.parse().unwrap(), &wished, &Apart::default());
        let members = &plan.offer.pools[0].members;
        assert_eq!(*members, [member("a", "fd6b:6564:6765::a")]);
        assert_eq!(plan.problems.len(), 2);
        assert_eq!(plan.problems[0].code, Code::TunOutsideBounds);
    }

    #[test]
    fn without_a_tunnel_there_is_none() {
        assert_eq!(
            plan(
                &config(),
                &OWN.parse().unwrap(),
                &Wished::default(),
                &Apart::default()
            ),
            Plan::default()
        );
    }
}
