//! HAProxy before a gateway whose manager was told of it: the client is who HAProxy says it is, for whatever
//! looks at clients' addresses.
//!
//! ```text
//!   edge-a, edge-b ── router ── gateway ◄── HAProxy 203.0.113.3 ◄── clients 203.0.113.50 and 203.0.113.100 …
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use kedge_tests_netns::{
    answers::{Answers, asked},
    browser::Browser,
    envoy::executable,
    eventually,
    haproxy::{Carried, Haproxy},
    manager::Manager,
    quietly, ready,
    sealed::Seal,
    secs, web,
};

use super::{
    BACKEND, SITE, Site, by_envoy,
    http::{HTTP, NAME, authority, secret},
    load_balancer,
};

#[test]
fn clients_that_come_by_a_load_balancer_stay_with_their_host_and_back_ends_are_told_of_them() {
    let Some(envoy) = executable().filter(|_| ready()) else {
        return;
    };
    let site = Site::new();
    let outer = site.lan.host("outer", "203.0.113.3/24");
    let seal = Seal::of(RAW);
    let mut headers = Vec::new();
    for (edge, name) in site.edges.iter().zip(["edge-a", "edge-b"]) {
        let _ = Answers::start(edge, BACKEND, name, 0);
        headers.push((name, Answers::start(edge, TOLD, name, HEADER)));
        web::serve(edge, PAGES, name, false);
        seal.serve(edge, SEALED, name);
    }
    let headers: BTreeMap<_, _> = headers.into_iter().collect();
    for client in clients() {
        site.client.add_address(&format!("{client}/24"));
    }
    let (manager, _gateway, _agents) = site.start_with(&site_yaml(), &by_envoy(envoy));
    let at: IpAddr = site.gateway.address().into();
    let carried = [WEB, ASKS, 443].map(|port| Carried {
        port,
        to: SocketAddr::new(at, port),
        header: "send-proxy-v2",
    });
    let _haproxy = Haproxy::start(&outer, &carried);
    let authority = authority();
    manager.write("secret.yaml", &secret(&authority));
    wished(&manager);
    let through = outer.address().into();
    let mut browser = Browser::new(&site.client, through);
    browser.trust(authority.as_ref().der().clone());
    browser.trust(seal.certificate.clone());
    eventually("all is served", secs(30), || {
        ["front", "raw"]
            .iter()
            .all(|name| manager.condition(HTTP, &format!("shop/{name}"), "Ready") == "True Ready")
    });

    // TCP, HTTPS that ends at the gateway, and TLS that ends at the hosts: each keeps a client with a host, and
    // clients are spread, though all of them come from one address.
    let plain = |client, port| {
        let to = SocketAddr::new(through, port);
        let asked = asked(site.client.connect(client, to)?, b"");
        asked.map(|asked| asked.name)
    };
    let page = |client: Ipv4Addr| browser.from(client).tls(443, NAME, NAME, "GET /");
    let passed = |client: Ipv4Addr| browser.from(client).tls(443, RAW, RAW, "GET /");
    stay("TCP", |client| plain(client, WEB));
    stay("HTTPS", |client| {
        page(client).map(|answer| answer.name().to_owned())
    });
    stay("TLS that is passed through", |client| {
        passed(client).map(|answer| answer.name().to_owned())
    });

    // Hosts are told who the client is, and that it came by HTTPS.
    for client in clients().take(4) {
        let name = plain(client, ASKS).unwrap();
        let header = headers[&*name].heard().unwrap();
        assert_eq!(header[..16], *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c");
        assert_eq!(header[16..20], client.octets(), "{header:?}");
        let heard = page(client).unwrap().said;
        let of = |name: &str| heard["headers"][name].as_str().unwrap().to_owned();
        assert_eq!(of("x-forwarded-for"), client.to_string());
        assert_eq!(of("x-forwarded-proto"), "https");
    }

    // Who comes by himself is nobody, by whatever port.
    let mut alone = Browser::new(&site.client, at);
    alone.trust(authority.as_ref().der().clone());
    alone.trust(seal.certificate.clone());
    for name in [NAME, RAW] {
        assert!(alone.tls(443, name, name, "GET /").is_none(), "{name}");
    }
    for port in [WEB, ASKS] {
        let stream = site
            .client
            .connect(site.client.address(), SocketAddr::new(at, port));
        let heard = stream.and_then(|stream| asked(stream, b"GET / HTTP/1.0\r\n\r\n"));
        assert!(heard.is_none(), "{port}");
    }
}

/// Each client is answered by one host however often it comes. That all of them have the same one, by chance, is
/// 1 in 8 million.
fn stay(what: &str, name: impl Fn(Ipv4Addr) -> Option<String>) {
    let mut heard = BTreeMap::new();
    for client in clients() {
        let mut first = None;
        quietly(&format!("{what}: {client} is answered"), secs(10), || {
            first = name(client);
            first.is_some()
        });
        for _ in 0..4 {
            assert_eq!(name(client), first, "{what}: {client} has another host");
        }
        heard.insert(client, first.unwrap());
    }
    let hosts: BTreeSet<&String> = heard.values().collect();
    assert_eq!(hosts.len(), 2, "{what}: {heard:?}");
}

fn clients() -> impl Iterator<Item = Ipv4Addr> {
    (100..124).map(|last| Ipv4Addr::new(203, 0, 113, last))
}

/// A gateway behind HAProxy that serves names, and a tenant that may have these.
fn site_yaml() -> String {
    let before = "  http: {}\n  proxyProtocol: {from: [203.0.113.3/32]}\n  envoy:";
    let reference = "  gatewayRef: {name: gw}\n";
    let named = format!("{reference}  dns: {{allowedHostnames: [{NAME}, {RAW}]}}\n");
    SITE.replace("  envoy:", before).replace(reference, &named)
}

fn wished(manager: &Manager<'_>) {
    let at = |name: &str, port: u16, more: &str| {
        load_balancer(name, more).replace(&BACKEND.to_string(), &port.to_string())
    };
    let sticky = "  sessionAffinity: ClientIP\n";
    let routed = format!("{sticky}  exposure: Routed\n");
    let own = |text: String, port: u16| text.replace("port: 80}", &format!("port: {port}}}"));
    manager.write("web.yaml", &own(at("web", BACKEND, sticky), WEB));
    let told = at("told", TOLD, "  proxyProtocol: V2\n");
    manager.write("told.yaml", &own(told, ASKS));
    manager.write("pages.yaml", &at("pages", PAGES, &routed));
    manager.write("sealed.yaml", &at("sealed", SEALED, &routed));
    let front = |name: &str, host: &str, backend: &str, tls: &str| {
        format!(
            "apiVersion: kedge.dev/v1alpha1\nkind: HTTPLoadBalancer\n\
             metadata: {{name: {name}, namespace: shop}}\n\
             spec:\n  hostnames: [{host}]\n  \
             rules: [{{backends: [{{name: {backend}, port: 80}}]}}]\n  tls: [{{{tls}}}]\n"
        )
    };
    let own = front("front", NAME, "pages", "secretRef: shop-tls");
    manager.write("front.yaml", &own);
    let passed = format!("hosts: [{RAW}], passthrough: true");
    manager.write("raw.yaml", &front("raw", RAW, "sealed", &passed));
}

/// Where clients come by TCP; 80 and 443 are for names.
const WEB: u16 = 8080;
/// Where they come to a host that asks who they are.
const ASKS: u16 = 8081;
const RAW: &str = "raw.example.com";
/// What a header of version 2 has for a client with IPv4.
const HEADER: usize = 28;
/// Where the hosts expect it.
const TOLD: u16 = BACKEND + 1;
/// Where they serve pages.
const PAGES: u16 = BACKEND + 2;
/// Where they end TLS.
const SEALED: u16 = BACKEND + 3;
