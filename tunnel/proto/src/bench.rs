//! What both ends of a bench say to each other, over TCP inside the tunnel, and what the end that answers
//! allows.
//!
//! ```text
//!  asks                                            answers
//!   "KDGB" 1 direction  seconds u16  mbps u32  ─►
//!                                              ◄─  "KDGB" 1 verdict  seconds u16  mbps u32
//!   data until the seconds are over, or its own ─► up
//!                                              ◄─  down, likewise
//!   end of stream                              ─►  up only
//!                                              ◄─  bytes u64  microseconds u64
//! ```
//! Big-endian. Nobody asks for more than it is granted, and whoever answers keeps to that by itself.

use std::time::Duration;

use kedge_core::Instant;

/// Which way the data goes, seen from whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the peer.
    Up,
    /// From the peer.
    Down,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which way.
    pub direction: Direction,
    /// For how long.
    pub seconds: u16,
    /// How fast at most; 0 is as fast as the other end allows.
    pub mbps: u32,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on, within these.
    Granted {
        /// For how long.
        seconds: u16,
        /// How fast at most.
        mbps: u32,
    },
    /// There is one already, or there were too many: again after so many seconds.
    Later {
        /// That long.
        seconds: u16,
    },
}

/// What came of it, as the end that received has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Bytes.
    pub bytes: u64,
    /// From the first to the last of them.
    pub time: Duration,
}

/// Bytes that are no message of a bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not what an end of a bench says")]
pub struct Foreign;

/// What whoever answers allows, so that nobody is kept busy: one bench at a time, and benches for no more
/// than half of the time.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    busy: bool,
    /// When what was granted is paid back.
    clear_at: Instant,
}

/// How far somebody may be who keeps to a rate.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    mbps: u32,
}

impl Request {
    /// Bytes in a message.
    pub const LENGTH: usize = 12;

    /// The bytes.
    #[must_use]
    pub fn emit(self) -> [u8; Self::LENGTH] {
        let direction = match self.direction {
            Direction::Up => 0,
            Direction::Down => 1,
        };
        message(direction, self.seconds, self.mbps)
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// It is none, or of another version.
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Result<Self, Foreign> {
        let (word, seconds, mbps) = fields(bytes)?;
        let direction = match word {
            0 => Direction::Up,
            1 => Direction::Down,
            _ => return Err(Foreign),
        };
        Ok(Self {
            direction,
            seconds,
            mbps,
        })
    }
}

impl Verdict {
    /// Bytes in a message.
    pub const LENGTH: usize = 12;

    /// The bytes.
    #[must_use]
    pub fn emit(self) -> [u8; Self::LENGTH] {
        match self {
            Self::Granted { seconds, mbps } => message(0, seconds, mbps),
            Self::Later { seconds } => message(1, seconds, 0),
        }
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// It is none, or of another version.
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Result<Self, Foreign> {
        match fields(bytes)? {
            (0, seconds, mbps) => Ok(Self::Granted { seconds, mbps }),
            (1, seconds, _) => Ok(Self::Later { seconds }),
            _ => Err(Foreign),
        }
    }
}

impl Tally {
    /// Bytes in a message.
    pub const LENGTH: usize = 16;

    /// The bytes.
    #[must_use]
    pub fn emit(self) -> [u8; Self::LENGTH] {
        let micros = u64::try_from(self.time.as_micros()).unwrap_or(u64::MAX);
        let mut bytes = [0; Self::LENGTH];
        let (first, last) = bytes.split_at_mut(8);
        first.copy_from_slice(&self.bytes.to_be_bytes());
        last.copy_from_slice(&micros.to_be_bytes());
        bytes
    }

    /// Reads one.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Self {
        let [a, b, c, d, e, f, g, h, micros @ ..] = *bytes;
        Self {
            bytes: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            time: Duration::from_micros(u64::from_be_bytes(micros)),
        }
    }
}

impl Gate {
    /// Decides about a request. Whoever is granted one calls [`ended`](Self::ended) at its end.
    pub fn ask(&mut self, now: Instant, request: Request, limit_mbps: u32) -> Verdict {
        let seconds = request.seconds.clamp(1, LONGEST);
        let open = self.clear_at.since(now);
        if self.busy || open > CREDIT {
            let wait = open.saturating_sub(CREDIT).as_secs().max(1);
            let seconds = u16::try_from(wait).unwrap_or(u16::MAX);
            return Verdict::Later { seconds };
        }
        self.busy = true;
        // Half of the time belongs to everybody else.
        self.clear_at = self.clear_at.max(now) + Duration::from_secs(u64::from(seconds) * 2);
        let mbps = match request.mbps {
            0 => limit_mbps,
            wanted => wanted.min(limit_mbps),
        };
        Verdict::Granted { seconds, mbps }
    }

