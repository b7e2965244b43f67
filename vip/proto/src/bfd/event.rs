//! What a session tells people, and why.

use std::{fmt, time::Duration};

use kedge_core::bfd::{Liveness, SessionState};

use crate::wire::bfd::Diagnostic;

/// The state changed, or what the session says about the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The state before.
    pub from: SessionState,
    /// The state after.
    pub to: SessionState,
    /// What it says about the path now.
    pub liveness: Liveness,
    /// Why.
    pub because: Because,
}

/// Why a session did something: renders to a sentence without a full stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It was configured.
    Started,
    /// The peer was heard, and does not say that it hears us.
    PeerHeard,
    /// Peer and we hear each other.
    BothHear,
    /// The peer says that the session is down there.
    PeerDown {
        /// Why it is.
        diagnostic: Diagnostic,
    },
    /// The peer was told to stop.
    PeerAdminDown,
    /// The peer was not heard for the detection time.
    Expired {
        /// How long.
        silent: Duration,
        /// The detection time.
        limit: Duration,
    },
    /// It is shut down by the configuration.
    Shutdown,
    /// It is no longer shut down.
    Enabled,
    /// It leaves.
    Stopped,
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("it was started"),
            Self::PeerHeard => {
                f.write_str("the peer is heard, and does not say yet that it hears us")
            }
            Self::BothHear => f.write_str("the peer and this host hear each other"),
            Self::PeerDown { diagnostic } if *diagnostic == Diagnostic::NONE => {
                f.write_str("the peer says that the session is down")
            }
            Self::PeerDown { diagnostic } => {
                write!(f, "the peer says that the session is down ({diagnostic})")
            }
            Self::PeerAdminDown => f.write_str("the peer was told to stop"),
            Self::Expired { silent, limit } => write!(
                f,
                "the peer was not heard for {:.1} ms, its detection time is {:.1} ms",
                silent.as_secs_f64() * 1e3,
                limit.as_secs_f64() * 1e3
            ),
            Self::Shutdown => f.write_str("the configuration shuts it down"),
            Self::Enabled => f.write_str("the configuration no longer shuts it down"),
            Self::Stopped => f.write_str("this host stops it"),
        }
    }
}
