//! Packets that wait for a handshake.

use std::collections::VecDeque;

use crate::drops::DropReason;

/// Packets of one peer that wait, oldest first. Few, because what waits long is useless.
#[derive(Debug, Default)]
pub(crate) struct Backlog(Option<Box<Waiting>>);

/// Made for the first packet that waits: for most peers there is none.
#[derive(Debug, Default)]
struct Waiting(VecDeque<Vec<u8>>);

/// Bytes that may wait for all peers of a worker together.
#[derive(Debug)]
pub(crate) struct Budget(usize);

impl Budget {
    pub(crate) const fn new() -> Self {
        Self(TOTAL)
    }
}

impl Backlog {
    /// Adds a packet; the oldest goes when there are too many.
    pub(crate) fn push(&mut self, budget: &mut Budget, packet: &[u8]) -> Result<(), DropReason> {
        let evicted = if self.len() >= PACKETS {
            self.pop(budget)
        } else {
            None
        };
        let Some(left) = budget.0.checked_sub(packet.len()) else {
            return Err(DropReason::BacklogFull);
        };
        budget.0 = left;
        let waiting = self.0.get_or_insert_default();
        waiting.0.push_back(packet.to_vec());
        if evicted.is_some() {
            Err(DropReason::BacklogFull)
        } else {
            Ok(())
        }
    }

    /// Takes the oldest.
    pub(crate) fn pop(&mut self, budget: &mut Budget) -> Option<Vec<u8>> {
        let packet = self.0.as_mut()?.0.pop_front()?;
        budget.0 += packet.len();
        Some(packet)
    }

    /// Throws all away and says how many there were.
    pub(crate) fn clear(&mut self, budget: &mut Budget) -> u64 {
        let mut count = 0;
        while self.pop(budget).is_some() {
            count += 1;
        }
        count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |waiting| waiting.0.len())
    }
}

/// Packets that may wait for one peer.
const PACKETS: usize = 16;

/// 16 packets of a jumbo MTU for some 30 peers, or of the usual MTU for 180.
const TOTAL: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seventeenth_packet_pushes_the_first_out() {
        let (mut backlog, mut budget) = (Backlog::default(), Budget::new());
        for number in 0..16 {
            assert_eq!(backlog.push(&mut budget, &[number]), Ok(()));
        }
        assert_eq!(
            backlog.push(&mut budget, &[16]),
            Err(DropReason::BacklogFull)
        );
        assert_eq!(backlog.pop(&mut budget), Some(vec![1]));
        assert_eq!(backlog.clear(&mut budget), 15);
        assert_eq!(budget.0, TOTAL);
    }

    #[test]
    fn all_peers_together_have_a_limit() {
        let (mut first, mut second) = (Backlog::default(), Backlog::default());
        let mut budget = Budget(2_000);
        assert_eq!(first.push(&mut budget, &[0; 1_500]), Ok(()));
        assert_eq!(
            second.push(&mut budget, &[0; 1_500]),
            Err(DropReason::BacklogFull)
        );
        assert!(second.is_empty());
        assert_eq!(first.clear(&mut budget), 1);
        assert_eq!(second.push(&mut budget, &[0; 1_500]), Ok(()));
    }
}
