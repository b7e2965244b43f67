//! The one thread: sockets first, then deadlines, outputs in order, then everything slow.

mod execute;
mod instance;
mod interface;
mod place;
mod problems;

use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc::Receiver},
    time::Duration,
};

use kedge_core::{Instant, Machine, Name, Problem, vip::RouterState};
use kedge_net::{
    address::{Lifetime, Owned, Report as AddressReport},
    clock,
    monitor::Monitor,
    sched::{self, Class},
    wait::{Alarm, Waiter},
};
use kedge_vip_proto::vrrp::{Command as Order, Input, Verdict};
use tokio::sync::oneshot;

use self::instance::{Instance, Next};
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
    /// When a binding that failed for other reasons than the network's shape is tried again.
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
        outbox: Outbox,
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

    fn schedule(&self) {
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
                "memory cannot be locked, so a deadline may wait for a disk",
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
        let found = self
            .instances
            .iter()
            .position(|instance| instance.spec.name == *name);
        if let Some(index) = found
            && let Some(instance) = self.instances.get_mut(index)
        {
            let input = input(instance);
            self.give(now, index, input);
        }
    }

    /// The difference between what runs and what is wanted (R17).
    fn apply(&mut self, now: Instant, desired: &[VipSpec]) {
        if self.leaving.is_some() {
            return;
        }
        self.news = Some(true);
        self.refused.clear();
        for index in 0..self.instances.len() {
            let Some(instance) = self.instances.get_mut(index) else {
                break;
            };
            let name = &instance.spec.name;
            if !desired
                .iter()
                .any(|wanted| wanted.name == *name && wanted.check().is_ok())
            {
                instance.next = Some(Next::Nothing);
                self.give(now, index, Input::Command(Order::Stop));
            }
        }
        for wanted in desired {
            match wanted.config(self.settings.link_up_wait) {
                Err(error) => {
                    let problem = kedge_core::Coded::problem(&error);
                    self.refused.push((wanted.clone(), problem));
                }
                Ok(config) => self.want(now, wanted, config),
            }
        }
        self.place_all(now);
    }

    fn want(&mut self, now: Instant, wanted: &VipSpec, config: kedge_vip_proto::vrrp::Config) {
        let name = &wanted.name;
        let found = self
            .instances
            .iter()
            .position(|instance| instance.spec.name == *name);
        let Some(index) = found else {
            self.instances
                .extend(Instance::new(now, wanted.clone(), config));
            return;
        };
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        if instance.next.is_none() && instance.spec == *wanted {
            return;
        }
        if instance.next.is_none() && instance.spec.is_same_router(wanted) {
            instance.spec = wanted.clone();
            self.give(now, index, Input::Config(config));
        } else {
            instance.next = Some(Next::Replacement(Box::new(wanted.clone())));
            self.give(now, index, Input::Command(Order::Stop));
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
            self.place_all(now);
        }
        for interface in self.interfaces.values_mut() {
            interface.ask_for_a_frame(now);
        }
        // After the routers: one that let go after a stall must not get its address back.
        if self.owned.poll_timeout().is_some_and(|due| due <= now) {
            for report in self.owned.handle_timeout(now) {
                self.outbox.say(match report {
                    AddressReport::Readded {
                        place: (_, net),
                        times,
                    } => Report::Readded {
                        address: net.addr().to_string(),
                        times,
                    },
                    AddressReport::Failed { error, .. } => {
                        Report::Trouble(kedge_core::Coded::problem(&error))
                    }
                });
                self.news.get_or_insert(false);
            }
        }
    }

    /// Ends what has left, and starts what takes its place.
    fn succeed(&mut self, now: Instant) {
        let over = |instance: &Instance| {
            instance.next.is_some() && instance.router.state() == RouterState::Initialize
        };
        if !self.instances.iter().any(over) {
            return;
        }
        let (gone, stay): (Vec<_>, Vec<_>) = self.instances.drain(..).partition(over);
        self.instances = stay;
        for old in gone {
            if let Some(Next::Replacement(spec)) = old.next
                && let Ok(config) = spec.config(self.settings.link_up_wait)
            {
                self.instances
                    .extend(Instance::new(now, *spec, config).map(|mut instance| {
                        instance.health = old.health;
                        instance
                    }));
            }
        }
        self.news = Some(true);
        self.place_all(now);
    }

    fn leave(&mut self, now: Instant, timeout: Duration, done: Option<oneshot::Sender<()>>) {
        let deadline = now + timeout;
        let leaving = self.leaving.get_or_insert(Leaving {
            deadline,
            done: Vec::new(),
        });
        leaving.deadline = leaving.deadline.min(deadline);
        leaving.done.extend(done);
        for index in 0..self.instances.len() {
            let Some(instance) = self.instances.get_mut(index) else {
                break;
            };
            if !matches!(instance.next.replace(Next::Nothing), Some(Next::Nothing)) {
                self.give(now, index, Input::Command(Order::Stop));
            }
        }
    }

    fn is_over(&mut self, now: Instant) -> bool {
        let Some(leaving) = &self.leaving else {
            return false;
        };
        if leaving.deadline <= now {
            for index in 0..self.instances.len() {
                // A hand-over becomes a leave, a leave does not wait any longer.
                self.give(now, index, Input::Command(Order::Stop));
                self.give(now, index, Input::Command(Order::Stop));
            }
            self.succeed(now);
        }
        self.instances.is_empty()
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
        self.news = None;
        self.published_at = now;
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
