//! A whole gateway that has Envoy carry its clients' connections to hosts behind tunnels.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use kedge_control::{
    agent::{GatewayConfig, TunnelConfig},
    balance::{Listener, Member},
    frontend::{ClientIp, Frontend, Offer, Pool, PoolMember, Protocol},
    site::{Action, Certificate, HeaderChange, Match, Rewrite, Route, RouteBackend, Site},
};
use kedge_net::netns::Enclosure;
use kedge_tests_netns::{
    agent::Agent,
    answers::{self, Answers, ask},
    asked::Asked as _,
    browser::{Answer, Browser},
    envoy::executable,
    eventually,
    gateway::Gateway,
    lan::{Host, Lan},
    plain, ready, secs, web,
};
use rcgen::{CertificateParams, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");

#[test]
fn envoy_carries_clients_to_hosts_behind_tunnels_and_leaves_out_those_that_are_dead() {
    let Some(envoy) = executable().filter(|_| ready()) else {
        return;
    };
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let gateway_host = lan.host("gateway", "10.20.14.21/24");
    let client = lan.host("client", "10.20.14.2/24");
    let yaml = format!("proxy: {{engine: envoy, envoy: '{}'}}\n", envoy.display());
    let mut gateway = Gateway::new(&gateway_host, KEDGE, &yaml);
    let edges = [(&a, "a", 10), (&b, "b", 11)];
    let mut agents = edges.map(|edge| {
        let _ = Answers::start(edge.0, BACKEND, edge.1, 0);
        agent(&edge, &gateway)
    });
    let member = |(_, name, number): &Edge<'_>| Member {
        host: format!("site/{name}"),
        address: format!("198.18.0.{number}").parse().unwrap(),
        port: BACKEND,
        draining: false,
    };
    gateway.remember(&GatewayConfig {
        generation: 1,
        tunnel: Some(tunnel(&edges, &agents)),
        listeners: vec![Listener {
            name: "site/api/6443".to_owned(),
            address: gateway_host.address().into(),
            port: PORT,
            members: edges.iter().map(member).collect(),
        }],
        ..GatewayConfig::default()
    });
    gateway.start();
    agents.iter_mut().for_each(|it| it.start());
    let name = || ask(&client, gateway_host.address().into(), PORT, b"").map(|asked| asked.name);
    let both = |what: &str| {
        let mut heard = BTreeSet::new();
        eventually(what, secs(15), || {
            heard.extend(name());
            heard.len() == 2
        });
    };
    both("both hosts answer through Envoy");

    let listener = || {
        let status = gateway.kedge("status -o json").json();
        status["listeners"][0].clone()
    };
    eventually("what Envoy counted is shown", secs(15), || {
        listener()["accepted"].as_u64() > Some(0)
    });
    assert_eq!(listener()["bound"], true);
    assert_eq!(problems(&gateway), BTreeSet::new());

    // A host that is gone without a word is left out once the tunnel says so.
    lan.unplug(&b);
    eventually("the member is dead", secs(10), || {
        let listener = listener();
        let members = listener["members"].as_array().unwrap();
        members.iter().any(|member| member["alive"] == false)
    });
    for _ in 0..50 {
        assert_eq!(name().as_deref(), Some("a"));
    }
    lan.plug(&b);
    both("it is back");

    // Envoy crashes, and is there again.
    let envoy = running(gateway.root()).unwrap();
    assert!(
        Command::new("kill")
            .args(["-9", &envoy.to_string()])
            .status()
            .unwrap()
            .success()
    );
    eventually("it is said that Envoy ended", secs(5), || {
        problems(&gateway).contains("KEDGE-GW-0005")
    });
    both("another Envoy serves");
    assert_ne!(running(gateway.root()).unwrap(), envoy);

    // Another configuration: Envoy is started with it, and told the same.
    let envoy = running(gateway.root());
    gateway.configure(&format!(
        "{}, max_connections: 400}}\n",
        yaml.trim_end().trim_end_matches('}')
    ));
    gateway.reload();
    eventually("Envoy is started anew", secs(5), || {
        running(gateway.root()).is_some_and(|id| Some(id) != envoy)
    });
    both("it serves the same");
    gateway.stop();
    eventually("Envoy ends with the gateway", secs(5), || {
        running(gateway.root()).is_none()
    });
}

