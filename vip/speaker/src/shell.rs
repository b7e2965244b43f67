//! The one thread: sockets first, then deadlines, outputs in order, then everything slow.

mod desired;
mod execute;
mod instance;
mod interface;
mod place;
mod problems;
mod seal;

use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc::Receiver},
    time::Duration,
};

use kedge_core::{Instant, Machine, Name, Problem};
use kedge_net::{
    address::{Lifetime, Owned, Report as AddressReport},
    clock,
    monitor::Monitor,
    sched::{self, Class},
    wait::{Alarm, Waiter},
};
use kedge_vip_proto::vrrp::{Command as Order, Input, Verdict};
use tokio::sync::oneshot;

use self::instance::Instance;
pub(crate) use self::interface::{Interface, Malformed};
use crate::{
    Settings, StartError, VipSpec,
    reporter::{Outbox, Report},
    speaker::Shared,
};

/// What the handle asks for.
#[derive(Debug)]
pub(crate) enum Command {
    Health {
        name: Name,
        verdict: Verdict,
        because: String,
    },
    Probed {
        name: Name,
        healthy: bool,
    },
    Release(Name),
    Shutdown {
        timeout: Duration,
        done: Option<oneshot::Sender<()>>,
    },
}

#[derive(Debug)]
pub(crate) struct Shell {
    settings: Settings,
    shared: Arc<Shared>,
    commands: Receiver<Command>,
    outbox: Outbox,
    waiter: Waiter,
    alarm: Alarm,
    monitor: Monitor,
    owned: Owned,
    interfaces: BTreeMap<u32, Interface>,
    instances: Vec<Instance>,
    /// What cannot be run as it is configured.
    refused: Vec<(VipSpec, Problem)>,
    /// When a binding that failed for other reasons than the network's shape is tried again, or the
    /// kernel that did not tell that shape is asked again.
    retry_at: Option<Instant>,
    /// Something readers may care about changed: `Some(true)` when they should see it at once.
    news: Option<bool>,
    published_at: Instant,
    leaving: Option<Leaving>,
}

#[derive(Debug)]
struct Leaving {
    deadline: Instant,
    done: Vec<oneshot::Sender<()>>,
}

impl Shell {
    /// Opens what it needs in the calling thread's namespace and removes leftovers, so that no
    /// advert can leave while an address of an earlier process still stands (R18).
    pub(crate) fn open(
        settings: Settings,
        shared: Arc<Shared>,
        commands: Receiver<Command>,
        mut outbox: Outbox,
    ) -> Result<Self, StartError> {
        let mut owned = Owned::open(Lifetime::Leased)?;
        let left = owned.remove_leftovers(None)?;
        if !left.is_empty() {
            let names = left.iter().map(|(_, net)| net.addr().to_string()).collect();
            outbox.say(Report::Leftovers(names));
        }
        let monitor = Monitor::open()?;
        let (waiter, alarm) = (Waiter::new()?, Alarm::new()?);
        waiter.add(&shared.bell, BELL)?;
        waiter.add(&alarm, ALARM)?;
        waiter.add(&monitor, MONITOR)?;
        Ok(Self {
            settings,
            shared,
            commands,
            outbox,
            waiter,
            alarm,
            monitor,
            owned,
            interfaces: BTreeMap::new(),
            instances: Vec::new(),
            refused: Vec::new(),
            retry_at: None,
            news: None,
            published_at: Instant::ZERO,
            leaving: None,
        })
    }

    pub(crate) fn run(mut self) {
        self.schedule();
        loop {
            let (bell, monitor) = match self.waiter.wait() {
                Ok(ready) => (ready.contains(&BELL), ready.contains(&MONITOR)),
                Err(error) => return self.give_up(&error),
            };
            self.alarm.silence();
            // What waited in the sockets counts before any deadline does: after a stall the
            // adverts are there, and only the clock says that they are late.
            let now = clock::now();
            self.take_packets(now);
            self.settle(now);
            if monitor {
                self.observe(now);
            }
            if bell {
                self.shared.bell.silence();
                self.obey(now);
            }
            self.timeouts(clock::now());
            self.tell(clock::now());
            if self.is_over(clock::now()) {
                return self.finish();
            }
            let next = self.next_deadline();
            if let Err(error) = self.alarm.set(next) {
                return self.give_up(&error);
            }
        }
    }

