//! The tunnel as people see it. No I/O.

use std::{collections::BTreeMap, time::SystemTime};

use kedge_control::local::{EchoStatus, Tunnel, TunnelList};
use kedge_host::wall;
use kedge_tunnel_device::{PeerStats, echo::Report};

use super::{Life, fallback::Fallbacks, gateways::Gateways, ways::Ways};
use crate::desired::TunnelWish;

pub(super) fn list(
    wish: Option<&TunnelWish>,
    stats: &[PeerStats],
    lives: &BTreeMap<String, Life>,
    gateways: Option<&Gateways>,
    ways: &Ways,
    fallbacks: &Fallbacks,
) -> TunnelList {
    let mut list = TunnelList::default();
    let Some(wish) = wish else { return list };
    list.device = wish.interface.clone();
    list.addresses = wish.addresses.iter().map(ToString::to_string).collect();
    list.listen_port = wish.listen_port;
    list.mtu = match ways.device_mtu() {
        Some(mtu) if wish.finds_paths => mtu,
        _ => wish.mtu,
    };
    for peer in &wish.peers {
        let stats = stats.iter().find(|stats| stats.name == peer.name);
        let life = lives.get(&peer.name);
        let handshake = stats.and_then(|stats| stats.last_handshake);
        let age = handshake.and_then(|at| SystemTime::now().duration_since(at).ok());
        let fallback = fallbacks.view(&peer.name);
        let elsewhere = fallback.as_ref().map(|it| it.endpoint.clone());
        let configured = || peer.endpoint.as_ref().map(ToString::to_string);
        list.items.push(Tunnel {
            name: peer.name.clone(),
            source: peer.source.to_string(),
            state: life.map(|life| life.state).unwrap_or_default(),
            because: life.map(|life| life.because.clone()).unwrap_or_default(),
            since: life
                .map(|life| wall::rfc3339(life.since))
                .unwrap_or_default(),
            path: super::fallback::path(fallback.as_ref()),
            public_key: stats
                .map_or(peer.public_key, |stats| stats.public_key)
                .to_string(),
            endpoint: elsewhere.or_else(|| {
                let at = stats.and_then(|stats| stats.endpoint);
                at.map(|at| at.to_string()).or_else(configured)
            }),
            allowed_ips: peer.allowed_ips.iter().map(ToString::to_string).collect(),
            last_handshake: handshake.map(wall::rfc3339),
            handshake_age_seconds: age.map(|age| age.as_secs_f64()),
            rx_bytes: stats.map_or(0, |stats| stats.rx_bytes),
            tx_bytes: stats.map_or(0, |stats| stats.tx_bytes),
            drops: stats
                .iter()
                .flat_map(|stats| &stats.drops)
                .map(|(reason, count)| (reason.label().to_owned(), *count))
                .collect(),
            offload: BTreeMap::new(),
            echo: life.and_then(|life| life.report.as_ref()).map(echo),
            gateway: gateways.and_then(|gateways| gateways.view(&peer.name)),
            path_mtu: ways.view(&peer.name),
            tls_endpoint: peer.tls_endpoint.as_ref().map(ToString::to_string),
            fallback,
        });
    }
    list.items.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

fn echo(report: &Report) -> EchoStatus {
    // The last probe may still be answered.
    let open = u64::from(report.misses == 0);
    EchoStatus {
        rtt_seconds: report.rtt.map(|rtt| rtt.as_secs_f64()),
        sent: report.sent,
        lost: report.sent.saturating_sub(report.answered + open),
        missed_in_a_row: report.misses,
        forced_handshakes: report.forced,
    }
}
