//! What is known of a peer's stamps may be wrong: its clock went back, and it lost what it had sent
//! (docs/adr/0061).
//!
//! Old initiations are answered then, like new ones, each with a session of its own that nothing is sent
//! with. One that comes to be used is of a peer that is there, since a recording has no key to use it
//! with: its stamp is the newest from then on.

use std::{collections::VecDeque, time::Duration};

use kedge_core::Instant;

use super::stamp::Stamp;

/// Old initiations that were answered.
#[derive(Debug)]
pub(super) struct Doubt {
    until: Instant,
    /// The sessions they were answered with; the newest first.
    offers: VecDeque<(u32, Stamp)>,
}

impl Doubt {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            until: now + LONGEST,
            offers: VecDeque::new(),
        }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// Notes with which session an old initiation was answered.
    pub(super) fn offered(&mut self, index: u32, stamp: Stamp) {
        self.offers.push_front((index, stamp));
        self.offers.truncate(OFFERS);
    }

    /// The stamp of the initiation whose session came to be used, if it was an old one.
    pub(super) fn settled(self, index: u32) -> Option<Stamp> {
        let mut offers = self.offers.into_iter();
        offers.find(|offer| offer.0 == index).map(|offer| offer.1)
    }
}

/// How long old initiations are answered: a peer sends one each five seconds.
const LONGEST: Duration = Duration::from_secs(30);
/// As many as there are sessions that wait to be used.
const OFFERS: usize = 4;
