//! What a VIP watches beside its own link and its service: what its failure costs, and whether the
//! host can hold the VIP at all.

use kedge_core::Instant;

use super::{
    Because,
    router::Router,
    state::{Fault, State},
};

/// Everything that is tracked, as one value; what it is made of is the shell's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tracked {
    /// What is taken from the priority: the sum of the weights of what failed.
    pub cost: u16,
    /// Whether something failed without which this host must not hold the VIP.
    pub critical: bool,
}

impl Router {
    /// Whether something failed without which the VIP must not be here. The owner of the address
    /// cannot give it away.
    pub(super) fn is_barred(&self) -> bool {
        self.tracked.critical && !self.config.owner
    }

    pub(super) fn on_tracked(&mut self, now: Instant, tracked: Tracked) {
        let before = self.priority();
        self.tracked = tracked;
        self.priority_changed(now, before, Because::Tracked);
        self.heed_tracks(now);
    }

    /// Leaves because of a critical track, or comes back once there is none.
    ///
    /// An Active leaves as in a hand-over: goodbye first, so that a Backup acts within its skew,
    /// and the address answers until the successor is heard. Without a successor it goes all the
    /// same.
    pub(super) fn heed_tracks(&mut self, now: Instant) {
        let barred = self.is_barred();
        match &self.state {
            State::Active(_) if barred => self.give_up(now),
            State::Backup(_) if barred => self.bar(now),
            State::Fault(Fault::Tracked) if !barred => self.take_part(now, Because::TracksBack),
            State::Initialize
            | State::Backup(_)
            | State::Active(_)
            | State::Releasing(_)
            | State::Fault(_) => {}
        }
    }

    /// Holds nothing and claims nothing while a critical track fails.
    pub(super) fn bar(&mut self, now: Instant) {
        self.active = None;
        self.fresh.cancel();
        self.enter(now, State::Fault(Fault::Tracked), Because::TrackLost);
    }
}
