//! HAProxy before a gateway: it says who the client is, and nobody else is listened to.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use kedge_control::{
    agent::GatewayConfig,
    balance::{Listener, Member},
    frontend::{ClientIp, Frontend, Offer, Pool, PoolMember, Protocol, ProxyProtocol},
    site::{Action, HeaderChange, Match, Rewrite, Route, RouteBackend, Site},
};
use kedge_tests_netns::{
    agent::Agent,
    answers::{self, Answers, ask},
    browser::Browser,
    envoy::executable,
    eventually,
    gateway::Gateway,
    haproxy::{Carried, Haproxy},
    lan::{Host, Lan},
    plain, ready, secs, web,
};

use crate::envoy::site::hello;

const KEDGE: &str = env!("CARGO_BIN_EXE_kedge-under-test");

#[test]
fn the_built_in_proxy_believes_the_load_balancer_before_it_and_nobody_else() {
    if ready() {
        served("");
    }
}

#[test]
fn envoy_believes_the_load_balancer_before_it_and_nobody_else() {
    if let Some(envoy) = executable().filter(|_| ready()) {
        served(&format!(
            "proxy: {{engine: envoy, envoy: '{}'}}\n",
            envoy.display()
        ));
    }
}

fn served(yaml: &str) {
    let has_envoy = !yaml.is_empty();
    let lan = Lan::new();
    let edge = lan.host("a", "10.20.14.11/24");
    let gateway_host = lan.host("gateway", "10.20.14.21/24");
    let outer = lan.host("outer", "10.20.14.3/24");
    let client = lan.host("client", "10.20.14.2/24");
    let mut gateway = Gateway::new(&gateway_host, KEDGE, yaml);
    let mut agent = Agent::new(&edge, KEDGE, &plain::host(10, &gateway));
    let binary = Answers::start(&edge, BINARY, "binary", 28);
    let line = format!("PROXY TCP4 {} {} ", client.address(), outer.address());
    let text = Answers::start(&edge, TEXT, "text", line.len());
    let _ = Answers::start(&edge, PLAIN, "plain", 0);
    answers::datagrams(&edge, PLAIN, "datagram");
    web::serve(&edge, WEB, "web", false);
    let mut wished = wished(gateway_host.address(), &agent);
    wished.offer.proxy_protocol = Some(ProxyProtocol {
        from: vec![format!("{}/32", outer.address()).parse().unwrap()],
    });
    gateway.remember(&wished);
    gateway.start();
    agent.start();

    // Each version before a frontend, a name that is passed through, and a control plane.
    let at: IpAddr = gateway_host.address().into();
    let versions: [(u16, _); 2] = [
        (1, "send-proxy"),
        // Something stands behind the addresses.
        (2, "send-proxy-v2 proxy-v2-options crc32c"),
    ];
    let ported = |(version, header): (u16, _)| {
        [BINARY, TEXT, PLAIN, WEB].map(|port| Carried {
            port: port + 10 * version,
            to: SocketAddr::new(at, port),
            header,
        })
    };
    let _haproxy = Haproxy::start(&outer, &versions.map(ported).concat());
    let name = |host: &Host, at: IpAddr, port: u16, words: &[u8]| {
        ask(host, at, port, words).map(|asked| asked.name)
    };
    let through = |port, words: &[u8]| name(&client, outer.address().into(), port, words);
    eventually("the host answers", secs(20), || {
        through(PLAIN + 10, b"").is_some()
    });
    for version in [1, 2] {
        let ported = |port| port + 10 * version;
        assert_eq!(through(ported(PLAIN), b"").as_deref(), Some("plain"));
        eventually("a frontend is served", secs(10), || {
            through(ported(BINARY), b"").as_deref() == Some("binary")
        });
        let header = binary.heard().unwrap();
        assert_eq!(header[..16], *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c");
        assert_eq!(header[16..20], client.address().octets(), "{header:?}");
        assert_eq!(header[20..24], outer.address().octets());
        assert_eq!(header[26..28], ported(BINARY).to_be_bytes());
        let words = hello("a.example");
        eventually("a name is served", secs(10), || {
            through(ported(TEXT), &words).as_deref() == Some("text")
        });
        let heard = String::from_utf8(text.heard().unwrap()).unwrap();
        assert_eq!(heard, line);
        if has_envoy {
            let browser = Browser::new(&client, outer.address().into());
            let asked = || browser.plain(ported(WEB), "web.example", "GET /", "");
            let mut answer = None;
            eventually("a site is served", secs(10), || {
                answer = asked().filter(|answer| answer.status == 200);
                answer.is_some()
            });
            let forwarded = &answer.unwrap().said["headers"]["x-forwarded-for"];
            assert_eq!(*forwarded, client.address().to_string());
        }
    }

    // Whoever comes by another way is heard by nobody, whatever it says to be.
    let heard = binary.heard().unwrap();
    let forged = SocketAddr::from(([192, 0, 2, 66], 1));
    let words = hello("a.example");
    for version in [1, 2] {
        let header = header(version, forged, SocketAddr::new(at, BINARY));
        for port in [BINARY, PLAIN] {
            assert_eq!(
                name(&client, at, port, &header),
                None,
                "{version} at {port}"
            );
        }
        let header = [header, words.clone()].concat();
        assert_eq!(
            name(&client, at, TEXT, &header),
            None,
            "{version} with a name"
        );
    }
    let browser = Browser::new(&client, at);
    assert!(browser.plain(WEB, "web.example", "GET /", "").is_none());
    assert_eq!(name(&client, at, PLAIN, b""), None);
    // Neither is the load balancer without a header.
    assert_eq!(name(&outer, at, PLAIN, b"GET / HTTP/1.0\r\n\r\n"), None);
    assert_eq!(name(&outer, at, TEXT, &words), None);
    assert_eq!(
        binary.heard().unwrap(),
        heard,
        "a back end has heard somebody"
    );
    // As itself it is served: so it finds out whether the gateway lives.
    for own in [&b"PROXY UNKNOWN\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
        assert_eq!(name(&outer, at, BINARY, own).as_deref(), Some("binary"));
        let header = binary.heard().unwrap();
        assert_eq!(header[16..20], outer.address().octets());
    }

    if !has_envoy {
        // Datagrams have no header, and come from anywhere.
        let back = client.run(move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(secs(5))).unwrap();
            socket.send_to(b"who", (at, PLAIN)).unwrap();
            let mut room = [0; 64];
            let length = socket.recv(&mut room).unwrap();
            room[..length].to_vec()
        });
        assert_eq!(back, b"datagram");
    }

    // Without load balancers clients come by themselves again.
    agent.kill();
    gateway.stop();
    wished.generation += 1;
    wished.offer.proxy_protocol = None;
    gateway.remember(&wished);
    gateway.start();
    agent.start();
    eventually("clients come by themselves", secs(20), || {
        name(&client, at, BINARY, b"").as_deref() == Some("binary")
    });
    let header = binary.heard().unwrap();
    assert_eq!(header[16..20], client.address().octets());
    gateway.stop();
}

