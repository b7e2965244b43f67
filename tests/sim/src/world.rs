//! The event loop: what happens next, to whom.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

use kedge_core::{Instant, vip::RouterState};
use kedge_vip_proto::{
    vrrp::{AddressRefused, Command, Event, Input, Link, LinkLoss, Output, Ticket, Verdict},
    wire::{Mac, arp, vrrp::Received},
};

use crate::{
    check::{Checker, Violation},
    client::Client,
    digest::Digest,
    faults::Fault,
    frame::{self, Frame, VIP},
    host::{Host, Inbound},
    network::Network,
    random::Random,
    setup::{Setup, mac, source},
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
    checker: Checker,
    random: Random,
    setup: Setup,
    queue: BinaryHeap<Reverse<Entry>>,
    order: u64,
}

#[derive(Debug)]
enum Happening {
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

    fn at(&mut self, at: Instant, what: Happening) {
        self.order += 1;
        self.queue.push(Reverse(Entry {
            at,
            order: self.order,
            what,
        }));
    }

    fn after(&mut self, fastest: u64, slowest: u64, what: Happening) {
        let (fastest, slowest) = (
            Duration::from_micros(fastest),
            Duration::from_micros(slowest),
        );
        let at = self.now + self.random.between(fastest, slowest);
        self.at(at, what);
    }

