//! What is told of an offer, and what is not.

mod outer;
mod ranges;

use std::{collections::BTreeSet, net::IpAddr, num::NonZeroU16};

use envoy_types::pb::envoy::config::{
    cluster::v3::Cluster, core::v3::HealthStatus, endpoint::v3::ClusterLoadAssignment,
    listener::v3::Listener,
};
use kedge_control::frontend::{
    Affinity, ClientIp, Frontend, Health, Limits, Offer, Policy, Pool, PoolMember, Protocol,
};
use prost::Message as _;

use super::{Here, Life, Reason, Rendered, render};
use crate::{Kind, resource::Resource};

#[test]
fn a_tcp_frontend_is_a_listener_a_cluster_and_its_members() {
    let offer = offer(vec![tcp("web", "10.0.0.1", 80)], vec![pool("web", &["a"])]);
    assert_eq!(
        names(&render(&offer, &Here::default()).resources),
        [
            "cluster t/one/web",
            "endpoint t/one/web",
            "listener tcp/10.0.0.1:80"
        ]
    );
}

#[test]
fn a_pool_is_told_once_and_another_time_for_those_that_tell_it_of_clients() {
    let told = Frontend {
        client_ip: ClientIp::ProxyV2,
        ..tcp("web", "10.0.0.1", 82)
    };
    let frontends = vec![tcp("web", "10.0.0.1", 80), tcp("web", "fd00::1", 81), told];
    let offer = offer(frontends, vec![pool("web", &["a"])]);
    let Rendered {
        resources, refused, ..
    } = render(&offer, &Here::default());
    assert_eq!(refused, []);
    assert_eq!(
        names(&resources),
        [
            "cluster t/one/web",
            "cluster t/one/web/proxy-v2",
            "endpoint t/one/web",
            "endpoint t/one/web/proxy-v2",
            "listener tcp/10.0.0.1:80",
            "listener tcp/10.0.0.1:82",
            "listener tcp/[fd00::1]:81",
        ]
    );
}

#[test]
fn a_name_that_comes_or_goes_changes_no_listener() {
    let one = offer(vec![tls("a", &["a.example"])], vec![pool("a", &["a"])]);
    let frontends = vec![
        tls("a", &["a.example"]),
        tls("b", &["b.example", "c.example"]),
    ];
    let two = offer(frontends, vec![pool("a", &["a"]), pool("b", &["b"])]);
    let listeners = |offer: &Offer| {
        let Rendered {
            resources, refused, ..
        } = render(offer, &Here::default());
        assert_eq!(refused, []);
        let listeners = resources
            .into_iter()
            .filter(|one| one.kind == Kind::Listener);
        listeners.collect::<Vec<Resource>>()
    };
    assert_eq!(listeners(&one), listeners(&two));
    assert_eq!(names(&listeners(&two)), ["listener tls/10.0.0.9:443"]);
}

#[test]
fn a_wildcard_that_is_passed_through_has_a_chain_and_closer_names_their_own() {
    let chains = |frontends: Vec<Frontend>| {
        let offered = offer(frontends, vec![pool("a", &["a"]), pool("b", &["b"])]);
        let rendered = render(&offered, &Here::default());
        assert_eq!(rendered.refused, []);
        let mut all = rendered.resources.iter();
        let told = all.find(|one| one.kind == Kind::Listener).unwrap();
        let listener = Listener::decode(&*told.body.value).unwrap();
        let chains = listener.filter_chains.into_iter();
        let chains = chains.map(|it| (it.name, it.filter_chain_match.unwrap().server_names));
        (chains.collect::<Vec<_>>(), told.revision)
    };
    let chain = |name: &str, all: &[&str]| {
        let names: Vec<String> = all.iter().map(|&it| it.to_owned()).collect();
        (name.to_owned(), names)
    };
    let wide = || tls("a", &["*.example"]);
    let (alone, version) = chains(vec![wide()]);
    assert_eq!(alone, [chain("passed/*.example", &["*.example"])]);
    let (beside, other) = chains(vec![wide(), tls("b", &["b.example", "else"])]);
    let expected = [
        chain("", &[]),
        chain("passed", &["b.example"]),
        chain("passed/*.example", &["*.example"]),
    ];
    assert_eq!(beside, expected);
    assert_ne!(version, other);
}

