//! What this host says of the gateway it sends through.

use std::time::SystemTime;

use kedge_tunnel_proto::echo::Claim;

use super::{Tunnel, gateways::Gateways};

impl Tunnel {
    /// Goes on after the claims of an earlier process.
    pub fn resume(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// The epoch of the newest claim, once: it must outlive the process.
    pub fn new_epoch(&mut self) -> Option<u64> {
        std::mem::take(&mut self.epoch_is_new).then_some(self.epoch)
    }

    /// Tells every gateway which one this host sends through, with a greater epoch for each change.
    pub(super) fn say_where(&mut self) {
        let active = self.gateways.as_ref().and_then(Gateways::active);
        let mut peers = self.wish.iter().flat_map(|wish| &wish.peers);
        let gateway = active.and_then(|name| peers.find(|peer| peer.name == name));
        let gateway = gateway.map(|peer| peer.public_key);
        if self.claim.map(|claim| claim.gateway) != gateway {
            // The wall clock carries on where what was written down is lost.
            let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let wall = wall.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
            self.epoch = wall.max(self.epoch + 1);
            self.epoch_is_new = true;
            let epoch = self.epoch;
            self.claim = gateway.map(|gateway| Claim { epoch, gateway });
        }
        for echo in self.echoes.values() {
            echo.client.claim(self.claim);
        }
    }
}
