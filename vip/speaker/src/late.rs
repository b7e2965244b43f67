//! Changes of state that did not fit a queue.
//!
//! An event that does not fit is lost, but not what state a VIP is in: the last change of each is
//! kept, and delivered when there is room. It takes the place of an earlier one that waits.

use std::collections::BTreeMap;

use kedge_core::Name;

use crate::VipEvent;

/// The last change of state of each VIP that its reader has not got yet.
#[derive(Debug, Default)]
pub(crate) struct Late(BTreeMap<Name, VipEvent>);

impl Late {
    /// Delivers an event after what is late, and keeps it if it is a change of state that does not
    /// fit. Returns how many events are lost by that. `deliver` gives back what does not fit.
    pub(crate) fn offer(
        &mut self,
        event: VipEvent,
        mut deliver: impl FnMut(VipEvent) -> Result<(), VipEvent>,
    ) -> u64 {
        self.catch_up(&mut deliver);
        // Behind what waits for room there is none for this either.
        let refused = if self.is_empty() {
            deliver(event)
        } else {
            Err(event)
        };
        let Err(event) = refused else { return 0 };
        let VipEvent::State { name, .. } = &event else {
            return 1;
        };
        u64::from(self.0.insert(name.clone(), event).is_some())
    }

    /// Delivers what is late, as far as there is room.
    pub(crate) fn catch_up(&mut self, mut deliver: impl FnMut(VipEvent) -> Result<(), VipEvent>) {
        while let Some((name, event)) = self.0.pop_first() {
            if let Err(event) = deliver(event) {
                self.0.insert(name, event);
                return;
            }
        }
    }

    /// Whether nothing is late.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