#[test]
fn a_site_is_served_by_the_hosts_that_are_alive_and_one_that_cannot_be_is_told() {
    let Some(envoy) = executable().filter(|_| ready()) else {
        return;
    };
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let gateway_host = lan.host("gateway", "10.20.14.21/24");
    let client = lan.host("client", "10.20.14.2/24");
    let yaml = format!("proxy: {{engine: envoy, envoy: '{}'}}\n", envoy.display());
    let mut gateway = Gateway::new(&gateway_host, KEDGE, &yaml);
    let edges = [(&a, "a", 10), (&b, "b", 11)];
    let mut agents = edges.map(|edge| {
        web::serve(edge.0, BACKEND, edge.1, false);
        agent(&edge, &gateway)
    });
    let key = KeyPair::generate().unwrap();
    let certified = CertificateParams::new(vec!["web.example".to_owned()]);
    let certified = certified.unwrap().self_signed(&key).unwrap();
    let site = Site {
        name: "shop/web".to_owned(),
        tenant: "shop".to_owned(),
        address: gateway_host.address().into(),
        http: Some(8080.try_into().unwrap()),
        https: Some(8443.try_into().unwrap()),
        hosts: vec!["web.example".to_owned()],
        certificates: vec![Certificate {
            hosts: vec!["web.example".to_owned()],
            chain: certified.pem(),
            key: key.serialize_pem(),
        }],
        redirect: false,
        routes: vec![Route {
            hosts: Vec::new(),
            matches: Match::default(),
            action: Action::Forward {
                backends: vec![RouteBackend {
                    pool: "web".to_owned(),
                    weight: 1,
                    ..RouteBackend::default()
                }],
                rewrite: Rewrite::default(),
                timeout_milliseconds: 0,
                backend_timeout_milliseconds: 0,
                retries: 1,
                mirrors: Vec::new(),
            },
            request_headers: HeaderChange::default(),
            response_headers: HeaderChange::default(),
            cors: None,
        }],
    };
    let mut broken = Site {
        name: "shop/broken".to_owned(),
        hosts: vec!["broken.example".to_owned()],
        ..site.clone()
    };
    broken.certificates[0].key = KeyPair::generate().unwrap().serialize_pem();
    let member = |(_, name, number): &Edge<'_>| PoolMember {
        host: format!("site/{name}"),
        address: format!("198.18.0.{number}").parse().unwrap(),
        port: BACKEND.try_into().unwrap(),
        weight: 1,
        draining: false,
    };
    gateway.remember(&GatewayConfig {
        generation: 1,
        tunnel: Some(tunnel(&edges, &agents)),
        offer: Offer {
            sites: vec![broken, site],
            pools: vec![Pool {
                name: "web".to_owned(),
                tenant: "shop".to_owned(),
                members: edges.iter().map(member).collect(),
                ..Pool::default()
            }],
            ..Offer::default()
        },
        ..GatewayConfig::default()
    });
    gateway.start();
    agents.iter_mut().for_each(|it| it.start());
    let mut browser = Browser::new(&client, gateway_host.address().into());
    browser.trust(certified.der().clone());
    let plain = || browser.plain(8080, "web.example", "GET /", "");
    let tls = || browser.tls(8443, "web.example", "web.example", "GET /");
    let both = |what: &str, ask: &dyn Fn() -> Option<Answer>| {
        let mut heard = BTreeSet::new();
        eventually(what, secs(15), || {
            let answer = ask().filter(|answer| answer.status == 200);
            heard.extend(answer.map(|answer| answer.name().to_owned()));
            heard.len() == 2
        });
    };
    both("both hosts answer through Envoy", &plain);
    both("both hosts answer over TLS", &tls);
    let heard = tls().unwrap().said;
    let from = client.address().to_string();
    assert_eq!(heard["headers"]["x-forwarded-for"], *from);

    let status = gateway.kedge("status -o json").json();
    let problems = status["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0]["code"], "KEDGE-GW-0004");
    let problem = problems[0].to_string();
    assert!(problem.contains("shop/broken") && problem.contains("not that of its certificate"));

    // A host that is gone without a word is left out once the tunnel says so. Until then requests that
    // cannot reach it are asked of the other one.
    lan.unplug(&b);
    let mut answers = 0;
    eventually("a hundred answers of the other one", secs(20), || {
        answers = match plain() {
            Some(answer) if answer.name() == "a" => answers + 1,
            _ => 0,
        };
        answers == 100
    });
    lan.plug(&b);
    both("it is back", &plain);
    let envoy = running(gateway.root()).unwrap();
    kill_process(Pid::from_raw(envoy.cast_signed()).unwrap(), Signal::KILL).unwrap();
    both("another Envoy serves", &tls);

    // Nobody else reads the keys.
    let mut folders = vec![gateway.root().to_owned()];
    let mut with_key = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file()
                && fs::read_to_string(entry.path()).is_ok_and(|text| text.contains("PRIVATE KEY"))
            {
                with_key += 1;
                assert_eq!(
                    entry.metadata().unwrap().mode() & 0o777,
                    0o600,
                    "{:?}",
                    entry.path()
                );
            }
        }
    }
    assert!(with_key > 0, "the desired state is kept");
    assert!(!gateway.log().contains("PRIVATE KEY"));
    gateway.stop();
}

