//! BFD control packets (RFC 5880 section 4.1): 24 bytes in a UDP datagram.

use std::{
    fmt,
    num::{NonZeroU8, NonZeroU32},
    time::Duration,
};

use kedge_core::bfd::SessionState;

/// The length of a packet without authentication.
pub const LEN: usize = 24;
/// The UDP port of sessions between neighbours (RFC 5881 section 4).
pub const PORT: u16 = 3784;
/// The UDP port of sessions over routers (RFC 5883 section 5).
pub const MULTIHOP_PORT: u16 = 4784;
/// The TTL or hop limit of every packet that is sent (RFC 5881 section 5).
pub const TTL: u8 = 255;

/// A session as one of the two sides numbers it: unique on its host, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Discriminator(NonZeroU32);

/// How many packets in a row may be missing: 1 to 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Multiplier(NonZeroU8);

/// A time in whole microseconds, up to 71.6 minutes. As a required interval zero means "send
/// nothing".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval(u32);

/// Why a session changed its state last: 0 to 31.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Diagnostic(u8);

/// A control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Control {
    /// Why the sender changed its state last.
    pub diagnostic: Diagnostic,
    /// The sender's state.
    pub state: SessionState,
    /// The sender waits for an answer to new timers.
    pub poll: bool,
    /// This is that answer.
    pub fin: bool,
    /// The sender's BFD outlives its control plane.
    pub independent: bool,
    /// The sender wants nothing sent while both are up.
    pub demand: bool,
    /// How many of the sender's packets may be missing.
    pub multiplier: Multiplier,
    /// The sender's number of the session.
    pub my: Discriminator,
    /// Ours, as far as the sender knows it.
    pub your: Option<Discriminator>,
    /// The shortest interval at which the sender wants to send.
    pub desired_min_tx: Interval,
    /// The shortest interval at which the sender takes packets; zero: none.
    pub required_min_rx: Interval,
    /// The same for echo packets; zero: none.
    pub required_min_echo_rx: Interval,
}

/// A datagram that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet<'a> {
    /// Its mandatory part.
    pub control: Control,
    /// Its authentication section, not verified.
    pub auth: Option<&'a [u8]>,
}

/// Why a datagram is no control packet (RFC 5880 section 6.8.6); also the label of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Malformed {
    /// Fewer bytes than the packet says it has, or than any has.
    #[error("the packet is shorter than it says")]
    Truncated,
    /// Not version 1.
    #[error("the version of BFD is not 1")]
    Version,
    /// It says that it is shorter than its fields.
    #[error("the length of the packet is less than that of its fields")]
    Length,
    /// A detection multiplier of zero.
    #[error("the detection multiplier is zero")]
    Multiplier,
    /// The multipoint bit.
    #[error("the packet is of a multipoint session")]
    Multipoint,
    /// The sender's discriminator is zero.
    #[error("the sender's discriminator is zero")]
    Discriminator,
}

impl Discriminator {
    /// The number, unless it is zero.
    #[must_use]
    pub const fn new(value: u32) -> Option<Self> {
        match NonZeroU32::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl Multiplier {
    /// Three, as everybody has it.
    pub const DEFAULT: Self = Self(NonZeroU8::MIN.saturating_add(2));

    /// The number, unless it is zero.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        match NonZeroU8::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0.get()
    }
}

impl Interval {
    /// Nothing is wanted.
    pub const ZERO: Self = Self(0);
    /// One second, the shortest interval of a session that is not up (RFC 5880 section 6.8.3).
    pub const SLOW: Self = Self(1_000_000);
    /// What is known of a peer that was not heard (RFC 5880 section 6.8.1).
    pub const LEAST: Self = Self(1);

    /// That many microseconds.
    #[must_use]
    pub const fn from_micros(micros: u32) -> Self {
        Self(micros)
    }

    /// Whole microseconds of a duration; the longest interval for longer ones.
    #[must_use]
    pub fn saturating(duration: Duration) -> Self {
        Self(u32::try_from(duration.as_micros()).unwrap_or(u32::MAX))
    }

    /// As a duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_micros(self.0 as u64)
    }

    /// Whether it is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Diagnostic {
    /// No diagnostic.
    pub const NONE: Self = Self(0);
    /// The control detection time expired.
    pub const EXPIRED: Self = Self(1);
    /// The neighbour signalled that the session is down.
    pub const NEIGHBOR_DOWN: Self = Self(3);
    /// Somebody took it down.
    pub const ADMIN_DOWN: Self = Self(7);

    /// The code, if it fits its five bits.
    #[must_use]
    pub const fn new(code: u8) -> Option<Self> {
        if code < 32 { Some(Self(code)) } else { None }
    }

