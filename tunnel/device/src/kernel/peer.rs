//! A peer of the kernel's: made anew, and what it tells.

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use kedge_net::wireguard::{ObservedPeer, PeerSet, Set};
use kedge_tunnel_proto::{counters::State, directory::PeerSpec};

use super::{
    ledger::{Bytes, Ledger},
    plan,
};
use crate::PeerStats;

/// A change that makes a peer anew, and a packet to it that needs a handshake.
pub(super) fn anew(spec: &PeerSpec, endpoint: Option<SocketAddr>) -> Set {
    let key = *spec.public_key.as_bytes();
    let mut fresh = plan::new(spec, &plan::prefixes(spec));
    fresh.endpoint = endpoint.or(spec.endpoint);
    // Switching a keepalive on sends one.
    fresh.keepalive = fresh.keepalive.map(|seconds| seconds.max(1));
    let mut peers = vec![plan::gone(key), fresh];
    if plan::keepalive(spec) == 0 {
        peers.push(PeerSet {
            update_only: true,
            keepalive: Some(0),
            ..PeerSet::of(key)
        });
    }
    Set {
        peers,
        ..Set::default()
    }
}

pub(super) fn counted(peer: &ObservedPeer) -> Bytes {
    Bytes {
        rx: peer.rx_bytes,
        tx: peer.tx_bytes,
    }
}

/// A peer with the newest of its keys, of which the kernel takes one: whoever announces a key has it
/// already.
pub(super) fn newest(spec: &PeerSpec) -> PeerSpec {
    PeerSpec {
        public_key: spec.next().unwrap_or(spec.public_key),
        next_key: None,
        ..spec.clone()
    }
}

pub(super) fn stats(spec: &PeerSpec, peer: &ObservedPeer, ledger: Ledger) -> PeerStats {
    let age = peer
        .last_handshake
        .map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
    let state = match age {
        Some(age) if age < REJECT_AFTER => State::Connected,
        _ if spec.always_up || spec.keepalive.is_some() => State::Connecting,
        _ => State::Idle,
    };
    let total = ledger.total();
    PeerStats {
        name: spec.name.clone(),
        public_key: spec.public_key,
        pair: None,
        endpoint: peer.endpoint.or(spec.endpoint),
        by_other: false,
        state,
        last_handshake: peer.last_handshake,
        last_authenticated_data: ledger.last_data(),
        rx_bytes: total.rx,
        tx_bytes: total.tx,
        rx_packets: 0,
        tx_packets: 0,
        drops: Vec::new(),
    }
}

/// REJECT_AFTER_TIME: no session is older.
const REJECT_AFTER: Duration = Duration::from_secs(180);
