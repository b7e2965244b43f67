//! ROUTE-REFRESH (RFC 2918, RFC 7313): all routes of a kind, again.

use super::{
    Family,
    cursor::exactly,
    frame::{self, Kind},
    notification::{Notification, Refusal, codes},
};

/// A ROUTE-REFRESH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouteRefresh {
    /// Of which routes, by AFI and SAFI.
    pub family: (u16, u8),
    /// What it means.
    pub subtype: Subtype,
}

/// What a ROUTE-REFRESH means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subtype {
    /// To send them again.
    Request,
    /// They begin.
    Begin,
    /// They end.
    End,
    /// Nobody knows.
    Other(u8),
}

impl RouteRefresh {
    /// One of our kinds of routes.
    #[must_use]
    pub const fn of(family: Family, subtype: Subtype) -> Self {
        let family = (family.afi(), Family::UNICAST);
        Self { family, subtype }
    }

    /// Its kind of routes, if it is one of ours.
    #[must_use]
    pub const fn family(&self) -> Option<Family> {
        let (afi, safi) = self.family;
        Family::from_numbers(afi, safi)
    }

    /// Reads what follows the header. A request may carry filters, which are read by whoever
    /// agreed to have them.
    ///
    /// # Errors
    ///
    /// A mark of where routes begin or end of another length (RFC 7313 section 5).
    pub(super) fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let head = body.get(..4).and_then(exactly);
        let Some([high, low, subtype, safi]) = head else {
            return Err(wrong_length(body));
        };
        let subtype = Subtype::of(subtype);
        let marks = matches!(subtype, Subtype::Begin | Subtype::End);
        if marks && body.len() != 4 {
            return Err(wrong_length(body));
        }
        Ok(Self {
            family: (u16::from_be_bytes([high, low]), safi),
            subtype,
        })
    }

    /// Appends the message.
    pub fn put(&self, out: &mut Vec<u8>) {
        let (afi, safi) = self.family;
        let [high, low] = afi.to_be_bytes();
        frame::put(
            out,
            Kind::RouteRefresh,
            &[high, low, self.subtype.code(), safi],
        );
    }
}

impl Subtype {
    const fn of(code: u8) -> Self {
        match code {
            0 => Self::Request,
            1 => Self::Begin,
            2 => Self::End,
            other => Self::Other(other),
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Request => 0,
            Self::Begin => 1,
            Self::End => 2,
            Self::Other(code) => code,
        }
    }
}

/// The data is the message itself (RFC 7313 section 5).
fn wrong_length(body: &[u8]) -> Refusal {
    let mut whole = Vec::new();
    frame::put(&mut whole, Kind::RouteRefresh, body);
    Refusal::from(Notification::new(codes::REFRESH, 1, whole))
}
