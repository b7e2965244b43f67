//! Interfaces of realms beside the device's own, each in a network namespace of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use ipnet::IpNet;
use kedge_net::{
    netns::Enclosure,
    tun::{Interface, InterfaceError, Lead, Tun},
};
use kedge_tunnel_proto::realm::Realm;
use tracing::info;

use super::{Control, Inner};
use crate::{
    error::{ApplyError, OpenError},
    worker::Command,
};

/// The interface of a realm.
pub(super) struct Inside {
    path: PathBuf,
    interface: Interface,
    /// It was taken away.
    lost: bool,
}

impl Inner {
    /// Has an interface in each of these namespaces. One that is refused keeps no other from its own; the
    /// first refusal is told.
    pub(super) fn open_realms(&self, wanted: &BTreeMap<Realm, PathBuf>) -> Result<(), ApplyError> {
        let mut outcome = Ok(());
        for (realm, path) in wanted {
            let mut control = self.control();
            let inside = control.realms.get(realm);
            if inside.is_some_and(|inside| inside.path == *path && !inside.lost) {
                continue;
            }
            let (ifname, mtu) = (control.interface.name(), control.interface.mtu());
            match self.enter(ifname, mtu, path) {
                Ok((tun, inside)) => {
                    info!(realm = realm.number(), path = %path.display(), "realm of the tunnel open");
                    control.realms.insert(*realm, inside);
                    let tun = Some(Arc::new(tun));
                    self.crew.tell_all(|| Command::Realm(*realm, tun.clone()))?;
                }
                Err(error) => outcome = outcome.and(Err(ApplyError::Realm(Box::new(error)))),
            }
        }
        outcome
    }

    /// Leaves the others.
    pub(super) fn close_realms(&self, wanted: &BTreeMap<Realm, PathBuf>) -> Result<(), ApplyError> {
        let mut control = self.control();
        let known: BTreeSet<Realm> = control.realms.keys().copied().collect();
        for realm in known.iter().filter(|realm| !wanted.contains_key(realm)) {
            control.realms.remove(realm);
            info!(realm = realm.number(), "realm of the tunnel closed");
            self.crew.tell_all(|| Command::Realm(*realm, None))?;
        }
        Ok(())
    }

    fn enter(
        &self,
        ifname: &str,
        mtu: u16,
        path: &std::path::Path,
    ) -> Result<(Tun, Inside), OpenError> {
        let enclosure = Enclosure::open(path, ifname)?;
        let opened = enclosure.run(|| {
            let tun = Tun::open_lasting(ifname)?;
            let interface = Interface::set_up(&tun, mtu)?;
            Ok::<_, OpenError>((tun, interface))
        });
        let (tun, mut interface) = opened.map_err(|error| OpenError::Enclosure(error.into()))??;
        self.shared.offload.join(&tun, &mut interface);
        let inside = Inside {
            path: path.to_owned(),
            interface,
            lost: false,
        };
        Ok((tun, inside))
    }
}

impl Control {
    /// The device's addresses, in every realm.
    pub(super) fn address_realms(&mut self, addresses: &[IpNet]) -> Result<usize, ApplyError> {
        self.each_realm(|_, interface| interface.set_addresses(addresses))
    }

    /// Routes of each realm's peers into its interface.
    pub(super) fn lead_realms(&mut self) -> Result<usize, ApplyError> {
        let mut leads = self.leads_of_realms();
        self.each_realm(|realm, interface| {
            interface.set_leads(&leads.remove(&realm).unwrap_or_default())
        })
    }

    /// All interfaces have that MTU; whether one had another.
    pub(super) fn set_mtu(&mut self, mtu: u16) -> Result<bool, ApplyError> {
        let own = self.interface.set_mtu(mtu)?;
        let others = self.each_realm(|_, interface| interface.set_mtu(mtu).map(usize::from))?;
        Ok(own || others > 0)
    }

    /// Does this to the interface of each realm that is there, and sums up. One that refuses keeps no other from
    /// its own; the first refusal is told.
    fn each_realm(
        &mut self,
        mut job: impl FnMut(Realm, &mut Interface) -> Result<usize, InterfaceError>,
    ) -> Result<usize, ApplyError> {
        let mut outcome: Result<usize, ApplyError> = Ok(0);
        for (realm, inside) in self.realms.iter_mut().filter(|(_, it)| !it.lost) {
            match job(*realm, &mut inside.interface) {
                Ok(changes) => outcome = outcome.map(|sum| sum + changes),
                Err(error) => outcome = outcome.and(Err(error.into())),
            }
        }
        outcome
    }

    /// Whether somebody else changed one.
    pub(super) fn are_realms_strayed(&mut self) -> bool {
        let mut leads = self.leads_of_realms();
        let mut strayed = false;
        for (realm, inside) in &mut self.realms {
            let leads = leads.remove(realm).unwrap_or_default();
            match inside.interface.has(&self.addresses, &leads) {
                Ok(stands) => strayed |= !stands,
                Err(error) if error.is_gone() => (inside.lost, strayed) = (true, true),
                Err(_) => {}
            }
        }
        strayed
    }

    fn leads_of_realms(&self) -> BTreeMap<Realm, Vec<Lead>> {
        let mut leads: BTreeMap<Realm, Vec<Lead>> = BTreeMap::new();
        if self.realms.is_empty() {
            return leads;
        }
        for entry in self.directory.entries() {
            if let Some(realm) = entry.spec.realm {
                let list = leads.entry(realm).or_default();
                list.extend(self.paths.leads(&entry.spec));
            }
        }
        leads
    }
}
