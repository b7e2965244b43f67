//! What a virtual router knows, as people see it.

use std::{fmt, net::IpAddr};

use kedge_core::{
    Instant,
    vip::{AdvertInterval, Priority, RouterState},
};

use super::{Because, Proof, Tracked, Verdict, Waiting};
use crate::wire::Mac;

/// Another router, by its last advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// The source of its adverts.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: Mac,
    /// The priority it advertised last.
    pub priority: Priority,
    /// The interval it advertised last.
    pub interval: AdvertInterval,
    /// When that was.
    pub heard_at: Instant,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (priority {})", self.address, self.priority)
    }
}

/// A router's own account of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The state.
    pub state: RouterState,
    /// Since when.
    pub since: Instant,
    /// Why.
    pub because: Because,
    /// Whether the kernel holds the addresses for us.
    pub held: bool,
    /// The effective priority.
    pub priority: Priority,
    /// The health gate's verdict.
    pub verdict: Verdict,
    /// What failed tracks cost.
    pub tracked: Tracked,
    /// The Active as last heard, if it is not this router.
    pub active: Option<Peer>,
    /// When a Backup takes over if nothing is heard.
    pub takes_over_at: Option<Instant>,
    /// What a Backup waits for beside the Active's silence.
    pub waiting: Option<Waiting>,
    /// Whether packets for the addresses arrive here.
    pub proof: Proof,
    /// Whether it was given away by order: `preempt` does not bring it back.
    pub yielded: bool,
    /// Whether a frozen Active keeps a priority that would be lower.
    pub pinned: bool,
    /// Whether both checksum forms are being sent.
    pub both_checksums: bool,
    /// Counters.
    pub stats: Stats,
}

/// Counters of a virtual router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// How often it became Active.
    pub became_active: u64,
    /// Adverts sent, each checksum form counted.
    pub adverts_sent: u64,
    /// Adverts accepted.
    pub adverts_received: u64,
    /// Adverts with priority 0 sent.
    pub goodbyes_sent: u64,
    /// Adverts with priority 0 accepted.
    pub goodbyes_received: u64,
    /// Adverts whose address list differs from ours.
    pub address_list_errors: u64,
    /// Adverts whose interval differs from ours.
    pub interval_errors: u64,
    /// Adverts that were not sent to the group, or not by a unicast peer from near enough.
    pub delivery_errors: u64,
    /// Adverts of another protocol version, which are discarded.
    pub version_errors: u64,
    /// Adverts whose password or trailer proves nothing, which are discarded.
    pub auth_errors: u64,
    /// Claims of others to an address that we held.
    pub foreign_claims: u64,
    /// Times this host was too late to stay Active, or to believe in another one's silence.
    pub stalls: u64,
}