#[test]
fn a_name_is_passed_through_to_another_pool_at_another_address() {
    let elsewhere = Frontend {
        address: ip("10.0.0.10"),
        ..tls("b", &["a.example", "*.wild.example"])
    };
    let frontends = vec![tls("a", &["a.example"]), elsewhere];
    let offered = offer(frontends, vec![pool("a", &["a"]), pool("b", &["b"])]);
    let rendered = render(&offered, &Here::default());
    assert_eq!(rendered.refused, []);
    let clusters = rendered.resources.iter();
    let clusters: Vec<Resource> = clusters
        .filter(|one| one.kind == Kind::Cluster)
        .cloned()
        .collect();
    let expected = [
        "cluster sni/10.0.0.10:443/*.wild.example",
        "cluster sni/10.0.0.10:443/a.example",
        "cluster sni/10.0.0.9:443/a.example",
    ];
    assert_eq!(names(&clusters), expected);
    // Whoever asks at an address gets what has the name there alone.
    for (at, own) in [("10.0.0.9", false), ("10.0.0.10", true)] {
        let all = rendered.resources.iter();
        let mut all = all.filter(|one| *one.name == *format!("tls/{at}:443"));
        let told = String::from_utf8_lossy(&all.next().unwrap().body.value).into_owned();
        assert!(told.contains(&format!("sni/{at}:443/")), "{told}");
        assert_eq!(told.contains("sni/10.0.0.10:443/"), own, "{told}");
    }
}

#[test]
fn members_say_what_the_tunnel_says_of_their_hosts() {
    let offer = offer(
        vec![tcp("web", "10.0.0.1", 80)],
        vec![pool("web", &["alive", "dead", "draining", "unheard"])],
    );
    let lives = [
        ("alive".to_owned(), Life::Alive),
        ("dead".to_owned(), Life::Dead),
        ("draining".to_owned(), Life::Draining),
    ];
    let here = Here {
        lives: lives.into(),
        ..Here::default()
    };
    let rendered = render(&offer, &here);
    let members = rendered.members.of_host(&here, "dead").remove(0);
    let told = ClusterLoadAssignment::decode(&*members.body.value).unwrap();
    let told: Vec<i32> = told.endpoints[0]
        .lb_endpoints
        .iter()
        .map(|one| one.health_status)
        .collect();
    let wanted = [
        HealthStatus::Unknown,
        HealthStatus::Unhealthy,
        HealthStatus::Draining,
        HealthStatus::Unhealthy,
    ];
    assert_eq!(told, wanted.map(i32::from));
    // The same as in the whole.
    assert!(rendered.resources.contains(&members));
    // One that is left lives, and is chosen no more; a dead one stays dead.
    let mut offer = offer;
    for member in &mut offer.pools[0].members {
        member.draining = true;
    }
    let rendered = render(&offer, &here);
    let members = rendered.members.of_host(&here, "dead").remove(0);
    let told = ClusterLoadAssignment::decode(&*members.body.value).unwrap();
    let told = told.endpoints[0]
        .lb_endpoints
        .iter()
        .map(|one| one.health_status);
    let wanted = [
        HealthStatus::Draining,
        HealthStatus::Unhealthy,
        HealthStatus::Draining,
        HealthStatus::Unhealthy,
    ];
    assert_eq!(told.collect::<Vec<i32>>(), wanted.map(i32::from));
    assert_eq!(rendered.members.of_host(&here, "another"), []);
}

#[test]
fn nothing_that_was_measured_to_hurt_is_left_at_its_default() {
    let mut pool = pool("web", &["a"]);
    pool.health = Some(HEALTH);
    let offer = offer(vec![tcp("web", "10.0.0.1", 80)], vec![pool]);
    let here = Here {
        namespaces: [("one".to_owned(), "/run/netns/one".to_owned())].into(),
        ..Here::default()
    };
    let Rendered { resources, .. } = render(&offer, &here);
    let cluster = resources
        .iter()
        .find(|one| one.kind == Kind::Cluster)
        .unwrap();
    let cluster = Cluster::decode(&*cluster.body.value).unwrap();
    assert!(cluster.ignore_health_on_host_removal);
    assert!(!cluster.close_connections_on_host_health_failure);
    let common = cluster.common_lb_config.unwrap();
    assert_eq!(common.healthy_panic_threshold.unwrap().value, 0.0);
    let window = common.update_merge_window.unwrap();
    assert_eq!((window.seconds, window.nanos), (0, 0));
    let limits = &cluster.circuit_breakers.unwrap().thresholds[0];
    assert_eq!(limits.max_connections.unwrap().value, 20_000);
    let source = cluster
        .upstream_bind_config
        .unwrap()
        .source_address
        .unwrap();
    assert_eq!(source.network_namespace_filepath, "/run/netns/one");
    assert_eq!(cluster.health_checks.len(), 1);
}

