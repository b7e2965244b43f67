//! Two tenants that a gateway keeps apart, whose hosts the manager gave the same overlay addresses.
//!
//! ```text
//!   shop   edge-a, edge-b ─┐          ┌─ gateway :80 shop/web, :81 rival/web ◄── client
//!   rival  edge-c, edge-d ─┴─ router ─┤
//!                                     └─ manager
//! ```

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr, UdpSocket},
};

use kedge_tests_netns::{
    answers::{self, Answers, Asked, ask},
    asked::Asked as _,
    envoy::executable,
    eventually,
    lan::Host,
    manager::Manager,
    millis, ready, secs, tenant,
};
use serde_json::Value;

use super::{
    BACKEND, KEDGE, LEFT, SITE, Site, TCP, all_up, busy, busy_at, by_envoy, load_balancer, say,
};

const APART: &str = "tenants: {isolation: namespace}\n";

#[test]
fn hosts_of_two_tenants_with_one_address_are_served_and_left_by_the_built_in_proxy() {
    if ready() {
        apart("");
    }
}

#[test]
fn hosts_of_two_tenants_with_one_address_are_served_and_left_by_envoy() {
    if let Some(envoy) = executable().filter(|_| ready()) {
        apart(&by_envoy(envoy));
    }
}

fn apart(proxy: &str) {
    let site = Site::new();
    let others = [
        tenant::edge(&site.lan, "edge-c", 4),
        tenant::edge(&site.lan, "edge-d", 5),
    ];
    for edge in site.edges.iter().chain(&others) {
        let _ = Answers::start(edge, BACKEND, &edge.name, 0);
        answers::datagrams(edge, DATAGRAMS, &edge.name);
    }
    let (manager, gateway, _agents) = site.start_with(&site_yaml(), &format!("{APART}{proxy}"));
    let _others =
        [&others[0], &others[1]].map(|edge| tenant::agent_of("rival", &manager, edge, KEDGE, ""));
    all_up(&gateway, 4);

    // The manager gave what it gave the one tenant to the other as well.
    let given = |host: &str| overlay(&manager, host);
    let shop = ["edge-a", "edge-b"].map(|name| (given(&format!("shop/{name}")), name));
    let rival = ["edge-c", "edge-d"].map(|name| (given(&format!("rival/{name}")), name));
    let addresses = |all: &[(IpAddr, &str)]| all.iter().map(|it| it.0).collect::<BTreeSet<_>>();
    assert_eq!(addresses(&shop), addresses(&rival));
    assert_eq!(addresses(&shop).len(), 2);
    let status = gateway.kedge("status -o json").json();
    assert_eq!(status["problems"].as_array().unwrap().len(), 0, "{status}");

    manager.write("web.yaml", &load_balancer("web", ""));
    manager.write("rival.yaml", &rivals("web", ""));
    let at = site.gateway.address().into();
    let each = [
        (80, BTreeSet::from(["edge-a", "edge-b"])),
        (81, BTreeSet::from(["edge-c", "edge-d"])),
    ];
    let asked = |port| ask(&site.client, at, port, b"").map(|asked| asked.name);
    none_crosses("connections", &each, asked);
    let dns = |text: String, port: &str| {
        let port = format!("port: {port}, protocol: UDP}}");
        let text = text.replace("port: 80}", &port).replace("port: 81}", &port);
        text.replace(&BACKEND.to_string(), &DATAGRAMS.to_string())
    };
    manager.write("dns.yaml", &dns(load_balancer("dns", ""), "53"));
    manager.write("rivals.yaml", &dns(rivals("dns", ""), "54"));
    let each = [(53, each[0].1.clone()), (54, each[1].1.clone())];
    none_crosses("datagrams", &each, |port| {
        let socket = from(&site.client, SocketAddr::new(at, port));
        say(&socket)
    });

    // One host dies. Its twin, with the same address and port, serves on.
    let left = shop.iter().find(|it| it.1 == "edge-b").unwrap();
    let twin = rival.iter().find(|it| it.0 == left.0).unwrap().1;
    site.lan.unplug(&site.edges[1]);
    eventually("the dead host is left out", secs(15), || {
        (0..20).all(|_| asked(80).as_deref() == Some("edge-a"))
    });
    let of_twin = (0..40).filter(|_| asked(81).as_deref() == Some(twin));
    assert!(of_twin.count() >= 10, "{twin} is left out as well");
    site.lan.plug(&site.edges[1]);

    // It is back, and is left. Its twin has a connection too.
    let mut open = connection(&site.client, at, 80, left.1);
    let mut twins = connection(&site.client, at, 81, twin);
    let twin_at = format!("rival/{twin}");
    manager.write("web.yaml", &load_balancer("web", LEFT));
    eventually("the host is left, and busy", secs(10), || {
        busy(&manager) == Some(true)
    });
    for _ in 0..100 {
        assert_eq!(asked(80).as_deref(), Some("edge-a"), "nothing fails");
        assert!(open.lives(), "what is open goes on");
    }
    assert_eq!(busy(&manager), Some(true));
    assert_eq!(busy_at(&manager, &twin_at), None, "its twin is not left");
    drop(open);
    eventually("nothing is open to it", secs(10), || {
        busy(&manager) == Some(false)
    });
    assert!(twins.lives(), "its twin's connection is none of its");

    // The twin is left as well: each has what is open to itself.
    let twins_left = LEFT.replace("edge-b", twin);
    manager.write("rival.yaml", &rivals("web", &twins_left));
    eventually("the twin is left, and busy", secs(10), || {
        busy_at(&manager, &twin_at) == Some(true)
    });
    assert_eq!(busy(&manager), Some(false));
    assert!(twins.lives());
    drop(twins);
    eventually("nothing is open to the twin", secs(10), || {
        busy_at(&manager, &twin_at) == Some(false)
    });
    assert_eq!(manager.condition(TCP, "rival/web", "Ready"), "True Ready");
}

