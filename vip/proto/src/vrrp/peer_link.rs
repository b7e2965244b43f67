//! What the hosts of a VIP tell each other beside adverts: that a process ended, and who is the next.

use std::{net::IpAddr, time::Duration};

use kedge_core::Instant;

use super::{
    router::Router,
    state::{Cause, State},
};

impl Router {
    /// The process of the Active ended, says its broken connection. It proves less than a goodbye: the
    /// next advert is waited for, and one that comes puts everything back.
    pub(super) fn on_peer_gone(&mut self, now: Instant, address: IpAddr) {
        let followed = self.active.filter(|peer| peer.address == address);
        let skew = self.skew();
        let (Some(peer), State::Backup(backup)) = (followed, &mut self.state) else {
            return;
        };
        let at = now + peer.interval.duration() + skew;
        if at < backup.down_at {
            backup.down_at = at;
            backup.cause = Cause::Gone;
        }
    }

    /// The Active will give the VIP to this host.
    pub(super) fn be_next(&mut self, now: Instant) {
        if let State::Backup(backup) = &mut self.state {
            backup.next_until = Some(now + SUCCESSION);
        }
    }
}

/// How long a host that is to be the next waits for the goodbye.
pub const SUCCESSION: Duration = Duration::from_secs(2);
