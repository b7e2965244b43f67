//! Silence beside adverts that prove nothing: whoever sends them may hold the address, because its
//! clock or its keys are wrong. It is asked before the address is claimed (R24).

use std::{net::IpAddr, time::Duration};

use kedge_core::Instant;

use super::{
    Notice, Output,
    router::Router,
    state::{Cause, State},
};
use crate::{
    auth,
    wire::{Claim, Mac, Neighbor},
};

/// Who advertised for our VRID last without proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unverified {
    src: IpAddr,
    mac: Mac,
    heard_at: Instant,
}

/// Asking him whether he has the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Check {
    src: IpAddr,
    pub(super) mac: Mac,
    /// When to ask once more.
    pub(super) again_at: Option<Instant>,
    /// When silence means that he has not.
    pub(super) ends_at: Instant,
}

impl Router {
    /// Somebody uses our VRID and cannot prove that he is a member.
    pub(super) fn on_unverified(&mut self, now: Instant, src: IpAddr, mac: Mac, why: auth::Reject) {
        self.on_frame(now);
        self.stats.auth_errors += 1;
        self.unverified = Some(Unverified {
            src,
            mac,
            heard_at: now,
        });
        self.notice(now, Notice::Unverified { src, mac, why });
    }

    /// Whether the address may be claimed after silence. If somebody was heard who proves nothing
    /// he is asked first, once, for [`CHECK`].
    pub(super) fn may_claim(&mut self, now: Instant) -> bool {
        let within = self.active_down(self.interval);
        let heard = self
            .unverified
            .filter(|heard| now.since(heard.heard_at) <= within);
        let State::Backup(backup) = &mut self.state else {
            return true;
        };
        match (&backup.check, heard) {
            (Some(check), _) => check.ends_at <= now,
            (None, Some(Unverified { src, mac, .. }))
                if matches!(backup.cause, Cause::Silence | Cause::Gone) =>
            {
                backup.check = Some(Check {
                    src,
                    mac,
                    again_at: Some(now + CHECK / 2),
                    ends_at: now + CHECK,
                });
                self.ask_holder();
                false
            }
            (None, _) => true,
        }
    }

    /// Asks once more, when that is due.
    pub(super) fn check_timeout(&mut self, now: Instant) {
        if let State::Backup(backup) = &mut self.state
            && let Some(check) = &mut backup.check
            && check.again_at.take_if(|at| *at <= now).is_some()
            && now < check.ends_at
        {
            self.ask_holder();
        }
    }

    /// He has it: the VIP is served, by somebody whose adverts prove nothing. Listens for another
    /// down interval.
    pub(super) fn check_claim(&mut self, now: Instant, claim: Claim) {
        let active_down = self.active_down(self.interval);
        let State::Backup(backup) = &mut self.state else {
            return;
        };
        let Some(Check { src, mac, .. }) = backup.check.take_if(|check| check.mac == claim.mac)
        else {
            return;
        };
        backup.down_at = backup.down_at.max(now + active_down);
        let address = claim.address;
        self.notice(now, Notice::AuthMismatch { src, mac, address });
    }

    fn ask_holder(&mut self) {
        let super::Link::Up { mac: own, .. } = self.link else {
            return;
        };
        let held = self.config.held();
        let probes = held.map(|address| Neighbor::probe(address, own));
        self.outputs.extend(probes.map(Output::ProbeAddress));
    }
}

/// How long the sender of adverts that prove nothing is asked before a claim: the only thing but a
/// valid advert, or his answer, that makes a take-over later.
pub(super) const CHECK: Duration = Duration::from_millis(200);
