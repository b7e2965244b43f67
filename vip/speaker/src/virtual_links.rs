//! The links of virtual hardware addresses: which there are, and which are up.
//!
//! Setting a link up is quick and done on the VIP thread, before the first advert of a take-over.
//! Setting it down or removing it takes the kernel many milliseconds, and is another thread's work.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kedge_net::{
    monitor::Monitor,
    udp::Family,
    virtual_link::{Purpose, VirtualLinkError, VirtualLinks},
};
use kedge_vip_proto::wire::Mac;
use serde::{Deserialize, Serialize};

use crate::VipSpec;

/// The links on which the addresses of a VIP stand, by index; none where they stand on the
/// interface itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnLinks {
    /// That of IPv4 addresses.
    pub v4: Option<u32>,
    /// That of IPv6 addresses.
    pub v6: Option<u32>,
}

impl OwnLinks {
    /// The one for an address.
    #[must_use]
    pub const fn of(self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(_) => self.v4,
            IpAddr::V6(_) => self.v6,
        }
    }

    pub(crate) fn each(self) -> impl Iterator<Item = u32> {
        self.v4.into_iter().chain(self.v6)
    }
}

/// A virtual link, and what is wanted of it.
#[derive(Debug)]
pub(crate) struct Door {
    ifindex: u32,
    wanted: Mutex<Wanted>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Up,
    Down,
    Removed,
    /// It is removed.
    Gone,
}

/// Every virtual link of this host that is known.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    links: Option<VirtualLinks>,
    made: BTreeMap<Purpose, Made>,
}

#[derive(Debug)]
struct Made {
    door: Arc<Door>,
    /// Whether the monitor has told of it: from then on it tells, too, when somebody removes it.
    seen: bool,
}

impl Doors {
    /// The links of a VIP on the interface `parent`; those that are missing are made, and down.
    ///
    /// # Errors
    ///
    /// The kernel refused one.
    pub(crate) fn of(
        &mut self,
        spec: &VipSpec,
        parent: u32,
        monitor: &Monitor,
    ) -> Result<OwnLinks, VirtualLinkError> {
        let mut all = OwnLinks::default();
        for purpose in purposes(spec, parent) {
            let ifindex = self.ensure(purpose, monitor)?;
            match purpose.family {
                Family::V4 => all.v4 = Some(ifindex),
                Family::V6 => all.v6 = Some(ifindex),
            }
        }
        Ok(all)
    }

    /// Goes on with links that another process has set up.
    pub(crate) fn adopt(&mut self, spec: &VipSpec, parent: u32, links: OwnLinks) {
        for purpose in purposes(spec, parent) {
            let ifindex = match purpose.family {
                Family::V4 => links.v4,
                Family::V6 => links.v6,
            };
            if let Some(ifindex) = ifindex {
                let door = Door::new(ifindex, Wanted::Up);
                self.made.insert(purpose, Made { door, seen: false });
            }
        }
    }

    /// Sets a link up.
    ///
    /// # Errors
    ///
    /// The kernel refused.
    pub(crate) fn raise(&mut self, ifindex: u32) -> Result<(), VirtualLinkError> {
        let links = opened(&mut self.links)?;
        let made = self.made.values().find(|it| it.door.ifindex == ifindex);
        // Held meanwhile: who sets it down at this moment is waited for.
        let wanted = made.map(|made| made.door.want(Wanted::Up));
        let done = links.set(ifindex, true);
        drop(wanted);
        done
    }

    /// Wants a link down; what is left to do on a thread that may take its time.
    pub(crate) fn lower(&self, ifindex: u32) -> Option<Arc<Door>> {
        let made = self.made.values().find(|it| it.door.ifindex == ifindex)?;
        drop(made.door.want(Wanted::Down));
        Some(Arc::clone(&made.door))
    }

