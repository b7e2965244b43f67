//! Against Debian's wireguard-go, in both roles.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "test code"
)]

use crate::tunnel;

use std::time::Duration;

use kedge_net::netns::Namespace;
use kedge_tunnel_device::State;
use tunnel::{wireguard_go::WireGuardGo, *};

const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn we_call_wireguard_go() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let configuration = format!(
        "[Interface]\nPrivateKey = {}\nListenPort = {PORT}\n\
         [Peer]\nPublicKey = {}\nAllowedIPs = {HOST}/128, {HOST_V4}/32\n",
        key(2).to_base64().as_str(),
        key(1).public(),
    );
    let theirs = WireGuardGo::start(
        &site.gateway,
        &configuration,
        &[&format!("{GATEWAY}/64"), &format!("{GATEWAY_V4}/16")],
    );
    let host = site.open_host();
    host.apply(vec![gateway_peer()]).unwrap();
    let _echo = site.echo();
    check(&site, &theirs, &site.gateway, &host);
}

#[test]
fn wireguard_go_calls_us() {
    if !ready() {
        return;
    }
    let site = Site::new();
    let gateway = site.open_gateway();
    gateway.apply(vec![host_peer()]).unwrap();
    let _echo = site.echo();
    let configuration = format!(
        "[Interface]\nPrivateKey = {}\n\
         [Peer]\nPublicKey = {}\nAllowedIPs = {GATEWAY}/128, {GATEWAY_V4}/32\n\
         Endpoint = {GATEWAY_WAN}:{PORT}\nPersistentKeepalive = 1\n",
        key(1).to_base64().as_str(),
        key(2).public(),
    );
    let theirs = WireGuardGo::start(
        &site.host,
        &configuration,
        &[&format!("{HOST}/128"), &format!("{HOST_V4}/32")],
    );
    theirs.route(
        &site.host,
        &[&format!("{GATEWAY}/128"), &format!("{GATEWAY_V4}/32")],
    );
    check(&site, &theirs, &site.host, &gateway);
    let endpoint = peer(&gateway).endpoint.unwrap();
    assert_eq!(
        endpoint.ip().to_string(),
        "198.51.100.1",
        "behind the router"
    );
    let before = peer(&gateway).last_authenticated_data.unwrap();
    eventually(
        "their keepalive is authenticated data",
        Duration::from_secs(3),
        || peer(&gateway).last_authenticated_data.unwrap() > before,
    );
}

/// Traffic of all sizes passes, and both ends tell the same.
fn check(
    site: &Site,
    theirs: &WireGuardGo,
    their_namespace: &Namespace,
    ours: &kedge_tunnel_device::Device,
) {
    let (v6, v4) = (socket(&site.host, HOST), socket(&site.host, HOST_V4));
    eventually("first answer, IPv6", LIMIT, || answered(&v6, GATEWAY));
    eventually("first answer, IPv4", LIMIT, || answered(&v4, GATEWAY_V4));
    for length in [0, 1, 15, 16, 17, 1_000, 1_371, 1_372, 4_000] {
        assert!(echoed(&v6, GATEWAY, length), "{length} bytes");
    }
    let mut told = (0, 0, 0);
    eventually("both count the same bytes", LIMIT, || {
        told = theirs.show(their_namespace);
        let peer = peer(ours);
        (told.1, told.2) == (peer.tx_bytes, peer.rx_bytes)
    });
    let (handshake, received, sent) = told;
    println!("wg show: handshake at {handshake}, {received} bytes received, {sent} sent");
    assert!(received >= 9_000 && sent >= 9_000);
    let peer = peer(ours);
    assert_eq!(peer.state, State::Connected);
    let handshake_here = peer.last_handshake.unwrap();
    let handshake_here = handshake_here
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    assert!(
        handshake.abs_diff(handshake_here) <= 1,
        "{handshake} {handshake_here}"
    );
    assert_eq!(peer.drops, []);
}
