//! Which sessions there are.
//!
//! ```text
//!  our initiation answered:     it ─► current ─► retired
//!  their initiation answered:   it ─► offers, which only receive
//!  a packet opened by an offer: it ─► current ─► retired
//! ```
//!
//! What is not confirmed has a place of its own, so no number of handshakes that come to nothing
//! touches the session in use. There are several of each: the peer sends with what it has had
//! confirmed, which after two handshakes of ours whose first packets got lost is the one before, and
//! a peer that asks again and again uses the first answer before the next ones reach it.

use std::{collections::VecDeque, sync::Arc};

use kedge_core::Instant;

use super::session::Session;

#[derive(Default)]
pub(super) struct Slots {
    current: Option<Arc<Session>>,
    /// Ended, but what was sent before may still arrive; the newest first.
    retired: VecDeque<Arc<Session>>,
    /// The newest first.
    offers: VecDeque<Arc<Session>>,
}

impl Slots {
    /// The session to send with.
    pub(super) fn current(&self, now: Instant) -> Option<&Arc<Session>> {
        self.current
            .as_ref()
            .filter(|session| !session.is_over(now))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.current.is_none() && self.retired.is_empty() && self.offers.is_empty()
    }

    /// The session with this index of ours.
    pub(super) fn find(&self, local: u32) -> Option<&Arc<Session>> {
        let mut all = self.current.iter().chain(&self.offers).chain(&self.retired);
        all.find(|session| session.local() == local)
    }

    /// Takes the session of a handshake that we started and the peer answered.
    pub(super) fn establish(&mut self, session: Session) {
        let replaced = self.current.replace(Arc::new(session));
        self.retire(replaced);
    }

    /// Takes the session of a handshake that we answered. It is not known yet whether the answer
    /// arrives.
    pub(super) fn offer(&mut self, session: Session) {
        self.offers.push_front(Arc::new(session));
        self.offers.truncate(OFFERS);
    }

    /// The peer used the session: true if that makes it the one to send with.
    pub(super) fn confirm(&mut self, local: u32) -> bool {
        let mut offers = self.offers.iter();
        let Some(at) = offers.position(|offer| offer.local() == local) else {
            return false;
        };
        let Some(confirmed) = self.offers.remove(at) else {
            return false;
        };
        // Of two handshakes that crossed the newer one is used; the other one receives.
        if let Some(current) = &self.current
            && current.since() > confirmed.since()
        {
            self.retire(Some(confirmed));
            return false;
        }
        let replaced = self.current.replace(confirmed);
        self.retire(replaced);
        true
    }

    /// Drops sessions that are over.
    pub(super) fn expire(&mut self, now: Instant) {
        self.current.take_if(|session| session.is_over(now));
        self.retired.retain(|session| !session.is_over(now));
        self.offers.retain(|session| !session.is_over(now));
    }

    fn retire(&mut self, session: Option<Arc<Session>>) {
        self.retired.extend(session);
        self.retired.rotate_right(1.min(self.retired.len()));
        self.retired.truncate(RETIRED);
    }
}

/// Answers that the peer may use still. One that asks five times within a round trip is not answered
/// each time.
const OFFERS: usize = 4;
/// Sessions that packets may still come for.
const RETIRED: usize = 4;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zeroize::Zeroizing;

    use super::{super::handshake::Keys, *};

    fn session(local: u32, seconds: u64) -> Session {
        let keys = Keys {
            remote: 0,
            seal: Zeroizing::new([1; 32]),
            open: Zeroizing::new([2; 32]),
        };
        Session::new(local, &keys, at(seconds), true)
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn current(slots: &Slots, seconds: u64) -> Option<u32> {
        slots.current(at(seconds)).map(|session| session.local())
    }

    #[test]
    fn a_thousand_offers_do_not_touch_the_session_in_use() {
        let mut slots = Slots::default();
        slots.establish(session(1, 0));
        slots.establish(session(2, 1));
        for local in 3..1_000 {
            slots.offer(session(local, 2));
            assert_eq!(current(&slots, 2), Some(2));
            assert!(slots.find(1).is_some());
        }
        assert!(
            !slots.confirm(995),
            "an offer of which there are newer ones"
        );
        assert!(slots.confirm(999));
        assert_eq!(current(&slots, 2), Some(999));
        assert!(slots.find(2).is_some() && slots.find(1).is_some());
        for local in 1_000..1_003 {
            slots.establish(session(local, 3));
        }
        assert!(slots.find(2).is_some() && slots.find(1).is_none());
        assert!(!slots.confirm(999), "once");
    }

    #[test]
    fn an_offer_older_than_the_session_in_use_only_receives() {
        let mut slots = Slots::default();
        slots.offer(session(1, 0));
        slots.establish(session(2, 1));
        assert!(!slots.confirm(1));
        assert_eq!(current(&slots, 1), Some(2));
        assert!(slots.find(1).is_some());
    }

    #[test]
    fn what_is_three_minutes_old_is_dropped_and_is_not_used_before_that() {
        let mut slots = Slots::default();
        slots.establish(session(1, 0));
        slots.offer(session(2, 100));
        assert_eq!(
            current(&slots, 180),
            None,
            "although nothing dropped it yet"
        );
        slots.expire(at(180));
        assert!(slots.find(1).is_none() && slots.find(2).is_some());
        slots.expire(at(280));
        assert!(slots.find(2).is_none());
    }
}
