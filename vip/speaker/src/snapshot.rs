//! What the speaker knows about a VIP, as a value that readers share.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration, time::SystemTime};

use kedge_core::{
    Instant, Name, Problem,
    vip::{AdvertInterval, Priority, RouterState, Vrid},
};
use kedge_net::Mac;
use kedge_vip_proto::vrrp::{Proof, Tracked, Verdict, Waiting};

use crate::{Chosen, Rejected};

/// One VIP, as its router on this host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VipSnapshot {
    /// Its name.
    pub name: Name,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// What its router is doing.
    pub state: RouterState,
    /// Since when, by the wall clock.
    pub since: SystemTime,
    /// Since when, on the clock of [`kedge_net::clock`].
    pub since_boottime: Instant,
    /// Why.
    pub because: String,
    /// Whether the kernel holds the addresses for us.
    pub held: bool,
    /// The interface, while one fits.
    pub interface: Option<Chosen>,
    /// Why that interface, or why none.
    pub interface_because: String,
    /// The interfaces it is not on.
    pub rejected_interfaces: Vec<Rejected>,
    /// The group it moves together with.
    pub sync_group: Option<Name>,
    /// The VIP of that group that leads it, if it is not itself.
    pub leader: Option<Name>,
    /// The virtual router.
    pub vrid: Vrid,
    /// Where the VRID comes from.
    pub vrid_because: String,
    /// The priority that is or would be advertised.
    pub priority: Priority,
    /// The configured priority.
    pub base_priority: Priority,
    /// Why the two differ, or that they do not.
    pub priority_because: String,
    /// What health says.
    pub verdict: Verdict,
    /// What failed tracks cost.
    pub tracked: Tracked,
    /// The advertisement interval in force: the Active's.
    pub interval: AdvertInterval,
    /// The configured interval.
    pub configured_interval: AdvertInterval,
    /// After how much silence a Backup takes over.
    pub active_down: Duration,
    /// The Active as last heard, if it is not this host.
    pub active: Option<ActivePeer>,
    /// When this host takes over if nothing is heard.
    pub takes_over_at: Option<Instant>,
    /// What it waits for besides.
    pub waiting: Option<Waiting>,
    /// Whether packets for its addresses arrive here.
    pub proof: Proof,
    /// What the operator's orders make of it.
    pub ordered: Ordered,
    /// Other stations seen claiming an address.
    pub duplicates: Vec<Duplicate>,
    /// How long after its last advert the kernel stops this host from answering for it; `None`
    /// while no fence stands.
    pub fence: Option<Duration>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
    /// The last changes of state, newest last.
    pub transitions: Arc<[Transition]>,
    /// Counters by name; `reject_*` are packets that were dropped, by reason.
    pub counters: BTreeMap<String, u64>,
}

impl VipSnapshot {
    /// Whether its adverts go over IPv6: as its first address is.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        self.addresses.first().is_some_and(IpAddr::is_ipv6)
    }

    /// Its addresses with the prefix length of the link they are on, as people read them.
    #[must_use]
    pub fn addresses_with_prefix(&self) -> Vec<String> {
        let text = |address: &IpAddr| match &self.interface {
            Some(chosen) => chosen.with_prefix(*address),
            None => address.to_string(),
        };
        self.addresses.iter().map(text).collect()
    }
}

/// What the operator's orders make of a VIP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ordered {
    /// Nothing but a fault moves it.
    pub frozen: bool,
    /// Frozen, it keeps a priority that would be lower.
    pub pinned: bool,
    /// This host holds it only while nobody else does.
    pub drained: bool,
    /// It was given away by order: `preempt` does not bring it back.
    pub yielded: bool,
}

/// The Active router as this host hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivePeer {
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: Mac,
    /// The priority it advertises.
    pub priority: Priority,
    /// How often it advertises.
    pub interval: AdvertInterval,
    /// When it was heard last, on the clock of [`kedge_net::clock`].
    pub heard_at: Instant,
}

/// Another station that claims an address of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The address.
    pub address: IpAddr,
    /// The station.
    pub mac: Mac,
    /// How often, as far as it was reported.
    pub claims: u32,
    /// When last, by the wall clock.
    pub last: SystemTime,
}

/// A change of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// When, by the wall clock.
    pub at: SystemTime,
    /// When, on the clock of [`kedge_net::clock`].
    pub boottime: Instant,
    /// The state before.
    pub from: RouterState,
    /// The state after.
    pub to: RouterState,
    /// Why.
    pub because: String,
}