#[test]
fn where_there_are_many_checks_each_is_made_less_often() {
    let told = |relaxed, interval_seconds| {
        let health = Some(Health {
            interval_seconds,
            ..HEALTH
        });
        let pool = Pool {
            health,
            ..pool("web", &["a"])
        };
        let offer = offer(vec![tcp("web", "10.0.0.1", 80)], vec![pool]);
        let here = Here {
            relaxed,
            ..Here::default()
        };
        let rendered = render(&offer, &here);
        let mut all = rendered.resources.iter();
        let told = all.find(|one| one.kind == Kind::Cluster).unwrap();
        let cluster = Cluster::decode(&*told.body.value).unwrap();
        let seconds = cluster.health_checks[0].interval.unwrap().seconds;
        (seconds, told.revision)
    };
    assert_eq!(told(false, 1.0).0, 1);
    assert_eq!(told(true, 1.0).0, 10);
    assert_ne!(told(true, 1.0).1, told(false, 1.0).1);
    // Who asks for less gets less.
    assert_eq!(told(true, 60.0).0, 60);
}

#[test]
fn a_pool_of_the_gateway_itself_is_where_it_is_said_to_be_and_no_tenants_pool_is() {
    let mut pools = [pool("web", &["a"]), pool("web", &["a"])];
    pools[1].tenant = String::new();
    let here = Here {
        namespaces: [("one".to_owned(), "/one".to_owned())].into(),
        own: [("web".to_owned(), "/two".to_owned())].into(),
        ..Here::default()
    };
    let paths = pools.iter().map(|pool| here.namespace(pool).unwrap());
    assert_eq!(paths.collect::<Vec<_>>(), ["/one", "/two"]);
}

#[test]
fn what_is_made_of_the_same_has_the_same_version_wherever_it_is_made() {
    let offer = offer(vec![tcp("web", "10.0.0.1", 80)], vec![pool("web", &["a"])]);
    let Rendered { resources, .. } = render(&offer, &Here::default());
    let versions: Vec<String> = resources
        .iter()
        .map(|one| one.revision.version.to_string())
        .collect();
    // Another number here is everything told anew to every Envoy after an upgrade.
    assert_eq!(versions, VERSIONS);
}

#[test]
fn what_cannot_be_told_is_refused_and_everything_else_is_told() {
    let cases: Vec<(&str, Frontend, Pool, Reason)> = vec![
        (
            "an address and port that another has",
            tcp("bad", "10.0.0.1", 80),
            pool("bad", &["a"]),
            Reason::PortInUse {
                by: "one/good".to_owned(),
            },
        ),
        (
            "TLS where TCP is",
            Frontend {
                address: ip("10.0.0.1"),
                port: port(80),
                ..tls("bad", &["bad.example"])
            },
            pool("bad", &["a"]),
            Reason::PortInUse {
                by: "one/good".to_owned(),
            },
        ),
        (
            "TCP where TLS is",
            tcp("bad", "10.0.0.9", 443),
            pool("bad", &["a"]),
            Reason::PortInUse {
                by: "one/tls".to_owned(),
            },
        ),
        (
            "a name that another has",
            tls("bad", &["own.example", "good.example"]),
            pool("bad", &["a"]),
            Reason::NameInUse {
                name: "good.example".to_owned(),
                by: "one/tls".to_owned(),
            },
        ),
        (
            "no pool",
            tcp("bad", "10.0.0.2", 80),
            pool("other", &["a"]),
            Reason::NoPool,
        ),
        (
            "another tenant's pool",
            tcp("bad", "10.0.0.2", 80),
            Pool {
                tenant: "two".to_owned(),
                ..pool("bad", &["a"])
            },
            Reason::NoPool,
        ),
        (
            "UDP",
            Frontend {
                protocol: Protocol::Udp,
                ..tcp("bad", "10.0.0.2", 80)
            },
            pool("bad", &["a"]),
            Reason::Unsupported("Envoy carries no UDP here"),
        ),
        (
            "no name",
            tls("bad", &[]),
            pool("bad", &["a"]),
            Reason::Invalid("no name is passed through"),
        ),
        (
            "a member twice",
            tcp("bad", "10.0.0.2", 80),
            pool("bad", &["a", "a"]),
            Reason::Invalid("a member stands twice in its pool"),
        ),
        (
            "no connections",
            tcp("bad", "10.0.0.2", 80),
            Pool {
                limits: Limits {
                    connections: 0,
                    ..Limits::default()
                },
                ..pool("bad", &["a"])
            },
            Reason::Invalid("a pool must take at least one connection"),
        ),
        (
            "checks that never count",
            tcp("bad", "10.0.0.2", 80),
            with_health(Health { fall: 0, ..HEALTH }),
            Reason::Invalid("checks must fail and succeed at least once to count"),
        ),
        (
            "checks without a pause",
            tcp("bad", "10.0.0.2", 80),
            with_health(Health {
                interval_seconds: f64::NAN,
                ..HEALTH
            }),
            Reason::Invalid("checks are 10 ms to an hour apart"),
        ),
        (
            "checks that take long",
            tcp("bad", "10.0.0.2", 80),
            with_health(Health {
                timeout_seconds: 6.0,
                ..HEALTH
            }),
            Reason::Invalid("a check takes 10 ms to 5 s"),
        ),
    ];
    for (what, bad, pool_of_bad, reason) in cases {
        let good = Frontend {
            name: "one/good".to_owned(),
            ..tcp("good", "10.0.0.1", 80)
        };
        let passed = tls("tls", &["good.example"]);
        let offer = offer(
            vec![good, passed, bad],
            vec![pool("good", &["a"]), pool("tls", &["a"]), pool_of_bad],
        );
        let Rendered {
            resources, refused, ..
        } = render(&offer, &Here::default());
        assert_eq!(resources.len(), 6, "{what}");
        assert_eq!(refused.len(), 1, "{what}");
        assert_eq!(refused[0].reason, reason, "{what}");
    }
}

