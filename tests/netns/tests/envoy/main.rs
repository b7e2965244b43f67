//! What a gateway offers, served by the real Envoy.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

pub mod dice;
pub mod site;

use std::{
    net::{Ipv4Addr, TcpListener},
    thread,
    time::Instant,
};

use kedge_control::frontend::{ClientIp, Frontend, Health, Offer, Protocol};
use kedge_gateway_xds::{Here, Kind, Life, delta::Outcome, render};
use kedge_tests_netns::{
    answers::{Answers, ask},
    envoy::Server,
    eventually,
    lan::Lan,
    secs,
};

use dice::Dice;
use site::{BACKEND, PORT, Site, TAKEN, hello, micros, number, offer, tcp};

#[test]
fn a_host_that_the_tunnel_calls_dead_gets_nothing_and_keeps_what_it_has() {
    let Some(site) = Site::new() else { return };
    let offer = offer(vec![tcp("web", PORT)], vec![site.pool("web")]);
    let mut here = site.alive();
    let members = site.declare(&offer, &here);
    let envoy = site.envoy();
    site.both_answer();
    let mut open = site.opened_at("b");

    here.lives.insert("b".to_owned(), Life::Dead);
    let since = Instant::now();
    for members in members.of_host(&here, "b") {
        site.server.wanted.change(members);
    }
    let last = site.last_answer_of("b");
    println!(
        "the last answer of b: {:.1} ms after it was dead",
        last.duration_since(since).as_secs_f64() * 1e3
    );
    assert!(open.lives(), "what was open is closed");

    here.lives.insert("b".to_owned(), Life::Alive);
    site.declare(&offer, &here);
    site.both_answer();
    drop(envoy);
}

#[test]
fn a_host_that_is_removed_is_never_picked_and_what_it_has_stays() {
    let Some(site) = Site::new() else { return };
    let mut offer = offer(vec![tcp("web", PORT)], vec![site.pool("web")]);
    let here = site.alive();
    site.declare(&offer, &here);
    let _envoy = site.envoy();
    site.both_answer();
    let mut open = site.opened_at("b");
    offer.pools[0].members.retain(|member| member.host != "b");
    site.declare(&offer, &here);
    site.last_answer_of("b");
    for _ in 0..200 {
        assert_eq!(site.name(PORT).as_deref(), Some("a"));
    }
    assert!(open.lives());
    // The frontend goes, and with it the listener; connections stay all the same.
    site.declare(&Offer::default(), &here);
    eventually("nobody listens", secs(5), || site.name(PORT).is_none());
    assert!(open.lives());
}

#[test]
fn what_envoy_refuses_keeps_nobody_else_waiting() {
    let Some(site) = Site::new() else { return };
    // Another process has a port of the gateway's.
    let taken = site
        .gateway
        .run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, TAKEN)).unwrap());
    let frontends = (0..20).map(|index| tcp(&format!("web-{index}"), PORT + index));
    let frontends: Vec<Frontend> = frontends.chain([tcp("bad", TAKEN)]).collect();
    let pools = frontends
        .iter()
        .map(|frontend| site.pool(&frontend.pool))
        .collect();
    let offer = offer(frontends, pools);
    site.declare(&offer, &site.alive());
    let _envoy = site.envoy();
    for index in 0..20 {
        let port = PORT + index;
        eventually(&format!("port {port} is served"), secs(5), || {
            site.name(port).is_some()
        });
    }
    let name = format!("tcp/{}:{TAKEN}", site.gateway.address());
    let refused = || site.server.wanted.outcome(Kind::Listener, &name);
    eventually("the refusal is told", secs(5), || {
        matches!(refused(), Some(Outcome::Refused { .. }))
    });
    let refused = site.server.wanted.refused();
    assert_eq!(refused.len(), 1, "{refused:?}");
    println!("Envoy says: {}", refused[0].1);
    // The port is free, and something of its kind goes: it is tried again.
    drop(taken);
    let mut fewer = offer;
    fewer.frontends.remove(0);
    site.declare(&fewer, &site.alive());
    eventually("the port is served once it is free", secs(5), || {
        site.name(TAKEN).is_some()
    });
}

