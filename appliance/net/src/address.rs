//! Addresses Kedge owns: a desired set, compared with the kernel.
//!
//! Every address carries our protocol number ([`crate::PROTOCOL`]) and nothing that does not is
//! touched. The address of a VIP is *leased*: the kernel removes it by itself when it is not
//! renewed, so that a process that hangs or dies stops answering for it. A tunnel's own address is
//! *permanent*. Each [`Owned`] manages one of the two kinds and never sees the other's.

mod error;
mod message;

use std::{collections::BTreeMap, io, time::Duration};

use ipnet::IpNet;
use kedge_core::Instant;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::{RouteNetlinkMessage, address::AddressMessage};

pub use self::error::AddressError;
use crate::{
    PROTOCOL,
    monitor::{Address, Monitor},
    rtnl::{Prepared, Requests},
};

/// How long the kernel keeps an address of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// [`LEASE`], renewed every [`RENEWAL`].
    Leased,
    /// Until it is removed.
    Permanent,
}

/// How long a leased address outlives its last renewal.
pub const LEASE: Duration = Duration::from_secs(2);
/// How often a leased address is renewed, by one who may stand still for a second; see
/// [`Owned::stands_still_for`].
pub const RENEWAL: Duration = Duration::from_millis(800);
/// How often it is renewed at the least.
const SELDOM: Duration = Duration::from_millis(1_300);
/// How much sooner than [`LEASE`] says an address may be gone (`ADDRCONF_TIMER_FUZZ`), and what a renewal
/// may take.
const ROUNDED: Duration = Duration::from_millis(400);
/// How much earlier one who is awake may renew it, so that nobody wakes up for it alone.
const EARLY: Duration = Duration::from_millis(100);

/// An address on a link, by the link's index.
pub type Place = (u32, IpNet);

/// The addresses of one kind that Kedge holds in the network namespace it was opened in.
#[derive(Debug)]
pub struct Owned {
    requests: Requests,
    lifetime: Lifetime,
    /// How often leased addresses are renewed.
    renewal: Duration,
    held: BTreeMap<Place, Held>,
}

/// What happened to an address that is held, outside a call that asked for it.
#[derive(Debug)]
pub enum Report {
    /// Somebody removed it; it is back.
    Readded {
        /// Which.
        place: Place,
        /// How often that happened since it was taken.
        times: u32,
    },
    /// It could not be renewed or put back; it is tried again.
    Failed {
        /// Which.
        place: Place,
        /// Why.
        error: AddressError,
    },
}

#[derive(Debug)]
struct Held {
    /// When it is renewed, or put back when it is missing.
    due: Instant,
    missing: bool,
    readded: u32,
    /// How often it was taken away in a row, with less than [`PEACE`] between two times.
    disputes: u32,
    readded_at: Instant,
    /// What renews it, from the first time on.
    renewal: Option<Prepared>,
}

impl Held {
    /// A renewal may come early, and what is missing not: it may have to wait.
    fn is_due(&self, now: Instant) -> bool {
        self.welcome_at() <= now
    }

    /// From when on somebody who is awake may do it.
    fn welcome_at(&self) -> Instant {
        let early = if self.missing { Duration::ZERO } else { EARLY };
        self.due - early
    }
}

impl Owned {
    /// Opens the socket in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// The kernel refused a socket.
    pub fn open(lifetime: Lifetime) -> Result<Self, AddressError> {
        let requests = Requests::open().map_err(AddressError::Open)?;
        Ok(Self {
            requests,
            lifetime,
            renewal: RENEWAL,
            held: BTreeMap::new(),
        })
    }

    /// Renews no more often than is needed by one who keeps its addresses through a stand-still of at most
    /// `longest`: after a longer one it lets them go itself. What is renewed less often stands no longer.
    pub fn stands_still_for(&mut self, now: Instant, longest: Duration) {
        let left = LEASE.saturating_sub(ROUNDED + longest);
        let renewal = left.clamp(RENEWAL, SELDOM);
        if std::mem::replace(&mut self.renewal, renewal) > renewal {
            for held in self.held.values_mut().filter(|held| !held.missing) {
                held.due = held.due.min(now + renewal);
            }
        }
    }

