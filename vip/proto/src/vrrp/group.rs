//! VIPs that move together: one router elects, the others follow it and never force it.
//!
//! ```text
//!            its members' faults and tracks            what it does, and its priority
//!  members ─────────────────────────────────► leader ─────────────────────────────────► members
//!             Input::Tracked, critical                          Input::Lead
//! ```
//!
//! Members that each elect and drag the others along would exchange the group for ever once the
//! multicast of one family is lost. Here only the leader's own adverts decide, on every host of
//! the same one.

use kedge_core::{
    Instant,
    vip::{Priority, RouterState, Vrid},
};

use super::{
    Because, Tracked,
    router::Router,
    state::{Backup, State, Then},
};

/// What the leader of a sync group does, for those that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lead {
    /// Its state.
    pub state: RouterState,
    /// Its effective priority, which is that of all.
    pub priority: Priority,
}

impl Lead {
    /// What `leader` does.
    #[must_use]
    pub fn of(leader: &Router) -> Self {
        Self {
            state: leader.state(),
            priority: leader.priority(),
        }
    }

    /// Who leads: the lowest rank, the same on all hosts. IPv4 before IPv6, then the lowest VRID.
    #[must_use]
    pub const fn rank(ipv6: bool, vrid: Vrid) -> (bool, u8) {
        (ipv6, vrid.get())
    }
}

impl Tracked {
    /// What a leader is told: what it tracks itself, and what a member tracks that is in `state`.
    /// A member that cannot hold its address bars all; what several track is counted once, as the
    /// dearest.
    #[must_use]
    pub fn with_member(self, tracked: Self, state: RouterState) -> Self {
        Self {
            cost: self.cost.max(tracked.cost),
            critical: self.critical || tracked.critical || state == RouterState::Fault,
        }
    }
}

impl Router {
    /// What this router was last told by its leader; `None` when it elects itself, or let go since
    /// and must be told again.
    #[must_use]
    pub const fn lead(&self) -> Option<Lead> {
        self.lead
    }

    pub(super) fn on_lead(&mut self, now: Instant, lead: Lead) {
        let before = self.priority();
        self.lead = Some(lead);
        self.priority_changed(now, before, Because::Led(lead.state));
        self.heed_lead(now);
    }

    /// Does what the leader does, as far as it is not done.
    pub(super) fn heed_lead(&mut self, now: Instant) {
        let Some(lead) = self.lead.filter(|_| self.config.follows) else {
            return;
        };
        let because = Because::Led(lead.state);
        match (lead.state, &self.state) {
            (RouterState::Active, State::Backup(_)) => self.follow_into_active(now),
            (RouterState::Active, State::Releasing(releasing))
                if releasing.then == Then::Backup && !self.is_barred() =>
            {
                self.take_over(now, because);
            }
            // Another host is Active already: as its leader yields, so does this one.
            (RouterState::Backup, State::Active(_)) => self.yield_with_leader(now, because),
            (
                RouterState::Releasing | RouterState::Fault | RouterState::Initialize,
                State::Active(_),
            ) => self.release(now, Then::Backup, because),
            (
                RouterState::Backup | RouterState::Fault | RouterState::Initialize,
                State::Releasing(releasing),
            ) if releasing.then == Then::Backup => self.release_soon(now),
            _ => {}
        }
    }

    /// The leader is Active. What this one still waits for before a first claim it waits for.
    pub(super) fn follow_into_active(&mut self, now: Instant) {
        if self.is_led_to_active() && now >= self.not_before {
            self.take_over(now, Because::Led(RouterState::Active));
        }
    }

    /// Whether a Backup is to become Active because its leader is.
    pub(super) fn is_led_to_active(&self) -> bool {
        self.lead
            .is_some_and(|lead| lead.state == RouterState::Active)
    }

    /// When a Backup becomes Active if it hears nothing more.
    pub(super) fn takes_over_at(&self, backup: &Backup) -> Option<Instant> {
        if !self.config.follows {
            let at = backup.down_at.max(self.not_before);
            return Some(backup.check.map_or(at, |check| at.max(check.ends_at)));
        }
        self.is_led_to_active().then_some(self.not_before)
    }

    fn yield_with_leader(&mut self, now: Instant, because: Because) {
        if self.announcing() {
            // As the leader does: a lower advert makes the winner announce again.
            self.send(Some(self.priority()));
        }
        self.disown();
        self.listen(now, None, None, because);
    }

    /// The leader has let go: whoever takes over has announced, or will within an interval.
    fn release_soon(&mut self, now: Instant) {
        let soon = now + self.config.interval.duration();
        if let State::Releasing(releasing) = &mut self.state {
            releasing.release_at = releasing.release_at.min(soon);
        }
    }
}