/// A host, its name, and the last part of its overlay address.
type Edge<'a> = (&'a Host, &'a str, u8);

#[test]
fn two_tenants_with_one_address_never_meet_and_neither_leaves_its_namespace() {
    if !ready() {
        return;
    }
    let lan = Lan::new();
    let (a, b) = lan.pair();
    let gateway_host = lan.host("gateway", "10.20.14.21/24");
    let client = lan.host("client", "10.20.14.2/24");
    let apart = "tenants: {isolation: namespace}\n";
    let mut gateway = Gateway::new(&gateway_host, KEDGE, apart);
    // One address, twice.
    let edges = [(&a, "a", 10), (&b, "b", 10)];
    let mut agents = edges.map(|edge| {
        let _ = Answers::start(edge.0, BACKEND, edge.1, 0);
        answers::datagrams(edge.0, BACKEND, edge.1);
        agent(&edge, &gateway)
    });
    let mut wished = tenants(&gateway_host, &edges, &agents);
    gateway.remember(&wished);
    gateway.start();
    agents.iter_mut().for_each(|it| it.start());
    let at: IpAddr = gateway_host.address().into();
    let name = |port| ask(&client, at, port, b"").map(|asked| asked.name);
    let answer = || name(PORT).as_deref() == Some("a") && name(PORT + 1).as_deref() == Some("b");
    let both = |what: &str| eventually(what, secs(20), answer);
    let none_crosses = |engine: &str| {
        let before = Instant::now();
        assert_eq!(
            client.run(move || connections_that_cross(at)),
            0,
            "{engine}"
        );
        let took = before.elapsed();
        println!(
            "{engine}: 0 of {} connections crossed, in {took:?}",
            2 * REQUESTS
        );
    };
    both("each tenant's host answers");
    none_crosses("builtin");
    let no_datagram_crosses = |beside: &str| {
        let crossed = client.run(move || datagrams_that_cross(at));
        assert_eq!(crossed, 0, "{beside}");
        println!("{beside}: 0 of {} datagrams crossed", 2 * REQUESTS);
    };
    no_datagram_crosses("builtin");
    let status = gateway.kedge("status -o json").json();
    assert_eq!(status["tenants"][0]["tenant"], "one");
    assert_eq!(status["tenants"][1]["ready"], true, "{status}");
    assert_eq!(problems(&gateway), BTreeSet::new());

    // Who gets into a tenant's namespace reaches the hosts of that tenant and nothing else.
    let namespaces = gateway.root().join("run/kedge/netns");
    let inside = |tenant: &str| {
        let path = namespaces.join(tenant);
        (
            Enclosure::at(&path).unwrap(),
            fs::metadata(path).unwrap().ino(),
        )
    };
    let (one, inode) = inside("one");
    let edge = SocketAddr::from(([198, 18, 0, 10], BACKEND));
    let mut open = [("one", b"a\n"), ("two", b"b\n")].map(|(tenant, name)| {
        let connect = || TcpStream::connect_timeout(&edge, secs(2));
        let mut open = inside(tenant).0.run(connect).unwrap().unwrap();
        open.set_read_timeout(Some(secs(10))).unwrap();
        let mut line = [0; 2];
        open.read_exact(&mut line).unwrap();
        assert_eq!(&line, name);
        open
    });
    let listens = gateway_host.run(|| TcpListener::bind("0.0.0.0:30099").unwrap());
    let others = [
        SocketAddr::new(at, PORT + 1),
        SocketAddr::new(at, 30099),
        SocketAddr::new(b.address().into(), BACKEND),
        SocketAddr::from(([198, 18, 0, 1], 30099)),
    ];
    for other in others {
        let reached = one.run(|| TcpStream::connect_timeout(&other, secs(1)).is_ok());
        assert!(
            !reached.unwrap(),
            "{other} is reached from a tenant's namespace"
        );
    }
    // Neither does a host reach what listens on all addresses of its gateway.
    let at_gateway = SocketAddr::from(([198, 18, 0, 1], 30099));
    let reached = a.run(move || TcpStream::connect_timeout(&at_gateway, secs(1)).is_ok());
    assert!(!reached, "a host reaches its gateway's own network");
    drop(listens);

    // The namespace and its interface outlive a gateway that crashes, and so do connections in it.
    gateway.kill();
    gateway.start();
    // Before anything is said, so that TCP does not wait longer each time it is not heard. Hosts that get no answer
    // for 15 s call again (WireGuard section 6.5), and these peers are asked nothing else.
    eventually("another gateway serves", secs(40), || {
        for host in [&a, &b] {
            host.run(|| {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.send_to(b"?", "198.18.0.1:9").unwrap();
            });
        }
        answer()
    });
    for open in &mut open {
        open.write_all(b"well").unwrap();
        let mut back = [0; 4];
        open.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"well");
    }
    assert_eq!(inside("one").1, inode);

    if let Some(envoy) = executable() {
        let proxy = format!("proxy: {{engine: envoy, envoy: '{}'}}\n", envoy.display());
        gateway.configure(&format!("{apart}{proxy}"));
        gateway.reload();
        // The built-in proxy has let go before.
        eventually("Envoy runs", secs(20), || running(gateway.root()).is_some());
        both("Envoy serves both");
        none_crosses("envoy");
        no_datagram_crosses("beside envoy");
        let status = gateway.kedge("status -o json").json();
        let listeners = status["listeners"].as_array().unwrap().iter();
        let names: BTreeSet<_> = listeners.map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["one/tcp", "one/udp", "two/tcp", "two/udp"].into());
    }

    // A tenant without hosts leaves nothing behind.
    gateway.stop();
    wished.generation = 2;
    wished.tunnel.as_mut().unwrap().peers.truncate(1);
    wished.offer.frontends.retain(|it| it.tenant == "one");
    wished.offer.pools.retain(|it| it.tenant == "one");
    gateway.remember(&wished);
    gateway.configure(apart);
    gateway.start();
    eventually("the other's alone is left", secs(10), || {
        Enclosure::names(&namespaces).unwrap() == ["one"]
    });
    open[0].write_all(b"still").unwrap();
    let mut back = [0; 5];
    open[0].read_exact(&mut back).unwrap();
    assert_eq!(&back, b"still");
    gateway.stop();
}

