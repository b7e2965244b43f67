//! What readers see of a neighbour.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::SystemTime,
};

use kedge_core::{Name, Problem, bgp::SessionState};
use kedge_vip_proto::bgp::{Heard, View};

use super::BgpSpec;

/// One neighbour.
#[derive(Clone, Debug, PartialEq)]
pub struct BgpSnapshot {
    /// What was asked for.
    pub spec: BgpSpec,
    /// Its address, once it is known.
    pub peer: Option<IpAddr>,
    /// The session.
    pub view: View,
    /// Since when it is in its state, by the wall clock.
    pub since: SystemTime,
    /// Both ends of its connection, ours first.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// The last routes that it was told of, the newest first.
    pub heard: Vec<HeardRoute>,
    /// Inputs that were refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
}

/// A route that was heard of.
pub type HeardRoute = Heard;

/// Something happened to a neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BgpEvent {
    /// The neighbour.
    pub name: Name,
    /// The state before.
    pub from: SessionState,
    /// The state after.
    pub to: SessionState,
    /// Why, as a sentence without a full stop.
    pub because: String,
    /// When, by the wall clock.
    pub at: SystemTime,
}
