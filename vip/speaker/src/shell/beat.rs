//! The beat of a host that holds VIPs and has nothing else to do: an advert for each, ten times a second.
//!
//! After a tenth of a second nothing of this thread is in the processor's caches any more. What a wake-up
//! costs is how many places it looks at, and most of what a thread of VIPs looks after does not change from
//! one advert to the next. So when that is due is remembered, and a wake-up for adverts looks at routers.

use kedge_core::{Instant, Machine, vip::RouterState};
use kedge_vip_proto::vrrp::Output;

use super::{Shell, estate::Heirs, instance::Instance, interface::Interface};

/// When there is more to do than adverts, unless something comes in before.
#[derive(Debug)]
pub(super) struct Lull {
    /// When something must be done.
    due_at: Instant,
    /// From when on it may be, by one who is awake.
    over_at: Instant,
    /// When each router is due.
    routers: Vec<Instant>,
}

impl Default for Lull {
    fn default() -> Self {
        Self {
            due_at: Instant::ZERO,
            over_at: Instant::ZERO,
            routers: Vec::new(),
        }
    }
}

impl Shell {
    /// When something is due, after anything may have happened.
    pub(super) fn next_deadline(&mut self) -> Option<Instant> {
        let asking = self.interfaces.values().filter_map(Interface::ask_at);
        let riders = self.instances.iter().filter_map(Instance::riders_at);
        let leaving = self.leaving.as_ref().map(|leaving| leaving.deadline);
        let postponed = self.postponed.as_ref().map(|postponed| postponed.until);
        let heirs = self.heirs.as_ref().map(Heirs::until);
        let others = [
            self.retry_at,
            self.catch_up_at,
            leaving,
            postponed,
            heirs,
            self.keeps_until,
        ];
        let others = asking.chain(riders).chain(others.into_iter().flatten());
        let others = others.min().unwrap_or(Instant::FAR);
        let renewal = self.owned.poll_timeout().unwrap_or(Instant::FAR);
        let welcome = self.owned.welcome_at().unwrap_or(Instant::FAR);
        self.lull.due_at = others.min(renewal);
        // Whoever leaves looks each time whether it has left.
        self.lull.over_at = match leaving {
            Some(_) => Instant::ZERO,
            None => others.min(welcome),
        };
        self.next_beat()
    }

    /// The same after a [`beat`](Self::beat).
    pub(super) fn next_beat(&mut self) -> Option<Instant> {
        let due_at = |it: &Instance| it.router.poll_timeout().unwrap_or(Instant::FAR);
        let routers = &mut self.lull.routers;
        routers.clear();
        routers.extend(self.instances.iter().map(due_at));
        routers
            .iter()
            .copied()
            .min()
            .into_iter()
            .chain([self.lull.due_at])
            .min()
    }

    /// Does what is due, given that nothing came in; whether that was adverts and nothing else. Otherwise
    /// everything is to be looked at as ever: what was done is not done again.
    pub(super) fn beat(&mut self, now: Instant) -> bool {
        if now >= self.lull.over_at {
            return false;
        }
        for index in 0..self.instances.len() {
            if self.lull.routers.get(index).is_some_and(|due| now < *due) {
                continue;
            }
            let Some(instance) = self.instances.get_mut(index) else {
                break;
            };
            if instance.router.state() != RouterState::Active {
                return false;
            }
            instance.router.handle_timeout(now);
            let next = |it: &mut Instance| it.router.poll_output();
            while let Some(output) = self.instances.get_mut(index).and_then(next) {
                let Output::Send(transmit) = output else {
                    self.execute(now, index, output);
                    self.settle(now);
                    return false;
                };
                self.send(index, &transmit);
            }
        }
        true
    }
}