#[test]
fn a_pool_whose_checks_take_long_keeps_nobody_else_waiting() {
    let Some(site) = Site::new() else { return };
    let here = site.alive();
    let mut offered = offer(vec![tcp("web", PORT)], vec![site.pool("web")]);
    site.declare(&offered, &here);
    let _envoy = site.envoy();
    site.both_answer();
    // Nobody is there, and nothing says so.
    site.gateway.nft("table ip hole { chain out { type filter hook output priority 0; ip daddr 10.20.14.99 drop; }; }");
    let mut slow = site.pool("slow");
    slow.members.truncate(1);
    slow.members[0].address = "10.20.14.99".parse().unwrap();
    slow.health = Some(Health {
        interval_seconds: 5.0,
        timeout_seconds: 5.0,
        fall: 1,
        rise: 1,
    });
    offered.pools.push(slow);
    offered
        .frontends
        .extend(offer(vec![tcp("slow", PORT + 1)], vec![]).frontends);
    site.declare(&offered, &here);
    let clusters = || {
        site.server
            .wanted
            .pending()
            .iter()
            .any(|(kind, _)| *kind == Kind::Cluster)
    };
    assert!(clusters(), "Envoy has to check first");
    for more in 2..6 {
        let name = format!("more-{more}");
        offered.pools.push(site.pool(&name));
        offered
            .frontends
            .extend(offer(vec![tcp(&name, PORT + more)], vec![]).frontends);
        site.declare(&offered, &here);
        eventually(&format!("{name} is served"), secs(1), || {
            site.name(PORT + more).is_some()
        });
    }
    assert!(clusters(), "Envoy still checks");
    eventually("everything is settled", secs(10), || {
        site.server.wanted.pending().is_empty()
    });
}

#[test]
fn names_of_many_tenants_share_a_port_and_each_leads_to_its_own() {
    let Some(site) = Site::new() else { return };
    let to = |tenant: &str, name: &str| Frontend {
        name: format!("{tenant}/api"),
        tenant: tenant.to_owned(),
        protocol: Protocol::TlsPassthrough {
            server_names: vec![name.to_owned()],
        },
        pool: "api".to_owned(),
        ..tcp("api", PORT)
    };
    let pool = |tenant: &str, host: &str| {
        let mut pool = site.pool("api");
        pool.tenant = tenant.to_owned();
        pool.members.retain(|member| member.host == host);
        pool
    };
    let frontends = vec![to("one", "api.one.example"), to("two", "api.two.example")];
    let offer = offer(frontends, vec![pool("one", "a"), pool("two", "b")]);
    site.declare(&offer, &site.alive());
    let _envoy = site.envoy();
    let asked =
        |words: &[u8]| ask(&site.client, site.address(), PORT, words).map(|asked| asked.name);
    eventually("the first is served", secs(5), || {
        asked(&hello("api.one.example")).as_deref() == Some("a")
    });
    assert_eq!(asked(&hello("api.two.example")).as_deref(), Some("b"));
    // Names are asked for as people write them.
    assert_eq!(asked(&hello("API.Two.Example")).as_deref(), Some("b"));
    // The last one names nobody, as a client does that has an address alone.
    for name in ["api.three.example", "xds", "192.0.2.1"] {
        assert_eq!(asked(&hello(name)), None, "{name} leads somewhere");
    }
    assert_eq!(
        asked(b"GET / HTTP/1.0\r\n\r\n"),
        None,
        "bytes that are not TLS lead somewhere"
    );
}

