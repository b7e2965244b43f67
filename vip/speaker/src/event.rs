//! What the speaker tells while it runs.

use std::{net::IpAddr, time::SystemTime};

use kedge_core::{
    Instant, Name, Problem,
    vip::{Priority, RouterState},
};

use crate::Takeover;

/// Something happened to a VIP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VipEvent {
    /// Its router changed state on this host.
    State {
        /// The VIP.
        name: Name,
        /// The state before.
        from: RouterState,
        /// The state after.
        to: RouterState,
        /// Why, as a sentence.
        because: String,
        /// When, by the wall clock.
        at: SystemTime,
        /// When, on the clock of [`kedge_net::clock`].
        boottime: Instant,
    },
    /// This host took it over, or was about to.
    TakenOver {
        /// The VIP.
        name: Name,
        /// When what happened.
        takeover: Takeover,
        /// The wall clock at `boottime`.
        at: SystemTime,
        /// When this was told, on the clock of [`kedge_net::clock`].
        boottime: Instant,
    },
    /// The first advert of another Active was heard, or its first goodbye.
    Heard {
        /// The VIP.
        name: Name,
        /// Whose.
        peer: IpAddr,
        /// Whether it said that it leaves.
        goodbye: bool,
        /// When, by the wall clock.
        at: SystemTime,
        /// When, on the clock of [`kedge_net::clock`].
        boottime: Instant,
    },
    /// The priority it advertises changed.
    Priority {
        /// The VIP.
        name: Name,
        /// The priority before.
        from: Priority,
        /// The priority after.
        to: Priority,
        /// Why, as a sentence.
        because: String,
    },
    /// Its router asks for a fresh probe of this host's service, because the Active is unhealthy;
    /// answered by [`Speaker::probed`](crate::Speaker::probed).
    ProbeNow(Name),
    /// Something is wrong with it, or on its LAN.
    Problem {
        /// The VIP.
        name: Name,
        /// What.
        problem: Problem,
    },
}
