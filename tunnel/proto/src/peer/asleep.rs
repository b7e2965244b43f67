//! A peer without a core.

use kedge_core::Instant;

use super::{Owed, Peer};
use crate::{counters::State, noise::NoiseCore};

impl Peer {
    /// Whether it has no core, and needs one to be woken for what is due or waits.
    pub(crate) fn is_called(&self) -> bool {
        let due = self.wants_session() || self.owed == Owed::Initiation;
        self.core.is_asleep() && self.endpoint.is_some() && due
    }

    pub(crate) const fn is_asleep(&self) -> bool {
        self.core.is_asleep()
    }

    /// Goes on with a core that was made for it.
    pub(crate) fn wake(&mut self, now: Instant, mut core: NoiseCore) {
        if let NoiseCore::Asleep(known) = &self.core {
            core.raise_stamps(known.stamps());
        }
        self.core = core;
        self.ticked_at = now;
    }

    /// Goes without a core if nothing is lost by it.
    pub(crate) fn rest(&mut self) {
        let idle = self.state == State::Idle && self.owed == Owed::Nothing;
        if idle && !self.wants_session() && !self.has_ties() {
            self.core.rest();
        }
    }
}
