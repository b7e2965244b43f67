//! The difference between what runs and what is wanted.

use std::{sync::Arc, time::Duration};

use kedge_core::{Coded, Instant, Name, vip::RouterState};
use kedge_vip_proto::vrrp::{Command as Order, Config, Input};
use tokio::sync::oneshot;

use super::{
    Leaving, Shell,
    instance::{Instance, Next},
    riders::Lacking,
};
use crate::VipSpec;

impl Shell {
    /// Makes `desired` the whole set. What did not change notices nothing (R17).
    pub(super) fn apply(&mut self, now: Instant, desired: &Arc<Vec<VipSpec>>) {
        if self.leaving.is_some() || self.must_wait(now, desired) {
            return;
        }
        self.refused.clear();
        for index in 0..self.instances.len() {
            let wanted = self.instances.get(index).is_some_and(|instance| {
                let named = |wanted: &&VipSpec| wanted.name == instance.spec.name;
                desired
                    .iter()
                    .find(named)
                    .is_some_and(|wanted| wanted.check().is_ok())
            });
            if !wanted {
                self.end(now, index, Next::Nothing);
            }
        }
        for (index, wanted) in desired.iter().enumerate() {
            let earlier = desired.iter().take(index);
            // Names come from a map; of two with one name the first counts.
            if earlier
                .into_iter()
                .any(|earlier| earlier.name == wanted.name)
            {
                continue;
            }
            match wanted.config(self.settings.link_up_wait) {
                Err(error) => self.refused.push((wanted.clone(), error.problem())),
                Ok(config) => {
                    let config = self.paced(wanted, config);
                    self.want(now, wanted, config);
                }
            }
        }
        self.early.clear();
        self.take_estate(now);
        self.applied = true;
        self.place_all(now);
    }

    fn want(&mut self, now: Instant, wanted: &VipSpec, config: Config) {
        let Some(index) = self.position(&wanted.name) else {
            if let Some(mut new) = Instance::new(now, wanted.clone(), config) {
                let early = self.early.remove(&wanted.name).unwrap_or_default();
                (new.tracks, new.health) = (early.tracks, early.health);
                self.instances.push(new);
            }
            return;
        };
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        if instance.next.is_none() && instance.spec == *wanted {
            return;
        }
        if instance.next.is_none() && instance.spec.is_same_router(wanted) {
            instance.spec = wanted.clone();
            instance.slower = None;
            // Everything is asked for anew.
            instance.lacking = Lacking::default();
            instance.led_by = instance.led_by.take().filter(|_| wanted.follows);
            let untracked = !wanted.tracked && instance.tracks.take().is_some();
            self.give(now, index, Input::Config(config));
            if untracked {
                let burden = self.burden(index);
                self.give(now, index, Input::Tracked(burden.tracked));
            }
            self.start(now, index);
            if let Some(instance) = self.instances.get_mut(index) {
                instance.reseal();
            }
        } else {
            self.end(now, index, Next::Replacement(Box::new(wanted.clone())));
        }
    }

    /// Lets a VIP leave, gracefully and once: a second order would cut the hand-over short.
    pub(super) fn end(&mut self, now: Instant, index: usize, next: Next) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        if instance.next.replace(next).is_none() {
            self.give(now, index, Input::Command(Order::Stop));
        }
    }

    /// Ends what has left, and starts what takes its place.
    pub(super) fn succeed(&mut self, now: Instant) {
        let over = |instance: &Instance| {
            instance.next.is_some() && instance.router.state() == RouterState::Initialize
        };
        if !self.instances.iter().any(over) {
            return;
        }
        let (gone, stay): (Vec<_>, Vec<_>) = self.instances.drain(..).partition(over);
        self.instances = stay;
        for old in gone {
            if let Some(Next::Replacement(spec)) = old.next
                && let Ok(config) = spec.config(self.settings.link_up_wait)
                && let config = self.paced(&spec, config)
                && let Some(mut new) = Instance::new(now, *spec, config)
            {
                new.health = old.health;
                new.tracks = old.tracks.filter(|_| new.spec.tracked);
                self.instances.push(new);
            }
        }
        self.place_all(now);
    }

    /// Lets every VIP leave and the thread end.
    pub(super) fn leave(
        &mut self,
        now: Instant,
        timeout: Duration,
        done: Option<oneshot::Sender<()>>,
    ) {
        let deadline = now + timeout;
        let leaving = self.leaving.get_or_insert(Leaving {
            deadline,
            done: Vec::new(),
        });
        leaving.deadline = leaving.deadline.min(deadline);
        leaving.done.extend(done);
        for index in 0..self.instances.len() {
            self.end(now, index, Next::Nothing);
        }
    }

    /// Whether everything has left. What has not when the time is up is cut short.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        let Some(leaving) = &self.leaving else {
            return false;
        };
        if leaving.deadline <= now {
            for index in 0..self.instances.len() {
                // The first turns a hand-over into a leave, the second ends the wait.
                self.give(now, index, Input::Command(Order::Stop));
                self.give(now, index, Input::Command(Order::Stop));
            }
        }
        self.succeed(now);
        self.instances.is_empty()
    }

    pub(super) fn position(&self, name: &Name) -> Option<usize> {
        self.instances
            .iter()
            .position(|instance| instance.spec.name == *name)
    }
}
