//! Interfaces of realms beside the device's own: they come and go while it runs.

use std::{num::NonZeroU16, sync::Arc};

use kedge_net::tun::Tun;
use kedge_tunnel_proto::realm::Realm;
use tracing::{debug, warn};

use super::Worker;

impl Worker {
    /// Takes what the host sends in each realm that has something.
    pub(super) fn drain_realms(&mut self) {
        while let Some(realm) = self.busy.pop() {
            let Some(tun) = self.tuns.of(realm) else {
                continue;
            };
            let drained = self.from_host.drain(
                (Some(realm), tun),
                &mut self.shard,
                &mut self.outbox,
                &mut self.network,
                &mut self.post,
            );
            self.hand_over();
            if drained.is_err() {
                // Whoever looks after the device makes another one.
                debug!(realm = realm.number(), "the interface of a realm is gone");
                self.set_realm(realm, None);
            }
        }
    }

    /// Goes on with another interface for a realm, or with none.
    pub(super) fn set_realm(&mut self, realm: Realm, tun: Option<Arc<Tun>>) {
        let coming = tun.clone();
        if let Some(gone) = self.tuns.set(realm, tun)
            && self.number == 0
        {
            self.waiter.remove(&*gone);
        }
        if let Some(tun) = coming
            && self.number == 0
            && let Err(err) = self.waiter.add(&*tun, KEYS + u64::from(realm.number()))
        {
            let error = &err as &dyn std::error::Error;
            warn!(
                realm = realm.number(),
                error, "the interface of a realm cannot be waited for"
            );
        }
    }
}

/// The realm whose interface is waited for under this key.
pub(super) fn of(key: u64) -> Option<Realm> {
    let number = u16::try_from(key.checked_sub(KEYS)?).ok()?;
    NonZeroU16::new(number).map(Realm::new)
}

/// Keys of realms are above all others.
const KEYS: u64 = 1 << 32;