/// Both tenants, and a gateway whose hosts have addresses that are unique in each.
fn site_yaml() -> String {
    let yaml = SITE.replace("    cidrs:", "    addressing: PerTenant\n    cidrs:");
    format!(
        "{yaml}---\napiVersion: kedge.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: rival}}\n\
         spec:\n  namespace: rival\n  enrollment: {{hostLabels: {{role: web}}}}\n  \
         gatewayRef: {{name: gw}}\n"
    )
}

/// The other tenant's load balancer, on the next port.
fn rivals(name: &str, more: &str) -> String {
    load_balancer(name, more)
        .replace("namespace: shop", "namespace: rival")
        .replace("port: 80}", "port: 81}")
}

/// The overlay address that the manager gave a host.
fn overlay(manager: &Manager<'_>, host: &str) -> IpAddr {
    let owned = manager.documents("owned", "EdgeHost", host);
    let given = |it: &Value| {
        let net = it["spec"]["tunnel"]["addresses"][0].as_str()?;
        net.split('/').next()?.parse().ok()
    };
    owned.iter().find_map(given).unwrap()
}

/// Both hosts of each tenant answer at its port, and nobody else does. One in ten may get no answer.
fn none_crosses(
    what: &str,
    each: &[(u16, BTreeSet<&str>); 2],
    name: impl Fn(u16) -> Option<String>,
) {
    for (port, own) in each {
        let mut heard = BTreeSet::new();
        eventually(&format!("both answer {what} to {port}"), secs(20), || {
            heard.extend(name(*port));
            heard.len() == own.len()
        });
        assert!(heard.iter().all(|name| own.contains(&**name)), "{heard:?}");
    }
    let (mut crossed, mut lost) = (0, 0);
    for _ in 0..ASKED {
        for (port, own) in each {
            match name(*port) {
                Some(name) => crossed += usize::from(!own.contains(&*name)),
                None => lost += 1,
            }
        }
    }
    println!(
        "{crossed} of {} {what} crossed, {lost} were lost",
        2 * ASKED
    );
    assert_eq!(crossed, 0, "{what}");
    assert!(lost < ASKED / 5, "{lost} {what} were not answered");
}

/// An open connection to this host.
fn connection(client: &Host, at: IpAddr, port: u16, host: &str) -> Asked {
    let mut open = None;
    eventually(&format!("a connection to {host}"), secs(15), || {
        open = ask(client, at, port, b"").filter(|asked| asked.name == host);
        open.is_some()
    });
    open.unwrap()
}

/// A new client of datagrams.
fn from(client: &Host, to: SocketAddr) -> UdpSocket {
    let socket = client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(millis(1000))).unwrap();
    socket
}

/// Where the hosts answer datagrams.
const DATAGRAMS: u16 = BACKEND + 1;
/// Of each tenant.
const ASKED: usize = 200;
