//! What readers see of a session.

use std::{collections::BTreeMap, time::SystemTime};

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
