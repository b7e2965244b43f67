use std::time::Duration;

use kedge_core::Code;
use kedge_tunnel_device::{PeerStats, State, backend::Mode, offload::Allowed};
use kedge_tunnel_proto::noise::CoreName;

use super::*;
use crate::desired::Source;

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn key() -> PublicKey {
    PrivateKey::from_random([7; 32]).public()
}

fn peer(asked: bool, keepalive: Option<u64>) -> Peer {
    Peer {
        name: "gw-0".to_owned(),
        source: Source::Manager,
        public_key: key(),
        next_key: None,
        endpoint: None,
        other_endpoint: None,
        tls_endpoint: None,
        allowed_ips: Vec::new(),
        keepalive: keepalive.map(Duration::from_secs),
        echo: asked.then(|| ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap())),
    }
}

fn stats(last: Option<u64>) -> PeerStats {
    PeerStats {
        name: "gw-0".to_owned(),
        public_key: key(),
        pair: None,
        endpoint: Some("203.0.113.7:51820".parse().unwrap()),
        by_other: false,
        state: State::Connected,
        last_handshake: None,
        last_authenticated_data: last.map(at),
        rx_bytes: 0,
        tx_bytes: 0,
        rx_packets: 0,
        tx_packets: 0,
        drops: Vec::new(),
    }
}

fn report(up: Option<bool>, answered: u64, misses: u32) -> Report {
    Report {
        up,
        rtt: Some(Duration::from_micros(1_500)),
        sent: answered + u64::from(misses),
        answered,
        misses,
        ..Report::default()
    }
}

#[test]
fn a_gateway_is_up_by_its_answers_and_by_nothing_else() {
    let now = at(1_000);
    // A fresh session and fresh data do not make a gateway that answers no probe "up".
    let fresh = stats(Some(1_000));
    for (report, state, words) in [
        (
            None,
            TunnelState::Connecting,
            "no probe was answered yet from 203.0.113.7:51820",
        ),
        (
            Some(report(None, 0, 1)),
            TunnelState::Connecting,
            "no probe was answered yet",
        ),
        (
            Some(report(Some(false), 0, 3)),
            TunnelState::Connecting,
            "no probe was answered yet",
        ),
        (
            Some(report(Some(true), 1, 0)),
            TunnelState::Up,
            "answered in 1.5 ms",
        ),
        (
            Some(report(Some(true), 9, 2)),
            TunnelState::Up,
            "answered in 1.5 ms",
        ),
        (
            Some(report(Some(false), 9, 4)),
            TunnelState::Down,
            "4 probes in a row",
        ),
    ] {
        let told = opinion(&peer(true, Some(25)), Some(&fresh), report.as_ref(), now);
        assert_eq!(told.0, state, "{report:?}");
        assert!(told.1.contains(words), "{told:?}");
    }
    let closed = opinion(&peer(true, None), None, None, now);
    assert_eq!(closed.0, TunnelState::Connecting);
    assert!(closed.1.contains("not open"));
}

#[test]
fn a_static_peer_is_up_by_the_age_of_its_data() {
    let now = at(1_000);
    for (keepalive, last, state) in [
        (None, None, TunnelState::Connecting),
        (None, Some(821), TunnelState::Up),
        (None, Some(820), TunnelState::Down),
        (Some(25), Some(941), TunnelState::Up),
        (Some(25), Some(940), TunnelState::Down),
    ] {
        let told = opinion(&peer(false, keepalive), Some(&stats(last)), None, now);
        assert_eq!(told.0, state, "{keepalive:?} {last:?}: {told:?}");
    }
}

#[test]
fn without_a_wish_there_is_nothing_and_nothing_is_wrong() {
    let mut tunnel = Tunnel::new(
        Kind::Userspace,
        PrivateKey::from_random([7; 32]),
        Memory::default(),
    );
    tunnel.want(None);
    tunnel.tend();
    assert!(tunnel.problems().is_empty());
    assert_eq!(tunnel.up(), (0, 0));
    assert_eq!(tunnel.report().gateway, None);
    assert_eq!(tunnel.list().items, []);
}

#[test]
fn a_device_that_cannot_be_opened_is_told_where_its_peers_are_listed() {
    let mut tunnel = Tunnel::new(
        Kind::Userspace,
        PrivateKey::from_random([7; 32]),
        Memory::default(),
    );
    tunnel.want(Some(TunnelWish {
        interface: "no/name".to_owned(),
        listen_port: 0,
        mtu: 1_420,
        finds_paths: true,
        noise_core: CoreName::default(),
        data_plane: Mode::Auto,
        wg_socket: false,
        bench_mbps: 0,
        offload: Allowed::default(),
        addresses: Vec::new(),
        peers: vec![peer(true, Some(25))],
        failover: None,
        mesh: None,
    }));
    let list = tunnel.list();
    assert_eq!(list.problems.len(), 1, "{list:?}");
    assert_eq!(list.problems[0].code, Code::TunDeviceMissing);
    assert_eq!(list.items[0].because, "the tunnel device is not open");
    tunnel.want(None);
    assert_eq!(tunnel.list().problems, []);
}