#[test]
fn a_backend_is_told_who_the_client_is() {
    let Some(site) = Site::new() else { return };
    let told = |name: &str, port, client_ip| Frontend {
        client_ip,
        ..tcp(name, port)
    };
    let frontends = vec![
        told("text", PORT, ClientIp::ProxyV1),
        told("binary", PORT + 1, ClientIp::ProxyV2),
    ];
    let to = |name: &str, port: u16| {
        let mut pool = site.pool(name);
        pool.members.truncate(1);
        pool.members[0].port = number(port);
        pool
    };
    let text = Answers::start(&site.a, 9001, "a", 6);
    let binary = Answers::start(&site.a, 9002, "a", 28);
    let offer = offer(frontends, vec![to("text", 9001), to("binary", 9002)]);
    site.declare(&offer, &site.alive());
    let _envoy = site.envoy();
    eventually("text is served", secs(5), || site.name(PORT).is_some());
    assert_eq!(text.heard().unwrap(), b"PROXY ");
    eventually("binary is served", secs(5), || {
        site.name(PORT + 1).is_some()
    });
    let header = binary.heard().unwrap();
    assert_eq!(header[..12], *b"\r\n\r\n\0\r\nQUIT\n");
    assert_eq!(header[12..14], [0x21, 0x11]);
    assert_eq!(header[16..20], site.client.address().octets());
    assert_eq!(header[20..24], site.gateway.address().octets());
    assert_eq!(header[26..28], (PORT + 1).to_be_bytes());
}

#[test]
fn a_gateway_that_is_started_again_finds_everything_as_it_was() {
    let Some(mut site) = Site::new() else { return };
    let offered = offer(vec![tcp("web", PORT)], vec![site.pool("web")]);
    let here = site.alive();
    site.declare(&offered, &here);
    let envoy = site.envoy();
    site.both_answer();
    let mut open = site.opened_at("a");
    let before = envoy.listeners();
    let socket = site.server.socket().to_owned();
    site.server.kill();
    assert!(site.name(PORT).is_some());

    // It does not know yet what is to be served: Envoy goes on.
    site.server = Server::on(&socket);
    let since = Instant::now();
    assert_eq!(envoy.listeners(), before);
    let more = offer(
        vec![tcp("web", PORT), tcp("more", PORT + 1)],
        vec![site.pool("web"), site.pool("more")],
    );
    site.declare(&more, &here);
    eventually("what is new is served", secs(5), || {
        site.name(PORT + 1).is_some()
    });
    println!(
        "the new server is heard after {:.0} ms",
        since.elapsed().as_secs_f64() * 1e3
    );
    assert!(open.lives(), "a connection did not outlive the server");
    // What it held already it was not told again, and is known to be there.
    let stats = envoy
        .ask("/stats?filter=listener_manager.listener_(added|modified)")
        .unwrap();
    assert!(stats.contains("listener_added: 2"), "{stats}");
    assert!(stats.contains("listener_modified: 0"), "{stats}");
    eventually("everything is known to be held", secs(5), || {
        site.server.wanted.pending().is_empty()
    });
}

#[test]
fn an_envoy_that_is_started_again_is_told_everything() {
    let Some(site) = Site::new() else { return };
    let offer = offer(vec![tcp("web", PORT)], vec![site.pool("web")]);
    site.declare(&offer, &site.alive());
    let envoy = site.envoy();
    site.both_answer();
    envoy.kill();
    assert_eq!(site.name(PORT), None);
    let _envoy = site.envoy();
    site.both_answer();
}

