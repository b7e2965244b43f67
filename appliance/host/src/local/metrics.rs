//! `GET /metrics`: what a role says of its tunnels and BGP neighbours, for scrapers; at its control socket, and where the
//! configuration names an address there as well.
//!
//! Made from what the role shows everybody (`kedge tunnel list`), each time somebody asks. Peers are
//! told apart by their names; no key and no address is a label.

mod bgp;
mod exposed;
mod shortcut;

use std::{
    fmt::{self, Debug},
    sync::atomic::AtomicU64,
};

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use kedge_control::local::{
    BgpNeighbor, HandshakeGuard, ShortcutStatus, Tunnel, TunnelList, TunnelState,
};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

pub use self::exposed::{Exposed, MetricsFile};
use super::{Answers, Asks};

/// Answers a scraper.
pub(super) async fn metrics<T: Answers>(State(asks): State<Asks<T>>) -> Response {
    let told = asks.look(|role: &T| (role.tunnels(), role.neighbors(), role.shortcuts()));
    match told
        .await
        .map(|(tunnels, neighbors, shortcuts)| text(&tunnels, &neighbors, &shortcuts))
    {
        Ok(Ok(text)) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Ok(Err(fmt::Error)) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Err(failure) => failure.into_response(),
    }
}

/// What tunnels, neighbours and endpoints say, in the OpenMetrics format.
fn text(
    list: &TunnelList,
    neighbors: &[BgpNeighbor],
    shortcuts: &[ShortcutStatus],
) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let tunnels = registry.sub_registry_with_prefix("kedge_tunnel");
    of_device(list, tunnels);
    let peers = Peers::new(tunnels);
    for tunnel in &list.items {
        peers.add(tunnel);
    }
    if !neighbors.is_empty() {
        bgp::add(neighbors, registry.sub_registry_with_prefix("kedge_bgp"));
    }
    if !shortcuts.is_empty() {
        let registry = registry.sub_registry_with_prefix("kedge_shortcut");
        shortcut::add(shortcuts, registry);
    }
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

