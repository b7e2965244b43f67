//! Values of BFD (RFC 5880) that the wire, the control socket and the command line share.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a BFD session (RFC 5880 section 6.8.1, `bfd.SessionState`).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum SessionState {
    /// Taken down by whoever runs it; says nothing about the path.
    AdminDown,
    /// The peer is not heard, or does not hear us.
    #[default]
    Down,
    /// The peer is heard, and has not said yet that it hears us.
    Init,
    /// Both hear each other.
    Up,
}

/// What a session says about the path to its peer, for whoever acts on it (RFC 5882 section 3.2).
///
/// Only [`Lost`](Self::Lost) is a failure.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
pub enum Liveness {
    /// Nothing: it was never up, or one side was told to stop.
    #[default]
    Unknown,
    /// The path works in both directions.
    Alive,
    /// It worked, and does not.
    Lost,
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AdminDown => "AdminDown",
            Self::Down => "Down",
            Self::Init => "Init",
            Self::Up => "Up",
        })
    }
}

impl fmt::Display for Liveness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unknown => "unknown",
            Self::Alive => "alive",
            Self::Lost => "lost",
        })
    }
}