#[test]
fn names_are_those_of_hosts() {
    for bad in [
        "",
        ".",
        "A.example",
        "a..example",
        "-a.example",
        "a-.example",
        "*",
        "a.*.example",
        "a_b",
        "-",
    ] {
        let offer = offer(vec![tls("web", &[bad])], vec![pool("web", &["a"])]);
        assert_eq!(render(&offer, &Here::default()).refused.len(), 1, "{bad}");
    }
    let long = format!("{}.example", "a".repeat(63));
    for good in [
        "a",
        "a.example",
        "1.2.example",
        "*.example",
        "xn--bcher-kva.example",
        &long,
    ] {
        let offer = offer(vec![tls("web", &[good])], vec![pool("web", &["a"])]);
        assert_eq!(render(&offer, &Here::default()).refused, [], "{good}");
    }
}

fn offer(frontends: Vec<Frontend>, pools: Vec<Pool>) -> Offer {
    Offer {
        frontends,
        pools,
        ..Offer::default()
    }
}

fn tcp(pool: &str, address: &str, number: u16) -> Frontend {
    Frontend {
        name: format!("one/{pool}"),
        tenant: "one".to_owned(),
        address: ip(address),
        port: port(number),
        protocol: Protocol::Tcp,
        pool: pool.to_owned(),
        client_ip: ClientIp::Hidden,
        source_ranges: Vec::new(),
    }
}

fn tls(pool: &str, names: &[&str]) -> Frontend {
    let server_names = names.iter().map(|name| (*name).to_owned()).collect();
    Frontend {
        protocol: Protocol::TlsPassthrough { server_names },
        ..tcp(pool, "10.0.0.9", 443)
    }
}

fn pool(name: &str, hosts: &[&str]) -> Pool {
    // A host's address is made of its name: the same host has the same.
    let member = |host: &&str| PoolMember {
        host: (*host).to_owned(),
        address: IpAddr::from([198, 18, 0, u8::try_from(host.len()).unwrap()]),
        port: port(6443),
        weight: 1,
        draining: false,
    };
    Pool {
        name: name.to_owned(),
        tenant: "one".to_owned(),
        members: hosts.iter().map(member).collect(),
        policy: Policy::RoundRobin,
        affinity: Affinity::None,
        ..Pool::default()
    }
}

fn with_health(health: Health) -> Pool {
    Pool {
        health: Some(health),
        ..pool("bad", &["a"])
    }
}

fn names(resources: &[Resource]) -> Vec<String> {
    let names = resources
        .iter()
        .map(|one| format!("{} {}", one.kind.as_str(), one.name));
    names.collect::<BTreeSet<String>>().into_iter().collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

const HEALTH: Health = Health {
    interval_seconds: 1.0,
    timeout_seconds: 0.5,
    fall: 2,
    rise: 2,
};

const VERSIONS: [&str; 3] = ["e7209073e0bfd7d5", "6ea897fd7a55153a", "92995ec8381ef9c3"];
