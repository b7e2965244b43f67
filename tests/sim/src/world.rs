//! The event loop: what happens next, to whom.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

use kedge_core::{Instant, vip::RouterState};
use kedge_vip_proto::{
    vrrp::{Input, Ticket},
    wire::{Mac, Neighbor, arp},
};

use crate::{
    check::{Checker, Violation},
    client::Client,
    digest::Digest,
    faults::Fault,
    frame::{self, Frame},
    host::{Host, Inbound},
    network::Network,
    random::Random,
    setup::{Setup, mac},
    subject::{Cause, Subject},
};

/// Hosts, a client and the LAN between them.
pub struct World<S> {
    /// Where the world is in time.
    pub now: Instant,
    /// The hosts.
    pub hosts: Vec<Host<S>>,
    /// The LAN; its last station is the client.
    pub network: Network,
    /// The client.
    pub client: Client,
    /// What happened so far.
    pub digest: Digest,
    /// How often each thing happened: a simulation that never meets it proves nothing about it.
    pub met: BTreeMap<&'static str, u64>,
    pub(crate) checker: Checker,
    pub(crate) random: Random,
    pub(crate) setup: Setup,
    queue: BinaryHeap<Reverse<Entry>>,
    order: u64,
}

#[derive(Debug)]
pub(crate) enum Happening {
    Arrive {
        to: usize,
        frame: Frame,
    },
    Input {
        host: usize,
        epoch: u32,
        input: Input,
    },
    /// The kernel is done with a request.
    Kernel {
        host: usize,
        epoch: u32,
        ticket: Ticket,
    },
    /// The addresses of a dead process run out.
    Expire {
        host: usize,
        epoch: u32,
    },
    /// A health gate looks at the service.
    Verdict {
        host: usize,
        epoch: u32,
    },
    Fault(Fault),
    /// The client talks about something else.
    Chatter,
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    order: u64,
    what: Happening,
}

impl<S: Subject> World<S> {
    /// A world at time zero in which `faults` will happen.
    #[must_use]
    pub fn new(setup: Setup, random: Random, faults: &[(Instant, Fault)]) -> Self {
        let hosts = setup
            .configs
            .iter()
            .cloned()
            .map(Host::new)
            .collect::<Vec<_>>();
        let (fastest, slowest) = setup.delay;
        let mut world = Self {
            now: Instant::ZERO,
            network: Network::new(hosts.len() + 1, fastest, slowest),
            client: Client::default(),
            digest: Digest::new(),
            met: BTreeMap::new(),
            checker: Checker::new(&setup),
            hosts,
            random,
            setup,
            queue: BinaryHeap::new(),
            order: 0,
        };
        for (at, fault) in faults {
            world.at(*at, Happening::Fault(*fault));
        }
        world.at(Instant::ZERO, Happening::Chatter);
        world
    }

    /// Makes `fault` happen at once.
    ///
    /// # Errors
    ///
    /// What it led to broke an invariant.
    pub fn inject(&mut self, fault: Fault) -> Result<(), Violation> {
        self.fault(fault)
    }

    /// Lets everything happen until `end`.
    ///
    /// # Errors
    ///
    /// An invariant was broken.
    pub fn run(&mut self, end: Instant) -> Result<(), Violation> {
        self.run_until(end, |_| false).map(|_| ())
    }

    /// Lets everything happen until `done` or `end`; whether it was done.
    ///
    /// # Errors
    ///
    /// An invariant was broken.
    pub fn run_until(
        &mut self,
        end: Instant,
        done: impl Fn(&Self) -> bool,
    ) -> Result<bool, Violation> {
        while !done(self) {
            let queued = self.queue.peek().map(|Reverse(entry)| entry.at);
            let timer = self.next_timer();
            // What arrived is handled before what is due.
            let arrives = queued.filter(|at| timer.is_none_or(|(due, _)| *at <= due));
            let next = arrives
                .or(timer.map(|(due, _)| due))
                .filter(|next| *next <= end);
            let Some(next) = next else {
                self.pass(end)?;
                return Ok(done(self));
            };
            self.pass(next)?;
            match (arrives, timer) {
                (Some(_), _) => {
                    if let Some(Reverse(entry)) = self.queue.pop() {
                        self.happen(entry.what)?;
                    }
                }
                (None, Some((_, host))) => {
                    self.hosts[host].late =
                        self.random.between(Duration::ZERO, self.setup.lateness);
                    self.act(host, &Cause::Timeout)?;
                }
                (None, None) => {}
            }
        }
        Ok(true)
    }

