//! `kedge wg` changes while packets flow, and none is lost: a numbered packet each millisecond is
//! counted at both ends.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::tunnel;
use crate::wg;

use tunnel::*;
use wg::{
    LIMIT, Maker, Wg, preshared,
    train::{Arrived, Train, lossless},
};

/// Two devices that talk.
struct Pair<'a> {
    host: Wg<'a>,
    gateway: Wg<'a>,
    site: &'a Site,
}

fn interface(number: u8, port: &str) -> String {
    let key = key(number);
    format!(
        "[Interface]\nPrivateKey = {}\n{port}",
        key.to_base64().as_str()
    )
}

/// The gateway's peers: the host, and some that never come.
fn of_gateway(others: std::ops::Range<u8>, more: &str) -> String {
    let mut text = interface(2, &format!("ListenPort = {PORT}\n"));
    text += &format!(
        "[Peer]\nPublicKey = {}\nAllowedIPs = {HOST}/128, {HOST_V4}/32\n{more}",
        key(1).public()
    );
    for other in others {
        let key = key(other).public();
        text += &format!("[Peer]\nPublicKey = {key}\nAllowedIPs = 10.0.{other}.0/24\n");
    }
    text
}

fn of_host(more: &str) -> String {
    format!(
        "{}[Peer]\nPublicKey = {}\nAllowedIPs = {GATEWAY}/128, {GATEWAY_V4}/32\n\
         Endpoint = {GATEWAY_WAN}:{PORT}\n{more}",
        interface(1, ""),
        key(2).public(),
    )
}

impl<'a> Pair<'a> {
    fn new(site: &'a Site) -> Self {
        let gateway = Wg::make(&site.gateway, Maker::Kedge).up(
            &of_gateway(10..12, ""),
            &[&format!("{GATEWAY}/64"), &format!("{GATEWAY_V4}/16")],
        );
        let host = Wg::make(&site.host, Maker::Kedge).up(
            &of_host(""),
            &[&format!("{HOST}/64"), &format!("{HOST_V4}/16")],
        );
        Self {
            host,
            gateway,
            site,
        }
    }

    fn train(&self) -> Train {
        Train::start((&self.site.host, HOST), (&self.site.gateway, GATEWAY))
    }

    /// When each end saw the last handshake.
    fn handshakes(&self) -> [u64; 2] {
        [
            self.host.handshake(&key(2)),
            self.gateway.handshake(&key(1)),
        ]
    }
}

#[test]
fn syncconf_under_traffic_loses_nothing() {
    lossless(synced);
}

fn synced() -> Arrived {
    let site = Site::new();
    let pair = Pair::new(&site);
    let train = pair.train();
    let before = pair.handshakes();
    let port = pair.host.show("listen-port");
    for round in 0..10_u8 {
        train.go_on(100);
        // Others come and go, and change.
        let others = 10 + round % 3..14 + round;
        let keepalive = format!("PersistentKeepalive = {}\n", 20 + round);
        pair.gateway
            .configure("syncconf", &of_gateway(others, &keepalive));
        pair.host.configure("syncconf", &of_host(&keepalive));
        pair.host.configure("setconf", &of_host(&keepalive));
    }
    train.go_on(100);
    let arrived = train.finish();
    assert_eq!(pair.handshakes(), before, "the session is the first one");
    assert_eq!(
        pair.host.show("listen-port"),
        port,
        "nobody asked for another"
    );
    assert_eq!(pair.gateway.show("peers").lines().count(), 14);
    arrived
}

#[test]
fn peers_are_changed_under_the_traffic_of_another_and_of_their_own() {
    lossless(changed);
}

fn changed() -> Arrived {
    let site = Site::new();
    let pair = Pair::new(&site);
    let train = pair.train();
    let before = pair.handshakes();
    let (host, other) = (key(1).public(), key(10).public());
    for _ in 0..5 {
        for words in [
            format!("peer {host} persistent-keepalive 1"),
            format!("peer {other} allowed-ips 10.9.0.0/16 endpoint 192.0.2.9:9"),
            format!("peer {other} remove"),
            format!("peer {host} persistent-keepalive off"),
            // The prefix that packets go by moves away and back, in one change.
            format!("peer {other} allowed-ips {HOST}/128 peer {host} allowed-ips {HOST}/128"),
            "fwmark 7".to_owned(),
            "fwmark 0".to_owned(),
        ] {
            train.go_on(20);
            pair.gateway.set(&words);
        }
    }
    train.go_on(50);
    let arrived = train.finish();
    assert_eq!(pair.handshakes(), before);
    arrived
}

