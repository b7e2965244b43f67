//! Messages in a stream of bytes (RFC 4271 section 4.1).

use super::{
    HEADER_LEN, MAX_LEN,
    notification::{Notification, Refusal, codes},
};

/// A whole message of a known kind, and long enough for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its kind.
    pub kind: Kind,
    /// What follows its header.
    pub body: &'a [u8],
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// OPEN.
    Open,
    /// UPDATE.
    Update,
    /// NOTIFICATION.
    Notification,
    /// KEEPALIVE.
    Keepalive,
    /// ROUTE-REFRESH (RFC 2918).
    RouteRefresh,
}

impl<'a> Frame<'a> {
    /// The first message of `stream` and what follows it; `None` while it is not whole. What can be
    /// known of it is, as soon as its header is there.
    ///
    /// # Errors
    ///
    /// The stream is none of messages: the session has to end (RFC 4271 section 6.1).
    pub fn split(stream: &'a [u8]) -> Result<Option<(Self, &'a [u8])>, Refusal> {
        let Some((header, after)) = stream.split_first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let (marker, rest) = header.split_at(MARKER.len());
        let &[high, low, kind] = rest else {
            return Ok(None);
        };
        if marker != MARKER {
            return Err(refused(codes::NOT_SYNCHRONIZED, Vec::new()));
        }
        let declared = [high, low];
        let kind = Kind::of(kind).ok_or_else(|| refused(codes::BAD_TYPE, vec![kind]))?;
        let length = usize::from(u16::from_be_bytes(declared));
        if length < kind.least() || length > kind.most() {
            return Err(refused(codes::BAD_LENGTH, declared.to_vec()));
        }
        let Some((body, rest)) = after.split_at_checked(length.saturating_sub(HEADER_LEN)) else {
            return Ok(None);
        };
        Ok(Some((Self { kind, body }, rest)))
    }
}

impl Kind {
    /// By its number.
    const fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Open),
            2 => Some(Self::Update),
            3 => Some(Self::Notification),
            4 => Some(Self::Keepalive),
            5 => Some(Self::RouteRefresh),
            _ => None,
        }
    }

    /// Its number.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Open => 1,
            Self::Update => 2,
            Self::Notification => 3,
            Self::Keepalive => 4,
            Self::RouteRefresh => 5,
        }
    }

    /// The shortest message of it.
    const fn least(self) -> usize {
        match self {
            Self::Open => 29,
            Self::Update | Self::RouteRefresh => 23,
            Self::Notification => 21,
            Self::Keepalive => HEADER_LEN,
        }
    }

    /// The longest message of it.
    const fn most(self) -> usize {
        match self {
            Self::Keepalive => HEADER_LEN,
            Self::Open | Self::Update | Self::Notification | Self::RouteRefresh => MAX_LEN,
        }
    }
}

/// Appends a message. What is too long for one is cut, and would not be read: whoever writes a body
/// bounds it.
pub(super) fn put(out: &mut Vec<u8>, kind: Kind, body: &[u8]) {
    debug_assert!(body.len() <= MAX_LEN - HEADER_LEN, "a body too long");
    let body = body.get(..MAX_LEN - HEADER_LEN).unwrap_or(body);
    let length = u16::try_from(HEADER_LEN + body.len()).unwrap_or(u16::MAX);
    out.extend(MARKER);
    out.extend(length.to_be_bytes());
    out.push(kind.code());
    out.extend(body);
}

fn refused(subcode: u8, data: Vec<u8>) -> Refusal {
    Refusal::from(Notification::new(codes::HEADER, subcode, data))
}

const MARKER: [u8; 16] = [0xff; 16];
