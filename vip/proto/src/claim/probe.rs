//! Asking whether anybody uses an address (RFC 5227 section 2.1; RFC 4862 section 5.4 for IPv6).

use std::{collections::VecDeque, net::IpAddr, sync::Arc, time::Duration};

use kedge_core::Instant;

use crate::wire::{Mac, Neighbor};

/// Three probes of every address, at 0, 1 and 2 s, and an end at 3 s.
///
/// RFC 5227 waits a random time first and between the probes; here the three seconds run while
/// the router listens for an Active anyway, so nothing is gained by spreading them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    addresses: Arc<[IpAddr]>,
    mac: Mac,
    started: Instant,
    sent: u32,
    queue: VecDeque<Neighbor>,
}

impl Probe {
    /// Begins to probe now.
    #[must_use]
    pub fn start(now: Instant, addresses: Arc<[IpAddr]>, mac: Mac) -> Self {
        let mut probe = Self {
            addresses,
            mac,
            started: now,
            sent: 0,
            queue: VecDeque::new(),
        };
        probe.handle_timeout(now);
        probe
    }

    /// Sends what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut due = false;
        while self.sent < COUNT && self.started + INTERVAL * self.sent <= now {
            self.sent += 1;
            due = true;
        }
        if due {
            let probes = self
                .addresses
                .iter()
                .map(|address| Neighbor::probe(*address, self.mac));
            self.queue.extend(probes);
        }
    }

    /// The next packet to broadcast.
    pub fn poll_output(&mut self) -> Option<Neighbor> {
        self.queue.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due; at the end `None`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.sent < COUNT).then(|| self.started + INTERVAL * self.sent)
    }

    /// When silence means that nobody uses the addresses.
    #[must_use]
    pub fn ends_at(&self) -> Instant {
        self.started + INTERVAL * COUNT
    }
}

const COUNT: u32 = 3;
const INTERVAL: Duration = Duration::from_secs(1);