#[test]
fn a_peer_that_is_removed_is_gone_and_comes_back_when_it_is_added_again() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let pair = Pair::new(&site);
    let _echo = site.echo();
    let probe = socket(&site.host, HOST_V4);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY_V4));
    let train = pair.train();
    for _ in 0..3 {
        train.go_on(50);
        pair.gateway
            .set(&format!("peer {} remove", key(1).public()));
        // Of a port of its own: no late answer to an earlier question is taken for one.
        let fresh = socket(&site.host, HOST_V4);
        assert!(!answered(&fresh, GATEWAY_V4), "it is no peer");
        pair.gateway.configure("syncconf", &of_gateway(10..12, ""));
        // The gateway knows neither a session nor an endpoint; the host is the one to call.
        pair.host.set(&format!("peer {} remove", key(2).public()));
        pair.host
            .configure("addconf", &of_host("").replace(&interface(1, ""), ""));
        eventually("it is one again", LIMIT, || answered(&probe, GATEWAY_V4));
    }
    let arrived = train.finish();
    assert!(arrived.lost_there.len() < arrived.sent as usize);
}

#[test]
fn a_preshared_key_is_set_and_changed_under_traffic() {
    lossless(shared_again);
}

fn shared_again() -> Arrived {
    let site = Site::new();
    let pair = Pair::new(&site);
    let train = pair.train();
    let before = pair.handshakes();
    for number in 1..4 {
        train.go_on(100);
        let file = pair.gateway.file("psk", &preshared(number));
        let words = |peer| {
            format!(
                "peer {} preshared-key {}",
                key(peer).public(),
                file.display()
            )
        };
        pair.gateway.set(&words(1));
        pair.host.set(&words(2));
        let told = pair.host.of_peer("preshared-keys", &key(2)).unwrap();
        assert_eq!(told, preshared(number));
    }
    train.go_on(100);
    // The next handshake is the first one that mixes it in.
    let arrived = train.finish();
    assert_eq!(pair.handshakes(), before);
    // A handshake with it works, and with another one it does not.
    let _echo = UdpEcho::start(&site.gateway, &[GATEWAY]);
    let probe = socket(&site.host, HOST);
    let again = |psk: u8| {
        pair.host.set(&format!("peer {} remove", key(2).public()));
        let more = format!("PresharedKey = {}\n", preshared(psk));
        pair.host
            .configure("addconf", &of_host(&more).replace(&interface(1, ""), ""));
    };
    again(9);
    assert!(!answered_within(
        &probe,
        GATEWAY,
        std::time::Duration::from_secs(1)
    ));
    let probe = socket(&site.host, HOST);
    again(3);
    eventually("the right key", LIMIT, || answered(&probe, GATEWAY));
    arrived
}

#[test]
fn another_port_is_told_to_the_peer_at_once() {
    lossless(moved);
}

fn moved() -> Arrived {
    let site = Site::new();
    let pair = Pair::new(&site);
    let train = pair.train();
    let before = pair.handshakes();
    for port in [5_555, 6_666, 0] {
        train.go_on(50);
        pair.host.set(&format!("listen-port {port}"));
        let told = pair.host.show("listen-port");
        let told = told.trim_end();
        assert!(port == 0 || told == port.to_string(), "{told}");
        // A peer moves once a second at most.
        eventually("the gateway knows", LIMIT, || {
            let seen = pair.gateway.of_peer("endpoints", &key(1)).unwrap();
            seen.ends_with(&format!(":{told}"))
        });
    }
    train.go_on(50);
    let arrived = train.finish();
    assert_eq!(pair.handshakes(), before, "the session goes on");
    // Answers that were on their way to the old port may be gone.
    Arrived {
        lost_back: Vec::new(),
        ..arrived
    }
}

#[test]
fn a_link_that_goes_down_closes_the_port_and_opens_it_again() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let pair = Pair::new(&site);
    let _echo = site.echo();
    let probe = socket(&site.host, HOST_V4);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY_V4));
    let listens = || {
        let all = pair.gateway.run("ss", &["-H", "-u", "-l", "-n"]);
        all.contains(&format!(":{PORT} "))
    };
    assert!(listens());
    let name = &pair.gateway.name;
    pair.gateway.run("ip", &["link", "set", name, "down"]);
    eventually("the port is closed", LIMIT, || !listens());
    assert_eq!(
        pair.gateway.show("listen-port").trim_end(),
        PORT.to_string()
    );
    pair.gateway.run("ip", &["link", "set", name, "up"]);
    eventually("the port is open", LIMIT, listens);
    // IPv4 addresses stay on a link that is down.
    eventually("it answers again", LIMIT, || answered(&probe, GATEWAY_V4));
}

#[test]
fn another_mtu_is_followed() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let pair = Pair::new(&site);
    let _echo = UdpEcho::start(&site.gateway, &[GATEWAY]);
    let probe = socket(&site.host, HOST);
    eventually("first answer", LIMIT, || answered(&probe, GATEWAY));
    for mtu in ["1280", "1400", "9000"] {
        for device in [&pair.host, &pair.gateway] {
            device.run("ip", &["link", "set", &device.name, "mtu", mtu]);
        }
        for length in [1_231, 1_232, 1_233, 1_352, 8_000] {
            assert!(echoed(&probe, GATEWAY, length), "{length} bytes of {mtu}");
        }
    }
}
