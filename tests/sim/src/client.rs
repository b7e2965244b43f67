//! A client of the VIP: whom it would send to.

use kedge_core::Instant;
use kedge_vip_proto::wire::{Mac, arp};

use crate::frame::{self, VIP};

/// A station that only keeps an ARP cache.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Where it believes the VIP to be.
    pub cache: Option<Mac>,
    /// Since when.
    pub since: Instant,
}

impl Client {
    /// Believes every claim, as ARP does.
    pub fn hear(&mut self, now: Instant, bytes: &[u8]) {
        let Some((_, _, arp::ETHERTYPE, payload)) = frame::split(bytes) else {
            return;
        };
        let Ok(packet) = arp::Packet::parse(payload) else {
            return;
        };
        if packet.sender == VIP && self.cache != Some(packet.sender_mac) {
            self.cache = Some(packet.sender_mac);
            self.since = now;
        }
    }
}