    /// The code.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Control {
    /// The 24 bytes of a packet without authentication.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let flag = |bit: u8, set: bool| u8::from(set) << bit;
        let flags = flag(5, self.poll)
            | flag(4, self.fin)
            | flag(3, self.independent)
            | flag(1, self.demand);
        let [m0, m1, m2, m3] = self.my.get().to_be_bytes();
        let [y0, y1, y2, y3] = self.your.map_or(0, Discriminator::get).to_be_bytes();
        let [t0, t1, t2, t3] = self.desired_min_tx.0.to_be_bytes();
        let [r0, r1, r2, r3] = self.required_min_rx.0.to_be_bytes();
        let [e0, e1, e2, e3] = self.required_min_echo_rx.0.to_be_bytes();
        [
            VERSION << 5 | self.diagnostic.0,
            code(self.state) << 6 | flags,
            self.multiplier.get(),
            24,
            m0,
            m1,
            m2,
            m3,
            y0,
            y1,
            y2,
            y3,
            t0,
            t1,
            t2,
            t3,
            r0,
            r1,
            r2,
            r3,
            e0,
            e1,
            e2,
            e3,
        ]
    }

    /// Reads the payload of a datagram; what follows the packet's own length is not part of it.
    ///
    /// The checks are those of RFC 5880 section 6.8.6 that need no session, in its order.
    ///
    /// # Errors
    ///
    /// It is to be discarded.
    pub fn parse(bytes: &[u8]) -> Result<Packet<'_>, Malformed> {
        let (header, _) = bytes
            .split_first_chunk::<LEN>()
            .ok_or(Malformed::Truncated)?;
        #[rustfmt::skip]
        let [
            first, second, multiplier, length,
            m0, m1, m2, m3, y0, y1, y2, y3, t0, t1, t2, t3, r0, r1, r2, r3, e0, e1, e2, e3,
        ] = *header;
        if first >> 5 != VERSION {
            return Err(Malformed::Version);
        }
        let set = |bit: u8| second >> bit & 1 == 1;
        let is_sealed = set(2);
        let length = usize::from(length);
        if length < if is_sealed { LEN + AUTH_LEN } else { LEN } {
            return Err(Malformed::Length);
        }
        let whole = bytes.get(..length).ok_or(Malformed::Truncated)?;
        let multiplier = Multiplier::new(multiplier).ok_or(Malformed::Multiplier)?;
        if set(0) {
            return Err(Malformed::Multipoint);
        }
        let my = Discriminator::new(u32::from_be_bytes([m0, m1, m2, m3]));
        let my = my.ok_or(Malformed::Discriminator)?;
        let control = Self {
            diagnostic: Diagnostic(first & 0x1f),
            state: state(second >> 6),
            poll: set(5),
            fin: set(4),
            independent: set(3),
            demand: set(1),
            multiplier,
            my,
            your: Discriminator::new(u32::from_be_bytes([y0, y1, y2, y3])),
            desired_min_tx: Interval(u32::from_be_bytes([t0, t1, t2, t3])),
            required_min_rx: Interval(u32::from_be_bytes([r0, r1, r2, r3])),
            required_min_echo_rx: Interval(u32::from_be_bytes([e0, e1, e2, e3])),
        };
        let auth = whole.get(LEN..).filter(|_| is_sealed);
        Ok(Packet { control, auth })
    }
}

impl Malformed {
    /// The label of its counter.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Version => "version",
            Self::Length => "length",
            Self::Multiplier => "multiplier",
            Self::Multipoint => "multipoint",
            Self::Discriminator => "discriminator",
        }
    }
}

impl fmt::Display for Discriminator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "no diagnostic",
            1 => "control detection time expired",
            2 => "echo function failed",
            3 => "neighbor signaled session down",
            4 => "forwarding plane reset",
            5 => "path down",
            6 => "concatenated path down",
            7 => "administratively down",
            8 => "reverse concatenated path down",
            code => return write!(f, "diagnostic {code}"),
        })
    }
}

const fn code(state: SessionState) -> u8 {
    match state {
        SessionState::AdminDown => 0,
        SessionState::Down => 1,
        SessionState::Init => 2,
        SessionState::Up => 3,
    }
}

/// That of two bits.
const fn state(code: u8) -> SessionState {
    match code {
        0 => SessionState::AdminDown,
        1 => SessionState::Down,
        2 => SessionState::Init,
        _ => SessionState::Up,
    }
}

const VERSION: u8 = 1;
/// The least an authentication section has: its type and its length.
const AUTH_LEN: usize = 2;

#[cfg(test)]
mod tests;