/// What two tenants offer, each with one host, of which the addresses are the same.
fn tenants(gateway: &Host, edges: &[Edge<'_>], agents: &[Agent<'_>]) -> GatewayConfig {
    let mut offer = Offer::default();
    let mut tunnel = tunnel(edges, agents);
    let names = ["one", "two"];
    for (number, (tenant, peer)) in (0..).zip(names.iter().zip(&mut tunnel.peers)) {
        peer.tenant = (*tenant).to_owned();
        peer.name = format!("{tenant}/edge");
        let member = PoolMember {
            host: peer.name.clone(),
            address: peer.allowed_ips[0].addr(),
            port: BACKEND.try_into().unwrap(),
            weight: 1,
            draining: false,
        };
        for (kind, protocol, port) in [
            ("tcp", Protocol::Tcp, PORT + number),
            ("udp", Protocol::Udp, PORT + number),
        ] {
            offer.frontends.push(Frontend {
                name: format!("{tenant}/{kind}"),
                tenant: (*tenant).to_owned(),
                address: gateway.address().into(),
                port: port.try_into().unwrap(),
                protocol,
                pool: kind.to_owned(),
                client_ip: ClientIp::Hidden,
                source_ranges: Vec::new(),
            });
            offer.pools.push(Pool {
                name: kind.to_owned(),
                tenant: (*tenant).to_owned(),
                members: vec![member.clone()],
                ..Pool::default()
            });
        }
    }
    GatewayConfig {
        generation: 1,
        tunnel: Some(tunnel),
        offer,
        ..GatewayConfig::default()
    }
}

