use kedge_control::frontend::{Health, PoolMember};

use super::*;

/// An offer, sorted into what is served and what is not.
struct Served {
    listeners: Vec<(Carries, Listener)>,
    refused: Vec<Unserved>,
}

fn served(offer: &Offer) -> Served {
    let (mut listeners, mut refused) = (Vec::new(), Vec::new());
    for (frontend, verdict) in super::served(offer) {
        match verdict {
            Ok(listener) => listeners.push(listener),
            Err(unserved) => {
                assert_eq!(unserved.frontend, frontend.name);
                refused.push(unserved);
            }
        }
    }
    Served { listeners, refused }
}

fn offer(change: impl FnOnce(&mut Frontend, &mut Pool)) -> Offer {
    let mut frontend = Frontend {
        name: "ns/web/http".to_owned(),
        tenant: "t".to_owned(),
        address: "203.0.113.7".parse().unwrap(),
        port: 80.try_into().unwrap(),
        protocol: Protocol::Tcp,
        pool: "ns/web/http".to_owned(),
        client_ip: ClientIp::Hidden,
        source_ranges: Vec::new(),
    };
    let mut pool = Pool {
        name: "ns/web/http".to_owned(),
        tenant: "t".to_owned(),
        members: vec![PoolMember {
            host: "ns/a".to_owned(),
            address: "fd00::a".parse().unwrap(),
            port: 30080.try_into().unwrap(),
            weight: 1,
            draining: false,
        }],
        ..Pool::default()
    };
    change(&mut frontend, &mut pool);
    Offer {
        frontends: vec![frontend],
        pools: vec![pool],
        ..Offer::default()
    }
}

#[test]
fn a_tcp_frontend_is_served_with_the_members_of_its_pool() {
    let served = served(&offer(|_, _| {}));
    assert_eq!(served.refused, []);
    let (carries, listener) = &served.listeners[0];
    assert_eq!(*carries, HIDDEN);
    assert_eq!((listener.name.as_str(), listener.port), ("ns/web/http", 80));
    assert_eq!(listener.members[0].port, 30080);
    assert_eq!(listener.members[0].host, "ns/a");
}

#[test]
fn members_of_one_weight_have_equal_shares() {
    let served = served(&offer(|_, p| {
        p.members[0].weight = 128;
        p.members.push(p.members[0].clone());
    }));
    assert_eq!(served.refused, []);
    assert_eq!(served.listeners[0].1.members.len(), 2);
}

#[test]
fn what_the_proxy_does_not_do_is_refused_and_never_left_out_in_silence() {
    type Change = fn(&mut Frontend, &mut Pool);
    let table: [(Change, UnservedReason, &str); 10] = [
        (
            |f, _| {
                let server_names = vec!["a.example".to_owned()];
                f.protocol = Protocol::TlsPassthrough { server_names };
                f.source_ranges = vec!["192.0.2.0/24".parse().unwrap()];
            },
            UnservedReason::Unsupported,
            "apart",
        ),
        (
            |f, _| {
                let server_names = vec!["A.example".to_owned()];
                f.protocol = Protocol::TlsPassthrough { server_names };
            },
            UnservedReason::Invalid,
            "lower case",
        ),
        (
            |f, _| {
                let server_names = Vec::new();
                f.protocol = Protocol::TlsPassthrough { server_names };
            },
            UnservedReason::Invalid,
            "no name",
        ),
        (
            |f, _| {
                f.client_ip = ClientIp::ProxyV2;
                f.protocol = Protocol::Udp;
            },
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
            |_, p| {
                let heavy = PoolMember {
                    weight: 2,
                    ..p.members[0].clone()
                };
                p.members.push(heavy);
            },
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
    other.source_ranges = vec!["192.0.2.0/24".parse().unwrap()];
    both.frontends.push(other);
    both.pools[0].limits.idle_seconds = 0;
    let served = served(&both);
    assert_eq!(served.refused, []);
    let carries = Carries::Datagrams {
        idle: Duration::from_secs(1),
        ranges: vec!["192.0.2.0/24".parse().unwrap()],
    };
    assert_eq!(served.listeners[1].0, carries);
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

#[test]
fn names_share_a_place_and_each_is_one_frontends() {
    let mut all = offer(|_, _| {});
    let first = all.frontends.pop().unwrap();
    let mut put = |name: &str, protocol: Protocol| {
        all.frontends.push(Frontend {
            name: name.to_owned(),
            protocol,
            ..first.clone()
        });
    };
    let tls = |names: &[&str]| Protocol::TlsPassthrough {
        server_names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    put("a", tls(&["a.example", "www.a.example"]));
    put("b", tls(&["b.example"]));
    put("again", tls(&["c.example", "www.a.example"]));
    put("tcp", Protocol::Tcp);
    put("udp", Protocol::Udp);
    put("c", tls(&["c.example"]));
    let served = served(&all);
    let names: Vec<&str> = served.listeners.iter().map(|(_, one)| &*one.name).collect();
    assert_eq!(names, ["a", "b", "udp", "c"]);
    let refused = served.refused.iter();
    let refused: Vec<_> = refused.map(|one| (&*one.frontend, one.reason)).collect();
    let in_use = UnservedReason::PortInUse;
    assert_eq!(refused, [("again", in_use), ("tcp", in_use)]);
    assert!(
        served.refused[0]
            .message
            .contains("a has the name www.a.example")
    );
}

const HIDDEN: Carries = Carries::Connections {
    told: ClientIp::Hidden,
    ranges: Vec::new(),
};
