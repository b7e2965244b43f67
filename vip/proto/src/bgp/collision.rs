//! Two speakers that called each other at the same time (RFC 4271 section 6.8).

use kedge_core::bgp::{Asn, RouterId};

use super::Side;

/// Which of two connections stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep(pub Side);

/// Which of two connections to one neighbour stays: the one that the speaker with the higher
/// identifier made, or where those are equal the one of the higher autonomous system (RFC 6286
/// section 2.3). Both sides come to the same answer.
#[must_use]
pub fn collision(ours: (RouterId, Asn), theirs: (RouterId, Asn)) -> Keep {
    Keep(if ours > theirs {
        Side::Ours
    } else {
        Side::Theirs
    })
}
