//! The interfaces of one device: its own, and one for each realm beside it.

use std::{
    collections::BTreeMap,
    io::{self, IoSlice},
    sync::Arc,
};

use kedge_net::tun::Tun;
use kedge_tunnel_proto::realm::Realm;

/// The interfaces of one device, for one worker.
#[derive(Debug)]
pub(crate) struct Tuns {
    pub(crate) own: Tun,
    realms: BTreeMap<Realm, Arc<Tun>>,
}

impl Tuns {
    /// No realm but its own.
    pub(crate) const fn new(own: Tun) -> Self {
        Self {
            own,
            realms: BTreeMap::new(),
        }
    }

    /// Has that interface for a realm, or none. Which one it had.
    pub(crate) fn set(&mut self, realm: Realm, tun: Option<Arc<Tun>>) -> Option<Arc<Tun>> {
        match tun {
            Some(tun) => self.realms.insert(realm, tun),
            None => self.realms.remove(&realm),
        }
    }

    /// The interface of a realm beside its own.
    pub(crate) fn of(&self, realm: Realm) -> Option<&Tun> {
        self.realms.get(&realm).map(Arc::as_ref)
    }

    /// Gives the host a packet of a realm.
    pub(crate) fn write(&self, realm: Option<Realm>, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let Some(realm) = realm else {
            return self.own.write(parts);
        };
        let tun = self.of(realm);
        tun.ok_or(io::ErrorKind::NotFound)?.write(parts)
    }
}
