//! Which virtual routers speak on a LAN.

use std::net::IpAddr;

use kedge_core::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every VRID that was heard, and what is wrong with them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VridScan {
    /// The interfaces that were listened on.
    pub interfaces: Vec<String>,
    /// For how long.
    pub seconds: f64,
    /// By interface, family and VRID.
    pub items: Vec<VridUse>,
    /// A VRID nobody was heard with, for each interface.
    pub free: std::collections::BTreeMap<String, u8>,
    /// Packets of protocol 112 that were no advertisement, by reason.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub malformed: std::collections::BTreeMap<String, u64>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// One VRID of one family on one interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VridUse {
    /// The interface.
    pub interface: String,
    /// The VRID.
    pub vrid: u8,
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// The VIP of this host with that VRID there; empty when it is none of ours.
    pub ours: String,
    /// Who was heard with it.
    pub routers: Vec<ScannedRouter>,
}

/// A router that was heard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScannedRouter {
    /// Where its adverts come from.
    pub address: IpAddr,
    /// The station that sent them.
    pub mac: String,
    /// The protocol version: 2 or 3.
    pub version: u8,
    /// Its priority; 0 is a goodbye.
    pub priority: u8,
    /// The interval it advertises.
    pub advert_interval_seconds: f64,
    /// The addresses it serves.
    pub addresses: Vec<IpAddr>,
    /// Which checksum it sends: `message`, `pseudoHeader` or `both` when they cannot be told apart.
    pub checksum: String,
    /// `none`, `password` or `signed`; never what it is.
    pub auth: String,
    /// Whether it sends to single hosts instead of the group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unicast: bool,
    /// How many adverts were heard.
    pub adverts: u64,
}