/// Of connections to both tenants, how many the other one answers, or nobody.
fn connections_that_cross(at: IpAddr) -> usize {
    let asked = |port: u16| {
        let mut stream = TcpStream::connect((at, port)).ok()?;
        stream.set_read_timeout(Some(secs(5))).ok()?;
        let mut name = [0];
        stream.read_exact(&mut name).ok()?;
        Some(name[0])
    };
    let answered = (0..REQUESTS).flat_map(|_| [(PORT, b'a'), (PORT + 1, b'b')]);
    answered
        .filter(|(port, name)| asked(*port) != Some(*name))
        .count()
}

/// Of datagrams to both tenants, how many the other one answers. One in ten may get no answer.
fn datagrams_that_cross(at: IpAddr) -> usize {
    let ask = |port: u16| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        socket.connect((at, port)).unwrap();
        socket
    };
    let sockets = [(ask(PORT), b'a'), (ask(PORT + 1), b'b')];
    let (mut crossed, mut lost) = (0, 0);
    for _ in 0..REQUESTS {
        for (socket, name) in &sockets {
            socket.send(b"who").unwrap();
            let mut room = [0; 16];
            match socket.recv(&mut room) {
                Ok(_) => crossed += usize::from(room[0] != *name),
                Err(_) => lost += 1,
            }
        }
    }
    assert!(lost < REQUESTS / 5, "{lost} datagrams were not answered");
    crossed
}

/// An agent whose tunnel ends at the gateway.
fn agent<'a>((host, _, number): &Edge<'a>, gateway: &Gateway<'_>) -> Agent<'a> {
    Agent::new(host, KEDGE, &plain::host(*number, gateway))
}

/// The gateway's end of it.
fn tunnel(edges: &[Edge<'_>], agents: &[Agent<'_>]) -> TunnelConfig {
    let peers = edges.iter().zip(agents);
    let peers = peers
        .map(|((_, name, number), agent)| plain::peer(&format!("site/{name}"), agent, *number));
    plain::tunnel(1, peers.collect())
}

/// The codes of what is wrong with the gateway.
fn problems(gateway: &Gateway<'_>) -> BTreeSet<String> {
    let status = gateway.kedge("status -o json").json();
    let problems = status["problems"].as_array().cloned().unwrap_or_default();
    let code = |problem: &Value| problem["code"].as_str().unwrap().to_owned();
    problems.iter().map(code).collect()
}

/// The process that runs with the gateway's configuration of Envoy.
fn running(root: &Path) -> Option<u32> {
    let config = root.join("run/kedge/envoy/envoy.json");
    let config = config.to_str().unwrap();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.find(|id| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|word| word == config.as_bytes())
    })
}

const PORT: u16 = 30000;
/// To each tenant.
const REQUESTS: usize = 1_000;
const BACKEND: u16 = 6443;
