//! Active: holding the addresses (RFC 9568 section 6.4.3).

use kedge_core::{Instant, vip::Priority};

use super::{
    AddressRefused, Because, Link, Notice, Peer,
    checksum::Ignored,
    router::Router,
    state::{Active, State},
    timing::{ADVERTS_LOST, next_after},
};
use crate::wire::{Claim, Mac};

impl Router {
    /// Becomes Active: advertise, take the addresses, and announce once the kernel holds them.
    pub(super) fn take_over(&mut self, now: Instant, because: Because) {
        self.stats.became_active += 1;
        self.yielded = false;
        let before = self.active.take().map(|peer| peer.mac);
        self.interval = self.config.interval;
        self.fresh.cancel();
        self.send(Some(self.priority()));
        self.own();
        let advert_at = now + self.config.interval.duration();
        self.enter(
            now,
            State::Active(Active {
                advert_at,
                sent_at: now,
                held: false,
                before,
            }),
            because,
        );
    }

    pub(super) fn active_timeout(&mut self, now: Instant) {
        if self.owes_announcement && self.defence.ready_at() <= now && self.defence.take(now) {
            self.announce_again();
        }
        self.prove(now);
        let State::Active(active) = &mut self.state else {
            return;
        };
        if now < active.advert_at {
            return;
        }
        active.sent_at = now;
        active.advert_at = next_after(now, active.advert_at, self.config.interval);
        self.send(Some(self.priority()));
    }

    /// Lets go *before* anything leaves when so much time passed since the last advert that a
    /// Backup may hold the addresses.
    pub(super) fn let_go_after_stall(&mut self, now: Instant) {
        let longest = self.config.interval.duration() * ADVERTS_LOST;
        match &self.state {
            State::Active(active) if !self.config.owner => {
                let gap = now.since(active.sent_at);
                if gap > longest {
                    self.stats.stalls += 1;
                    // Its leader may have let go as well: it is followed once it has said so.
                    self.lead = None;
                    self.disown();
                    self.listen(now, None, None, Because::Stalled { gap });
                }
            }
            State::Releasing(releasing) if releasing.successor.is_none() => {
                let gap = now.since(releasing.sent_at);
                if gap > longest {
                    self.stats.stalls += 1;
                    self.finish(now, Because::Stalled { gap });
                }
            }
            State::Initialize
            | State::Backup(_)
            | State::Active(_)
            | State::Releasing(_)
            | State::Fault(_) => {}
        }
    }

    pub(super) fn active_advert(&mut self, now: Instant, peer: Peer) {
        let own = self.priority();
        let Link::Up { source, .. } = self.link else {
            return;
        };
        if peer.priority == own && peer.address == source {
            return self.notice(
                now,
                Notice::DuplicateRouter {
                    src: source,
                    mac: peer.mac,
                },
            );
        }
        if own == Priority::OWNER && peer.priority == Priority::OWNER {
            // An owner never yields (RFC 9568 section 7.1): the address is its interface's own.
            return self.notice(
                now,
                Notice::SecondOwner {
                    src: peer.address,
                    mac: peer.mac,
                },
            );
        }
        let better = (peer.priority, peer.address) > (own, source);
        if better && self.config.follows {
            // Who is Active is the leader's to decide, by its own adverts.
            return;
        }
        if better {
            self.step_down(now, peer, own);
        } else {
            self.answer_lower(now, peer);
        }
    }

    /// Yields to a better Active on the very delivery of its advert.
    fn step_down(&mut self, now: Instant, peer: Peer, own: Priority) {
        if self.announcing() {
            // Clients may have our announcement last, from a race or from behind a partition that
            // has just healed: a lower advert makes the winner announce again (R7).
            self.send(Some(own));
        }
        self.disown();
        self.listen(now, Some(peer), None, Because::Better { peer, own });
    }

