//! Packets whose length is what they are sent for.

use kedge_core::Instant;

use super::{Message, Peer};
use crate::{backlog::Budget, counters::State};

impl Peer {
    /// Seals a packet as it is, without padding, if there is a session to send it with: it never waits,
    /// since whoever sends it later would not know that it must not be cut.
    pub(crate) fn send_whole(
        &mut self,
        now: Instant,
        (slot, length): (&mut [u8], usize),
        budget: &mut Budget,
        scratch: &mut [u8],
    ) -> Option<Message> {
        self.refresh(now, budget, scratch);
        if self.state != State::Connected {
            return None;
        }
        self.send(now, (slot, length), 0, budget, scratch).ok()?
    }
}
