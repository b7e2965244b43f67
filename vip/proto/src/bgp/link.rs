//! One connection to a neighbour, from the OPEN on.

use std::time::Duration;

use kedge_core::{Instant, bgp::SessionState};

use super::{Agreed, Place, received::Received, rib::Rib};
use crate::wire::bgp::Open;

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Our end of it.
    pub place: Place,
    /// How far it is.
    pub phase: Phase,
    /// When the neighbour is gone.
    pub hold_at: Option<Instant>,
    /// When to say that we are there.
    pub keepalive_at: Option<Instant>,
    /// Something that was sent was not taken yet; until when it may be so.
    pub stuck_at: Option<Instant>,
    /// What is to be said as soon as nothing is under way.
    pub due: Due,
}

/// How far a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// We said OPEN.
    OpenSent,
    /// So did the neighbour.
    OpenConfirm(Box<Peered>),
    /// Both agreed, since then.
    Established(Instant, Box<Peered>),
}

/// What is known of a neighbour that said who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peered {
    pub open: Open,
    pub agreed: Agreed,
    /// What it was told.
    pub rib: Rib,
    /// What it told us.
    pub received: Received,
}

/// What is to be said as soon as nothing is under way: routes, that those were all, and the routes
/// of a family again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub routes: bool,
    pub end: bool,
    pub again: [bool; 2],
}

impl Link {
    pub(super) fn new(now: Instant, place: Place) -> Self {
        Self {
            place,
            phase: Phase::OpenSent,
            hold_at: Some(now + OPEN_HOLD),
            keepalive_at: None,
            stuck_at: None,
            due: Due::default(),
        }
    }

    pub(super) const fn state(&self) -> SessionState {
        match self.phase {
            Phase::OpenSent => SessionState::OpenSent,
            Phase::OpenConfirm(_) => SessionState::OpenConfirm,
            Phase::Established(..) => SessionState::Established,
        }
    }

    pub(super) fn peered(&self) -> Option<&Peered> {
        match &self.phase {
            Phase::OpenSent => None,
            Phase::OpenConfirm(peered) | Phase::Established(_, peered) => Some(peered),
        }
    }

    pub(super) fn established(&mut self) -> Option<&mut Peered> {
        match &mut self.phase {
            Phase::OpenSent | Phase::OpenConfirm(_) => None,
            Phase::Established(_, peered) => Some(peered),
        }
    }

    /// The neighbour was heard.
    pub(super) fn hear(&mut self, now: Instant) {
        let hold = self.peered().map(|peered| peered.agreed.hold_time);
        if let Some(hold) = hold {
            self.hold_at = hold.duration().map(|hold| now + hold);
        }
    }

    /// After how long the neighbour is gone that takes nothing (RFC 9687 section 6): never, where it
    /// need not be heard either.
    pub(super) fn stuck_limit(&self) -> Option<Duration> {
        match self.peered() {
            None => Some(SEND_HOLD),
            Some(peered) => {
                let hold = peered.agreed.hold_time.duration()?;
                Some(SEND_HOLD.max(hold * 2))
            }
        }
    }

    pub(super) fn deadlines(&self) -> impl Iterator<Item = Instant> {
        let all = [self.hold_at, self.keepalive_at, self.stuck_at];
        all.into_iter().flatten()
    }
}

/// How long a neighbour may take to say who it is (RFC 4271 section 8.2.2: a large value).
pub(super) const OPEN_HOLD: Duration = Duration::from_secs(240);
/// How long it may take nothing, at least.
pub(super) const SEND_HOLD: Duration = Duration::from_secs(480);