    /// Adds an address, or takes over one of ours that is there already. One round trip to the
    /// kernel when it is not there.
    ///
    /// # Errors
    ///
    /// The kernel refused it; it is not held then.
    pub fn hold(&mut self, now: Instant, (ifindex, net): Place) -> Result<(), AddressError> {
        self.add(ifindex, net)?;
        let held = Held {
            due: self.next_renewal(now),
            missing: false,
            readded: 0,
            disputes: 0,
            readded_at: now,
            renewal: None,
        };
        self.held.insert((ifindex, net), held);
        Ok(())
    }

    /// Goes on with an address that another process of ours held: it is renewed at the next
    /// [`handle_timeout`](Self::handle_timeout).
    pub fn adopt(&mut self, now: Instant, place: Place) {
        let held = Held {
            due: now,
            missing: false,
            readded: 0,
            disputes: 0,
            readded_at: now,
            renewal: None,
        };
        self.held.insert(place, held);
    }

    /// Removes an address. One that is gone already, with or without its link, is removed.
    ///
    /// # Errors
    ///
    /// The kernel refused; a leased address goes by itself within [`LEASE`].
    pub fn release(&mut self, (ifindex, net): Place) -> Result<(), AddressError> {
        self.held.remove(&(ifindex, net));
        self.remove(ifindex, net)
    }

    /// Makes the held set what `desired` says, and says what could not be done.
    pub fn reconcile(
        &mut self,
        now: Instant,
        desired: impl IntoIterator<Item = Place>,
    ) -> Vec<AddressError> {
        let desired: std::collections::BTreeSet<Place> = desired.into_iter().collect();
        let surplus: Vec<Place> = self
            .held
            .keys()
            .filter(|place| !desired.contains(*place))
            .copied()
            .collect();
        let mut refused = Vec::new();
        refused.extend(
            surplus
                .into_iter()
                .filter_map(|place| self.release(place).err()),
        );
        for place in desired {
            if !self.held.contains_key(&place) {
                refused.extend(self.hold(now, place).err());
            }
        }
        refused
    }

    /// Whether the address is in the desired set.
    #[must_use]
    pub fn holds(&self, place: Place) -> bool {
        self.held.contains_key(&place)
    }

    /// Removes what carries our number and is not held: the leftovers of a process that died.
    /// Only addresses of this kind, and only on `ifindex` when one is given.
    ///
    /// # Errors
    ///
    /// The kernel could not be read, or refused.
    pub fn remove_leftovers(&mut self, on: Option<u32>) -> Result<Vec<Place>, AddressError> {
        let mut ours = Vec::new();
        let permanent = self.lifetime == Lifetime::Permanent;
        self.read(|ifindex, address| {
            if address.protocol == PROTOCOL
                && address.permanent == permanent
                && on.is_none_or(|on| on == ifindex)
            {
                ours.push((ifindex, address.net));
            }
        })?;
        ours.retain(|place| !self.held.contains_key(place));
        for &(ifindex, net) in &ours {
            self.remove(ifindex, net)?;
        }
        Ok(ours)
    }

    /// Compares the held set with what a freshly drained monitor saw. What is missing is put back
    /// by the next [`handle_timeout`](Self::handle_timeout) that is due; what is on a link that is
    /// gone is forgotten.
    pub fn compare(&mut self, now: Instant, monitor: &Monitor) {
        self.held
            .retain(|(ifindex, _), _| monitor.link(*ifindex).is_some());
        for ((ifindex, net), held) in &mut self.held {
            let there = monitor.link(*ifindex).is_some_and(|link| {
                link.addresses
                    .iter()
                    .any(|known| known.net == *net && known.protocol == PROTOCOL)
            });
            if there || held.missing {
                continue;
            }
            if now.since(held.readded_at) > PEACE {
                held.disputes = 0;
            }
            held.missing = true;
            held.due = now + patience(held.disputes);
            held.disputes = held.disputes.saturating_add(1);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.held
            .values()
            .map(|held| held.due)
            .min()
            .filter(|due| *due < Instant::FAR)
    }

    /// From when on [`is_due`](Self::is_due).
    #[must_use]
    pub fn welcome_at(&self) -> Option<Instant> {
        let all = self.held.values().map(Held::welcome_at);
        all.min().filter(|at| *at < Instant::FAR)
    }

    /// Whether there is something to do now, for one who is awake anyway: a renewal may come a little
    /// early.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        self.held.values().any(|held| held.is_due(now))
    }

