//! TAI64N: the stamps of initiations, by which a replayed one is told.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use kedge_core::Instant;
use serde::{Deserialize, Serialize};

/// A TAI64N stamp: seconds and nanoseconds. Its text is TAI64N's: `@` and 24 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Stamp {
    seconds: u64,
    nanos: u32,
}

/// What must be known of a peer for as long as both have their keys, restarts included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps {
    /// The highest stamp the peer sent. An initiation that is not newer is a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Stamp>,
    /// The highest stamp we sent. The peer refuses whatever is not newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Stamp>,
}

/// Text that is no TAI64N stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stamp is `@` and 24 hexadecimal digits")]
pub struct NoStamp;

/// The wall clock, as how far it is ahead of the clock that only goes on.
#[derive(Debug, Default)]
pub struct Wall(AtomicU64);

impl Stamps {
    /// Takes over what is known from before; nothing goes back.
    pub(crate) fn raise(&mut self, before: Self) {
        self.seen = self.seen.max(before.seen);
        self.sent = self.sent.max(before.sent);
    }
}

impl Stamp {
    /// A stamp from its bytes on the wire.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 12]) -> Self {
        let [a, b, c, d, e, f, g, h, nanos @ ..] = *bytes;
        Self {
            seconds: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            nanos: u32::from_be_bytes(nanos),
        }
    }

    /// The bytes on the wire.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        let (seconds, nanos) = bytes.split_at_mut(8);
        seconds.copy_from_slice(&self.seconds.to_be_bytes());
        nanos.copy_from_slice(&self.nanos.to_be_bytes());
        bytes
    }

    /// The stamp of a wall clock, `unix` after 1970. It is whitened: nobody learns our clock
    /// better than to 17 ms.
    pub(super) fn from_unix(unix: Duration) -> Self {
        Self {
            seconds: BASE.saturating_add(unix.as_secs()),
            nanos: unix.subsec_nanos() & !(STEP - 1),
        }
    }

    /// The next whitened stamp.
    pub(super) fn next(self) -> Self {
        let nanos = (self.nanos & !(STEP - 1)).saturating_add(STEP);
        if nanos < 1_000_000_000 {
            Self { nanos, ..self }
        } else {
            Self {
                seconds: self.seconds.saturating_add(1),
                nanos: 0,
            }
        }
    }
}

impl From<Stamp> for String {
    fn from(stamp: Stamp) -> Self {
        format!("@{:016x}{:08x}", stamp.seconds, stamp.nanos)
    }
}

impl TryFrom<String> for Stamp {
    type Error = NoStamp;

    fn try_from(text: String) -> Result<Self, NoStamp> {
        let digits = text.strip_prefix('@').filter(|digits| digits.len() == 24);
        let (seconds, nanos) = digits
            .and_then(|digits| digits.split_at_checked(16))
            .ok_or(NoStamp)?;
        Ok(Self {
            seconds: u64::from_str_radix(seconds, 16).map_err(|_| NoStamp)?,
            nanos: u32::from_str_radix(nanos, 16).map_err(|_| NoStamp)?,
        })
    }
}

impl Stamps {
    /// The stamp of an initiation that is sent at `unix`: newer than every one before, even if
    /// the clock was set back.
    pub(super) fn stamp(&mut self, unix: Duration) -> Stamp {
        let by_clock = Stamp::from_unix(unix);
        let stamp = self.sent.map_or(by_clock, |sent| by_clock.max(sent.next()));
        self.sent = Some(stamp);
        stamp
    }

    /// Whether an initiation with this stamp is newer than every one before.
    pub(super) fn is_new(&self, stamp: Stamp) -> bool {
        self.seen.is_none_or(|seen| stamp > seen)
    }
}

impl Wall {
    /// A wall clock that stands at `unix` after 1970 while the other one says `now`.
    #[must_use]
    pub fn new(now: Instant, unix: Duration) -> Self {
        let wall = Self::default();
        wall.set(now, unix);
        wall
    }

    pub(super) fn set(&self, now: Instant, unix: Duration) {
        let unix = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
        // Before the other clock's epoch was 1970: it began there.
        self.0
            .store(unix.saturating_sub(now.as_nanos()), Ordering::Relaxed);
    }

    /// Time since 1970.
    pub(super) fn at(&self, now: Instant) -> Duration {
        let ahead = self.0.load(Ordering::Relaxed);
        Duration::from_nanos(ahead.saturating_add(now.as_nanos()))
    }
}

/// TAI64's label of 1970, with the ten seconds that TAI was ahead of UTC then: as in the kernel.
const BASE: u64 = (1 << 62) + 10;

/// Of the nanoseconds only what is worth this much is told.
const STEP: u32 = 1 << 24;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stamp_is_the_kernels() {
        let stamp = Stamp::from_unix(Duration::new(1_700_000_000, 123_456_789));
        let bytes = stamp.to_bytes();
        assert_eq!(
            bytes[..8],
            (0x4000_0000_0000_000a_u64 + 1_700_000_000).to_be_bytes()
        );
        assert_eq!(bytes[8..], (123_456_789_u32 & 0xff00_0000).to_be_bytes());
        assert_eq!(Stamp::from_bytes(&bytes), stamp);
    }

    #[test]
    fn stamps_grow_although_the_clock_stands_or_goes_back() {
        let mut stamps = Stamps::default();
        let mut last = stamps.stamp(Duration::from_secs(1_700_000_000));
        for unix in [1_700_000_000, 1_600_000_000, 0, 1_700_000_000] {
            for _ in 0..200 {
                let stamp = stamps.stamp(Duration::from_secs(unix));
                assert!(stamp > last && stamp.nanos < 1_000_000_000);
                assert_eq!(stamp.nanos % STEP, 0);
                last = stamp;
            }
        }
        assert!(stamps.stamp(Duration::from_secs(1_800_000_000)) > last);
    }

    #[test]
    fn the_wall_goes_on_with_the_other_clock() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let wall = Wall::new(at(100), Duration::from_secs(1_700_000_000));
        assert_eq!(wall.at(at(160)), Duration::from_secs(1_700_000_060));
        wall.set(at(200), Duration::from_secs(5));
        assert_eq!(
            wall.at(at(200)),
            Duration::from_secs(200),
            "a clock before 1970 panics nowhere"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_stamp_and_the_next_one_is_later(bytes: [u8; 12]) {
            let stamp = Stamp::from_bytes(&bytes);
            prop_assert_eq!(stamp.to_bytes(), bytes);
            if stamp.seconds < u64::MAX {
                prop_assert!(stamp.next() > stamp);
            }
        }
    }
}