    fn meet(&mut self, what: &'static str) {
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
                self.broadcast(client, &frame::arp(Mac::BROADCAST, mac(client), &other));
                let next = self.now + self.setup.interval.duration() * 5;
                self.at(next, Happening::Chatter);
                Ok(())
            }
        }
    }

    /// A frame reaches a station: its kernel first, then its process.
    fn arrive(&mut self, to: usize, bytes: Frame) -> Result<(), Violation> {
        if to == self.hosts.len() {
            self.client.hear(self.now, &bytes);
            return Ok(());
        }
        let host = &self.hosts[to];
        if !host.link {
            return Ok(());
        }
        if let Some((_, from, arp::ETHERTYPE, payload)) = frame::split(&bytes)
            && let Ok(packet) = arp::Packet::parse(payload)
            && host.kernel.holds
            && packet.operation == arp::Operation::Request
            && packet.target == VIP
            && !packet.is_announcement()
        {
            let answer = arp::Packet {
                operation: arp::Operation::Reply,
                sender_mac: mac(to),
                sender: VIP,
                target_mac: from,
                target: packet.sender,
            };
            self.meet("ARP answered by a kernel");
            self.broadcast(to, &frame::arp(from, mac(to), &answer));
        }
        self.give(to, Inbound::Frame(bytes))
    }

    /// Something arrives for a process: now, or when it is scheduled again.
    fn give(&mut self, to: usize, inbound: Inbound) -> Result<(), Violation> {
        let host = &mut self.hosts[to];
        if host.router.is_none() {
            return Ok(());
        }
        if host.stalled {
            if host.backlog.len() < BACKLOG {
                host.backlog.push_back(inbound);
            }
            return Ok(());
        }
        let input = match inbound {
            Inbound::Input(input) => input,
            Inbound::Frame(bytes) => {
                if !host.heard {
                    host.heard = true;
                    self.act(to, &Cause::Input(Input::Heard))?;
                }
                match read(&bytes) {
                    Some(input) => input,
                    None => {
                        self.meet("damaged or foreign frame");
                        return Ok(());
                    }
                }
            }
        };
        self.act(to, &Cause::Input(input))
    }

    /// Lets a router act and does what it says.
    fn act(&mut self, index: usize, cause: &Cause) -> Result<(), Violation> {
        let Some(router) = &mut self.hosts[index].router else {
            return Ok(());
        };
        let before = router.view();
        let result = cause.apply(router, self.now);
        let mut outputs = Vec::new();
        while let Some(output) = router.poll_output() {
            outputs.push(output);
        }
        let announcing = router.announcing();
        let next = router.poll_timeout();
        let after = router.view();
        if let Err(reject) = result {
            self.meet(reject.label());
        }
        self.checker.acted(
            self.now, index, cause, result, &before, &after, &outputs, next,
        )?;
        for output in outputs {
            self.execute(index, output, announcing)?;
        }
        Ok(())
    }

    fn execute(&mut self, index: usize, output: Output, announcing: bool) -> Result<(), Violation> {
        let epoch = self.hosts[index].epoch;
        match output {
            Output::Send(transmit) => {
                let frame = frame::advert(mac(index), &transmit);
                self.digest.add(self.now, index, 1, &frame);
                self.broadcast(index, &frame);
            }
            Output::Announce(packet) | Output::ProbeAddress(packet) => {
                let probe = packet.is_probe();
                self.meet(if probe { "address probed" } else { "announced" });
                let frame = frame::arp(Mac::BROADCAST, mac(index), &packet);
                self.digest.add(self.now, index, 2, &frame);
                if probe || announcing {
                    self.broadcast(index, &frame);
                }
            }
            Output::Own { hold: true, ticket } => {
                self.digest.add(self.now, index, 3, &ticket.0.to_be_bytes());
                self.hosts[index].kernel.wanted = Some(ticket);
                self.after(
                    50,
                    2_000,
                    Happening::Kernel {
                        host: index,
                        epoch,
                        ticket,
                    },
                );
            }
            Output::Own { hold: false, .. } => {
                self.digest.add(self.now, index, 4, &[]);
                self.hosts[index].kernel.wanted = None;
                self.hosts[index].kernel.holds = false;
            }
            Output::ProbeHealth => {
                self.meet("fresh probe");
                let healthy = self.hosts[index].healthy;
                let input = Input::Probed { healthy };
                self.after(
                    500,
                    10_000,
                    Happening::Input {
                        host: index,
                        epoch,
                        input,
                    },
                );
            }
            Output::Event(event) => {
                self.meet(label(&event));
                if let Event::State { from, to, .. } = event {
                    self.digest.add(self.now, index, 5, &[rank(from), rank(to)]);
                }
            }
        }
        Ok(())
    }

    fn kernel_done(&mut self, index: usize, epoch: u32, ticket: Ticket) -> Result<(), Violation> {
        if self.hosts[index].epoch != epoch {
            return Ok(());
        }
        let result = if self.random.chance(self.setup.refusals) {
            self.meet("refused by a kernel");
            Err(AddressRefused {
                address: VIP,
                errno: 99,
            })
        } else {
            Ok(())
        };
        // A request that was superseded meanwhile is answered all the same.
        if self.hosts[index].kernel.wanted == Some(ticket) {
            self.hosts[index].kernel.holds = result.is_ok();
        }
        self.give(index, Inbound::Input(Input::Owned { ticket, result }))
    }

    /// The health gate follows the service after a while.
    fn look(&mut self, index: usize, epoch: u32) -> Result<(), Violation> {
        let host = &mut self.hosts[index];
        let verdict = match (host.healthy, host.verdict) {
            (true, _) => Verdict::Healthy,
            (false, Verdict::Unproven) => Verdict::Unproven,
            (false, Verdict::Healthy | Verdict::Failing) => Verdict::Failing,
        };
        host.verdict = verdict;
        if host.epoch == epoch {
            self.give(index, Inbound::Input(Input::Health(verdict)))?;
        }
        Ok(())
    }

    fn fault(&mut self, fault: Fault) -> Result<(), Violation> {
        self.checker.disturbed(self.now);
        let command = |world: &mut Self, host: usize, command: Command| {
            world.give(host, Inbound::Input(Input::Command(command)))
        };
        match fault {
            Fault::Loss(percent) => self.network.loss = percent,
            Fault::Damage(percent) => self.network.damage = percent,
            Fault::Partition(sides) => self.network.partition(|station| sides >> station & 1 == 1),
            Fault::OneWay(from, to) if from != to => self.network.block(from, to),
            Fault::OneWay(..) => {}
            Fault::Heal => self.network.heal(),
            Fault::KernelsObey => self.setup.refusals = 0,
            Fault::KillProcess(host) => self.kill(host, false),
            Fault::KillHost(host) => self.kill(host, true),
            Fault::Start(host) => self.start(host)?,
            Fault::Stop(host) => command(self, host, Command::Stop)?,
            Fault::HandOver(host) => command(self, host, Command::HandOver)?,
            Fault::Stall(host) => self.hosts[host].stalled = true,
            Fault::Resume(host) => self.resume(host)?,
            Fault::LinkDown(host) => {
                self.hosts[host].link = false;
                self.give(
                    host,
                    Inbound::Input(Input::Link(Link::Down(LinkLoss::Carrier))),
                )?;
            }
            Fault::LinkUp(host) => {
                if !self.hosts[host].link {
                    self.hosts[host].link = true;
                    self.hosts[host].heard = false;
                    self.give(host, Inbound::Input(link_up(host)))?;
                }
            }
            Fault::Ill(host) => {
                self.hosts[host].healthy = false;
                self.look_later(host);
            }
            Fault::Well(host) => {
                self.hosts[host].healthy = true;
                self.look_later(host);
            }
        }
        Ok(())
    }

    fn look_later(&mut self, host: usize) {
        let epoch = self.hosts[host].epoch;
        self.after(1_000, 200_000, Happening::Verdict { host, epoch });
    }

    fn kill(&mut self, index: usize, kernel_too: bool) {
        let host = &mut self.hosts[index];
        if host.router.take().is_none() {
            return;
        }
        host.epoch += 1;
        host.stalled = false;
        host.backlog.clear();
        host.kernel.wanted = None;
        self.checker.died(index);
        if kernel_too {
            self.hosts[index].kernel.holds = false;
        } else {
            let epoch = self.hosts[index].epoch;
            self.after(
                2_000_000,
                2_000_000,
                Happening::Expire { host: index, epoch },
            );
        }
    }

    /// A new process, unless one runs; one that left is told to take part again.
    fn start(&mut self, index: usize) -> Result<(), Violation> {
        let host = &mut self.hosts[index];
        if host.router.is_none() {
            host.epoch += 1;
            host.heard = false;
            // Addresses of an earlier process are removed before any advert.
            host.kernel.holds = false;
            host.router = Some(S::with(host.config.clone()));
            // A state record is kept once the host took part.
            host.config.first_claim = false;
            let (link, verdict) = (host.link, host.verdict);
            if link {
                self.act(index, &Cause::Input(link_up(index)))?;
            }
            self.act(index, &Cause::Input(Input::Health(verdict)))?;
        }
        self.give(index, Inbound::Input(Input::Command(Command::Start)))
    }

    /// The process is scheduled again: what waited comes first, then what is due.
    fn resume(&mut self, index: usize) -> Result<(), Violation> {
        self.hosts[index].stalled = false;
        while let Some(inbound) = self.hosts[index].backlog.pop_front() {
            self.give(index, inbound)?;
        }
        let due = self.hosts[index]
            .wakes_at()
            .is_some_and(|due| due <= self.now);
        if due {
            self.act(index, &Cause::Timeout)
        } else {
            Ok(())
        }
    }

    fn broadcast(&mut self, from: usize, frame: &Frame) {
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

/// What a process reads from its packet sockets.
fn read(bytes: &[u8]) -> Option<Input> {
    let (_, from, ethertype, payload) = frame::split(bytes)?;
    match ethertype {
        0x0800 => Received::parse(from, payload).ok().map(Input::Advert),
        arp::ETHERTYPE => arp::Packet::parse(payload).ok().map(Input::Arp),
        _ => None,
    }
}

fn link_up(host: usize) -> Input {
    Input::Link(Link::Up {
        source: source(host),
        mac: mac(host),
    })
}

fn label(event: &Event) -> &'static str {
    use kedge_vip_proto::vrrp::{Because, Notice};
    match event {
        Event::State { because, .. } => match because {
            Because::Silence { .. } => "take-over after silence",
            Because::NobodyHeard { .. } => "take-over, nobody heard",
            Because::Goodbye { .. } => "take-over after a goodbye",
            Because::Preempted { .. } => "take-over by priority",
            Because::Unhealthy { .. } => "take-over by health",
            Because::Better { .. } => "stepped down",
            Because::Stalled { .. } => "let go after a stall",
            Because::AddressInUse { .. } => "address in use",
            Because::Succeeded { .. } => "succeeded",
            Because::NoSuccessor => "no successor",
            _ => "other transition",
        },
        Event::Priority { .. } => "priority changed",
        Event::Notice(Notice::ForeignClaim { .. }) => "foreign claim",
        Event::Notice(Notice::BothChecksums { .. }) => "both checksums",
        Event::Notice(_) => "other notice",
    }
}

fn rank(state: RouterState) -> u8 {
    match state {
        RouterState::Initialize => 0,
        RouterState::Backup => 1,
        RouterState::Active => 2,
        RouterState::Releasing => 3,
        RouterState::Fault => 4,
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

/// What a socket holds for a process that is not scheduled.
const BACKLOG: usize = 256;
