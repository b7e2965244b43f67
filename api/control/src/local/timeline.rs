//! One failover, stamp by stamp, as one host or several saw it.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A failover of one VIP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The host whose records these are; the one whose clock counts where several are merged.
    pub host: String,
    /// The VIP; empty when nothing is recorded.
    pub vip: String,
    /// The addresses the host advertises from.
    pub sources: Vec<IpAddr>,
    /// What the stamps come from and how far they can be trusted, as sentences.
    pub clocks: Vec<String>,
    /// What happened, oldest first.
    pub items: Vec<TimelineItem>,
}

/// One stamp.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimelineItem {
    /// When, RFC 3339 with microseconds, by the clock of the timeline's host.
    pub at: String,
    /// Whose record it is.
    pub host: String,
    /// What it is.
    pub stamp: Stamp,
    /// The other host it is about, by the address it advertises from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<IpAddr>,
    /// The same as a sentence.
    pub text: String,
}

/// What a stamp is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Stamp {
    /// The last advert of the Active before was heard.
    LastHeard,
    /// The first goodbye of the Active before was heard.
    GoodbyeHeard,
    /// The first goodbye was sent.
    GoodbyeSent,
    /// The timer was acted on.
    TimerFired,
    /// The first advert as Active was sent.
    AdvertSent,
    /// The kernel held every address.
    AddressHeld,
    /// The first announcement was sent.
    Announced,
    /// The first advert of another Active was heard.
    AdvertHeard,
    /// The router changed its state.
    State,
    /// Something was ordered.
    Order,
}
