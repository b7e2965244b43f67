//! The one thread: sockets first, then deadlines, outputs in order, then everything slow.

mod absence;
mod beat;
mod desired;
mod ear;
mod estate;
mod execute;
mod fence;
mod group;
mod guarded;
mod instance;
mod interface;
mod obey;
mod orphan;
mod pace;
mod place;
mod problems;
mod prove;
mod publish;
mod riders;
mod seal;
mod stamps;
mod virtual_mac;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    ops::ControlFlow,
    sync::{Arc, mpsc::Receiver},
    time::Duration,
};

use kedge_core::{Instant, Machine, Name, Problem, vip::RouterState};
use kedge_net::{
    address::{Lifetime, Owned, Report as AddressReport},
    clock,
    monitor::Monitor,
    sched::{self, Class},
    wait::Waiter,
};
use kedge_vip_proto::{
    vrrp::{Command as Order, Reject, Verdict},
    wire::vrrp::MAX_LEN,
};
use tokio::sync::oneshot;

pub(crate) use self::interface::{Interface, Malformed};
use self::{beat::Lull, ear::Ear, estate::Heirs, fence::Postponed, instance::Instance};
use crate::{
    Settings, StartError, Tracks, VipSpec,
    fences::Fences,
    guardian::{Estate, Link, Mastership},
    reporter::{Outbox, Report},
    selftest::Timers,
    speaker::Shared,
    virtual_links::Doors,
};

/// What the handle asks for.
#[derive(Debug)]
pub(crate) enum Command {
    Health {
        name: Name,
        verdict: Verdict,
        because: String,
    },
    Tracks {
        name: Name,
        tracks: Tracks,
    },
    Probed {
        name: Name,
        healthy: bool,
    },
    Order {
        name: Name,
        order: Order,
        done: Option<oneshot::Sender<Result<(), Reject>>>,
    },
    /// The process of the router at that address ended.
    PeerGone {
        ifindex: u32,
        address: IpAddr,
    },
    /// Somebody waits to see everything as it is.
    Show {
        done: oneshot::Sender<()>,
    },
    StandAside {
        done: oneshot::Sender<bool>,
    },
    Shutdown {
        timeout: Duration,
        done: Option<oneshot::Sender<()>>,
    },
}

#[derive(Debug)]
pub(crate) struct Shell {
    settings: Settings,
    shared: Arc<Shared>,
    commands: Receiver<Box<Command>>,
    outbox: Outbox,
    waiter: Waiter,
    /// What is being sent. One buffer for all: one that is made for each advert is cleared for each.
    message: Box<[u8; MAX_LEN]>,
    lull: Lull,
    ear: Ear,
    /// Whether somebody's patience is over, and this host may be deaf.
    is_deaf: bool,
    monitor: Monitor,
    owned: Owned,
    /// Who puts up fences; nobody does for one that only hands over.
    fences: Option<Fences>,
    part: Part,
    timers: Timers,
    doors: Doors,
    interfaces: BTreeMap<u32, Interface>,
    instances: Vec<Instance>,
    /// What cannot be run as it is configured.
    refused: Vec<(VipSpec, Problem)>,
    /// When a binding that failed for other reasons than the network's shape is tried again, or the
    /// kernel that did not tell that shape is asked again.
    retry_at: Option<Instant>,
    /// Something changed that readers should see at once.
    news: bool,
    /// Readers who want to see everything as it is.
    readers: Vec<oneshot::Sender<()>>,
    /// When what was too much for the outbox is offered to it again.
    catch_up_at: Option<Instant>,
    published_at: Instant,
    leaving: Option<Leaving>,
    /// What an agent before this one left, until this one knows what it wants.
    estate: Option<Estate>,
    /// The same afterwards, while it waits for its heirs.
    heirs: Option<Heirs>,
    /// Whether another agent is to go on from here.
    stands_aside: bool,
    /// Until when a guardian keeps the VIPs for another agent.
    keeps_until: Option<Instant>,
    /// What is wanted as soon as the fences allow it.
    postponed: Option<Postponed>,
    /// What was said meanwhile about VIPs that are not there yet.
    early: BTreeMap<Name, Early>,
    /// Whether it is known what is wanted, and so what is left over.
    applied: bool,
}

/// Whose shell it is.
#[derive(Debug)]
pub(crate) enum Part {
    /// An agent's, and what tells its guardian.
    Agent(Option<Link>),
    /// A guardian's, until another agent overtakes.
    Guardian(Arc<Mastership>),
}

impl Part {
    /// The page that says which VIPs are held here.
    fn page(&self) -> Option<&Mastership> {
        match self {
            Self::Agent(link) => link.as_ref().map(Link::page),
            Self::Guardian(page) => Some(page),
        }
    }
}

/// What was said of a VIP that is wanted and waits for a fence.
#[derive(Debug, Default)]
struct Early {
    tracks: Option<Tracks>,
    health: Option<(Verdict, String)>,
}

