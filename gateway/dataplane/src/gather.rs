//! When a stream is read. One that brings much is read once much has come: whoever is woken for each packet
//! spends more on waking than on carrying.
//!
//! The kernel gathers (`SO_RCVLOWAT`), and is told to when a stream has brought a lot in a short time: as much as
//! it then brings in half of [`PATIENCE`]. What has come when a stream pauses waits for all of that, once: then
//! the stream is read byte by byte again, and has to bring twice as much before it is trusted to go on.

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
    /// What the kernel gathers, in bytes; one if it does not.
    much: usize,
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
            much: 1,
        }
    }

    /// Waits until `from` has enough, has ended or has paused.
    pub async fn readable(&mut self, from: &TcpStream) -> io::Result<()> {
        if self.much > 1 {
            if let Ok(ready) = timeout(PATIENCE, from.readable()).await {
                return ready;
            }
            self.pace.pause(Instant::now());
            // What is there is told at once.
            self.gather(1, from)?;
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
            if (1..self.much).contains(&bytes) {
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
        match self.pace.brought(bytes, Instant::now) {
            Some(much) if much != self.much => self.gather(much, from),
            _ => Ok(()),
        }
    }

    fn gather(&mut self, much: usize, from: &TcpStream) -> io::Result<()> {
        splice::gather(from, much)?;
        self.much = much;
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

    /// How much is to be gathered, which is one of a stream that is too slow for it. `None` until enough has come:
    /// then the clock is asked.
    fn brought(&mut self, bytes: usize, now: impl FnOnce() -> Instant) -> Option<usize> {
        self.brought = self.brought.saturating_add(bytes);
        if self.brought < self.enough {
            return None;
        }
        let now = now();
        let took = now.saturating_duration_since(self.since);
        let brought = u64::try_from(self.brought).unwrap_or(u64::MAX);
        (self.brought, self.since) = (0, now);
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let soon = brought.saturating_mul(SOON) / took;
        let soon = usize::try_from(soon).unwrap_or(usize::MAX);
        Some(if soon < LEAST {
            1
        } else {
            1 << soon.min(LARGEST).ilog2()
        })
    }

    /// It has paused while it was gathered.
    fn pause(&mut self, now: Instant) {
        (self.brought, self.since) = (0, now);
        self.enough = self.enough.saturating_mul(2).min(MOST);
    }
}

/// How long what has come may wait.
const PATIENCE: Duration = Duration::from_millis(2);
/// Half of it, in microseconds.
const SOON: u64 = 1000;
/// What is worth to be gathered: one that brings less in [`SOON`] is slower than half a gigabit a second.
const LEAST: usize = 64 * 1024;
/// What half of a large pipe takes.
const LARGEST: usize = splice::LARGE / 2;
/// How much a stream brings before its pace is looked at.
const ENOUGH: usize = 1024 * 1024;
/// Beyond this a stream that pauses again and again loses nothing that could be measured.
const MOST: usize = 256 * ENOUGH;

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;
    const MIB: usize = 1024 * KIB;

    #[test]
    fn so_much_is_gathered_as_comes_in_a_millisecond() {
        let start = Instant::now();
        let at = |millis| move || start + Duration::from_millis(millis);
        let mut pace = Pace::new(start);
        assert_eq!(pace.brought(MIB - 1, || start), None);
        assert_eq!(pace.brought(1, at(16)), Some(64 * KIB));
        assert_eq!(pace.brought(MIB, at(33)), Some(1), "too slow");
        assert_eq!(pace.brought(MIB, at(38)), Some(128 * KIB), "of 210");
        assert_eq!(pace.brought(MIB, at(38)), Some(512 * KIB), "at most");
    }

    #[test]
    fn one_that_pauses_has_to_bring_twice_as_much_each_time() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for doubled in 1..=8 {
            pace.pause(start);
            let enough = MIB << doubled;
            assert_eq!(pace.brought(enough - 1, || start), None);
            let later = start + Duration::from_millis(16 * (1 << doubled));
            assert_eq!(pace.brought(1, || later), Some(64 * KIB));
        }
        pace.pause(start);
        assert_eq!(pace.enough, MOST);
    }
}
