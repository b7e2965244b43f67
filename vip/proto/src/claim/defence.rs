//! How often a claim is answered.

use std::time::Duration;

use kedge_core::Instant;

use crate::wire::Mac;

/// A bucket of answers to foreign claims: five at least 1 ms apart heal a race, then one a
/// second, then one per ten seconds against a claimer that answered three of ours.
///
/// Two routers that cannot hear each other must not flip every cache ten times a second
/// (RFC 5227 section 2.4 allows one defence per ten seconds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defence {
    tokens: u8,
    refilled: Instant,
    answered: Option<Instant>,
    claimer: Option<Mac>,
    claims: u32,
    replies: u32,
    seen: Instant,
}

impl Defence {
    /// A full bucket and no dispute.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            tokens: TOKENS,
            refilled: Instant::ZERO,
            answered: None,
            claimer: None,
            claims: 0,
            replies: 0,
            seen: Instant::ZERO,
        }
    }

    /// Counts a claim of `mac`.
    pub fn claimed(&mut self, now: Instant, mac: Mac) {
        if self.claimer != Some(mac) || now.since(self.seen) >= FORGET {
            *self = Self {
                tokens: self.tokens,
                refilled: self.refilled,
                ..Self::new()
            };
            self.claimer = Some(mac);
        }
        self.seen = now;
        self.claims = self.claims.saturating_add(1);
        if self.answered.is_some_and(|at| now.since(at) < REPLY) {
            self.replies = self.replies.saturating_add(1);
        }
    }

    /// Whether one more answer may leave now; if so it is counted as sent.
    pub fn take(&mut self, now: Instant) -> bool {
        let refill = self.refill();
        while self.tokens < TOKENS && now.since(self.refilled) >= refill {
            self.tokens += 1;
            self.refilled += refill;
        }
        if self.tokens == TOKENS {
            self.refilled = now;
        }
        let spaced = self.answered.is_none_or(|at| now.since(at) >= SPACING);
        if self.tokens == 0 || !spaced {
            return false;
        }
        self.tokens -= 1;
        self.answered = Some(now);
        true
    }

    /// When the next answer may leave.
    #[must_use]
    pub fn ready_at(&self) -> Instant {
        let spaced = self.answered.map_or(Instant::ZERO, |at| at + SPACING);
        if self.tokens > 0 {
            spaced
        } else {
            spaced.max(self.refilled + self.refill())
        }
    }

    fn refill(&self) -> Duration {
        if self.is_persistent() {
            SLOW_REFILL
        } else {
            REFILL
        }
    }

    /// How many claims the present claimer made.
    #[must_use]
    pub const fn claims(&self) -> u32 {
        self.claims
    }

    /// Whether the claimer goes on although three answers were sent.
    #[must_use]
    pub const fn is_persistent(&self) -> bool {
        self.replies >= PERSISTENT
    }
}

impl Default for Defence {
    fn default() -> Self {
        Self::new()
    }
}

const TOKENS: u8 = 5;
const SPACING: Duration = Duration::from_millis(1);
const REFILL: Duration = Duration::from_secs(1);
const SLOW_REFILL: Duration = Duration::from_secs(10);
/// A claim that follows an answer within this time is a reply to it.
const REPLY: Duration = Duration::from_secs(1);
const PERSISTENT: u32 = 3;
/// A dispute is over when nothing was claimed for this long.
const FORGET: Duration = Duration::from_secs(60);
