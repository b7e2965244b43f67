//! A client of the VIP: whom it would send to.

use kedge_core::Instant;
use kedge_vip_proto::wire::Mac;

use crate::frame::{self, vip};

/// A station that only keeps a neighbour cache.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Where it believes the VIP to be.
    pub cache: Option<Mac>,
    /// Since when.
    pub since: Instant,
}

impl Client {
    /// Believes every claim, as ARP and advertisements with the override flag have it.
    pub fn hear(&mut self, now: Instant, bytes: &[u8]) {
        let Some(claim) = frame::read_neighbor(bytes).and_then(|packet| packet.claim()) else {
            return;
        };
        let is_vip = [false, true].map(vip).contains(&claim.address);
        if is_vip && self.cache != Some(claim.mac) {
            self.cache = Some(claim.mac);
            self.since = now;
        }
    }
}