#[test]
fn whatever_is_offered_envoy_takes() {
    let Some(site) = Site::new() else { return };
    let seed = std::env::var("KEDGE_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut dice = Dice(seed);
    site.server.wanted.declare([]);
    let _envoy = site.envoy();
    for round in 0..100 {
        let offer = dice.offer(site.address());
        let mut here = Here::default();
        for host in 0..6 {
            let life = dice.of(&[Life::Alive, Life::Dead, Life::Draining]);
            here.lives.insert(format!("host-{host}"), life);
        }
        site.server.wanted.declare(render(&offer, &here).resources);
        let start = Instant::now();
        while !site.server.wanted.pending().is_empty() {
            let waits = site.server.wanted.pending();
            assert!(
                start.elapsed() < secs(10),
                "round {round} of seed {seed}: {waits:?}"
            );
            thread::yield_now();
        }
        assert_eq!(
            site.server.wanted.refused(),
            [],
            "round {round} of seed {seed}: {offer:?}"
        );
    }
}

#[test]
fn an_envoy_that_starts_while_members_change_holds_the_last_of_them() {
    let Some(site) = Site::new() else { return };
    let offer = offer(vec![tcp("web", PORT)], vec![site.pool("web")]);
    let rounds = std::env::var("KEDGE_ROUNDS").map_or(10, |it| it.parse().unwrap());
    for round in 0..rounds {
        let mut here = Here::default();
        let members = site.declare(&offer, &here);
        thread::scope(|scope| {
            let site = &site;
            let envoy = scope.spawn(move || site.envoy());
            // About as long as it takes to start, with changes at other times in each round.
            for (index, host) in ["a", "b"].into_iter().cycle().take(20).enumerate() {
                thread::sleep(micros(500 + 700 * (round % 10) + 97 * index as u64));
                let life = if index < 18 && index % 4 < 2 {
                    Life::Dead
                } else {
                    Life::Alive
                };
                here.lives.insert(host.to_owned(), life);
                for members in members.of_host(&here, host) {
                    site.server.wanted.change(members);
                }
            }
            let envoy = envoy.join().unwrap();
            site.both_answer();
            envoy.kill();
        });
    }
}

#[test]
fn two_tenants_whose_hosts_have_the_same_address_each_reach_their_own() {
    let Some(site) = Site::new() else { return };
    // Each tenant's hosts are behind a namespace of its own.
    let tenants = ["one", "two"].map(|tenant| {
        let lan = Lan::new();
        let way = lan.host("way", "10.20.14.1/24");
        let host = lan.host("a", "10.20.14.11/24");
        let _ = Answers::start(&host, BACKEND, tenant, 0);
        (tenant, lan, way, host)
    });
    let mut here = site.alive();
    for (tenant, _, way, _) in &tenants {
        let path = format!("/run/netns/{}", way.namespace().name());
        here.namespaces.insert((*tenant).to_owned(), path);
    }
    let frontend = |tenant: &str, port| Frontend {
        name: format!("{tenant}/web"),
        tenant: tenant.to_owned(),
        ..tcp("web", port)
    };
    let pool = |tenant: &str| {
        let mut pool = site.pool("web");
        pool.tenant = tenant.to_owned();
        pool.members.truncate(1);
        pool.health = Some(Health {
            interval_seconds: 0.2,
            timeout_seconds: 0.2,
            fall: 2,
            rise: 1,
        });
        pool
    };
    let offer = offer(
        vec![
            frontend("one", PORT),
            frontend("two", PORT + 1),
            tcp("own", PORT + 2),
        ],
        vec![pool("one"), pool("two"), site.pool("own")],
    );
    site.declare(&offer, &here);
    let _envoy = site.envoy();
    for (port, tenant) in [(PORT, "one"), (PORT + 1, "two")] {
        eventually(&format!("{tenant} is served"), secs(5), || {
            site.name(port).is_some()
        });
        for _ in 0..100 {
            assert_eq!(site.name(port).as_deref(), Some(tenant));
        }
    }
    assert!(matches!(site.name(PORT + 2).as_deref(), Some("a" | "b")));
    // One tenant's host is gone: checks find out, and nobody takes its place.
    let (_, lan, _, host) = &tenants[0];
    lan.unplug(host);
    eventually("one is not served", secs(5), || site.name(PORT).is_none());
    assert_eq!(site.name(PORT + 1).as_deref(), Some("two"));
}
