//! What a shard has to tell.

use std::{collections::VecDeque, net::SocketAddr};

use crate::{counters::State, directory::PeerId, keys::Pair};

/// A change that an operator cares about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose.
    pub peer: PeerId,
    /// What.
    pub change: EventKind,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Where the session stands.
    State {
        /// Before.
        from: State,
        /// After.
        to: State,
    },
    /// Which keys its packets are sent with.
    Keys {
        /// By now.
        to: Pair,
    },
    /// Its initiations are older than one before, again and again: the next ones are answered.
    Doubted,
    /// Where the peer is.
    Moved {
        /// Before.
        from: Option<SocketAddr>,
        /// After.
        to: Option<SocketAddr>,
    },
}

pub(super) fn tell(events: &mut VecDeque<Event>, peer: PeerId, change: EventKind) {
    // Nobody listens: the newest matter most.
    if events.len() >= EVENTS {
        events.pop_front();
    }
    events.push_back(Event { peer, change });
}

/// Events that may wait for the caller.
pub(super) const EVENTS: usize = 64;
