//! Gratuitous ARP and unsolicited Neighbor Advertisements on a schedule.

use std::{collections::VecDeque, net::IpAddr, sync::Arc, time::Duration};

use kedge_core::{Instant, vip::Vrid};

use crate::wire::{Mac, Neighbor};

/// Announces addresses: a burst at 0, 1, 5, 20 and 100 ms for caches that miss one, then at
/// 500 ms, 1 s and 5 s for switches that learn late, then every 60 s because caches age.
///
/// Each announcement of an IPv4 address is a request *and* a reply. A child of
/// [`vrrp::Router`](crate::vrrp::Router), which decides when it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcer {
    run: Option<Run>,
    queue: VecDeque<Neighbor>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    addresses: Arc<[IpAddr]>,
    at: Place,
    started: Instant,

    due: Instant,
}

/// The hardware address of what is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The interface's own.
    Interface(Mac),
    /// The virtual router's, another one for each family.
    Virtual(Vrid),
}

impl Place {
    /// Where it says that `address` is.
    #[must_use]
    pub const fn of(self, address: IpAddr) -> Mac {
        match self {
            Self::Interface(mac) => mac,
            Self::Virtual(vrid) => Mac::virtual_router(vrid, address.is_ipv6()),
        }
    }
}

impl From<Mac> for Place {
    fn from(mac: Mac) -> Self {
        Self::Interface(mac)
    }
}

impl Announcer {
    /// Announces `addresses` at `at` at once and then on schedule; replaces what ran before.
    pub fn start(&mut self, now: Instant, addresses: Arc<[IpAddr]>, at: Place) {
        self.queue.clear();
        self.run = Some(Run {
            addresses,
            at,
            started: now,

            due: now,
        });
        self.handle_timeout(now);
    }

    /// Stops, and takes back what has not been polled.
    pub fn cancel(&mut self) {
        self.queue.clear();
        self.run = None;
    }

    /// Announces once more now, beside the schedule, if it runs.
    pub fn again(&mut self) {
        if let Some(run) = &self.run {
            push(&mut self.queue, run);
        }
    }

    /// Begins the schedule anew, if it runs.
    pub fn burst(&mut self, now: Instant) {
        if let Some(run) = &mut self.run {
            (run.started, run.due) = (now, now);
            self.handle_timeout(now);
        }
    }

    /// Announces what is due; entries that were missed are skipped, never sent in a burst.
    pub fn handle_timeout(&mut self, now: Instant) {
        let Some(run) = self.run.as_mut().filter(|run| run.due <= now) else {
            return;
        };
        let started = run.started;
        let upcoming = SCHEDULE
            .iter()
            .map(|offset| started + *offset)
            .find(|due| *due > now);
        run.due = upcoming.unwrap_or(now + REFRESH);
        push(&mut self.queue, run);
    }

    /// The next packet to broadcast.
    pub fn poll_output(&mut self) -> Option<Neighbor> {
        self.queue.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.run.as_ref().map(|run| run.due)
    }

    /// Whether addresses are being announced.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.run.is_some()
    }
}

fn push(queue: &mut VecDeque<Neighbor>, run: &Run) {
    for address in run.addresses.iter() {
        queue.extend(Neighbor::announcements(*address, run.at.of(*address)));
    }
}

const SCHEDULE: [Duration; 8] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

const REFRESH: Duration = Duration::from_secs(60);
