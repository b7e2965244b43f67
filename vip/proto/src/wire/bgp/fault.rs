//! What is wrong with an UPDATE, and what is done about it (RFC 7606).

use std::fmt;

use super::AttributeCode;

/// What is done about a flaw, the weakest first: of several the strongest is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The attribute does not count.
    AttributeDiscard,
    /// The routes of the message are gone.
    TreatAsWithdraw,
    /// The session ends.
    SessionReset,
}

/// What is wrong with an UPDATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fault {
    /// With which attribute of it.
    pub attribute: Option<AttributeCode>,
    /// What it is.
    pub flaw: Flaw,
    /// What is done.
    pub action: Action,
}

/// A flaw; also the label of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flaw {
    /// A part claims to be longer than the message.
    Lengths,
    /// Destinations that are too long or cut short.
    Prefixes,
    /// An attribute claims to be longer than all of them, or has no room for its own header.
    Overrun,
    /// It claims to be one that everybody knows, and nobody does.
    Unrecognized,
    /// It is not optional or transitive as it should be, or is and should not.
    Flags,
    /// Its length is none of it.
    Length,
    /// Its value is none of it.
    Value,
    /// It comes twice.
    Repeated,
    /// It has to be there.
    Missing,
    /// A peer of another autonomous system has no business with it.
    External,
    /// A peer that speaks AS numbers of four bytes has no business with it.
    Superfluous,
    /// The length of a next hop is none of its kind.
    NextHop,
    /// Something else is wrong, and no destination was found that it could be wrong with.
    NoRoute,
}

impl Flaw {
    /// The label of its counter.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Lengths => "lengths",
            Self::Prefixes => "prefixes",
            Self::Overrun => "overrun",
            Self::Unrecognized => "unrecognized",
            Self::Flags => "flags",
            Self::Length => "length",
            Self::Value => "value",
            Self::Repeated => "repeated",
            Self::Missing => "missing",
            Self::External => "external",
            Self::Superfluous => "superfluous",
            Self::NextHop => "next_hop",
            Self::NoRoute => "no_route",
        }
    }
}

impl Action {
    /// The label of its counter.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::AttributeDiscard => "attribute_discard",
            Self::TreatAsWithdraw => "treat_as_withdraw",
            Self::SessionReset => "session_reset",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AttributeDiscard => "attribute discarded",
            Self::TreatAsWithdraw => "treated as withdrawn",
            Self::SessionReset => "session reset",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(attribute) = self.attribute {
            write!(f, "{attribute} ")?;
        }
        f.write_str(match self.flaw {
            Flaw::Lengths => "a part claims to be longer than the message",
            Flaw::Prefixes => "destinations are too long or cut short",
            Flaw::Overrun => "claims to be longer than the attributes are",
            Flaw::Unrecognized => "claims to be known to everybody, and is not",
            Flaw::Flags => "has flags that it must not have",
            Flaw::Length => "has a length that it cannot have",
            Flaw::Value => "has a value that it cannot have",
            Flaw::Repeated => "comes twice",
            Flaw::Missing => "is missing",
            Flaw::External => "comes from another autonomous system",
            Flaw::Superfluous => "comes from a speaker that needs it not",
            Flaw::NextHop => "has a next hop of a length that it cannot have",
            Flaw::NoRoute => "is wrong, and no destination was found",
        })
    }
}