/// Why a thread ends.
#[derive(Debug)]
enum End {
    /// Another agent took over from this guardian.
    Overtaken,
    /// Another agent goes on.
    StandsAside,
    /// Everything is given back.
    Left,
}

#[derive(Debug)]
struct Leaving {
    deadline: Instant,
    done: Vec<oneshot::Sender<()>>,
}

impl Shell {
    /// Opens what it needs in the calling thread's namespace and removes leftovers, so that no
    /// advert can leave while an address of an earlier process still stands (R18). Where VIPs are
    /// `kept` for this process, that waits until each has gone on or cannot.
    pub(crate) fn open(
        settings: Settings,
        shared: Arc<Shared>,
        commands: Receiver<Box<Command>>,
        outbox: Outbox,
        fences: Fences,
        guardian: Option<Link>,
        estate: Option<Estate>,
    ) -> Result<Self, StartError> {
        let part = Part::Agent(guardian);
        let mut shell = Self::build(settings, shared, commands, outbox, part)?;
        shell.ear = Ear::open(clock::now());
        shell.fences = Some(fences);
        if estate.is_some() {
            shell.estate = estate;
            return Ok(shell);
        }
        shell.remove_leftovers()?;
        shell.lower_leftovers();
        Ok(shell)
    }

    fn build(
        settings: Settings,
        shared: Arc<Shared>,
        commands: Receiver<Box<Command>>,
        outbox: Outbox,
        part: Part,
    ) -> Result<Self, StartError> {
        let owned = Owned::open(Lifetime::Leased)?;
        let monitor = Monitor::open()?;
        monitor.leave_out_renewals()?;
        let waiter = Waiter::new()?;
        waiter.add(&shared.bell, BELL)?;
        waiter.add(&monitor, MONITOR)?;
        Ok(Self {
            settings,
            shared,
            commands,
            outbox,
            waiter,
            message: Box::new([0; MAX_LEN]),
            lull: Lull::default(),
            ear: Ear::default(),
            is_deaf: false,
            monitor,
            owned,
            fences: None,
            part,
            timers: Timers::default(),
            doors: Doors::default(),
            interfaces: BTreeMap::new(),
            instances: Vec::new(),
            refused: Vec::new(),
            retry_at: None,
            news: false,
            readers: Vec::new(),
            catch_up_at: None,
            published_at: Instant::ZERO,
            leaving: None,
            estate: None,
            heirs: None,
            stands_aside: false,
            keeps_until: None,
            postponed: None,
            early: BTreeMap::new(),
            applied: false,
        })
    }

    pub(crate) fn run(mut self) {
        match self.part {
            Part::Agent(_) => self.schedule(),
            // What it starts with counts as new.
            Part::Guardian(_) => self.shared.bell.ring(),
        }
        let mut deadline = self.next_deadline();
        loop {
            let ready = match self.waiter.wait_until(deadline) {
                Ok(ready) => [BELL, MONITOR, SOCKETS].map(|key| ready.contains(&key)),
                Err(error) => return self.give_up(&error),
            };
            match self.turn(ready) {
                ControlFlow::Continue(next) => deadline = next,
                ControlFlow::Break(End::Overtaken) => return,
                ControlFlow::Break(End::StandsAside) => return self.vanish(),
                ControlFlow::Break(End::Left) => return self.finish(),
            }
        }
    }

    /// Does what there is to do; says when there is more, unless something comes in before.
    fn turn(&mut self, [bell, monitor, sockets]: [bool; 3]) -> ControlFlow<End, Option<Instant>> {
        if self.is_overtaken() {
            return ControlFlow::Break(End::Overtaken);
        }
        // What waited in the sockets counts before any deadline does: after a stall the
        // adverts are there, and only the clock says that they are late.
        let now = clock::now();
        if !(bell || monitor || sockets) && self.beat(now) {
            return ControlFlow::Continue(self.next_beat());
        }
        if sockets {
            self.take_packets(now);
            self.settle(now);
        }
        if monitor {
            self.observe(now);
        }
        if bell {
            self.shared.bell.silence();
            self.obey(now);
        }
        if self.stands_aside {
            return ControlFlow::Break(End::StandsAside);
        }
        let now = clock::now();
        let was_deaf = std::mem::take(&mut self.is_deaf);
        if self.waiting(now).next().is_some() {
            self.is_deaf = !self.ear.hears(now);
            if self.is_deaf && !was_deaf {
                self.waiting(now).for_each(|it| it.counters.count("deaf"));
            }
            // The same of what came meanwhile: a page of the program may have come from a slow disk.
            self.take_packets(now);
            self.settle(now);
        }
        self.timeouts(now);
        self.tell(clock::now(), bell);
        if self.is_over(clock::now()) {
            return ControlFlow::Break(End::Left);
        }
        let next = self.next_deadline();
        ControlFlow::Continue(match next {
            // Whoever hands packets over has to get the processor for it.
            Some(next) if self.is_deaf => Some(next.max(now + ear::PAUSE)),
            next => next,
        })
    }

