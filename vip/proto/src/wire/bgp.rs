//! BGP messages (RFC 4271 section 4): what a speaker says on its TCP connection.
//!
//! [`Frame::split`] cuts a stream into messages, [`Message::parse`] reads one. What is wrong with a
//! message comes back as data: a [`Refusal`] is what ends the session, with the NOTIFICATION that
//! says so; an [`Update`] that is merely flawed holds its [`Fault`]s and what RFC 7606 makes of
//! them. Nothing is read past a length that was declared.
//!
//! AS numbers have four bytes in every type; where a peer speaks two, [`Context`] says so, and the
//! long ones travel beside (RFC 6793).

mod attribute;
mod capability;
mod cursor;
mod emit;
mod fault;
mod found;
mod frame;
mod notification;
mod open;
mod path;
mod prefix;
mod reach;
mod refresh;
mod update;

use kedge_core::bgp::Asn;

pub use attribute::{AttributeCode, Attributes, Origin};
pub use capability::{Capability, ExtendedNextHop};
pub use emit::{Messages, TooLarge, announce, end_of_rib, keepalive, withdraw};
pub use fault::{Action, Fault, Flaw};
pub use frame::{Frame, Kind};
pub use notification::{Notification, Refusal, Text, cease, codes};
pub use open::{HoldTime, Open};
pub use path::{AsPath, Segment, SegmentKind};
pub use prefix::{Family, Prefix};
pub use reach::NextHop;
pub use refresh::{RouteRefresh, Subtype};
pub use update::{Route, Update};

/// The TCP port of speakers.
pub const PORT: u16 = 179;
/// The length of a message's header, and of the shortest message.
pub const HEADER_LEN: usize = 19;
/// The length of the longest message (RFC 4271 section 4.1); longer ones (RFC 8654) are never
/// agreed on, as routes to single hosts need none.
pub const MAX_LEN: usize = 4096;

/// What both sides agreed on, as far as it decides how an UPDATE reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Context {
    /// The peer is of our own autonomous system.
    pub internal: bool,
    /// AS numbers have four bytes (RFC 6793).
    pub four_octet: bool,
    /// Routes of IPv4 may have a next hop of IPv6 (RFC 8950).
    pub extended_next_hop: bool,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Who the peer is, and what it can do.
    Open(Open),
    /// Routes that come and go.
    Update(Update),
    /// The peer ends the session.
    Notification(Notification),
    /// The peer is there.
    Keepalive,
    /// The peer wants our routes again, or is about to send its own again.
    RouteRefresh(RouteRefresh),
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// The session has to end, with this NOTIFICATION.
    pub fn parse(frame: &Frame<'_>, context: &Context) -> Result<Self, Refusal> {
        match frame.kind {
            Kind::Open => Open::parse(frame.body).map(Self::Open),
            Kind::Update => Update::parse(frame.body, context).map(Self::Update),
            Kind::Notification => Ok(Self::Notification(Notification::parse(frame.body))),
            Kind::Keepalive => Ok(Self::Keepalive),
            Kind::RouteRefresh => RouteRefresh::parse(frame.body).map(Self::RouteRefresh),
        }
    }
}

/// The bytes of AS numbers in a path.
fn width(context: &Context) -> usize {
    if context.four_octet { 4 } else { 2 }
}

/// The number in one, if it is none of zero.
fn asn(bytes: &[u8]) -> Option<Asn> {
    let number = bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    Asn::new(number)
}

#[cfg(test)]
mod tests;
