//! What readers see.
//!
//! A change of state is published at once. What happens all the time is written down when somebody
//! looks: it is much of the work of a thread that sends ten packets a second, and nearly always nobody
//! does.

use std::time::Duration;

use kedge_core::Instant;

use super::{Shell, instance};
use crate::speaker::OLD;

impl Shell {
    /// Publishes what readers should see, and to whoever rang the bell what has grown old.
    pub(super) fn tell(&mut self, now: Instant, rung: bool) {
        let grown_old = rung && now.since(self.published_at) >= OLD;
        let is_late = self.catch_up_at.is_some_and(|due| due <= now);
        if self.news || grown_old || is_late {
            self.publish(now);
        }
    }

    pub(super) fn publish(&mut self, now: Instant) {
        self.news = false;
        self.catch_up_at = (!self.outbox.catch_up()).then_some(now + CATCH_UP);
        self.published_at = now;
        for interface in self.interfaces.values_mut() {
            interface.count_lost();
        }
        let refused = self
            .refused
            .iter()
            .map(|(spec, problem)| instance::snapshot_of_refused(spec, problem));
        let paces: Vec<_> = self
            .instances
            .iter()
            .map(|it| self.pace_problem(&it.spec))
            .collect();
        let mut all: Vec<_> = self
            .instances
            .iter_mut()
            .zip(paces)
            .map(|(instance, pace)| {
                let interface = instance
                    .ifindex()
                    .and_then(|index| self.interfaces.get(&index));
                let mut snapshot = instance.snapshot(now, interface);
                snapshot.problems.extend(pace);
                snapshot
            })
            .chain(refused)
            .collect();
        for snapshot in &mut all {
            self.tell_fence(snapshot);
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        self.shared.publish(all, now);
        for reader in self.readers.drain(..) {
            // Whoever asked may have left.
            let _ = reader.send(());
        }
    }
}

/// When an outbox that had no room is tried again.
const CATCH_UP: Duration = Duration::from_secs(1);
