//! Backup: listening for the Active (RFC 9568 section 6.4.2).

use std::net::IpAddr;

use kedge_core::Instant;

use super::{
    Because, Link, Output, Peer, health,
    router::Router,
    state::{Backup, Cause, Fault, State},
    timing::ADVERTS_LOST,
};
use crate::{claim::Probe, wire::Claim};

impl Router {
    /// Begins to take part: the owner of the address is Active at once, everybody else listens.
    pub(super) fn take_part(&mut self, now: Instant, because: Because) {
        match self.link {
            Link::Down(loss) => {
                self.enter(
                    now,
                    State::Fault(Fault::Link(loss)),
                    Because::LinkDown(loss),
                );
            }
            Link::Up { .. } if self.config.owner => self.take_over(now, Because::OwnsAddress),
            Link::Up { .. } if self.is_barred() => self.bar(now),
            Link::Up { mac, .. } => {
                self.preempt_from = now + self.config.preempt_delay;
                let probe = self
                    .unclaimed
                    .then(|| Probe::start(now, self.claimed(), mac));
                self.listen(now, None, probe, because);
                self.wait_for_probes();
                self.heed_lead(now);
            }
        }
    }

    /// Enters Backup with a full `Active_Down_Interval` of `active`, or of our own without one.
    pub(super) fn listen(
        &mut self,
        now: Instant,
        active: Option<Peer>,
        probe: Option<Probe>,
        because: Because,
    ) {
        self.active = active;
        self.interval = active.map_or(self.config.interval, |peer| peer.interval);
        self.fresh.cancel();
        let down_at = now + self.active_down(self.interval);
        let backup = Backup {
            since: now,
            down_at,
            cause: Cause::Silence,
            probe,
            check: None,
            next_until: None,
            suspect: None,
        };
        self.enter(now, State::Backup(backup), because);
    }

    pub(super) fn backup_timeout(&mut self, now: Instant) {
        let State::Backup(backup) = &mut self.state else {
            return;
        };
        if let Some(probe) = &mut backup.probe {
            probe.handle_timeout(now);
        }
        self.check_timeout(now);
        let State::Backup(backup) = &self.state else {
            return;
        };
        if let Some(claim) = backup.suspect.filter(|_| now >= backup.down_at) {
            return self.address_in_use(now, claim);
        }
        let Some(at) = self.takes_over_at(backup).filter(|at| *at <= now) else {
            return;
        };
        if self.config.follows {
            return self.follow_into_active(now);
        }
        if self.hears_first(now, at) {
            return;
        }
        if !self.may_claim(now) {
            return;
        }
        let State::Backup(backup) = &self.state else {
            return;
        };
        let own = self.priority();
        let because = match (backup.cause, self.active) {
            (Cause::Preempt(peer), _) => Because::Preempted { peer, own },
            (Cause::Pull(peer), _) => Because::Unhealthy { peer, own },
            (Cause::Relieve(peer), _) => Because::Relieved { peer, own },
            (Cause::Order(peer), _) => Because::Ordered { peer, own },
            (Cause::Goodbye, Some(peer)) => Because::Goodbye { peer },
            (Cause::Succession, Some(peer)) => Because::HandedOver { peer },
            (Cause::Gone, Some(peer)) => Because::ProcessEnded { peer },
            (Cause::Silence, Some(peer)) => Because::Silence {
                peer,
                since: now.since(peer.heard_at),
            },
            (Cause::Goodbye | Cause::Succession | Cause::Gone | Cause::Silence, None) => {
                Because::NobodyHeard {
                    since: now.since(backup.since),
                }
            }
        };
        if matches!(
            backup.cause,
            Cause::Preempt(_) | Cause::Pull(_) | Cause::Relieve(_)
        ) {
            self.damping.overruled(now);
        }
        self.take_over(now, because);
    }

