//! Clients that are let in by their addresses, and those that are not, at both proxies and behind HAProxy.
//!
//! ```text
//!   edge-a, edge-b ── router ── gateway ◄── client 203.0.113.60 is INSIDE, 203.0.113.100 is OUTSIDE
//!                                  ▲────── HAProxy 203.0.113.3 ◄── the same
//! ```

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use kedge_tests_netns::{
    answers::{self, Answers, Asked, asked},
    asked::Asked as _,
    envoy::executable,
    eventually,
    gateway::Gateway,
    haproxy::{Carried, Haproxy},
    manager::Manager,
    millis, ready, secs, throughout,
};

use super::{BACKEND, SITE, Site, TCP, by_envoy, load_balancer, say};

#[test]
fn who_is_outside_the_ranges_is_closed_by_the_gateways_own_proxy() {
    if ready() {
        by_themselves("");
    }
}

#[test]
fn who_is_outside_the_ranges_is_closed_by_envoy() {
    if let Some(envoy) = executable().filter(|_| ready()) {
        by_themselves(&by_envoy(envoy));
    }
}

#[test]
fn the_client_of_a_load_balancer_before_the_gateways_own_proxy_is_who_counts() {
    if ready() {
        through_haproxy("");
    }
}

#[test]
fn the_client_of_a_load_balancer_before_envoy_is_who_counts() {
    if let Some(envoy) = executable().filter(|_| ready()) {
        through_haproxy(&by_envoy(envoy));
    }
}

#[test]
fn datagrams_of_whoever_is_outside_the_ranges_reach_nobody() {
    if ready() {
        datagrams("");
    }
}

#[test]
fn datagrams_of_whoever_is_outside_the_ranges_reach_nobody_past_envoy() {
    if let Some(envoy) = executable().filter(|_| ready()) {
        datagrams(&by_envoy(envoy));
    }
}

fn datagrams(proxy: &str) {
    let site = site();
    for edge in &site.edges {
        answers::datagrams(edge, BACKEND, &edge.name);
    }
    let (manager, gateway, _agents) = site.start(proxy);
    let dns = |ranges: &str| {
        let text = load_balancer("dns", ranges);
        let text = text.replace("port: 80}", "port: 53, protocol: UDP}");
        manager.write("dns.yaml", &text);
    };
    let at = SocketAddr::from((site.gateway.address(), 53));
    let client = |from: Ipv4Addr| {
        let socket = site.client.run(move || UdpSocket::bind((from, 0)).unwrap());
        socket.connect(at).unwrap();
        socket.set_read_timeout(Some(millis(300))).unwrap();
        socket
    };
    let [inside, outside] = [client(INSIDE), client(OUTSIDE)];
    dns("");
    let mut host = None;
    eventually("both are answered", secs(15), || {
        host = say(&inside);
        host.is_some() && say(&outside).is_some()
    });
    dns(&from("203.0.113.60/32"));
    eventually("one is not", secs(10), || say(&outside).is_none());
    throughout("the other one stays with its host", secs(1), || {
        say(&inside) == host
    });
    let counted = refused(&gateway);
    assert_eq!(say(&outside), None);
    assert_eq!(refused(&gateway), counted + 1, "datagrams are counted");
    dns(&from("203.0.113.100/32"));
    eventually("they have changed places", secs(10), || {
        say(&inside).is_none() && say(&outside).is_some()
    });
}

/// Clients that come by themselves; the ranges change while connections are open.
fn by_themselves(proxy: &str) {
    let site = site();
    for edge in &site.edges {
        let _ = Answers::start(edge, BACKEND, &edge.name, 0);
    }
    let (manager, gateway, _agents) = site.start(proxy);
    let web = |ranges: &str| manager.write("web.yaml", &load_balancer("web", ranges));
    let at = SocketAddr::from((site.gateway.address(), 80));
    let serves = |client| served(&site, client, at);
    web("");
    eventually("both are served", secs(15), || {
        [INSIDE, OUTSIDE]
            .iter()
            .all(|client| serves(*client).is_some())
    });
    let mut kept = serves(INSIDE).unwrap();
    let mut before = serves(OUTSIDE).unwrap();

    web(&from("203.0.113.60/32"));
    eventually("one is closed", secs(10), || is_closed(&site, OUTSIDE, at));
    assert!(serves(INSIDE).is_some());
    eventually("it is said to be ready", secs(10), || {
        manager.condition(TCP, "shop/web", "Ready") == "True Ready"
    });
    throughout("what was open goes on, also of others", DRAINED, || {
        kept.lives() && before.lives()
    });
    let mut inside = serves(INSIDE).unwrap();
    let counted = refused(&gateway);
    for _ in 0..20 {
        assert!(is_closed(&site, OUTSIDE, at));
    }
    eventually("whoever is closed is counted", secs(15), || {
        refused(&gateway) >= counted + 20
    });

    // Others of the ranges, and the same client by a wider one.
    web(&from("2001:db8::/32, 203.0.113.0/26"));
    throughout("whoever stays is served all the time", DRAINED, || {
        serves(INSIDE).is_some() && kept.lives() && inside.lives()
    });
    assert!(is_closed(&site, OUTSIDE, at));

    web(&from("203.0.113.100/32"));
    eventually("they have changed places", secs(10), || {
        is_closed(&site, INSIDE, at) && serves(OUTSIDE).is_some()
    });
    throughout("what is open goes on", DRAINED, || {
        kept.lives() && inside.lives()
    });
    web("");
    eventually("both are served again", secs(10), || {
        serves(INSIDE).is_some() && serves(OUTSIDE).is_some()
    });
    throughout("what is open goes on", DRAINED, || {
        kept.lives() && inside.lives() && before.lives()
    });
}

