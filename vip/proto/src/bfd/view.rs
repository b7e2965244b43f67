//! What a session shows.

use std::time::Duration;

use kedge_core::{
    Instant,
    bfd::{Liveness, SessionState},
};

use super::Because;
use crate::wire::bfd::{Diagnostic, Discriminator, Interval, Multiplier};

/// A session, as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Its state.
    pub state: SessionState,
    /// What it says about the path.
    pub liveness: Liveness,
    /// Since when it is in that state.
    pub since: Instant,
    /// Why.
    pub because: Because,
    /// Our number of it.
    pub local: Discriminator,
    /// Why our side changed last, as the peer is told.
    pub diagnostic: Diagnostic,
    /// At what interval we send at most.
    pub transmit_interval: Duration,
    /// After how much silence the peer is gone; absent while it is not heard.
    pub detection_time: Option<Duration>,
    /// Whether new timers wait for the peer's answer.
    pub polling: bool,
    /// What the peer says.
    pub remote: Remote,
    /// What happened so far.
    pub stats: Stats,
}

/// What a peer says; as RFC 5880 section 6.8.1 begins while it is not heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its number of the session.
    pub discriminator: Option<Discriminator>,
    /// Its state.
    pub state: SessionState,
    /// Why it changed its state last.
    pub diagnostic: Diagnostic,
    /// Whether it wants nothing sent while both are up.
    pub demand: bool,
    /// How many of its packets may be missing.
    pub multiplier: Multiplier,
    /// The shortest interval at which it wants to send.
    pub desired_min_tx: Interval,
    /// The shortest interval at which it takes packets.
    pub required_min_rx: Interval,
    /// When it was heard last; absent since it is gone.
    pub heard_at: Option<Instant>,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets sent.
    pub sent: u64,
    /// Packets accepted.
    pub received: u64,
    /// Poll sequences begun.
    pub polls: u64,
    /// How often it came up.
    pub ups: u64,
    /// How often the path was lost.
    pub losses: u64,
}

impl Remote {
    /// A peer that is not heard.
    pub const SILENT: Self = Self {
        discriminator: None,
        state: SessionState::Down,
        diagnostic: Diagnostic::NONE,
        demand: false,
        multiplier: Multiplier::DEFAULT,
        desired_min_tx: Interval::SLOW,
        required_min_rx: Interval::LEAST,
        heard_at: None,
    };
}