type Value = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfMode {
    mode: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPart {
    part: String,
    state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPeer {
    peer: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPath {
    peer: String,
    path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfDirection {
    peer: String,
    direction: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfReason {
    peer: String,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    state: &'static str,
}

fn of_device(list: &TunnelList, registry: &mut Registry) {
    if let Some(plane) = &list.data_plane {
        let mode = Family::<OfMode, Gauge>::default();
        let label = OfMode {
            mode: plane.mode.clone(),
        };
        mode.get_or_create(&label).set(1);
        registry.register("data_plane_info", "Who moves the packets", mode);
        let repairs = Counter::<u64>::default();
        repairs.inc_by(plane.repairs);
        let help = "What somebody else had changed of the device and was put right";
        registry.register("repairs", help, repairs);
    }
    if let Some(workers) = &list.workers {
        let threads = Gauge::<i64>::default();
        threads.set(workers.count.into());
        registry.register("workers", "Threads that move the packets", threads);
    }
    let offload = Family::<OfPart, Gauge>::default();
    for (part, told) in &list.offload {
        let (part, state) = (part.clone(), told.state.clone());
        offload.get_or_create(&OfPart { part, state }).set(1);
    }
    let help = "What is left to the kernel, part by part; of tun it is the step of the ladder";
    registry.register("offload_info", help, offload);
    if let Some(guard) = &list.guard {
        of_guard(guard, registry);
    }
    let Some(key) = &list.key_change else { return };
    let peers = Family::<OfState, Gauge>::default();
    for (state, many) in [("moved", &key.moved), ("waiting", &key.waiting)] {
        let many = i64::try_from(many.len()).unwrap_or(i64::MAX);
        peers.get_or_create(&OfState { state }).set(many);
    }
    let help = "Peers of a change of this end's key: who uses the next one, and whom the old one is kept for";
    registry.register("key_change_peers", help, peers);
    if let Some(since) = seconds(&key.since) {
        let made = Value::default();
        made.set(since);
        let help = "When the key in use was made";
        registry.register_with_unit("key_timestamp", help, Unit::Seconds, made);
    }
}

fn of_guard(guard: &HandshakeGuard, registry: &mut Registry) {
    let load = Gauge::<i64>::default();
    load.set(guard.under_load.into());
    let help = "Whether strangers have to prove where they are before a handshake";
    registry.register("under_load", help, load);
    for (name, help, many) in [
        ("under_load_begun", "How often that began", guard.times),
        ("cookies_sent", "Cookies that were sent", guard.cookies_sent),
        (
            "cookies_proven",
            "Initiations that came with a cookie that holds",
            guard.cookies_proven,
        ),
    ] {
        let counter = Counter::<u64>::default();
        counter.inc_by(many);
        registry.register(name, help, counter);
    }
}

/// A family for each thing that is said of peers.
struct Peers {
    up: Family<OfPeer, Gauge>,
    path: Family<OfPath, Gauge>,
    fallback: Family<OfPeer, Gauge>,
    active: Family<OfPeer, Gauge>,
    handshake: Family<OfPeer, Value>,
    rtt: Family<OfPeer, Value>,
    mtu: Family<OfPeer, Gauge>,
    bytes: Family<OfDirection, Counter>,
    drops: Family<OfReason, Counter>,
    probes: Family<OfPeer, Counter>,
    lost: Family<OfPeer, Counter>,
    forced: Family<OfPeer, Counter>,
}

impl Peers {
    fn new(registry: &mut Registry) -> Self {
        let all = Self {
            up: Family::default(),
            path: Family::default(),
            fallback: Family::default(),
            active: Family::default(),
            handshake: Family::default(),
            rtt: Family::default(),
            mtu: Family::default(),
            bytes: Family::default(),
            drops: Family::default(),
            probes: Family::default(),
            lost: Family::default(),
            forced: Family::default(),
        };
        macro_rules! register {
            ($($family:ident $name:literal $(in $unit:ident)?, $help:literal;)*) => {
                $(register!(@ registry, all.$family.clone(), $name, $help $(, $unit)?);)*
            };
            (@ $registry:ident, $family:expr, $name:literal, $help:literal) => {
                $registry.register($name, $help, $family)
            };
            (@ $registry:ident, $family:expr, $name:literal, $help:literal, $unit:ident) => {
                $registry.register_with_unit($name, $help, Unit::$unit, $family)
            };
        }
        register! {
            up "up", "Whether the peer answers, or was heard from of late";
            path "path_info", "How packets get there: udp, or tls where UDP is blocked";
            fallback "fallback", "Whether the peer is not reached by its usual UDP port, and another way is in use";
            active "gateway_active", "Whether packets go through this one of several gateways";
            handshake "handshake_timestamp" in Seconds, "When the last handshake was completed";
            rtt "rtt" in Seconds, "Round trip of the last probe inside the tunnel";
            mtu "path_mtu" in Bytes, "The largest packet that is sent to the peer";
            bytes "bytes", "WireGuard messages, whole";
            drops "drops", "Packets of the peer that were not carried";
            probes "probes", "Probes that were sent inside the tunnel";
            lost "probes_lost", "Probes that were not answered";
            forced "handshakes_forced", "Handshakes asked for since probes were not answered";
        }
        all
    }

    fn add(&self, tunnel: &Tunnel) {
        let of = OfPeer {
            peer: tunnel.name.clone(),
        };
        let flag = |family: &Family<OfPeer, Gauge>, is: bool| {
            family.get_or_create(&of).set(i64::from(is));
        };
        flag(&self.up, tunnel.state == TunnelState::Up);
        flag(&self.fallback, tunnel.fallback.is_some());
        if let Some(gateway) = &tunnel.gateway {
            flag(&self.active, gateway.active);
        }
        let (peer, path) = (tunnel.name.clone(), tunnel.path.clone());
        self.path.get_or_create(&OfPath { peer, path }).set(1);
        if let Some(at) = tunnel.last_handshake.as_deref().and_then(seconds) {
            self.handshake.get_or_create(&of).set(at);
        }
        if let Some(mtu) = &tunnel.path_mtu {
            self.mtu.get_or_create(&of).set(mtu.mtu.into());
        }
        for (direction, bytes) in [("in", tunnel.rx_bytes), ("out", tunnel.tx_bytes)] {
            let peer = tunnel.name.clone();
            let of = OfDirection { peer, direction };
            self.bytes.get_or_create(&of).inc_by(bytes);
        }
        for (reason, many) in &tunnel.drops {
            let (peer, reason) = (tunnel.name.clone(), reason.clone());
            let of = OfReason { peer, reason };
            self.drops.get_or_create(&of).inc_by(*many);
        }
        if let Some(echo) = &tunnel.echo {
            if let Some(rtt) = echo.rtt_seconds {
                self.rtt.get_or_create(&of).set(rtt);
            }
            self.probes.get_or_create(&of).inc_by(echo.sent);
            self.lost.get_or_create(&of).inc_by(echo.lost);
            let forced = self.forced.get_or_create(&of);
            forced.inc_by(echo.forced_handshakes);
        }
    }
}

/// Seconds since 1970 of a time as text (RFC 3339).
#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds of our time are exact"
)]
fn seconds(text: &str) -> Option<f64> {
    let at: Timestamp = text.parse().ok()?;
    Some(at.as_millisecond() as f64 / 1e3)
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[cfg(test)]
mod tests {
    use kedge_control::local::{EchoStatus, OffloadPart, ShortcutState, Workers};

    use super::*;

    #[test]
    fn what_is_shown_of_a_tunnel_is_told_to_scrapers_without_keys_and_addresses() {
        let tunnel = Tunnel {
            name: "gw-0".to_owned(),
            state: TunnelState::Up,
            path: "udp".to_owned(),
            public_key: "c2VjcmV0".to_owned(),
            endpoint: Some("192.0.2.1:51820".to_owned()),
            last_handshake: Some("2026-11-25T00:00:00.5Z".to_owned()),
            rx_bytes: 148,
            drops: [("replayed".to_owned(), 3)].into(),
            echo: Some(EchoStatus {
                rtt_seconds: Some(0.25),
                sent: 9,
                lost: 2,
                ..EchoStatus::default()
            }),
            ..Tunnel::default()
        };
        let rung = OffloadPart {
            state: "tun+uso".to_owned(),
            because: None,
        };
        let list = TunnelList {
            offload: [("tun".to_owned(), rung)].into(),
            workers: Some(Workers {
                count: 2,
                because: String::new(),
            }),
            guard: Some(HandshakeGuard {
                under_load: true,
                times: 1,
                cookies_sent: 40,
                cookies_proven: 7,
            }),
            items: vec![tunnel],
            ..TunnelList::default()
        };
        let standing = ShortcutStatus {
            name: "t/edge".to_owned(),
            state: ShortcutState::Standing,
            taken: 2,
            ..ShortcutStatus::default()
        };
        let text = text(&list, &[], &[standing]).unwrap();
        assert!(text.contains("kedge_shortcut_standing{name=\"t/edge\"} 1"));
        assert!(text.contains("kedge_shortcut_taken_total{name=\"t/edge\"} 2"));
        for line in [
            "kedge_tunnel_workers 2",
            "kedge_tunnel_offload_info{part=\"tun\",state=\"tun+uso\"} 1",
            "kedge_tunnel_under_load 1",
            "kedge_tunnel_under_load_begun_total 1",
            "kedge_tunnel_cookies_sent_total 40",
            "kedge_tunnel_cookies_proven_total 7",
            "kedge_tunnel_up{peer=\"gw-0\"} 1",
            "kedge_tunnel_fallback{peer=\"gw-0\"} 0",
            "kedge_tunnel_path_info{peer=\"gw-0\",path=\"udp\"} 1",
            "kedge_tunnel_handshake_timestamp_seconds{peer=\"gw-0\"} 1795564800.5",
            "kedge_tunnel_rtt_seconds{peer=\"gw-0\"} 0.25",
            "kedge_tunnel_bytes_total{peer=\"gw-0\",direction=\"in\"} 148",
            "kedge_tunnel_drops_total{peer=\"gw-0\",reason=\"replayed\"} 3",
            "kedge_tunnel_probes_lost_total{peer=\"gw-0\"} 2",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
        assert!(!text.contains("kedge_bgp"), "there is no neighbour");
        assert!(!text.contains("192.0.2") && !text.contains("c2VjcmV0"));
        assert!(text.ends_with("# EOF\n"));
    }
}