    /// Asserts the Active state towards a router that should be Backup, and towards the switches
    /// and clients that its announcements misled.
    fn answer_lower(&mut self, now: Instant, peer: Peer) {
        let own = self.config.interval.duration();
        match self
            .checksums
            .ignored(now, &peer, own, self.config.checksum)
        {
            Ignored::NotYet => {}
            Ignored::TryBoth => self.notice(now, Notice::BothChecksums { peer: peer.address }),
            Ignored::For(since) => {
                let both_forms = self.checksums.sends_both(self.config.checksum);
                self.notice(
                    now,
                    Notice::Unheard {
                        peer,
                        since,
                        both_forms,
                    },
                );
            }
        }
        if self.defence.take(now) {
            self.send_beside_schedule(now);
            self.announce_again();
        } else {
            self.owes_announcement = self.announcing();
        }
    }

    /// Somebody says that it leaves: make clear who stays (RFC 9568 section 6.4.3).
    pub(super) fn active_goodbye(&mut self, now: Instant) {
        if self.defence.take(now) {
            self.advertise(now);
        }
    }

    /// Another host claims an address that we hold. Before the kernel holds it there is nothing to
    /// defend: the announcement that follows is the answer.
    pub(super) fn active_claim(&mut self, now: Instant, claim: Claim) {
        if self.config.virtual_mac && claim.is_virtual(self.config.vrid) {
            // A member that is Active too says what we say. Whose it is the adverts decide.
            return;
        }
        self.stats.foreign_claims += 1;
        self.defence.claimed(now, claim.mac);
        let Claim { address, mac } = claim;
        if !self.announcing() {
            return;
        }
        let (claims, persistent) = (self.defence.claims(), self.defence.is_persistent());
        if !(claims == 1 && self.is_last_word(now, mac)) {
            self.notice(
                now,
                Notice::ForeignClaim {
                    address,
                    mac,
                    claims,
                    persistent,
                },
            );
        }
        if self.defence.take(now) {
            self.announce_again();
        } else {
            self.owes_announcement = true;
        }
    }

    /// Whether whoever had the address before may have said so before it heard of us: that is answered
    /// as any claim is, and nothing to tell people.
    fn is_last_word(&self, now: Instant, mac: Mac) -> bool {
        let state = match &self.state {
            State::Active(active) => active,
            State::Initialize | State::Backup(_) | State::Releasing(_) | State::Fault(_) => {
                return false;
            }
        };
        let span = now.since(self.since);
        state.before == Some(mac) && span <= self.config.interval.duration()
    }

    /// The kernel answered.
    pub(super) fn on_owned(&mut self, now: Instant, result: Result<(), AddressRefused>) {
        match (&mut self.state, self.link, result) {
            (State::Active(active), Link::Up { mac, .. }, Ok(())) => {
                let at = self.config.place(mac);
                active.held = true;
                self.refusals = 0;
                self.unclaimed = false;
                self.announcer.start(now, self.claimed(), at);
                self.begin_to_prove(now);
            }
            (State::Active(_), _, Err(refused)) => {
                self.send(None);
                self.disown();
                self.address_refused(now, refused);
            }
            (State::Releasing(releasing), _, Ok(())) => releasing.held = true,
            (State::Releasing(_), _, Err(refused)) => {
                self.finish(now, Because::Refused(refused));
            }
            (State::Active(_) | State::Initialize | State::Backup(_) | State::Fault(_), _, _) => {}
        }
    }

    fn announce_again(&mut self) {
        self.owes_announcement = false;
        self.announcer.again();
    }

    /// Advertises at once and counts the interval from here, if Active.
    pub(super) fn advertise(&mut self, now: Instant) {
        let State::Active(active) = &mut self.state else {
            return;
        };
        active.advert_at = now + self.config.interval.duration();
        self.send_beside_schedule(now);
    }

    fn send_beside_schedule(&mut self, now: Instant) {
        let State::Active(active) = &mut self.state else {
            return;
        };
        active.sent_at = now;
        self.send(Some(self.priority()));
    }
}
