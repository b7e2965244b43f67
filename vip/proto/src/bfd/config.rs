//! What a session is told.

use crate::wire::bfd::{Interval, Multiplier, TTL};

/// The lowest TTL or hop limit a packet may arrive with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MinTtl(u8);

impl MinTtl {
    /// 255: from the same link (RFC 5881 section 5).
    pub const NEIGHBOR: Self = Self(TTL);

    /// For a peer behind routers (RFC 5883).
    #[must_use]
    pub const fn multihop(least: u8) -> Self {
        Self(least)
    }

    /// Whether a packet with this TTL is accepted.
    #[must_use]
    pub const fn accepts(self, ttl: u8) -> bool {
        ttl >= self.0
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// How a session runs. Every change is allowed at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The shortest interval at which to send, more than zero. While not up it is at least
    /// [`Interval::SLOW`].
    pub desired_min_tx: Interval,
    /// The shortest interval at which to take packets, more than zero.
    pub required_min_rx: Interval,
    /// How many of our packets may be missing before the peer calls us lost.
    pub multiplier: Multiplier,
    /// Whether to wait for the peer to speak first.
    pub passive: bool,
    /// Whether the session is kept in AdminDown.
    pub shutdown: bool,
    /// What packets must have.
    pub min_ttl: MinTtl,
}

impl Config {
    /// 300 ms both ways, three times, between neighbours.
    pub const DEFAULT: Self = Self {
        desired_min_tx: Interval::from_micros(300_000),
        required_min_rx: Interval::from_micros(300_000),
        multiplier: Multiplier::DEFAULT,
        passive: false,
        shutdown: false,
        min_ttl: MinTtl::NEIGHBOR,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}
