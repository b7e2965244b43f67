//! What the guardian is told.

use std::time::Duration;

use kedge_core::Instant;

use super::{Part, Shell, instance::Instance};
use crate::guardian::{Said, Slot, Ward};

impl Shell {
    /// Whether another agent has started since, which makes a guardian's work void.
    pub(super) fn is_overtaken(&self) -> bool {
        match &self.part {
            Part::Agent(_) => false,
            Part::Guardian(page) => page.is_overtaken(),
        }
    }

    /// Gives every VIP its place on the page, before it can advertise: an advert that finds none is
    /// not noted there, and until the next one nobody would know that the VIP is held.
    pub(super) fn give_slots(&mut self) {
        if !matches!(self.part, Part::Agent(Some(_))) {
            return;
        }
        while let Some(new) = self.instances.iter().position(|it| it.slot.is_none()) {
            let taken = self.instances.iter().filter_map(|it| it.slot);
            let Some(slot) = Slot::free(taken) else { break };
            if let Some(new) = self.instances.get_mut(new) {
                new.slot = Some(slot);
            }
        }
    }

    /// Tells the guardian what is new about the VIPs; whether it was told everything.
    pub(super) fn tell_guardian(&mut self, now: Instant) -> bool {
        let Part::Agent(Some(guardian)) = &mut self.part else {
            return false;
        };
        for instance in &self.instances {
            if let (Some(slot), Some(router)) = (instance.slot, instance.id()) {
                guardian.page().identify(slot, router);
            }
        }
        let wards = self.instances.iter().filter_map(ward).collect();
        let interfaces: Vec<_> = self.interfaces.values().map(|it| it.shared()).collect();
        let told = guardian.tell(&interfaces, wards);
        if !told {
            self.retry_at = Some(now + TELL_AGAIN);
        }
        told
    }

    /// Leaves everything as it is for the agent that takes the place of this one; whether there is a
    /// guardian who keeps it meanwhile. Nothing may leave after that.
    pub(super) fn stand_aside(&mut self, now: Instant) -> bool {
        if self.leaving.is_some() || !self.tell_guardian(now) {
            return false;
        }
        let Part::Agent(Some(guardian)) = &mut self.part else {
            return false;
        };
        guardian.keep(now + KEPT)
    }
}

fn ward(instance: &Instance) -> Option<Ward> {
    let chosen = instance.place.as_ref().ok()?;
    let view = instance.router.view();
    let said = Said {
        priority: view.priority,
        interval: instance.router.config().interval,
        both_checksums: view.both_checksums,
    };
    let spec = instance.lacking.without_in(&instance.spec);
    Some(Ward::new(instance.slot?, &spec, chosen, said))
}

/// When a guardian that takes nothing is told again.
const TELL_AGAIN: Duration = Duration::from_millis(100);
/// How long a guardian keeps VIPs for an agent that is on its way: it is there in a second, or does
/// not come.
const KEPT: Duration = Duration::from_secs(5);
