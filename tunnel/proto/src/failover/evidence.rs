//! What is known of the path through a gateway, and what that alone says.

use std::{fmt, time::Duration};

use kedge_core::Instant;

/// What is known of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// What the BFD session with the gateway says.
    pub session: Session,
    /// Whether the echo with the gateway is answered; `None` before its first verdict.
    pub answers: Option<bool>,
    /// When authenticated data came from it last.
    pub heard: Option<Instant>,
    /// What lies behind it, if that is asked.
    pub target: Option<Target>,
    /// Whether it is reached over TLS alone, since UDP does not pass.
    pub over_tls: bool,
}

/// A BFD session with a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Session {
    /// It says nothing: it was never up, or there is none.
    #[default]
    Unknown,
    /// Both ends hear each other.
    Alive,
    /// The gateway was told to stop: it forwards still.
    Leaving,
    /// It was up, and is no more.
    Lost,
}

/// What lies behind a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Whether none of the targets answers through it.
    pub missed: bool,
    /// When the last answer of any of them came.
    pub answered: Option<Instant>,
}

/// How a gateway is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything that is asked of it is answered.
    Well,
    /// The same, but only over TLS: whoever is reached over UDP comes first.
    OverTls,
    /// It is going to stop.
    Leaving,
    /// It answers, and what lies behind it does not, though it does through another.
    ForwardsNothing,
    /// Nothing is known yet.
    Unknown,
    /// It is gone.
    Silent,
}

impl Evidence {
    /// What can be said without the other gateways.
    #[must_use]
    pub fn verdict(&self, now: Instant, data_counts: Duration) -> Verdict {
        match (self.session, self.answers) {
            (Session::Alive, _) | (Session::Unknown, Some(true)) => self.well(),
            // Who left for good was told to stop before.
            (Session::Leaving, Some(false)) => Verdict::Silent,
            (Session::Leaving, _) => Verdict::Leaving,
            (Session::Lost, _) if self.data_until(data_counts).is_some_and(|end| end > now) => {
                self.well()
            }
            (Session::Lost, _) | (Session::Unknown, Some(false)) => Verdict::Silent,
            (Session::Unknown, None) => Verdict::Unknown,
        }
    }

    const fn well(&self) -> Verdict {
        if self.over_tls {
            Verdict::OverTls
        } else {
            Verdict::Well
        }
    }

    /// Until when data speaks for a session that was lost.
    pub(super) fn data_until(&self, data_counts: Duration) -> Option<Instant> {
        let heard = self.heard.filter(|_| self.session == Session::Lost)?;
        Some(heard + data_counts)
    }

    /// Whether nothing speaks against coming back to it.
    pub(super) fn is_proven(&self) -> bool {
        self.session != Session::Lost && self.target.is_none_or(|target| !target.missed)
    }
}

impl Verdict {
    /// The lower, the better.
    pub(super) const fn rank(self) -> u8 {
        match self {
            Self::Well => 0,
            Self::OverTls => 1,
            Self::Leaving => 2,
            Self::ForwardsNothing => 3,
            Self::Unknown => 4,
            Self::Silent => 5,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Well => "is well",
            Self::OverTls => "is reached over TLS alone",
            Self::Leaving => "is going to stop",
            Self::ForwardsNothing => "answers and forwards nothing",
            Self::Unknown => "has not been heard yet",
            Self::Silent => "is not heard any more",
        })
    }
}
