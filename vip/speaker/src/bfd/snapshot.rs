//! What readers see of a session.

use std::{collections::BTreeMap, time::SystemTime};

use kedge_control::local::{BfdRemote, BfdSession};
use kedge_core::{
    Instant, Name, Problem,
    bfd::{Liveness, SessionState},
};
use kedge_vip_proto::bfd::View;

use super::BfdSpec;

/// One session.
#[derive(Clone, Debug, PartialEq)]
pub struct BfdSnapshot {
    /// What was asked for.
    pub spec: BfdSpec,
    /// The session itself.
    pub view: View,
    /// Since when it is in its state, by the wall clock.
    pub since: SystemTime,
    /// The port it sends from; absent while it has no socket.
    pub port: Option<u16>,
    /// Packets that came for it and were refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
}

impl BfdSnapshot {
    /// The session as people see it; `since` is [`Self::since`] as they write it.
    #[must_use]
    pub fn tell(&self, now: Instant, since: String) -> BfdSession {
        let Self { spec, view, .. } = self;
        let remote = view.remote;
        let heard = remote.heard_at.zip(remote.discriminator);
        BfdSession {
            name: spec.name.to_string(),
            peer: spec.peer,
            interface: spec.interface.clone(),
            source: spec.source,
            multihop: spec.multihop,
            state: view.state,
            liveness: view.liveness,
            because: view.because.to_string(),
            since,
            state_seconds: now.since(view.since).as_secs_f64(),
            transmit_interval_seconds: view.transmit_interval.as_secs_f64(),
            detection_seconds: view.detection_time.map(|time| time.as_secs_f64()),
            detect_multiplier: spec.config.multiplier.get(),
            local_discriminator: view.local.get(),
            diagnostic: view.diagnostic.to_string(),
            remote: heard.map(|(at, discriminator)| BfdRemote {
                discriminator: discriminator.get(),
                state: remote.state,
                diagnostic: remote.diagnostic.to_string(),
                desired_min_tx_seconds: remote.desired_min_tx.duration().as_secs_f64(),
                required_min_rx_seconds: remote.required_min_rx.duration().as_secs_f64(),
                detect_multiplier: remote.multiplier.get(),
                last_heard_seconds: now.since(at).as_secs_f64(),
            }),
            ups: view.stats.ups,
            losses: view.stats.losses,
            packets_sent: view.stats.sent,
            packets_received: view.stats.received,
            packets_refused: self
                .refused
                .iter()
                .map(|(reason, count)| ((*reason).to_owned(), *count))
                .collect(),
            problems: self.problems.clone(),
        }
    }
}

/// What a session says of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Its state.
    pub state: SessionState,
    /// What it says.
    pub liveness: Liveness,
    /// Whether the peer was told to stop: the path works as long as it does, and not for long.
    pub peer_leaves: bool,
    /// Why, as a sentence without a full stop.
    pub because: String,
}

/// Something happened to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BfdEvent {
    /// The session.
    pub name: Name,
    /// The state before.
    pub from: SessionState,
    /// The state after.
    pub to: SessionState,
    /// What it says of the path now.
    pub liveness: Liveness,
    /// Why, as a sentence without a full stop.
    pub because: String,
    /// When, by the wall clock.
    pub at: SystemTime,
    /// When, on the clock of [`kedge_net::clock`].
    pub boottime: Instant,
}
