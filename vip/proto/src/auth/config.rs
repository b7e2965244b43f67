//! How adverts are signed and what is asked of those that arrive.

use kedge_core::vip::{AdvertInterval, OutOfRange};

use super::Keys;

/// The signing of one virtual router's adverts. A router without keys has none of this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The keys.
    pub keys: Keys,
    /// How far the members have come on the way to signed adverts.
    pub mode: Mode,
    /// What makes an advert fresh.
    pub anti_replay: AntiReplay,
}

impl Config {
    /// What routers whose members are all Kedge start with: nothing unsigned is accepted, and
    /// [`AntiReplay::MONOTONIC`] decides what is fresh.
    #[must_use]
    pub const fn new(keys: Keys) -> Self {
        Self {
            keys,
            mode: Mode::Enforce,
            anti_replay: AntiReplay::MONOTONIC,
        }
    }
}

/// A step on the way from bare adverts to signed ones.
///
/// Nobody loses an advert when every member finishes a step before one begins the next. A member
/// that signs while another does not expect it is not heard by that one: two Actives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Sends bare adverts; a trailer that arrives must be right.
    ReceiveOnly,
    /// Sends signed adverts and accepts bare ones.
    Permissive,
    /// Sends signed adverts and accepts nothing else.
    Enforce,
}

impl Mode {
    /// Whether adverts leave with a trailer.
    #[must_use]
    pub const fn signs(self) -> bool {
        match self {
            Self::ReceiveOnly => false,
            Self::Permissive | Self::Enforce => true,
        }
    }

    /// Whether an advert without a trailer is accepted.
    #[must_use]
    pub const fn accepts_bare(self) -> bool {
        match self {
            Self::ReceiveOnly | Self::Permissive => true,
            Self::Enforce => false,
        }
    }
}

/// What makes an advert fresh. Under both a sender's sequence must grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AntiReplay {
    /// The sender's clock and ours differ by no more than the window. It needs no state, and a
    /// member whose clock is wrong is not heard and hears nobody.
    Time {
        /// The largest difference.
        window: Window,
    },
    /// The sequence alone, across restarts of the sender too: clocks may be wrong by years.
    Monotonic {
        /// The window for a sender of which no mark is known. Without one any advert it ever
        /// signed is accepted as its first, which is what keepalived does.
        first_contact: Option<Window>,
    },
}

impl AntiReplay {
    /// Monotonic, with a window for the first contact.
    ///
    /// The window is twice the time by which a sender may be ahead of its clock after a restart
    /// (see [`Signer::wants_mark`](super::Signer::wants_mark)).
    pub const MONOTONIC: Self = Self::Monotonic {
        first_contact: Some(Window(120)),
    };

    /// By time, with the default window of a router that advertises every `interval`.
    #[must_use]
    pub fn time(interval: AdvertInterval) -> Self {
        Self::Time {
            window: Window::of(interval),
        }
    }
}

/// A difference between two clocks, 1 to 300 seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window(u16);

impl Window {
    /// A window of `seconds`.
    ///
    /// # Errors
    ///
    /// Zero, or more than 300.
    pub const fn new(seconds: u16) -> Result<Self, OutOfRange> {
        if seconds == 0 || seconds > 300 {
            let value = seconds as i64;
            Err(OutOfRange {
                what: "time window",
                allowed: "1 to 300 seconds",
                value,
            })
        } else {
            Ok(Self(seconds))
        }
    }

    /// The default of a router that advertises every `interval`: three intervals, rounded up,
    /// and at least 5 seconds.
    #[must_use]
    pub fn of(interval: AdvertInterval) -> Self {
        Self((interval.centis() * 3).div_ceil(100).max(5))
    }

    /// The window in seconds.
    #[must_use]
    pub const fn seconds(self) -> u16 {
        self.0
    }

    /// Whether clocks that differ by `skew` seconds, in either direction, are within the window.
    pub(super) fn holds(self, skew: i32) -> bool {
        skew.unsigned_abs() <= u32::from(self.0)
    }

    /// Whether `skew` seconds are more than half of the window: worth a warning.
    pub(super) fn is_half_used(self, skew: i32) -> bool {
        skew.unsigned_abs() > u32::from(self.0 / 2)
    }
}
