//! When it is believed of a peer that its clock went back.

use std::time::Duration;

use kedge_core::Instant;

use super::Peer;

/// Initiations of a peer that were refused in a row, since they are older than one before.
#[derive(Debug, Default)]
pub(super) struct Stale {
    /// A part of the last one, which no other one has.
    last: [u8; 8],
    at: Option<Instant>,
    many: u8,
}

impl Peer {
    /// Notes that an initiation was refused, since it is older than one before. Whether that is one too
    /// many: who replays a recording has one, and a peer makes each of them anew.
    pub(crate) fn was_stale(&mut self, now: Instant, initiation: &[u8]) -> bool {
        let Some(part) = initiation.get(EPHEMERAL..).and_then(<[u8]>::first_chunk) else {
            return false;
        };
        self.rare_mut().stale.note(now, *part)
    }

    /// Notes that one was answered.
    pub(crate) fn was_fresh(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.stale = Stale::default();
        }
    }
}

impl Stale {
    fn note(&mut self, now: Instant, part: [u8; 8]) -> bool {
        let in_a_row = self.at.is_some_and(|at| now.since(at) < PAUSE);
        if in_a_row && part == self.last {
            return false;
        }
        let many = if in_a_row { self.many + 1 } else { 1 };
        if many >= MOST {
            *self = Self::default();
            return true;
        }
        (self.last, self.at, self.many) = (part, Some(now), many);
        false
    }
}

/// Where the key stands in an initiation that is made for it alone.
const EPHEMERAL: usize = 8;
/// So many are refused.
const MOST: u8 = 3;
/// Longer ago says nothing. A peer asks each five seconds.
const PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn three_different_ones_in_a_row_are_too_many() {
        let mut stale = Stale::default();
        let noted = [1, 1, 2, 2, 3, 4, 5, 6].map(|part| stale.note(at(1), [part; 8]));
        let expected = [false, false, false, false, true, false, false, true];
        assert_eq!(noted, expected);
    }

    #[test]
    fn what_is_a_minute_old_does_not_count() {
        let mut stale = Stale::default();
        for minute in 0..9_u8 {
            let now = at(u64::from(minute) * 60);
            assert!(!stale.note(now, [minute; 8]), "{minute}");
        }
        assert!(!stale.note(at(500), [10; 8]));
        assert!(stale.note(at(520), [11; 8]));
    }
}
