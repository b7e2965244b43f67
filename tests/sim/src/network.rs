//! A LAN that loses, delays, reorders, damages and partitions.

use std::time::Duration;

use kedge_core::Instant;

use crate::{frame::Frame, random::Random};

/// What the LAN does to frames.
#[derive(Clone, Debug)]
pub struct Network {
    /// `blocked[from][to]`.
    blocked: Vec<Vec<bool>>,
    /// Whether hearing is mutual and transitive.
    clean: bool,
    /// Loss in percent.
    pub loss: u64,
    /// Damaged frames in percent.
    pub damage: u64,
    /// The shortest way.
    pub fastest: Duration,
    /// The longest way; frames overtake each other when it differs.
    pub slowest: Duration,
}

impl Network {
    /// A LAN of `stations` without faults.
    #[must_use]
    pub fn new(stations: usize, fastest: Duration, slowest: Duration) -> Self {
        let blocked = vec![vec![false; stations]; stations];
        Self {
            blocked,
            clean: true,
            loss: 0,
            damage: 0,
            fastest,
            slowest,
        }
    }

    /// Carries `frame`; when it arrives, if it does.
    pub fn carry(
        &self,
        random: &mut Random,
        now: Instant,
        from: usize,
        to: usize,
        frame: &mut Frame,
    ) -> Option<Instant> {
        if self.blocked[from][to] || (self.loss > 0 && random.chance(self.loss)) {
            return None;
        }
        if self.damage > 0 && random.chance(self.damage) {
            let bit = random.index((frame.len() - 14) * 8);
            frame[14 + bit / 8] ^= 1 << (bit % 8);
        }
        Some(now + random.between(self.fastest, self.slowest))
    }

    /// Splits the LAN: only stations of the same side hear each other.
    pub fn partition(&mut self, side: impl Fn(usize) -> bool) {
        for from in 0..self.blocked.len() {
            for to in 0..self.blocked.len() {
                self.blocked[from][to] = side(from) != side(to);
            }
        }
        self.clean = true;
    }

    /// `to` no longer hears `from`.
    pub fn block(&mut self, from: usize, to: usize) {
        self.blocked[from][to] = true;
        self.clean = false;
    }

    /// Ends every fault.
    pub fn heal(&mut self) {
        self.loss = 0;
        self.damage = 0;
        self.partition(|_| true);
    }

    /// Whether both hear each other.
    #[must_use]
    pub fn connects(&self, one: usize, other: usize) -> bool {
        !self.blocked[one][other] && !self.blocked[other][one]
    }

    /// Whether nothing is lost or damaged and hearing is mutual and transitive, so that
    /// everybody's part of the LAN is one clean segment.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.clean && self.loss == 0 && self.damage == 0
    }
}
