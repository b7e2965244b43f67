//! BGP neighbours as an agent sees them, and what goes over their sessions.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use kedge_core::{
    Problem,
    bgp::{Asn, Community, ExtendedCommunity, LargeCommunity, RouterId, SessionState},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every BGP neighbour of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BgpNeighborList {
    /// Whose sessions they are.
    pub mode: BgpMode,
    /// With `routeTableOnly` the kernel's table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<u32>,
    /// The autonomous system of this host; absent while it has no neighbour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asn: Option<Asn>,
    /// What this host calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router_id: Option<RouterId>,
    /// The destinations that are told, or stand in the table.
    #[serde(default)]
    pub routes: Vec<String>,
    /// The neighbours, by name.
    pub items: Vec<BgpNeighbor>,
}

/// Who speaks BGP for this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BgpMode {
    /// Nobody: it is not configured.
    #[default]
    Off,
    /// The agent.
    Own,
    /// Another daemon, which takes routes from a table of the kernel.
    RouteTableOnly,
}

/// One neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BgpNeighbor {
    /// Its name.
    pub name: String,
    /// Its address; absent until a router is found on `interface`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The port it is called at.
    pub port: u16,
    /// The interface it is on, where that is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Its autonomous system; absent where any other one is taken and it has not said which it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asn: Option<Asn>,
    /// The autonomous system of this host.
    pub local_asn: Asn,
    /// How many routers may be in between; absent on a link of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multihop: Option<u8>,
    /// Whether what has crossed more routers is dropped.
    pub ttl_security: bool,
    /// Whether segments are signed.
    pub password: bool,
    /// Whether its call is waited for.
    pub passive: bool,
    /// The state of the session.
    pub state: SessionState,
    /// Why it is in that state, as a sentence.
    pub because: String,
    /// Since when, RFC 3339 with microseconds.
    pub since: String,
    /// Seconds in this state.
    pub state_seconds: f64,
    /// This host's end of the connection; absent while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<SocketAddr>,
    /// Its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<SocketAddr>,
    /// What it calls itself, once it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router_id: Option<RouterId>,
    /// After how much silence the session ends: agreed on, or what this host asks for; 0 is never.
    pub hold_seconds: u16,
    /// The kinds of routes that are exchanged, or would be: `ipv4`, `ipv6`.
    pub families: Vec<String>,
    /// The BFD session it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bfd: Option<String>,
    /// How many destinations it is told of.
    pub advertised: usize,
    /// Routes that it announced and took back in this process, and those that count as taken back for a
    /// flaw.
    pub received: BgpReceived,
    /// Messages received.
    pub messages_received: u64,
    /// Messages sent.
    pub messages_sent: u64,
    /// How often the session was established.
    pub established: u64,
    /// How often it was lost.
    pub lost: u64,
    /// The last NOTIFICATION, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification: Option<String>,
    /// Calls and messages that were refused, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, u64>,
    /// What is wrong with it.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

/// What a neighbour announces. Nothing of it is ever installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BgpReceived {
    /// Announcements.
    pub announced: u64,
    /// Withdrawals.
    pub withdrawn: u64,
    /// Announcements that count as withdrawals for a flaw.
    pub refused: u64,
    /// How many destinations stand, where `max_prefixes` has them counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<usize>,
}

/// Routes that neighbours are told of, or that they told of last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BgpRouteList {
    /// By neighbour; received ones the newest first.
    pub items: Vec<BgpRoute>,
}

/// A route on a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BgpRoute {
    /// The neighbour.
    pub neighbor: String,
    /// Where it leads to.
    pub prefix: String,
    /// The VIP whose route it is, of those that are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip: Option<String>,
    /// `announced`, `withdrawn`, or `refused` for a flaw.
    pub what: String,
    /// Where packets to it go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<String>,
    /// The autonomous systems on the way, the nearest first.
    #[serde(default)]
    pub as_path: String,
    /// `igp`, `egp` or `incomplete`.
    #[serde(default)]
    pub origin: String,
    /// MULTI_EXIT_DISC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub med: Option<u32>,
    /// LOCAL_PREF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_pref: Option<u32>,
    /// Communities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub communities: Vec<Community>,
    /// Extended communities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extended_communities: Vec<ExtendedCommunity>,
    /// Large communities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub large_communities: Vec<LargeCommunity>,
    /// Seconds since it was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// The flaw for which it counts as taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flaw: Option<String>,
}

/// Why a destination is told, and to whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BgpExplanation {
    /// The destination.
    pub prefix: String,
    /// The VIP it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip: Option<String>,
    /// Whether this host offers it.
    pub offered: bool,
    /// Why, as a sentence.
    pub because: String,
    /// What each neighbour makes of it.
    pub items: Vec<BgpTold>,
}

/// Whether a neighbour is told of a destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BgpTold {
    /// The neighbour.
    pub neighbor: String,
    /// Whether it is.
    pub told: bool,
    /// Why, as a sentence.
    pub because: String,
}

/// A VIP that every healthy host has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnycastVip {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// `announced`; `leaving`: routers are told that it goes; `withdrawn`: the route is gone and the address
    /// stands for a moment; or `off`.
    pub state: String,
    /// Why, as a sentence.
    pub because: String,
    /// Seconds in this state.
    pub state_seconds: f64,
}