/// A port of each kind, all of them of one host.
fn wished(gateway: Ipv4Addr, agent: &Agent<'_>) -> GatewayConfig {
    let frontend = |name: &str, port: u16, protocol, client_ip| Frontend {
        name: format!("shop/{name}"),
        tenant: "shop".to_owned(),
        address: gateway.into(),
        port: port.try_into().unwrap(),
        protocol,
        pool: name.to_owned(),
        client_ip,
        source_ranges: Vec::new(),
    };
    let named = Protocol::TlsPassthrough {
        server_names: vec!["a.example".to_owned()],
    };
    let pool = |name: &str, port: u16| Pool {
        name: name.to_owned(),
        tenant: "shop".to_owned(),
        members: vec![PoolMember {
            host: "site/a".to_owned(),
            address: "198.18.0.10".parse().unwrap(),
            port: port.try_into().unwrap(),
            weight: 1,
            draining: false,
        }],
        ..Pool::default()
    };
    let route = Route {
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
            retries: 0,
            mirrors: Vec::new(),
        },
        request_headers: HeaderChange::default(),
        response_headers: HeaderChange::default(),
        cors: None,
    };
    let site = Site {
        name: "shop/web".to_owned(),
        tenant: "shop".to_owned(),
        address: gateway.into(),
        http: Some(WEB.try_into().unwrap()),
        https: None,
        hosts: vec!["web.example".to_owned()],
        certificates: Vec::new(),
        redirect: false,
        routes: vec![route],
    };
    GatewayConfig {
        generation: 1,
        tunnel: Some(plain::tunnel(1, vec![plain::peer("site/a", agent, 10)])),
        listeners: vec![Listener {
            name: "site/api".to_owned(),
            address: gateway.into(),
            port: PLAIN,
            members: vec![Member {
                host: "site/a".to_owned(),
                address: "198.18.0.10".parse().unwrap(),
                port: PLAIN,
                draining: false,
            }],
        }],
        offer: Offer {
            frontends: vec![
                frontend("binary", BINARY, Protocol::Tcp, ClientIp::ProxyV2),
                frontend("text", TEXT, named, ClientIp::ProxyV1),
                frontend("datagrams", PLAIN, Protocol::Udp, ClientIp::Hidden),
            ],
            pools: vec![
                pool("binary", BINARY),
                pool("text", TEXT),
                pool("datagrams", PLAIN),
                pool("web", WEB),
            ],
            sites: vec![site],
            ..Offer::default()
        },
        ..GatewayConfig::default()
    }
}

/// What a load balancer says of a client: a line, or bytes with something behind the addresses.
fn header(version: u16, client: SocketAddr, own: SocketAddr) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (client.ip(), own.ip()) else {
        panic!("the LAN has IPv4")
    };
    let (source, destination) = (client.port(), own.port());
    if version == 1 {
        return format!("PROXY TCP4 {from} {to} {source} {destination}\r\n").into_bytes();
    }
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x13".to_vec();
    header.extend(from.octets());
    header.extend(to.octets());
    header.extend(source.to_be_bytes());
    header.extend(destination.to_be_bytes());
    header.extend(b"\x05\0\x04name");
    header
}

const BINARY: u16 = 9001;
const TEXT: u16 = 9002;
const PLAIN: u16 = 9003;
const WEB: u16 = 9004;
