//! Fault: unable to hold the addresses, and how it ends.

use std::time::Duration;

use kedge_core::Instant;

use super::{
    AddressRefused, Because, Link, Output, Peer,
    router::Router,
    state::{Fault, State, Then},
};
use crate::wire::{Claim, Neighbor};

impl Fault {
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Link(_) | Self::Tracked => None,
            Self::InUse { probe_at, .. } => Some(*probe_at),
            Self::Refused { retry_at, .. } => Some(*retry_at),
        }
    }
}

impl Router {
    pub(super) fn on_link(&mut self, now: Instant, link: Link) {
        let before = self.link;
        if before == link {
            return;
        }
        self.link = link;
        match (before, link) {
            (Link::Down(_), Link::Up { .. }) => {
                self.deafen(now, self.config.link_up_wait);
                if let State::Fault(Fault::Link(_)) = self.state {
                    self.take_part(now, Because::LinkUp);
                }
            }
            (Link::Up { .. } | Link::Down(_), Link::Down(loss)) => self.link_lost(now, loss),
            (Link::Up { mac: old, .. }, Link::Up { mac: new, .. }) => {
                self.advertise(now);
                if old != new && self.announcing() {
                    let at = self.config.place(new);
                    self.announcer.start(now, self.claimed(), at);
                }
            }
        }
    }

    fn link_lost(&mut self, now: Instant, loss: super::LinkLoss) {
        let because = Because::LinkDown(loss);
        match &self.state {
            State::Initialize => return,
            State::Releasing(releasing) if releasing.then == Then::Stop => {
                return self.finish(now, because);
            }
            State::Active(_) | State::Releasing(_) => self.disown(),
            State::Backup(_) | State::Fault(_) => {}
        }
        self.active = None;
        self.fresh.cancel();
        self.enter(now, State::Fault(Fault::Link(loss)), because);
    }

    pub(super) fn address_in_use(&mut self, now: Instant, claim: Claim) {
        let Claim { address, mac } = claim;
        let fault = Fault::InUse {
            claim,
            probe_at: now + PROBE_AGAIN,
            answered: true,
        };
        self.enter(
            now,
            State::Fault(fault),
            Because::AddressInUse { address, mac },
        );
    }

    pub(super) fn address_refused(&mut self, now: Instant, refused: AddressRefused) {
        let wait = RETRY * 2_u32.saturating_pow(self.refusals);
        self.refusals = self.refusals.saturating_add(1);
        let retry_at = now + wait.min(RETRY_AT_MOST);
        let fault = Fault::Refused { refused, retry_at };
        self.enter(now, State::Fault(fault), Because::Refused(refused));
    }

    pub(super) fn fault_timeout(&mut self, now: Instant) {
        let Link::Up { mac: own, .. } = self.link else {
            return;
        };
        let State::Fault(fault) = &mut self.state else {
            return;
        };
        match fault {
            Fault::Link(_) | Fault::Tracked => {}
            Fault::Refused { retry_at, .. } if *retry_at <= now => {
                self.take_part(now, Because::Retry);
            }
            Fault::InUse {
                probe_at, answered, ..
            } if *probe_at <= now => {
                if !*answered {
                    return self.take_part(now, Because::AddressFree);
                }
                *answered = false;
                *probe_at = now + PROBE_AGAIN;
                let probes = self
                    .config
                    .held()
                    .map(|address| Neighbor::probe(address, own));
                self.outputs.extend(probes.map(Output::ProbeAddress));
            }
            Fault::InUse { .. } | Fault::Refused { .. } => {}
        }
    }

    /// An Active is heard for the address that is in use: the answer was its own.
    pub(super) fn fault_advert(&mut self, now: Instant, peer: Peer, ours: bool) {
        if let State::Fault(Fault::InUse { .. }) = self.state
            && ours
        {
            self.unclaimed = false;
            self.not_before = now;
            if self.is_barred() {
                self.bar(now);
            } else {
                self.listen(now, Some(peer), None, Because::Served { peer });
            }
        }
    }

    pub(super) fn fault_claim(&mut self, by: Claim) {
        if let State::Fault(Fault::InUse {
            claim, answered, ..
        }) = &mut self.state
        {
            *claim = by;
            *answered = true;
        }
    }
}

const PROBE_AGAIN: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(5);
const RETRY_AT_MOST: Duration = Duration::from_secs(60);
