//! What the operator orders beside the configuration's election: give, take, freeze, drain.
//!
//! | order | what it does | what still acts |
//! |---|---|---|
//! | give ([`Command::HandOver`]) | says goodbye, answers until a successor does, does not preempt after | everything |
//! | be next ([`Command::Succeed`]) | takes the VIP at once when its Active gives it, whoever else is better | a better Active |
//! | take ([`Command::Take`]) | preempts once, whatever `preempt` says | a better Active |
//! | freeze ([`Config::frozen`]) | no health, weight, preemption, give or take moves the VIP | link, conflict, stall, a dead or better Active |
//! | drain ([`Config::drained`]) | gives the VIP away and stays at the lowest priority | silence: nobody else lives |

use kedge_core::Instant;

use super::{
    Because, Command, Config, Reject,
    router::Router,
    state::{Cause, State},
};

impl Router {
    /// Whether an order makes sense.
    pub(super) fn accept_order(&self, order: Command) -> Result<(), Reject> {
        let sensible = match order {
            Command::HandOver => matches!(self.state, State::Active(_)) && !self.config.owner,
            Command::Take => {
                let other = self.active.is_some();
                matches!(self.state, State::Backup(_)) && other && !self.config.drained
            }
            Command::Succeed => {
                let followed = self.active.is_some();
                matches!(self.state, State::Backup(_)) && followed && !self.config.drained
            }
            Command::Start | Command::Resume | Command::Stop => true,
        };
        // Of a group its leader is asked.
        let sensible = sensible && !self.config.follows;
        let own = self.priority();
        let better = self.active.is_some_and(|peer| peer.priority < own);
        if !sensible {
            Err(Reject::WrongState)
        } else if self.config.frozen {
            Err(Reject::Frozen)
        } else if order == Command::Take && !better {
            Err(Reject::NotBetter)
        } else {
            Ok(())
        }
    }

    pub(super) fn give_away(&mut self, now: Instant) {
        self.yielded = true;
        self.hand_over(now, Because::HandingOver);
    }

    /// Takes the VIP as a preempting Backup does, without waiting for the Active's silence.
    pub(super) fn take_here(&mut self, now: Instant) {
        let skew = self.skew();
        let (Some(peer), State::Backup(backup)) = (self.active, &mut self.state) else {
            return;
        };
        backup.down_at = backup.down_at.min(now + skew);
        backup.cause = Cause::Order(peer);
    }

    /// Whether a living Active of lower priority is overruled.
    pub(super) const fn preempts(&self) -> bool {
        self.config.preempt && !self.config.frozen && !self.config.drained && !self.yielded
    }

    /// Keeps the priority of a frozen Active from falling, and lets it fall when that ends.
    pub(super) fn pin(&mut self, now: Instant) {
        if self.config.frozen && matches!(self.state, State::Active(_)) {
            self.pinned = Some(self.priority());
        } else if self.pinned.is_some() {
            let before = self.priority();
            self.pinned = None;
            self.priority_changed(now, before, Because::Thawed);
        }
    }

    /// A base priority that is configured lower counts at once: that is an order too.
    pub(super) fn lower_pin(&mut self, before: &Config) {
        if before.priority != self.config.priority {
            self.pinned = self.pinned.map(|pinned| pinned.min(self.config.priority));
        }
    }

    /// Gives the VIP away when draining begins, or goes on once it is not frozen.
    pub(super) fn drain(&mut self, now: Instant, before: &Config) {
        let drains =
            |config: &Config| config.drained && !config.frozen && !config.owner && !config.follows;
        if drains(&self.config) && !drains(before) {
            self.hand_over(now, Because::Drained);
        }
    }

    pub(super) const fn why_reconfigured(&self, before: &Config) -> Because {
        match (before.drained, self.config.drained) {
            (false, true) => Because::Drained,
            (true, false) => Because::Undrained,
            (false, false) | (true, true) => Because::Configured,
        }
    }
}
