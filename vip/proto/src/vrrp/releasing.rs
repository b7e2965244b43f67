//! Releasing: said goodbye, still answering until a successor speaks.

use kedge_core::{Instant, vip::RouterState};

use super::{
    Because, Peer,
    router::Router,
    state::{Releasing, State, Successor, Then},
    timing::{longest_active_down, next_after},
};
use crate::wire::Claim;

impl Releasing {
    pub(super) fn poll_timeout(&self) -> Instant {
        match self.successor {
            Some(_) => self.release_at,
            None => self.release_at.min(self.advert_at),
        }
    }
}

impl Router {
    /// Leaves for good.
    pub(super) fn leave(&mut self, now: Instant) {
        self.release(now, Then::Stop, Because::Leaving);
    }

    /// Gives the VIP away and stays.
    pub(super) fn hand_over(&mut self, now: Instant, because: Because) {
        self.release(now, Then::Backup, because);
    }

    /// Gives the VIP away because it must not be here.
    pub(super) fn give_up(&mut self, now: Instant) {
        self.release(now, Then::Backup, Because::TrackLost);
    }

    /// Told to leave while releasing: a hand-over becomes a leave, a leave does not wait longer.
    pub(super) fn leave_faster(&mut self, now: Instant) {
        let State::Releasing(releasing) = &mut self.state else {
            return;
        };
        match releasing.then {
            Then::Backup => releasing.then = Then::Stop,
            Then::Stop => self.finish(now, Because::Leaving),
        }
    }

    pub(super) fn release(&mut self, now: Instant, then: Then, because: Because) {
        let State::Active(active) = &self.state else {
            return;
        };
        let held = active.held;
        self.silence();
        self.send(None);
        self.stop_proving();
        let interval = self.config.interval;
        let releasing = Releasing {
            advert_at: now + interval.duration(),
            sent_at: now,
            release_at: now + longest_active_down(self.config.version, interval),
            successor: None,
            then,
            held,
        };
        self.enter(now, State::Releasing(releasing), because);
    }

    pub(super) fn releasing_advert(&mut self, now: Instant, peer: Peer) {
        let interval = self.config.interval.duration();
        let State::Releasing(releasing) = &mut self.state else {
            return;
        };
        if releasing.successor.is_none() {
            releasing.successor = Some(Successor::new(peer));
            // Its announcement should follow within milliseconds; this is for one that is lost.
            releasing.release_at = releasing.release_at.min(now + interval);
        }
    }

    pub(super) fn releasing_claim(&mut self, now: Instant, claim: Claim) {
        let State::Releasing(releasing) = &mut self.state else {
            return;
        };
        let Some(successor) = &mut releasing.successor else {
            return;
        };
        if successor.announced(&self.config, claim) {
            let peer = successor.peer;
            self.finish(now, Because::Succeeded { peer });
        }
    }

    pub(super) fn releasing_timeout(&mut self, now: Instant) {
        let State::Releasing(releasing) = &mut self.state else {
            return;
        };
        if releasing.release_at <= now {
            let peer = releasing.successor.as_ref().map(|successor| successor.peer);
            match (peer, releasing.then) {
                (Some(peer), _) => return self.finish(now, Because::Succeeded { peer }),
                // Until then it goes on to say goodbye.
                (None, Then::Backup) if self.waits_for_leader() => self.wait_longer(now),
                (None, Then::Backup) if !self.is_barred() && !self.config.follows => {
                    return self.take_over(now, Because::NoSuccessor);
                }
                (None, Then::Stop | Then::Backup) => {
                    return self.finish(now, Because::NoSuccessor);
                }
            }
        }
        let State::Releasing(releasing) = &mut self.state else {
            return;
        };
        if releasing.successor.is_none() && releasing.advert_at <= now {
            // Never more often than once per interval: some stacks restart their skew on each.
            releasing.sent_at = now;
            releasing.advert_at = next_after(now, releasing.advert_at, self.config.interval);
            self.send(None);
        }
    }

    /// Nobody was heard for this address: whether it is taken back, and when it is given up, is the
    /// leader's to decide.
    fn waits_for_leader(&self) -> bool {
        let releasing = self.lead.map(|lead| lead.state) == Some(RouterState::Releasing);
        self.config.follows && releasing && !self.is_barred()
    }

    fn wait_longer(&mut self, now: Instant) {
        let interval = self.config.interval;
        if let State::Releasing(releasing) = &mut self.state {
            releasing.release_at = now + interval.duration();
        }
    }

    /// Repeats the goodbye at once and counts a new interval from here.
    pub(super) fn goodbye_again(&mut self, now: Instant) {
        let State::Releasing(releasing) = &mut self.state else {
            return;
        };
        if releasing.successor.is_none() {
            releasing.sent_at = now;
            releasing.advert_at = now + self.config.interval.duration();
            self.send(None);
        }
    }

    /// Lets go of the addresses.
    pub(super) fn finish(&mut self, now: Instant, because: Because) {
        let State::Releasing(releasing) = &self.state else {
            return;
        };
        let then = releasing.then;
        // A follower that let go by itself is told again before it holds anything.
        self.lead = self.lead.filter(|lead| lead.state != RouterState::Active);
        let successor = releasing.successor.as_ref().map(|successor| successor.peer);
        self.disown();
        match then {
            Then::Stop => {
                self.active = successor;
                self.enter(now, State::Initialize, because);
            }
            Then::Backup if self.is_barred() => self.bar(now),
            Then::Backup => self.listen(now, successor, None, because),
        }
    }
}
