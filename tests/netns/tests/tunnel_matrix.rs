//! With each WireGuard engine that is installed, in both roles: another place, IPv6 outside, a cookie under
//! load, and with `KEDGE_TEST_LONG=1` the re-key after two minutes. Tests bring Debian's wireguard-go;
//! boringtun-cli and gotatun take part where they are on the PATH.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::tunnel;

use std::{
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant, UNIX_EPOCH},
};

use kedge_tests_netns::flood::Flood;
use kedge_tunnel_device::{Device, PeerSpec};
use tunnel::{
    wireguard_go::{Engine, WireGuardGo, engines},
    *,
};

const LIMIT: Duration = Duration::from_secs(15);
const GATEWAY_V6: &str = "2001:db8:2::7";
/// From which port their host calls.
const THEIR_PORT: u16 = 5_555;

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    WeCall,
    TheyCall,
}

/// A site with one of them at one end and us at the other, and an echo behind the gateway.
struct Match {
    site: Site,
    theirs: WireGuardGo,
    ours: Device,
    role: Role,
    _echo: UdpEcho,
}

impl Match {
    fn new(engine: Engine, role: Role, gateway_at: &str) -> Self {
        let site = Site::new();
        six(&site);
        let endpoint = SocketAddr::new(gateway_at.parse().unwrap(), PORT);
        let (theirs, ours) = match role {
            Role::WeCall => {
                let configuration = format!(
                    "[Interface]\nPrivateKey = {}\nListenPort = {PORT}\n\
                     [Peer]\nPublicKey = {}\nAllowedIPs = {HOST}/128, {HOST_V4}/32\n",
                    key(2).to_base64().as_str(),
                    key(1).public(),
                );
                let addresses = [format!("{GATEWAY}/64"), format!("{GATEWAY_V4}/16")];
                let addresses = [&*addresses[0], &*addresses[1]];
                let theirs =
                    WireGuardGo::start_engine(engine, &site.gateway, &configuration, &addresses);
                let ours = site.open_host();
                let gateway = PeerSpec {
                    endpoint: Some(endpoint),
                    ..gateway_peer()
                };
                ours.apply(vec![gateway]).unwrap();
                (theirs, ours)
            }
            Role::TheyCall => {
                let ours = site.open_gateway();
                ours.apply(vec![host_peer()]).unwrap();
                (call(engine, &site, endpoint), ours)
            }
        };
        let echo = site.echo();
        println!("{} {role:?}", engine.program);
        Self {
            site,
            theirs,
            ours,
            role,
            _echo: echo,
        }
    }

    fn sockets(&self) -> [UdpSocket; 2] {
        [HOST, HOST_V4].map(|address| socket(&self.site.host, address))
    }

    /// When the last handshake was. Not every engine tells it right.
    fn handshake(&self) -> u64 {
        let at = peer(&self.ours).last_handshake.unwrap();
        at.duration_since(UNIX_EPOCH).unwrap().as_secs()
    }
}

/// Their host, which calls our gateway.
fn call(engine: Engine, site: &Site, endpoint: SocketAddr) -> WireGuardGo {
    let configuration = format!(
        "[Interface]\nPrivateKey = {}\nListenPort = {THEIR_PORT}\n\
         [Peer]\nPublicKey = {}\nAllowedIPs = {GATEWAY}/128, {GATEWAY_V4}/32\n\
         Endpoint = {endpoint}\nPersistentKeepalive = 1\n",
        key(1).to_base64().as_str(),
        key(2).public(),
    );
    let addresses = [format!("{HOST}/128"), format!("{HOST_V4}/32")];
    let addresses = [&*addresses[0], &*addresses[1]];
    let theirs = WireGuardGo::start_engine(engine, &site.host, &configuration, &addresses);
    let prefixes = [format!("{GATEWAY}/128"), format!("{GATEWAY_V4}/32")];
    theirs.route(&site.host, &[&prefixes[0], &prefixes[1]]);
    theirs
}

/// IPv6 outside, beside what there is.
fn six(site: &Site) {
    let address = |namespace, address: &str, dev: &str| {
        let line = ["-6", "address", "add", address, "dev", dev, "nodad"];
        run(namespace, "ip", &line);
    };
    address(&site.host, "2001:db8:1::11/64", "eth0");
    address(&site.router, "2001:db8:1::1/64", "lan");
    address(&site.router, "2001:db8:2::1/64", "wan");
    address(&site.gateway, "2001:db8:2::7/64", "eth0");
    site.router
        .run(|| kedge_net::link::sysctl("ipv6/conf/all/forwarding", "1").unwrap())
        .unwrap();
    let default = |namespace, via: &str| {
        run(
            namespace,
            "ip",
            &["-6", "route", "add", "default", "via", via],
        );
    };
    default(&site.host, "2001:db8:1::1");
    default(&site.gateway, "2001:db8:2::1");
}