/// Clients that come through HAProxy, which says who they are.
fn through_haproxy(proxy: &str) {
    let site = site();
    let outer = site.lan.host("outer", "203.0.113.3/24");
    for edge in &site.edges {
        let _ = Answers::start(edge, BACKEND, &edge.name, 0);
    }
    let before = "  proxyProtocol: {from: [203.0.113.3/32]}\n  envoy:";
    let yaml = SITE.replace("  envoy:", before);
    let (manager, _gateway, _agents) = site.start_with(&yaml, proxy);
    let own: IpAddr = site.gateway.address().into();
    let to = SocketAddr::new(own, 80);
    let header = "send-proxy-v2";
    let port = 80;
    let _haproxy = Haproxy::start(&outer, &[Carried { port, to, header }]);
    let at = SocketAddr::from((outer.address(), port));
    let serves = |client| served(&site, client, at);
    let web = |ranges: &str| write(&manager, ranges);

    web("203.0.113.60/32");
    eventually("one is served", secs(15), || serves(INSIDE).is_some());
    assert!(is_closed(&site, OUTSIDE, at));
    assert!(is_closed(&site, INSIDE, to), "it comes by itself");
    let mut kept = serves(INSIDE).unwrap();
    web("203.0.113.60/32, 203.0.113.100/32");
    eventually("so is the other one", secs(10), || {
        serves(OUTSIDE).is_some()
    });
    throughout("what was open goes on", DRAINED, || kept.lives());
    // The address that connections come from is nobody's.
    web("203.0.113.3/32");
    eventually("nobody is served", secs(10), || {
        [INSIDE, OUTSIDE]
            .iter()
            .all(|client| is_closed(&site, *client, at))
    });
    throughout("what was open goes on", DRAINED, || kept.lives());
}

fn site() -> Site {
    let site = Site::new();
    for client in [INSIDE, OUTSIDE] {
        site.client.add_address(&format!("{client}/24"));
    }
    site
}

fn write(manager: &Manager<'_>, ranges: &str) {
    manager.write("web.yaml", &load_balancer("web", &from(ranges)));
}

fn from(ranges: &str) -> String {
    format!("  sourceRanges: ['{}']\n", ranges.replace(", ", "', '"))
}

/// A connection of a client that a host answers; hosts speak first.
fn served(site: &Site, client: Ipv4Addr, at: SocketAddr) -> Option<Asked> {
    asked(site.client.connect(client, at)?, b"")
}

/// Whether a client's connection is closed without a byte.
fn is_closed(site: &Site, client: Ipv4Addr, at: SocketAddr) -> bool {
    let mut stream = match site.client.try_connect(client, at) {
        Ok(stream) => stream,
        // It was there before the connection could be looked at; of a port nobody has it is a refusal.
        Err(error) => return error.kind() == ErrorKind::ConnectionReset,
    };
    stream.set_read_timeout(Some(secs(3))).unwrap();
    let mut byte = [0];
    match stream
        .write_all(b"GET / HTTP/1.0\r\n\r\n")
        .and_then(|()| stream.read(&mut byte))
    {
        Ok(read) => read == 0,
        Err(error) => matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        ),
    }
}

/// How many the gateway's listeners have refused.
fn refused(gateway: &Gateway<'_>) -> u64 {
    let status = gateway.kedge("status -o json").json();
    let listeners = status["listeners"].as_array().unwrap().iter();
    listeners
        .map(|listener| listener["refused"].as_u64().unwrap())
        .sum()
}

const INSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 60);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 100);
/// Beyond what Envoy gives the connections of a chain that is gone (`spec.envoy.drain`).
const DRAINED: Duration = secs(5);