    /// Those who stand by and whose patience is over.
    fn waiting(&mut self, now: Instant) -> impl Iterator<Item = &mut Instance> {
        self.instances.iter_mut().filter(move |it| {
            let is_due = it.router.poll_timeout().is_some_and(|due| due <= now);
            is_due && it.router.state() != RouterState::Active
        })
    }

    fn schedule(&mut self) {
        let class = if self.settings.real_time {
            sched::real_time(sched::VRRP_PRIORITY)
        } else {
            Class::Normal
        };
        // Where the C library asked for none there is nothing to spare.
        let _ = sched::without_restartable_sequences();
        // Set once, by this thread only.
        let _ = self.shared.class.set(class);
        self.outbox.say(Report::Scheduled(class));
        if self.settings.lock_memory
            && let Err(error) = sched::lock_memory()
        {
            let problem = Problem::warning(
                kedge_core::Code::NetPermission,
                "memory cannot be locked, so a deadline may wait for a disk: set \
                 LimitMEMLOCK=infinity or give CAP_IPC_LOCK",
            );
            self.outbox
                .say(Report::Trouble(problem.evidence(error.to_string())));
        }
    }

    /// Takes what the kernel says about links and addresses.
    fn observe(&mut self, now: Instant) {
        match self.monitor.drain() {
            Ok(changes) => {
                if changes.addresses || changes.links {
                    self.place_all(now);
                    self.owned.compare(now, &self.monitor);
                }
            }
            Err(error) => {
                let problem = kedge_core::Coded::problem(&error);
                self.outbox.say(Report::Trouble(problem));
                // What was lost is not told again: the kernel must be asked.
                self.retry_at = Some(now + RETRY);
            }
        }
    }

    fn timeouts(&mut self, now: Instant) {
        for index in 0..self.instances.len() {
            let Some(instance) = self.instances.get_mut(index) else {
                break;
            };
            let is_due = instance.router.poll_timeout().is_some_and(|due| due <= now);
            let waits = self.is_deaf && instance.router.state() != RouterState::Active;
            if is_due && !waits {
                instance.stamps.fires(now, &instance.router);
                instance.router.handle_timeout(now);
                instance.stamps.fired(&instance.router);
                self.settle(now);
            }
        }
        self.succeed(now);
        if self.postponed.as_ref().is_some_and(|it| it.until <= now) {
            self.obey(now);
        }
        if self.heirs.as_ref().is_some_and(|it| it.until() <= now) {
            self.settle_estate(now);
        }
        self.end_keeping(now);
        if self.retry_at.is_some_and(|due| due <= now) {
            self.retry_at = None;
            self.observe(now);
            self.place_all(now);
        }
        self.try_riders(now);
        for interface in self.interfaces.values_mut() {
            interface.ask_for_a_frame(now);
        }
        // After the routers: one that let go after a stall must not get its address back.
        if self.owned.is_due(now) {
            for report in self.owned.handle_timeout(now) {
                self.kept(report);
            }
        }
    }

    /// What became of an address outside a router's own wishes.
    fn kept(&mut self, report: AddressReport) {
        self.outbox.say(match report {
            AddressReport::Readded { place, times } => {
                let mut holders = self.instances.iter_mut();
                if let Some(holder) = holders.find(|one| one.held.contains(&place)) {
                    holder.counters.count("address_readded");
                }
                let address = place.1.addr().to_string();
                Report::Readded { address, times }
            }
            AddressReport::Failed { error, .. } => {
                Report::Trouble(kedge_core::Coded::problem(&error))
            }
        });
    }

    /// Ends without a word: another agent goes on.
    fn vanish(mut self) {
        if let Some(fences) = self.fences.take() {
            fences.leave_standing();
        }
        self.publish(clock::now());
    }

    fn finish(mut self) {
        for error in self.owned.reconcile(clock::now(), []) {
            self.outbox
                .say(Report::Trouble(kedge_core::Coded::problem(&error)));
        }
        self.publish(clock::now());
        for done in self
            .leaving
            .take()
            .into_iter()
            .flat_map(|leaving| leaving.done)
        {
            // Nobody waits when the future was dropped.
            let _ = done.send(());
        }
    }

    /// Waiting itself failed: without deadlines nothing can be held safely.
    fn give_up(mut self, error: &std::io::Error) {
        let problem = Problem::new(
            kedge_core::Code::SysUnexpected,
            "the VIP thread cannot wait for its sockets and ends",
        );
        self.outbox
            .say(Report::Trouble(problem.evidence(error.to_string())));
        self.leave(clock::now(), Duration::ZERO, None);
        self.is_over(clock::now());
        self.finish();
    }
}

const BELL: u64 = 0;
const MONITOR: u64 = 1;
const SOCKETS: u64 = 2;

/// When sockets that could not be opened are tried again.
const RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
