//! What can happen to a session, and what it wants done.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use kedge_core::bfd::Liveness;

use super::{Config, DialError, Event, Offers};
use crate::wire::bgp::{Message, Refusal, Text};

/// Who made a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// We did.
    Ours,
    /// The neighbour did.
    Theirs,
}

/// Our end of a connection: what next hops are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its address of IPv4, or that of the same interface.
    pub v4: Option<Ipv4Addr>,
    /// The same of IPv6, more than that of the link where there is one.
    pub v6: Option<Ipv6Addr>,
    /// The address of the link, where the neighbour is on it too.
    pub link_local: Option<Ipv6Addr>,
}

/// What can happen to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// How it runs from here on.
    Config(Box<Config>),
    /// What this host offers from here on: all of it.
    Offers(Arc<Offers>),
    /// An order.
    Command(Command),
    /// The neighbour took our call.
    Connected(Place),
    /// It did not.
    DialFailed(DialError),
    /// The neighbour called.
    Accepted(Place),
    /// A connection is gone.
    Closed(Side),
    /// A message came, as [`Session::read`](super::Session::read) read it.
    Heard(Side, Result<Message, Refusal>),
    /// The neighbour took something of what was sent; `true`: all of it.
    Written(Side, bool),
    /// Its address is known from here on, or is another one: a call may come about now.
    Found,
    /// What BFD says of the path.
    Bfd(Liveness),
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// To leave for good: routes go first, then the session. [`Output::Ended`] is the last word.
    Leave(Farewell),
    /// To end the session and begin anew.
    Reset,
}

/// What a neighbour is told as it is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// Whoever runs this host takes it down.
    Shutdown(Text),
    /// It is no longer a neighbour.
    Deconfigured,
}

/// Why an input was refused; also the label of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Reject {
    /// The neighbour called while the session is down.
    #[error("the session is down")]
    Down,
    /// The neighbour called while a call of its goes on.
    #[error("the neighbour has a connection")]
    Busy,
    /// Nobody was called.
    #[error("nobody was called")]
    NotDialing,
    /// There is no such connection.
    #[error("there is no such connection")]
    NoConnection,
    /// The session has ended, or leaves already.
    #[error("the session has ended")]
    Ended,
}

/// What the shell must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Call the neighbour.
    Dial,
    /// Give the call up.
    HangUp,
    /// Send whole messages.
    Send(Side, Vec<u8>),
    /// Close a connection after what was sent on it, without waiting for long.
    Close(Side),
    /// Tell people.
    Event(Box<Event>),
    /// Forget the session: nothing more comes of it.
    Ended,
}

impl Side {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ours, Self::Theirs];

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Ours => Self::Theirs,
            Self::Theirs => Self::Ours,
        }
    }
}

impl Reject {
    /// The label of its counter.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Busy => "busy",
            Self::NotDialing => "not_dialing",
            Self::NoConnection => "no_connection",
            Self::Ended => "ended",
        }
    }
}