    /// Notes that it is over.
    pub fn ended(&mut self) {
        self.busy = false;
    }
}

impl Pace {
    /// That of so many megabits a second.
    #[must_use]
    pub fn new(mbps: u32) -> Self {
        Self { mbps: mbps.max(1) }
    }

    /// When so many bytes may have gone, counted from the beginning.
    #[must_use]
    pub fn due(self, bytes: u64) -> Duration {
        let micros = u128::from(bytes) * 8 / u128::from(self.mbps);
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// How many bytes to pass at once, so that it is even: ten milliseconds' worth.
    #[must_use]
    pub fn chunk(self) -> usize {
        let bytes = usize::try_from(self.mbps).unwrap_or(usize::MAX);
        bytes.saturating_mul(1_250).min(LARGEST_CHUNK)
    }
}

fn message(word: u8, seconds: u16, mbps: u32) -> [u8; 12] {
    let [s, t] = seconds.to_be_bytes();
    let [a, b, c, d] = mbps.to_be_bytes();
    let [k, e, g, h] = *MAGIC;
    [k, e, g, h, VERSION, word, s, t, a, b, c, d]
}

fn fields(bytes: &[u8; 12]) -> Result<(u8, u16, u32), Foreign> {
    let [magic @ .., version, word, s, t, a, b, c, d] = *bytes;
    if magic != *MAGIC || version != VERSION {
        return Err(Foreign);
    }
    let (seconds, mbps) = (u16::from_be_bytes([s, t]), u32::from_be_bytes([a, b, c, d]));
    Ok((word, seconds, mbps))
}

const MAGIC: &[u8; 4] = b"KDGB";
const VERSION: u8 = 1;

/// The TCP port, that of the echo.
pub const PORT: u16 = crate::echo::PORT;

/// The longest bench, in seconds.
pub const LONGEST: u16 = 30;

/// What may be owed before the next one waits: two of the longest, one each way, or many short ones.
const CREDIT: Duration = Duration::from_secs(60);

const LARGEST_CHUNK: usize = 256 * 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(1_000 + seconds)
    }

    fn request(seconds: u16, mbps: u32) -> Request {
        Request {
            direction: Direction::Down,
            seconds,
            mbps,
        }
    }

    #[test]
    fn messages_are_read_as_they_were_written_and_nothing_else_is() {
        for direction in [Direction::Up, Direction::Down] {
            let request = Request {
                direction,
                ..request(10, 70_000)
            };
            assert_eq!(Request::parse(&request.emit()), Ok(request));
        }
        let granted = Verdict::Granted {
            seconds: 30,
            mbps: 1_000,
        };
        for verdict in [granted, Verdict::Later { seconds: 9 }] {
            assert_eq!(Verdict::parse(&verdict.emit()), Ok(verdict));
        }
        let tally = Tally {
            bytes: 1 << 40,
            time: Duration::from_micros(1_234_567),
        };
        assert_eq!(Tally::parse(&tally.emit()), tally);
        for at in 0..6 {
            let mut bytes = granted.emit();
            bytes[at] ^= 0x80;
            assert_eq!(Verdict::parse(&bytes), Err(Foreign), "byte {at}");
            assert_eq!(Request::parse(&bytes), Err(Foreign), "byte {at}");
        }
    }

    #[test]
    fn there_is_one_at_a_time_no_longer_and_no_faster_than_is_allowed() {
        let mut gate = Gate::default();
        let granted = Verdict::Granted {
            seconds: LONGEST,
            mbps: 100,
        };
        assert_eq!(gate.ask(at(0), request(3_600, 0), 100), granted);
        assert_eq!(
            gate.ask(at(0), request(1, 0), 100),
            Verdict::Later { seconds: 1 }
        );
        gate.ended();
        assert_eq!(gate.ask(at(0), request(3_600, 5_000), 100), granted);
        gate.ended();
        let slower = Verdict::Granted {
            seconds: 1,
            mbps: 7,
        };
        assert_eq!(gate.ask(at(200), request(0, 7), 100), slower);
    }

    #[test]
    fn benches_have_half_of_the_time_at_most() {
        let mut gate = Gate::default();
        let mut granted = 0;
        for second in 0..3_600 {
            if let Verdict::Granted { seconds, .. } = gate.ask(at(second), request(30, 0), 100) {
                granted += u64::from(seconds);
                gate.ended();
            }
        }
        assert!((1_700..=1_890).contains(&granted), "{granted} s of an hour");
    }

    #[test]
    fn a_pace_is_what_its_rate_says() {
        assert_eq!(Pace::new(8).due(1_000_000), Duration::from_secs(1));
        assert_eq!(Pace::new(0).due(125_000), Duration::from_secs(1));
        assert_eq!(Pace::new(1).chunk(), 1_250);
        assert_eq!(Pace::new(100_000).chunk(), LARGEST_CHUNK);
    }
}
