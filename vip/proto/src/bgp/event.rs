//! What a session tells people, and why.

use std::{fmt, time::Duration};

use kedge_core::bgp::SessionState;

use super::Side;
use crate::wire::bgp::Notification;

/// The state changed, or a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The state before.
    pub from: SessionState,
    /// The state after.
    pub to: SessionState,
    /// Why.
    pub because: Because,
}

/// Why a call came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DialError {
    /// Nobody listens there, or it is refused.
    Refused,
    /// There is no way there.
    Unreachable,
    /// No answer.
    TimedOut,
    /// Our own address or interface is not there.
    NoSource,
    /// Its address is not known: no router was heard on its link.
    NoNeighbour,
    /// Segments cannot be signed as they should be.
    Unsigned,
    /// Something else.
    Other,
}

/// Why a session did something: renders to a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Because {
    /// It was configured.
    Started,
    /// The neighbour took our call, or called.
    Connected(Side),
    /// A call came to nothing.
    DialFailed(DialError),
    /// It is time to call again.
    Retry,
    /// A router was heard on its link.
    Found,
    /// The neighbour said who it is.
    Opened,
    /// Both agree.
    Agreed,
    /// We ended it, and said so.
    Told(Notification),
    /// The neighbour ended it, and said so.
    Heard(Notification),
    /// The connection ended without a word.
    Closed,
    /// The neighbour was not heard for the hold time.
    Silent {
        /// How long that is.
        limit: Duration,
    },
    /// The neighbour took nothing for too long (RFC 9687).
    Stuck {
        /// How long that is.
        limit: Duration,
    },
    /// BFD lost the neighbour.
    BfdDown,
    /// BFD does not see the neighbour yet, and is waited for.
    BfdAwaited,
    /// BFD sees the neighbour, or says nothing of it any more.
    BfdUp,
    /// Of two connections the other one is kept.
    Collision,
    /// The configuration keeps it down.
    Shutdown,
    /// The configuration no longer keeps it down.
    Enabled,
    /// It leaves.
    Left,
}

impl Because {
    /// What it is, without what differs from one to the next; the label of a counter.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Connected(_) => "connected",
            Self::DialFailed(_) => "dial_failed",
            Self::Retry => "retry",
            Self::Found => "found",
            Self::Opened => "opened",
            Self::Agreed => "agreed",
            Self::Told(_) => "told",
            Self::Heard(_) => "heard",
            Self::Closed => "closed",
            Self::Silent { .. } => "silent",
            Self::Stuck { .. } => "stuck",
            Self::BfdDown => "bfd_down",
            Self::BfdAwaited => "bfd_awaited",
            Self::BfdUp => "bfd_up",
            Self::Collision => "collision",
            Self::Shutdown => "shutdown",
            Self::Enabled => "enabled",
            Self::Left => "left",
        }
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "it refuses connections",
            Self::Unreachable => "there is no way to it",
            Self::TimedOut => "it does not answer",
            Self::NoSource => "the address or interface to call from is not there",
            Self::NoNeighbour => "no router advertises itself on its interface",
            Self::Unsigned => "segments to it cannot be signed with TCP-AO here",
            Self::Other => "the connection failed",
        })
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("it was started"),
            Self::Connected(Side::Ours) => f.write_str("the neighbour took our call"),
            Self::Connected(Side::Theirs) => f.write_str("the neighbour called"),
            Self::DialFailed(error) => error.fmt(f),
            Self::Found => f.write_str("a router advertises itself on its interface"),
            Self::Retry => f.write_str("it is time to call again"),
            Self::Opened => f.write_str("the neighbour said who it is"),
            Self::Agreed => f.write_str("both sides agree"),
            Self::Told(notification) => write!(f, "this host ended it: {notification}"),
            Self::Heard(notification) => write!(f, "the neighbour ended it: {notification}"),
            Self::Closed => f.write_str("the connection ended without a word"),
            Self::Silent { limit } => {
                write!(f, "the neighbour was not heard for {} s", limit.as_secs())
            }
            Self::Stuck { limit } => {
                write!(f, "the neighbour took nothing for {} s", limit.as_secs())
            }
            Self::BfdDown => f.write_str("BFD lost the neighbour"),
            Self::BfdAwaited => f.write_str("BFD does not see the neighbour yet"),
            Self::BfdUp => f.write_str("BFD does not stand against it any more"),
            Self::Collision => f.write_str("of two connections the other one is kept"),
            Self::Shutdown => f.write_str("the configuration keeps it down"),
            Self::Enabled => f.write_str("the configuration no longer keeps it down"),
            Self::Left => f.write_str("this host leaves"),
        }
    }
}
