//! One take-over, stamp by stamp.

use std::{net::IpAddr, time::Duration};

use kedge_core::Instant;

/// What the host that became Active saw of it, on the clock of [`kedge_net::clock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takeover {
    /// The Active before, and when its last advert was heard.
    pub before: Option<(IpAddr, Instant)>,
    /// When its goodbye was heard, if it said one.
    pub goodbye: Option<Instant>,
    /// The advertisement interval in force.
    pub interval: Duration,
    /// The nominal `Active_Down_Interval`: three intervals and the skew.
    pub down: Duration,
    /// When the timer was due.
    pub due: Instant,
    /// When it was acted on.
    pub fired: Instant,
    /// When the first advert left.
    pub advertised: Option<Instant>,
    /// When the kernel held all addresses.
    pub held: Option<Instant>,
    /// When the first announcement left; `None` when the VIP was given up before.
    pub announced: Option<Instant>,
}