    /// Renews what is due and puts back what is missing.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<Report> {
        let due: Vec<Place> = self
            .held
            .iter()
            .filter(|(_, held)| held.is_due(now))
            .map(|(place, _)| *place)
            .collect();
        due.into_iter()
            .filter_map(|place| self.renew(now, place))
            .collect()
    }

    fn renew(&mut self, now: Instant, place: Place) -> Option<Report> {
        let (ifindex, net) = place;
        let missing = self.held.get(&place)?.missing;
        let done = if missing {
            self.add(ifindex, net)
        } else {
            self.replace(ifindex, net)
        };
        let next = self.next_renewal(now);
        let held = self.held.get_mut(&place)?;
        match done {
            Ok(added) => {
                held.due = next;
                held.missing = false;
                if !(missing && added == Added::Anew) {
                    return None;
                }
                held.readded += 1;
                held.readded_at = now;
                Some(Report::Readded {
                    place,
                    times: held.readded,
                })
            }
            Err(error) => {
                held.due = now + RENEWAL;
                Some(Report::Failed { place, error })
            }
        }
    }

    fn next_renewal(&self, now: Instant) -> Instant {
        match self.lifetime {
            Lifetime::Leased => now + self.renewal,
            Lifetime::Permanent => Instant::FAR,
        }
    }

    fn add(&mut self, ifindex: u32, net: IpNet) -> Result<Added, AddressError> {
        let mut message = message::whole(ifindex, net, self.lifetime);
        let label = self.requests.link_name(ifindex);
        let label = label.as_deref().and_then(|link| message::label(link, net));
        message.attributes.extend(label);
        let request = RouteNetlinkMessage::NewAddress(message);
        match self.requests.change(request, NLM_F_CREATE | NLM_F_EXCL) {
            Ok(()) => Ok(Added::Anew),
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                let mut ours = false;
                self.read(|on, address| {
                    ours |= on == ifindex && address.net == net && address.protocol == PROTOCOL;
                })?;
                if ours {
                    self.replace(ifindex, net)
                } else {
                    Err(AddressError::Foreign { ifindex, net })
                }
            }
            Err(source) => Err(AddressError::Add {
                ifindex,
                net,
                source,
            }),
        }
    }

    /// Renews an address. What says so is kept with those that are held: it is the same each time.
    fn replace(&mut self, ifindex: u32, net: IpNet) -> Result<Added, AddressError> {
        let kept = self.held.get_mut(&(ifindex, net));
        let kept = kept.and_then(|held| held.renewal.take());
        let mut renewal = kept.unwrap_or_else(|| {
            let request =
                RouteNetlinkMessage::NewAddress(message::whole(ifindex, net, self.lifetime));
            Prepared::new(request, NLM_F_CREATE | NLM_F_REPLACE)
        });
        let done = self.requests.repeat(&mut renewal);
        if let Some(held) = self.held.get_mut(&(ifindex, net)) {
            held.renewal = Some(renewal);
        }
        done.map(|()| Added::Again)
            .map_err(|source| AddressError::Add {
                ifindex,
                net,
                source,
            })
    }

    fn remove(&mut self, ifindex: u32, net: IpNet) -> Result<(), AddressError> {
        let message = message::bare(ifindex, net);
        match self
            .requests
            .change(RouteNetlinkMessage::DelAddress(message), 0)
        {
            Err(source) if !is_gone(&source) => Err(AddressError::Remove {
                ifindex,
                net,
                source,
            }),
            _ => Ok(()),
        }
    }

    fn read(&mut self, mut each: impl FnMut(u32, Address)) -> Result<(), AddressError> {
        let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        self.requests
            .dump(request, |message| {
                if let RouteNetlinkMessage::NewAddress(message) = message
                    && let Some(address) = Address::read(&message)
                {
                    each(message.header.index, address);
                }
            })
            .map_err(AddressError::Read)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Added {
    Anew,
    Again,
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EADDRNOTAVAIL | libc::ENODEV)
    )
}

/// How long an address that was taken away waits, after that many times in a row: a network manager
/// that is reloaded and then activates a connection takes it away more than once, and does not insist.
fn patience(disputes: u32) -> Duration {
    match disputes.checked_sub(AT_ONCE) {
        None => Duration::ZERO,
        Some(more) => LAST_PATIENCE.min(FIRST_PATIENCE * 2_u32.saturating_pow(more.min(16))),
    }
}

/// Somebody who removes the address again within this time may fight over it.
const PEACE: Duration = Duration::from_secs(60);
/// So often it is back without any wait.
const AT_ONCE: u32 = 3;
const FIRST_PATIENCE: Duration = Duration::from_millis(100);
const LAST_PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
