//! What comes out of a shard.

use std::net::{IpAddr, SocketAddr};

use crate::{directory::PeerId, packet::ecn::Ecn, realm::Realm, way::Way};

/// A datagram to send: the first `length` bytes of the buffer that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub to: SocketAddr,
    /// From which address of this host; `None` leaves it to the routes.
    pub from: Option<IpAddr>,
    /// How long it is.
    pub length: usize,
    /// Whose it is, for the counters.
    pub peer: PeerId,
    /// What its packet says of congestion, which stands in the datagram's header, too.
    pub ecn: Ecn,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do: a keepalive, a cookie, or a counted drop.
    Nothing,
    /// Send the answer.
    Send(Transmit),
    /// Send the cookie that stands in the first `length` bytes of the buffer: the sender of an
    /// initiation has to prove where it is.
    Cookie {
        /// Where to.
        to: Way,
        /// How long it is.
        length: usize,
    },
    /// Give the first `length` bytes of the buffer to the host.
    Deliver {
        /// How long the inner packet is.
        length: usize,
        /// Whom it is from, for the counters.
        peer: PeerId,
        /// Whose it is: of the interface of this realm.
        realm: Option<Realm>,
    },
}
