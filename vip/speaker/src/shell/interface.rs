//! The sockets of one interface, shared by every VIP on it.

use std::{collections::BTreeMap, net::Ipv4Addr, time::Duration};

use kedge_core::{Coded, Instant, Problem};
use kedge_net::{
    arp::ArpSocket, monitor::Monitor, station::StationListener, vrrp::VrrpSocket, wait::Waiter,
};
use kedge_vip_proto::wire::{Mac, arp};

use super::SOCKETS;
use crate::Chosen;

/// VRRP and ARP on one interface.
#[derive(Debug)]
pub(crate) struct Interface {
    pub(super) name: String,
    pub(super) vrrp: VrrpSocket,
    pub(super) arp: ArpSocket,
    pub(super) counters: Counters,
    pub(super) malformed: Option<Malformed>,
    /// From when on a dropped packet is worth a line in the log again.
    log_from: Instant,
    listening: Option<Listening>,
}

/// Waiting for the first frame of another station.
#[derive(Debug)]
struct Listening {
    station: StationListener,
    /// Who should answer, asked from where.
    question: Option<arp::Packet>,
    ask_at: Instant,
}

/// Counts by reason.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters(pub(super) BTreeMap<&'static str, u64>);

/// A packet that was dropped before it reached a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) reason: &'static str,
    pub(crate) mac: kedge_net::Mac,
    pub(crate) at: Instant,
}

impl Interface {
    pub(super) fn open(chosen: &Chosen, waiter: &Waiter) -> Result<Self, Problem> {
        let vrrp =
            VrrpSocket::open(&chosen.name, chosen.ifindex).map_err(|error| error.problem())?;
        let arp = ArpSocket::open(chosen.ifindex).map_err(|error| error.problem())?;
        waiter
            .add(&vrrp, SOCKETS)
            .and_then(|()| waiter.add(&arp, SOCKETS))
            .map_err(|error| {
                Problem::new(
                    kedge_core::Code::VrrpSocket,
                    "cannot wait for the VRRP sockets",
                )
                .evidence(error.to_string())
            })?;
        Ok(Self {
            name: chosen.name.clone(),
            vrrp,
            arp,
            counters: Counters::default(),
            malformed: None,
            log_from: Instant::ZERO,
            listening: None,
        })
    }

    /// Waits for a frame of another station, and asks the router of this link for one: on a quiet
    /// link the first claim would otherwise wait in vain.
    pub(super) fn listen(
        &mut self,
        now: Instant,
        chosen: &Chosen,
        monitor: &mut Monitor,
        waiter: &Waiter,
    ) {
        if self.listening.is_some() {
            return;
        }
        // Without it the wait ends by its limit.
        let Ok(station) = StationListener::open(chosen.ifindex, chosen.mac) else {
            return;
        };
        if waiter.add(&station, SOCKETS).is_err() {
            return;
        }
        let router = monitor.gateway(chosen.ifindex);
        let question = router.map(|target| question(chosen, target));
        self.listening = Some(Listening {
            station,
            question,
            ask_at: now,
        });
    }

    /// The listener, as soon as it heard another station.
    pub(super) fn heard(&mut self) -> Option<StationListener> {
        let listening = self
            .listening
            .take_if(|listening| listening.station.heard().unwrap_or_default());
        listening.map(|listening| listening.station)
    }

    pub(super) fn ask_at(&self) -> Option<Instant> {
        let listening = self.listening.as_ref()?;
        listening.question.map(|_| listening.ask_at)
    }

    pub(super) fn ask_for_a_frame(&mut self, now: Instant) {
        let Some(listening) = &mut self.listening else {
            return;
        };
        let Some(question) = listening.question else {
            return;
        };
        if listening.ask_at <= now {
            listening.ask_at = now + ASK_EVERY;
            // Not sent is not answered, and asked again.
            let _ = self.arp.broadcast(&question.emit());
        }
    }

    /// Counts what the kernel dropped because it was not taken in time.
    pub(super) fn count_lost(&mut self) {
        let lost = u64::from(self.vrrp.take_drops());
        if lost > 0 {
            *self.counters.0.entry("queue_full").or_default() += lost;
        }
    }

    /// Counts a dropped packet; whether it is worth a line in the log.
    pub(super) fn dropped(
        &mut self,
        now: Instant,
        reason: &'static str,
        mac: kedge_net::Mac,
    ) -> bool {
        self.counters.count(reason);
        self.malformed = Some(Malformed {
            reason,
            mac,
            at: now,
        });
        let log = self.log_from <= now;
        if log {
            self.log_from = now + LOG_EVERY;
        }
        log
    }
}

impl Counters {
    pub(super) fn count(&mut self, reason: &'static str) {
        *self.0.entry(reason).or_default() += 1;
    }
}

fn question(chosen: &Chosen, target: Ipv4Addr) -> arp::Packet {
    arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: Mac(chosen.mac),
        sender: chosen.address,
        target_mac: Mac::ZERO,
        target,
    }
}

const ASK_EVERY: Duration = Duration::from_secs(1);
const LOG_EVERY: Duration = Duration::from_secs(10);