    /// The hosts that are Active, stalled ones not counted.
    #[must_use]
    pub fn actives(&self) -> Vec<usize> {
        let active = |host: &usize| self.hosts[*host].state() == Some(RouterState::Active);
        (0..self.hosts.len()).filter(active).collect()
    }

    /// Whether one host is Active and all the others are ready to follow it.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let ready = |host: &Host<S>| match host.state() {
            Some(RouterState::Active) => host.view().is_some_and(|view| view.held),
            Some(RouterState::Backup) => host.view().is_some_and(|view| view.waiting.is_none()),
            _ => false,
        };
        self.actives().len() == 1 && self.hosts.iter().all(ready)
    }

    fn next_timer(&self) -> Option<(Instant, usize)> {
        let wakes =
            |(index, host): (usize, &Host<S>)| host.wakes_at().map(|at| (at.max(self.now), index));
        self.hosts.iter().enumerate().filter_map(wakes).min()
    }

    fn pass(&mut self, until: Instant) -> Result<(), Violation> {
        self.now = until;
        self.checker.passed(until, &self.hosts, &self.network)
    }

    pub(crate) fn at(&mut self, at: Instant, what: Happening) {
        self.order += 1;
        self.queue.push(Reverse(Entry {
            at,
            order: self.order,
            what,
        }));
    }

    pub(crate) fn after(&mut self, fastest: u64, slowest: u64, what: Happening) {
        let (fastest, slowest) = (
            Duration::from_micros(fastest),
            Duration::from_micros(slowest),
        );
        let at = self.now + self.random.between(fastest, slowest);
        self.at(at, what);
    }

    pub(crate) fn meet(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    fn happen(&mut self, what: Happening) -> Result<(), Violation> {
        match what {
            Happening::Arrive { to, frame } => self.arrive(to, frame),
            Happening::Input { host, epoch, input } => {
                if self.hosts[host].epoch == epoch {
                    self.give(host, Inbound::Input(input))
                } else {
                    Ok(())
                }
            }
            Happening::Kernel {
                host,
                epoch,
                ticket,
            } => self.kernel_done(host, epoch, ticket),
            Happening::Expire { host, epoch } => {
                if self.hosts[host].epoch == epoch {
                    self.hosts[host].kernel.holds = false;
                }
                Ok(())
            }
            Happening::Verdict { host, epoch } => self.look(host, epoch),
            Happening::Fault(fault) => self.fault(fault),
            Happening::Chatter => {
                let client = self.hosts.len();
                let other = arp::Packet::probe(std::net::Ipv4Addr::new(10, 20, 14, 1), mac(client));
                self.broadcast(
                    client,
                    &frame::neighbor(Mac::BROADCAST, mac(client), &Neighbor::Arp(other)),
                );
                let next = self.now + self.setup.interval.duration() * 5;
                self.at(next, Happening::Chatter);
                Ok(())
            }
        }
    }

    pub(crate) fn broadcast(&mut self, from: usize, frame: &Frame) {
        if from < self.hosts.len() && !self.hosts[from].link {
            return;
        }
        let to = frame::split(frame).map(|(to, ..)| to);
        for station in 0..=self.hosts.len() {
            let group = to.is_none_or(|to| to.0[0] & 1 == 1 || to == mac(station));
            if station == from || !group {
                continue;
            }
            let mut copy = frame.clone();
            let arrives = self
                .network
                .carry(&mut self.random, self.now, from, station, &mut copy);
            match arrives {
                Some(at) => self.at(
                    at,
                    Happening::Arrive {
                        to: station,
                        frame: copy,
                    },
                ),
                None => self.meet("frame lost"),
            }
        }
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}