fn each(gateway_at: &str, check: impl Fn(&Match)) {
    if !ready() {
        return;
    }
    for engine in engines() {
        for role in [Role::WeCall, Role::TheyCall] {
            check(&Match::new(engine, role, gateway_at));
        }
    }
}

#[test]
fn over_ipv6() {
    each(GATEWAY_V6, |it| {
        let [v6, v4] = it.sockets();
        eventually("IPv6 in IPv6", LIMIT, || answered(&v6, GATEWAY));
        eventually("IPv4 in IPv6", LIMIT, || answered(&v4, GATEWAY_V4));
        for length in [0, 1_000, 1_372, 4_000] {
            assert!(echoed(&v6, GATEWAY, length), "{length} bytes");
        }
        let place = match it.role {
            Role::TheyCall => peer(&it.ours).endpoint.unwrap().to_string(),
            Role::WeCall => it.theirs.endpoint(&it.site.gateway),
        };
        assert!(place.starts_with("[2001:db8:1::11]"), "{place}");
    });
}

#[test]
fn from_another_place() {
    each(GATEWAY_WAN, |it| {
        let [v6, _] = it.sockets();
        eventually("first answer", LIMIT, || answered(&v6, GATEWAY));
        let before = it.handshake();
        // The router forgets its flows, and everybody has another port.
        let rules = "flush ruleset; add table ip nat; \
            add chain ip nat post { type nat hook postrouting priority 100; }; \
            add rule ip nat post oifname wan meta l4proto udp masquerade to :40000-40010";
        run(&it.site.router, "ip", &["link", "set", "wan", "down"]);
        run(&it.site.router, "nft", &[rules]);
        run(&it.site.router, "ip", &["link", "set", "wan", "up"]);
        let place = || match it.role {
            Role::TheyCall => peer(&it.ours).endpoint.unwrap().to_string(),
            Role::WeCall => it.theirs.endpoint(&it.site.gateway),
        };
        eventually("the gateway follows", LIMIT, || {
            answered(&v6, GATEWAY) && place().starts_with("198.51.100.1:400")
        });
        assert_eq!(it.handshake(), before, "no handshake was needed");
    });
}

#[test]
fn with_a_cookie_under_load() {
    if !ready() {
        return;
    }
    for engine in engines() {
        let site = Site::new();
        let gateway = site.open_gateway();
        gateway.apply(vec![host_peer()]).unwrap();
        let _echo = site.echo();
        // Cookie replies are 64 bytes and a header of UDP; theirs alone go to that port.
        let rules = format!(
            "add table ip seen; add chain ip seen output {{ type filter hook output priority 0; }}; \
             add rule ip seen output udp dport {THEIR_PORT} udp length 72 counter"
        );
        run(&site.gateway, "nft", &[&rules]);
        let endpoint = SocketAddr::new(GATEWAY_WAN.parse().unwrap(), PORT);
        let from = socket(&site.host, "10.20.14.11");
        let flood = Flood::start(from, key(2).public(), endpoint);
        let guard = || gateway.device_stats().guard.unwrap();
        eventually("the gateway is under load", LIMIT, || guard().under_load);
        let _theirs = call(engine, &site, endpoint);
        let probe = socket(&site.host, HOST);
        eventually("a session in the flood", LIMIT, || {
            answered(&probe, GATEWAY)
        });
        let during = guard();
        let sent = flood.end();
        let seen = run(&site.gateway, "nft", &["list", "table", "ip", "seen"]);
        println!("{}: in a flood of {sent}, {during:?}", engine.program);
        assert!(!seen.contains("packets 0 "), "no cookie was needed: {seen}");
        assert!(during.cookies_proven > 0, "theirs came back: {during:?}");
        eventually("the load is over", LIMIT, || !guard().under_load);
    }
}

#[test]
fn through_the_re_key_after_two_minutes() {
    if std::env::var_os("KEDGE_TEST_LONG").is_none() {
        println!("skipped: takes two minutes for each engine and role (KEDGE_TEST_LONG=1)");
        return;
    }
    each(GATEWAY_WAN, |it| {
        let [v6, _] = it.sockets();
        eventually("first answer", LIMIT, || answered(&v6, GATEWAY));
        let (first, begun) = (it.handshake(), Instant::now());
        let (mut sent, mut lost) = (0, 0);
        while begun.elapsed() < Duration::from_secs(135) {
            sent += 1;
            lost += u32::from(!answered_within(&v6, GATEWAY, Duration::from_secs(2)));
            std::thread::sleep(Duration::from_millis(50));
        }
        let again = it.handshake();
        println!("re-key after {} s, {lost} of {sent} lost", again - first);
        assert!((115..=130).contains(&(again - first)), "{first} {again}");
        assert_eq!(lost, 0);
    });
}