    /// Listens anew when it is told so late that this host slept: nothing arrives while a host is suspended, so
    /// the silence says nothing about the Active. What waited in the sockets came before the deadline.
    fn hears_first(&mut self, now: Instant, due: Instant) -> bool {
        let gap = now.since(due);
        if gap <= self.interval.duration() * ADVERTS_LOST {
            return false;
        }
        self.stats.stalls += 1;
        let probe = match self.link {
            Link::Up { mac, .. } if self.unclaimed => Some(Probe::start(now, self.claimed(), mac)),
            Link::Up { .. } | Link::Down(_) => None,
        };
        self.listen(now, None, probe, Because::Overslept { gap });
        self.wait_for_probes();
        true
    }

    pub(super) fn backup_advert(&mut self, now: Instant, peer: Peer, ours: bool) {
        let own = self.priority();
        let elects = !self.config.follows;
        let ill = elects && ours && health::may_pull(&self.config, self.verdict, peer.priority);
        let overruling = self.damping.allows(now);
        let relieving =
            elects && ours && overruling && health::may_relieve(&self.config, peer.priority);
        let preempting = elects && self.preempts() && now >= self.preempt_from && overruling;
        let lower = peer.priority < own;
        let active_down = self.active_down(peer.interval);
        let skew = self.skew();
        let State::Backup(backup) = &mut self.state else {
            return;
        };
        if ours {
            // The address is served by a virtual router: no stranger owns it.
            backup.probe = None;
            backup.suspect = None;
            self.unclaimed = false;
            self.not_before = now;
        }
        let pulling = ill && matches!(backup.cause, Cause::Pull(_));
        if pulling || lower && matches!(backup.cause, Cause::Order(_)) {
            return;
        }
        if relieving {
            backup.down_at = backup.down_at.min(now + skew);
            backup.cause = Cause::Relieve(peer);
            self.active = Some(peer);
            return;
        }
        if ill && overruling && self.fresh.ask(now) {
            self.outputs.push_back(Output::ProbeHealth);
        }
        if lower && preempting {
            backup.cause = Cause::Preempt(peer);
            return;
        }
        backup.cause = Cause::Silence;
        backup.check = None;
        backup.down_at = now + active_down;
        self.active = Some(peer);
        self.interval = peer.interval;
        if !ill {
            self.fresh.cancel();
        }
    }

    /// A goodbye counts only from the Active that we follow, and repeated ones never postpone
    /// the election.
    pub(super) fn backup_goodbye(&mut self, now: Instant, src: IpAddr) {
        let skew = self.skew();
        let followed = self.active.is_some_and(|peer| peer.address == src);
        let State::Backup(backup) = &mut self.state else {
            return;
        };
        if followed && backup.next_until.is_some_and(|until| now <= until) {
            backup.down_at = backup.down_at.min(now);
            backup.cause = Cause::Succession;
        } else if followed {
            backup.down_at = backup.down_at.min(now + skew);
            backup.cause = Cause::Goodbye;
        }
    }

    /// Our own service has just been probed because the Active is not healthy.
    pub(super) fn on_probed(&mut self, now: Instant, healthy: bool) {
        self.fresh.answered(now, healthy);
        let skew = self.skew();
        let ill = self.active.filter(|peer| {
            healthy
                && self.damping.allows(now)
                && health::may_pull(&self.config, self.verdict, peer.priority)
        });
        let State::Backup(backup) = &mut self.state else {
            return;
        };
        if let Some(peer) = ill {
            backup.down_at = backup.down_at.min(now + skew);
            backup.cause = Cause::Pull(peer);
        }
    }

    /// Somebody claims an address while we probe it. An Active answers ARP too, so the claim is
    /// foreign only once the Active would have been heard.
    pub(super) fn backup_claim(&mut self, now: Instant, claim: Claim) {
        self.check_claim(now, claim);
        let State::Backup(backup) = &mut self.state else {
            return;
        };
        if backup.probe.is_none() {
            return;
        }
        if now < backup.down_at {
            backup.suspect = Some(claim);
        } else {
            self.address_in_use(now, claim);
        }
    }
}