    /// Wants every link of ours removed that none of `used` is, whoever made it.
    pub(crate) fn remove_others(&mut self, used: &[u32], monitor: &Monitor) -> Vec<Arc<Door>> {
        let (keep, unused): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.made)
            .into_iter()
            .partition(|(_, made)| used.contains(&made.door.ifindex));
        self.made = keep;
        let mut others: Vec<_> = unused.into_values().map(|made| made.door).collect();
        for link in monitor.links().filter(|link| link.is_virtual()) {
            let is_it = |door: &Arc<Door>| door.ifindex == link.index;
            if !used.contains(&link.index) && !others.iter().any(is_it) {
                others.push(Door::new(link.index, Wanted::Removed));
            }
        }
        for door in &others {
            drop(door.want(Wanted::Removed));
        }
        others
    }

    /// Sets a link down that an earlier process left up.
    ///
    /// # Errors
    ///
    /// The kernel refused.
    pub(crate) fn lower_now(&mut self, ifindex: u32) -> Result<(), VirtualLinkError> {
        opened(&mut self.links)?.set(ifindex, false)
    }

    /// Sets every link of ours down, whoever made it.
    ///
    /// # Errors
    ///
    /// The kernel refused.
    pub(crate) fn lower_all(&mut self) -> Result<(), VirtualLinkError> {
        opened(&mut self.links)?.lower_all()
    }

    /// What the thread has to do that may take its time, on this one.
    pub(crate) fn work(&mut self, door: &Door) -> Result<(), VirtualLinkError> {
        door.work(opened(&mut self.links)?)
    }

    fn ensure(&mut self, purpose: Purpose, monitor: &Monitor) -> Result<u32, VirtualLinkError> {
        if let Some(made) = self.made.get_mut(&purpose) {
            let there = monitor.link(made.door.ifindex).is_some();
            made.seen |= there;
            if there || !made.seen {
                return Ok(made.door.ifindex);
            }
        }
        let ifindex = opened(&mut self.links)?.ensure(purpose)?;
        let seen = monitor.link(ifindex).is_some();
        let door = Door::new(ifindex, Wanted::Down);
        self.made.insert(purpose, Made { door, seen });
        Ok(ifindex)
    }
}

impl Door {
    fn new(ifindex: u32, wanted: Wanted) -> Arc<Self> {
        let wanted = Mutex::new(wanted);
        Arc::new(Self { ifindex, wanted })
    }

    /// Makes the link what is wanted of it, unless that is up.
    ///
    /// # Errors
    ///
    /// The kernel refused.
    pub(crate) fn work(&self, links: &mut VirtualLinks) -> Result<(), VirtualLinkError> {
        let mut wanted = self.lock();
        match *wanted {
            Wanted::Up | Wanted::Gone => Ok(()),
            Wanted::Down => links.set(self.ifindex, false),
            Wanted::Removed => {
                let done = links.remove(self.ifindex);
                *wanted = Wanted::Gone;
                done
            }
        }
    }

    /// Notes what is wanted; the note stays locked until the answer is dropped.
    fn want(&self, what: Wanted) -> MutexGuard<'_, Wanted> {
        let mut wanted = self.lock();
        if *wanted != Wanted::Gone {
            *wanted = what;
        }
        wanted
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What links a VIP needs.
fn purposes(spec: &VipSpec, parent: u32) -> impl Iterator<Item = Purpose> {
    let families = [Family::V4, Family::V6].into_iter();
    let vrid = spec.vrid;
    families
        .filter(|family| spec.has_virtual(*family))
        .map(move |family| Purpose {
            parent,
            vrid: vrid.get(),
            family,
            mac: Mac::virtual_router(vrid, family == Family::V6).0,
        })
}

/// Those that are open, or newly opened.
pub(crate) fn opened(
    links: &mut Option<VirtualLinks>,
) -> Result<&mut VirtualLinks, VirtualLinkError> {
    match links {
        Some(links) => Ok(links),
        None => Ok(links.insert(VirtualLinks::open()?)),
    }
}
