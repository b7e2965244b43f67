//! The links of virtual hardware addresses: up while their router is Active, there while it is
//! configured.

use kedge_net::monitor::Link;

use super::{Part, Shell};
use crate::{reporter::Report, virtual_links::Door};

impl Shell {
    /// Sets the links of a VIP up, before anything leaves by them.
    pub(super) fn raise(&mut self, index: usize) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        if instance.raised {
            return;
        }
        instance.raised = true;
        for ifindex in instance.own_links().each() {
            if let Err(error) = self.doors.raise(ifindex) {
                instance.raised = false;
                self.outbox
                    .say(Report::Trouble(kedge_core::Coded::problem(&error)));
            }
        }
    }

    /// Sets those links up again that somebody else set down.
    pub(super) fn raise_again(&mut self) {
        let raised = self.instances.iter().filter(|one| one.raised);
        let is_down = |ifindex: &u32| self.monitor.link(*ifindex).is_some_and(|link| !link.up);
        let links = raised.flat_map(|one| one.own_links().each());
        for ifindex in links.filter(is_down).collect::<Vec<_>>() {
            if let Err(error) = self.doors.raise(ifindex) {
                self.outbox
                    .say(Report::Trouble(kedge_core::Coded::problem(&error)));
            }
        }
    }

    /// Sets the links of a VIP down, once nothing stands on them.
    pub(super) fn lower(&mut self, index: usize) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        if !std::mem::take(&mut instance.raised) {
            return;
        }
        for ifindex in instance.own_links().each() {
            if let Some(door) = self.doors.lower(ifindex) {
                self.close(door);
            }
        }
    }

    /// Sets those links down that an earlier process left up, and that nobody has taken over.
    pub(super) fn lower_leftovers(&mut self) {
        let raised = self.instances.iter().filter(|one| one.raised);
        let raised: Vec<u32> = raised.flat_map(|one| one.own_links().each()).collect();
        let is_left = |link: &&Link| link.is_virtual() && link.up && !raised.contains(&link.index);
        let left = self.monitor.links().filter(is_left);
        for ifindex in left.map(|link| link.index).collect::<Vec<_>>() {
            if let Err(error) = self.doors.lower_now(ifindex) {
                self.outbox
                    .say(Report::Trouble(kedge_core::Coded::problem(&error)));
            }
        }
    }

    /// Removes the links of ours that no VIP has any more, and those of a process that died. A
    /// guardian leaves them to the next agent.
    pub(super) fn remove_unused_links(&mut self) {
        if !self.applied || self.heirs.is_some() || matches!(self.part, Part::Guardian(_)) {
            return;
        }
        let used = self.instances.iter();
        let used: Vec<u32> = used.flat_map(|one| one.own_links().each()).collect();
        for door in self.doors.remove_others(&used, &self.monitor) {
            self.close(door);
        }
    }

    /// On the thread that may take its time, if there is one.
    fn close(&mut self, door: std::sync::Arc<Door>) {
        let left = match &self.fences {
            Some(fences) => fences.lower(door).err(),
            None => Some(door),
        };
        if let Some(door) = left
            && let Err(error) = self.doors.work(&door)
        {
            self.outbox
                .say(Report::Trouble(kedge_core::Coded::problem(&error)));
        }
    }
}
