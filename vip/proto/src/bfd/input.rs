//! What can happen to a session, and what it wants done.

use super::{Config, Event};
use crate::wire::bfd::Control;

/// What can happen to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A packet of this session.
    Packet(Received),
    /// How it runs from here on.
    Config(Config),
    /// An order.
    Command(Command),
}

/// A packet, and how it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its TTL or hop limit.
    pub ttl: u8,
    /// Whether it carries an authentication section.
    pub sealed: bool,
    /// The packet.
    pub control: Control,
}

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// To leave: the peer is told that this is no failure, for its detection time or until it
    /// answers. [`Output::Ended`] is the last word.
    Stop,
}

/// Why an input was refused; also the label of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Reject {
    /// It arrived with too low a TTL: it crossed more routers than it may.
    #[error("its TTL is too low: it crossed more routers than it may")]
    Ttl,
    /// It names a session that is not ours.
    #[error("it is for another session")]
    Discriminator,
    /// It names no session, and is not Down.
    #[error("it names no session, and says that it is up")]
    Nameless,
    /// It is authenticated, and this session is not.
    #[error("it is authenticated, and authentication is not in use")]
    Sealed,
    /// The session has ended, or leaves already.
    #[error("the session has ended")]
    Ended,
}

/// What the shell must do, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a packet to the peer, with TTL 255.
    Send(Control),
    /// Tell people, and whoever acts on the session.
    Event(Event),
    /// Forget the session: nothing more comes of it.
    Ended,
}

impl Reject {
    /// The label of its counter.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ttl => "ttl",
            Self::Discriminator => "other_session",
            Self::Nameless => "nameless",
            Self::Sealed => "authenticated",
            Self::Ended => "ended",
        }
    }
}
