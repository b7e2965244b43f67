//! When a stream is read. One that brings much is read once much has come: whoever is woken for each packet
//! spends more on waking than on carrying.
//!
//! The kernel gathers (`SO_RCVLOWAT`), and is told to when a stream has brought a lot in a short time. What has
//! come when a stream pauses waits for [`PATIENCE`], once: then the stream is read byte by byte again, and
//! has to bring twice as much before it is trusted to go on.

use std::{
    io,
    time::{Duration, Instant},
};

use kedge_net::splice;
use tokio::{io::Interest, net::TcpStream, time::timeout};

/// When one direction of a connection is read.
#[derive(Debug)]
pub(crate) struct Gather {
    pace: Pace,
    /// Whether the kernel gathers.
    on: bool,
}

/// How fast it came lately. No I/O.
#[derive(Debug)]
struct Pace {
    /// Bytes since `since`.
    brought: usize,
    since: Instant,
    /// After how many of them they are looked at.
    enough: usize,
}

impl Gather {
    pub fn new() -> Self {
        Self {
            pace: Pace::new(Instant::now()),
            on: false,
        }
    }

    /// Waits until `from` has enough, has ended or has paused.
    pub async fn readable(&mut self, from: &TcpStream) -> io::Result<()> {
        if self.on {
            if let Ok(ready) = timeout(PATIENCE, from.readable()).await {
                return ready;
            }
            self.on = false;
            self.pace.pause(Instant::now());
            // What is there is told at once.
            splice::gather(from, 1)?;
        }
        from.readable().await
    }

    /// Reads once. A gathered stream that brought less than is worth it is waited for again: what has come since
    /// is a packet or two.
    pub fn read(
        &self,
        from: &TcpStream,
        read: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut brought = None;
        let outcome = from.try_io(Interest::READABLE, || {
            let bytes = read()?;
            if self.on && (1..MUCH).contains(&bytes) {
                // So that it counts as empty from before it was read; whatever was told meanwhile stays told.
                brought = Some(bytes);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(bytes)
        });
        brought.map_or(outcome, Ok)
    }

    /// So much was read.
    pub fn brought(&mut self, bytes: usize, from: &TcpStream) -> io::Result<()> {
        if self.pace.brought(bytes, Instant::now) && !self.on {
            splice::gather(from, MUCH)?;
            self.on = true;
        }
        Ok(())
    }
}

impl Pace {
    const fn new(now: Instant) -> Self {
        Self {
            brought: 0,
            since: now,
            enough: ENOUGH,
        }
    }

    /// Whether it is worth to gather. The clock is asked when enough has come.
    fn brought(&mut self, bytes: usize, now: impl FnOnce() -> Instant) -> bool {
        self.brought = self.brought.saturating_add(bytes);
        if self.brought < self.enough {
            return false;
        }
        let now = now();
        let took = now.saturating_duration_since(self.since);
        let within = SHORT.saturating_mul(u32::try_from(self.enough / ENOUGH).unwrap_or(u32::MAX));
        (self.brought, self.since) = (0, now);
        took < within
    }

    /// It has paused while it was gathered.
    fn pause(&mut self, now: Instant) {
        (self.brought, self.since) = (0, now);
        self.enough = self.enough.saturating_mul(2).min(MOST);
    }
}

/// What the kernel gathers.
const MUCH: usize = 128 * 1024;
/// How long what has come may wait. It would take less at the slowest pace that is gathered.
const PATIENCE: Duration = Duration::from_millis(2);
/// Half a gigabit a second: so much in so short a time.
const ENOUGH: usize = 1024 * 1024;
const SHORT: Duration = Duration::from_millis(16);
/// Beyond this a stream that pauses again and again loses nothing that could be measured.
const MOST: usize = 256 * ENOUGH;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn a_fast_stream_is_gathered_and_a_slow_one_is_not() {
        let start = Instant::now();
        let at = |millis| move || start + Duration::from_millis(millis);
        let mut pace = Pace::new(start);
        assert!(!pace.brought(MIB - 1, || start));
        assert!(pace.brought(1, at(15)));
        assert!(!pace.brought(MIB, at(31)), "too slow");
        assert!(pace.brought(MIB, at(46)));
    }

    #[test]
    fn one_that_pauses_has_to_bring_twice_as_much_each_time() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for doubled in 1..=8 {
            pace.pause(start);
            let enough = MIB << doubled;
            assert!(!pace.brought(enough - 1, || start));
            assert!(pace.brought(1, || start + Duration::from_millis(16 * (1 << doubled) - 1)));
        }
        pace.pause(start);
        assert_eq!(pace.enough, MOST);
    }
}