    fn schedule(&mut self) {
        let class = if self.settings.real_time {
            sched::real_time(sched::VRRP_PRIORITY)
        } else {
            Class::Normal
        };
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

    /// Takes what the agent wants.
    fn obey(&mut self, now: Instant) {
        // Commands first out of their queue, then the desired set: whoever applied a VIP and then
        // spoke about it has stored the set before his command came.
        let mut commands = Vec::new();
        while let Ok(command) = self.commands.try_recv() {
            commands.push(command);
        }
        if let Some(desired) = self.shared.desired.swap(None) {
            self.apply(now, &desired);
        }
        for command in commands {
            self.news = Some(true);
            match command {
                Command::Health {
                    name,
                    verdict,
                    because,
                } => {
                    self.with(now, &name, |instance| {
                        instance.health = Some((verdict, because));
                        Input::Health(verdict)
                    });
                }
                Command::Probed { name, healthy } => {
                    self.with(now, &name, |_| Input::Probed { healthy });
                }
                Command::Release(name) => {
                    self.with(now, &name, |_| Input::Command(Order::HandOver));
                }
                Command::Shutdown { timeout, done } => self.leave(now, timeout, done),
            }
        }
    }

    fn with(&mut self, now: Instant, name: &Name, input: impl FnOnce(&mut Instance) -> Input) {
        if let Some(index) = self.position(name)
            && let Some(instance) = self.instances.get_mut(index)
        {
            let input = input(instance);
            self.give(now, index, input);
        }
    }

    fn timeouts(&mut self, now: Instant) {
        for index in 0..self.instances.len() {
            let Some(instance) = self.instances.get_mut(index) else {
                break;
            };
            if instance.router.poll_timeout().is_some_and(|due| due <= now) {
                instance.router.handle_timeout(now);
                self.news.get_or_insert(false);
                self.settle(now);
            }
        }
        self.succeed(now);
        if self.retry_at.is_some_and(|due| due <= now) {
            self.retry_at = None;
            self.observe(now);
            self.place_all(now);
        }
        for interface in self.interfaces.values_mut() {
            interface.ask_for_a_frame(now);
        }
        // After the routers: one that let go after a stall must not get its address back.
        if self.owned.poll_timeout().is_some_and(|due| due <= now) {
            for report in self.owned.handle_timeout(now) {
                self.kept(report);
            }
        }
    }

    /// What became of an address outside a router's own wishes.
    fn kept(&mut self, report: AddressReport) {
        self.news.get_or_insert(false);
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

    fn next_deadline(&self) -> Option<Instant> {
        let routers = self
            .instances
            .iter()
            .filter_map(|instance| instance.router.poll_timeout());
        let asking = self.interfaces.values().filter_map(Interface::ask_at);
        let news = self.news.map(|_| self.published_at + REFRESH);
        let leaving = self.leaving.as_ref().map(|leaving| leaving.deadline);
        let others = [self.owned.poll_timeout(), self.retry_at, news, leaving];
        routers
            .chain(asking)
            .chain(others.into_iter().flatten())
            .min()
    }

    /// Publishes what readers should see.
    fn tell(&mut self, now: Instant) {
        match self.news {
            None => {}
            Some(false) if now.since(self.published_at) < REFRESH => {}
            Some(_) => self.publish(now),
        }
    }

    fn publish(&mut self, now: Instant) {
        self.news = (!self.outbox.catch_up()).then_some(false);
        self.published_at = now;
        for interface in self.interfaces.values_mut() {
            interface.count_lost();
        }
        let refused = self
            .refused
            .iter()
            .map(|(spec, problem)| instance::snapshot_of_refused(spec, problem));
        let mut all: Vec<_> = self
            .instances
            .iter_mut()
            .map(|instance| {
                let interface = instance
                    .ifindex()
                    .and_then(|index| self.interfaces.get(&index));
                instance.snapshot(now, interface)
            })
            .chain(refused)
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        self.shared.snapshot.store(Arc::new(all));
    }
}

const BELL: u64 = 0;
const ALARM: u64 = 1;
const MONITOR: u64 = 2;
const SOCKETS: u64 = 3;

/// How old a snapshot may be about things that happen all the time.
const REFRESH: Duration = Duration::from_millis(100);
/// When sockets that could not be opened are tried again.
const RETRY: Duration = Duration::from_secs(1);
