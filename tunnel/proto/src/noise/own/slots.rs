//! Which sessions there are.
//!
//! ```text
//!  our initiation answered:     it ─► current ─► previous ─► oldest
//!  their initiation answered:   it ─► next, which only receives
//!  a packet opened by next:     next ─► current ─► previous ─► oldest
//! ```
//!
//! What is not confirmed has a slot of its own, so no number of handshakes that come to nothing
//! touches the session in use. There is an oldest one because the peer sends with what it has had
//! confirmed: after two handshakes of ours whose first packets got lost that is the one before.

use std::sync::Arc;

use kedge_core::Instant;

use super::session::Session;

/// The sessions of a peer.
#[derive(Default)]
pub(super) struct Slots {
    current: Option<Arc<Session>>,
    /// Still receives what was under way when it was replaced.
    previous: Option<Arc<Session>>,
    oldest: Option<Arc<Session>>,
    /// Ours to send with as soon as the peer has shown that it has it too.
    next: Option<Arc<Session>>,
}

impl Slots {
    /// The session to send with.
    pub(super) fn current(&self, now: Instant) -> Option<&Arc<Session>> {
        self.current
            .as_ref()
            .filter(|session| !session.is_over(now))
    }

    /// Whether there is no session of any kind.
    pub(super) const fn is_empty(&self) -> bool {
        self.current.is_none()
            && self.previous.is_none()
            && self.oldest.is_none()
            && self.next.is_none()
    }

    /// The session of one of our indices.
    pub(super) fn find(&self, local: u32) -> Option<&Arc<Session>> {
        [&self.current, &self.next, &self.previous, &self.oldest]
            .into_iter()
            .flatten()
            .find(|session| session.local() == local)
    }

    /// Takes over a session that the peer has, too.
    pub(super) fn establish(&mut self, session: Session) {
        let replaced = self.current.replace(Arc::new(session));
        self.retire(replaced);
    }

    /// Takes a session that the peer may never learn of.
    pub(super) fn offer(&mut self, session: Session) {
        self.next = Some(Arc::new(session));
    }

    /// Notes that a packet of the session was authentic; true when it is the current one since
    /// then.
    pub(super) fn confirm(&mut self, local: u32) -> bool {
        let Some(next) = self.next.take_if(|next| next.local() == local) else {
            return false;
        };
        // Of two handshakes that crossed the newer one is used; the other one receives.
        if let Some(current) = &self.current
            && current.since() > next.since()
        {
            self.retire(Some(next));
            return false;
        }
        let replaced = self.current.replace(next);
        self.retire(replaced);
        true
    }

    /// Drops what is too old.
    pub(super) fn expire(&mut self, now: Instant) {
        let Self {
            current,
            previous,
            oldest,
            next,
        } = self;
        for slot in [current, previous, oldest, next] {
            slot.take_if(|session| session.is_over(now));
        }
    }

    fn retire(&mut self, session: Option<Arc<Session>>) {
        if let Some(session) = session {
            self.oldest = self.previous.replace(session);
        }
    }
}

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
        assert!(!slots.confirm(998), "an offer that was replaced");
        assert!(slots.confirm(999));
        assert_eq!(current(&slots, 2), Some(999));
        assert!(slots.find(2).is_some() && slots.find(1).is_some());
        slots.establish(session(1_000, 3));
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
