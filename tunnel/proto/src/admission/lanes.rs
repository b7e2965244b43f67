//! The queues, and whose turn it is.

use std::{collections::VecDeque, time::Duration};

use kedge_core::Instant;

use super::Initiation;
use crate::{drops::DropReason, way::Way};

/// Why somebody is served sooner or later; the first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// A peer was last heard from there.
    Known,
    /// A cookie proves the address.
    Proven,
    /// Nothing is known.
    Stranger,
    /// Something has failed before.
    Doubtful,
}

/// An initiation that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) from: Way,
    pub(crate) since: Instant,
    pub(crate) proven: bool,
    pub(crate) initiation: Initiation,
}

/// The queues.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    known: VecDeque<Waiting>,
    proven: VecDeque<Waiting>,
    strangers: VecDeque<Waiting>,
    doubtful: VecDeque<Waiting>,
    turn: u8,
}

impl Waiting {
    pub(super) const fn new(
        since: Instant,
        from: Way,
        proven: bool,
        initiation: &Initiation,
    ) -> Self {
        Self {
            from,
            since,
            proven,
            initiation: *initiation,
        }
    }
}

impl Lane {
    const fn capacity(self) -> usize {
        match self {
            // Every peer of a large gateway at once: 3 MB.
            Self::Known => 16_384,
            // The same of a gateway that has never heard them. Who proved an address and finds no
            // place has to wait for five seconds.
            Self::Proven => 16_384,
            // What can be served before its senders ask again.
            Self::Stranger | Self::Doubtful => 512,
        }
    }
}

impl Lanes {
    /// Puts one at the end of a lane.
    ///
    /// # Errors
    ///
    /// The lane is full.
    pub(super) fn push(&mut self, lane: Lane, waiting: Waiting) -> Result<(), DropReason> {
        let queue = self.queue(lane);
        if queue.len() >= lane.capacity() {
            return Err(DropReason::HandshakeQueueFull);
        }
        queue.push_back(waiting);
        Ok(())
    }

    /// The one whose turn it is: of the first lane that has one, but every eighth time of the last,
    /// so that nobody waits for ever. Whoever has waited so long that they ask again is left out.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Lane, Waiting)> {
        self.turn = (self.turn + 1) % TURNS;
        let mut order = [Lane::Known, Lane::Proven, Lane::Stranger, Lane::Doubtful];
        if self.turn == 0 {
            order.reverse();
        }
        for lane in order {
            let queue = self.queue(lane);
            while let Some(waiting) = queue.pop_front() {
                if now.since(waiting.since) < PATIENCE {
                    return Some((lane, waiting));
                }
            }
            // After a storm: what thousands needed is not kept for the next time.
            if queue.capacity() > SMALL {
                queue.shrink_to(SMALL);
            }
        }
        None
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        [&self.known, &self.proven, &self.strangers, &self.doubtful]
            .into_iter()
            .map(VecDeque::len)
            .sum()
    }

    const fn queue(&mut self, lane: Lane) -> &mut VecDeque<Waiting> {
        match lane {
            Lane::Known => &mut self.known,
            Lane::Proven => &mut self.proven,
            Lane::Stranger => &mut self.strangers,
            Lane::Doubtful => &mut self.doubtful,
        }
    }
}

const TURNS: u8 = 8;

/// REKEY_TIMEOUT: by then the sender has sent another one, which makes this one stale.
const PATIENCE: Duration = Duration::from_secs(5);

/// Places that an empty queue keeps.
const SMALL: usize = 32;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn waiting(number: u16, since: Instant) -> Waiting {
        let from = SocketAddr::from(([192, 0, 2, 1], number));
        Waiting::new(since, from.into(), false, &[0; 148])
    }

    fn ports(lanes: &mut Lanes, now: Instant, many: usize) -> Vec<u16> {
        let popped = std::iter::from_fn(|| lanes.pop(now));
        let ports = popped.map(|(_, waiting)| waiting.from.there.port());
        ports.take(many).collect()
    }

    #[test]
    fn the_better_known_come_first_and_the_last_come_too() {
        let mut lanes = Lanes::default();
        for number in 0..20 {
            for (lane, base) in [
                (Lane::Stranger, 300),
                (Lane::Proven, 200),
                (Lane::Known, 100),
            ] {
                lanes
                    .push(lane, waiting(base + number, Instant::ZERO))
                    .unwrap();
            }
        }
        let order = ports(&mut lanes, Instant::ZERO, 24);
        let expected = (100..107)
            .chain([300])
            .chain(107..114)
            .chain([301])
            .chain(114..120)
            .chain([200, 302]);
        assert_eq!(order, expected.collect::<Vec<u16>>());
    }

    #[test]
    fn a_full_lane_is_full_for_itself_alone() {
        let mut lanes = Lanes::default();
        for number in 0..512 {
            lanes
                .push(Lane::Stranger, waiting(number, Instant::ZERO))
                .unwrap();
        }
        let full = lanes.push(Lane::Stranger, waiting(512, Instant::ZERO));
        assert_eq!(full, Err(DropReason::HandshakeQueueFull));
        assert!(lanes.push(Lane::Proven, waiting(1, Instant::ZERO)).is_ok());
    }

    #[test]
    fn who_asks_again_by_now_is_left_out_and_room_is_given_back() {
        let mut lanes = Lanes::default();
        let late = Instant::ZERO + Duration::from_secs(5);
        for number in 0..1_000 {
            lanes
                .push(Lane::Known, waiting(number, Instant::ZERO))
                .unwrap();
        }
        lanes.push(Lane::Known, waiting(2_000, late)).unwrap();
        assert_eq!(ports(&mut lanes, late, 9), [2_000]);
        assert!(lanes.is_empty());
        assert!(lanes.known.capacity() < 100);
    }
}
