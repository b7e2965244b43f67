//! The 64-bit sequence of signed adverts, which is a reading of the wall clock.

use std::time::Duration;

/// A reading of the wall clock and a place in a sender's sequence, both in one:
///
/// ```text
/// seconds(32, UTC since 1970, wraps in 2106) | fraction(16, 1/65536 s) | counter(16)
/// ```
///
/// There is no order among all stamps: RFC 1982 arithmetic tells which of two comes later when
/// they lie less than 68 years apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp(u64);

impl Stamp {
    /// The stamp of the time `since_epoch` after 1970-01-01 00:00 UTC, with the counter at zero.
    #[must_use]
    pub fn from_unix(since_epoch: Duration) -> Self {
        let fraction = (u64::from(since_epoch.subsec_nanos()) << 16) / 1_000_000_000;
        // The shift drops what the 32 bits of the field cannot hold: they wrap.
        Self((since_epoch.as_secs() << 32) | (fraction << 16))
    }

    /// The stamp with these bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits, seconds first.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether this stamp comes after `other` (RFC 1982 section 3.2 with 64 bits).
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() > 0
    }

    /// Whole seconds from `other` to this stamp, negative when it comes before; the fields wrap.
    #[must_use]
    pub const fn seconds_since(self, other: Self) -> i32 {
        self.seconds().wrapping_sub(other.seconds()).cast_signed()
    }

    /// The stamp that follows: a full counter carries into the time.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// The stamp `seconds` later.
    #[must_use]
    pub const fn plus_seconds(self, seconds: u32) -> Self {
        Self(self.0.wrapping_add((seconds as u64) << 32))
    }

    /// The stamp `seconds` earlier.
    #[must_use]
    pub const fn minus_seconds(self, seconds: u32) -> Self {
        Self(self.0.wrapping_sub((seconds as u64) << 32))
    }

    /// The later of the two.
    #[must_use]
    pub const fn later(self, other: Self) -> Self {
        if other.is_after(self) { other } else { self }
    }

    const fn seconds(self) -> u32 {
        (self.0 >> 32) as u32
    }
}
