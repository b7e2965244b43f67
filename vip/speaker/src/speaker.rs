//! The handle: what the agent asks for, and what it can read.

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use kedge_core::{Code, Coded, Instant, Name, Problem};
use kedge_net::{
    address::AddressError,
    clock,
    monitor::MonitorError,
    privilege::{self, Unprivileged},
    sched::Class,
    wait::Doorbell,
};
use kedge_vip_proto::vrrp::{Config, Reject, Verdict};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Tracks, VipEvent, VipSnapshot, VipSpec,
    fences::Fences,
    group,
    guardian::{Keeper, Program, unguarded},
    reporter::{Outbox, Subscribers},
    shell::{Command, Shell},
};

/// How the speaker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Ask for `SCHED_FIFO`. Without it, or when it is refused, short intervals are not safe
    /// under load.
    pub real_time: bool,
    /// Keep the process's pages in memory once they were touched. A refusal is told, and the
    /// speaker goes on.
    pub lock_memory: bool,
    /// How long to wait at most for a frame from another station before a first claim.
    pub link_up_wait: Duration,
}

/// Every VIP of this host, on one thread of its own, in the network namespace of the thread that
/// started it.
///
/// Dropping it leaves at once: the addresses go, and a goodbye is sent, unless it
/// [stood aside](Self::stand_aside).
#[derive(Debug)]
pub struct Speaker {
    shared: Arc<Shared>,
    /// Boxed: the queue has all its places from the start, and nearly always they are empty.
    commands: SyncSender<Box<Command>>,
    subscribers: Subscribers,
    threads: Vec<JoinHandle<()>>,
    keeper: Guarding,
}

/// Who hands the VIPs over when the process dies.
#[derive(Debug)]
enum Guarding {
    Unwanted,
    By(Keeper),
    Failed(Arc<Problem>),
}

/// What an operator wants of a VIP, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// To be given to another host; this one stays its Backup.
    Give,
    /// To be taken from an Active of lower priority.
    Take,
    /// To be taken as soon as its Active gives it, by this host before any other.
    Succeed,
}

/// The speaker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The process may not change the network.
    #[error(transparent)]
    Permission(#[from] Unprivileged),
    /// The kernel's network cannot be observed.
    #[error("cannot observe the network")]
    Monitor(#[from] MonitorError),
    /// Addresses cannot be changed, or leftovers not removed.
    #[error("cannot take charge of the VIP's addresses")]
    Address(#[from] AddressError),
    /// No descriptors or no thread.
    #[error("cannot start the VIP thread")]
    Thread(#[from] io::Error),
}

/// What the handle and the thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bell: Doorbell,
    pub(crate) desired: ArcSwapOption<Vec<VipSpec>>,
    snapshot: ArcSwap<Vec<VipSnapshot>>,
    /// When that was written, ns on the clock of [`clock`].
    written: AtomicU64,
    pub(crate) class: OnceLock<Class>,
    refused_commands: AtomicU64,
}

impl Shared {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            bell: Doorbell::new()?,
            desired: ArcSwapOption::empty(),
            snapshot: ArcSwap::default(),
            written: AtomicU64::new(0),
            class: OnceLock::new(),
            refused_commands: AtomicU64::new(0),
        })
    }

    /// Lets readers see this.
    pub(crate) fn publish(&self, snapshot: Vec<VipSnapshot>, now: Instant) {
        self.snapshot.store(Arc::new(snapshot));
        self.written.store(now.as_nanos(), Ordering::Release);
    }

    fn is_old(&self) -> bool {
        let written = Instant::from_nanos(self.written.load(Ordering::Acquire));
        clock::now().since(written) >= OLD
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            real_time: true,
            lock_memory: true,
            link_up_wait: Config::LINK_UP_WAIT,
        }
    }
}

impl Speaker {
    /// Removes what an earlier process left behind and starts the thread, with no VIP.
    ///
    /// # Errors
    ///
    /// See [`StartError`].
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        Self::start_guarded(settings, None)
    }

    /// As [`start`](Self::start), with a guardian that hands the VIPs over when this process dies.
    ///
    /// # Errors
    ///
    /// See [`StartError`].
    pub fn start_guarded(
        settings: Settings,
        guardian: Option<Program>,
    ) -> Result<Self, StartError> {
        privilege::check()?;
        let shared = Arc::new(Shared::new()?);
        let (commands, queue) = sync_channel(COMMANDS);
        let subscribers = Subscribers::default();
        let (outbox, reporter) = Outbox::open(subscribers.clone())?;
        let ring = Arc::clone(&shared);
        let (fences, mason) = Fences::start(move || ring.bell.ring())?;
        let ring = Arc::clone(&shared);
        // Before anything of an earlier agent is touched: its guardian may be at work.
        let (keeper, link, estate) = match guardian {
            Some(program) => match Keeper::start(program, move || ring.bell.ring()) {
                Ok((keeper, link, estate)) => (Guarding::By(keeper), Some(link), estate),
                // The VIPs are served without one as well.
                Err(error) => {
                    let problem = Arc::new(unguarded(&error));
                    (Guarding::Failed(problem), None, None)
                }
            },
            None => (Guarding::Unwanted, None, None),
        };
        let shell = Shell::open(
            settings,
            Arc::clone(&shared),
            queue,
            outbox,
            fences,
            link,
            estate,
        )?;
        let thread = std::thread::Builder::new()
            .name("kedge-vip".into())
            .spawn(move || shell.run())?;
        Ok(Self {
            shared,
            commands,
            subscribers,
            threads: vec![thread, reporter, mason],
            keeper,
        })
    }

    /// Makes `vips` the whole desired set. What did not change emits nothing; what is missing
    /// leaves gracefully.
    ///
    /// In each group of VIPs that move together one leads, whatever their `follows` says.
    pub fn apply(&self, mut vips: Vec<VipSpec>) {
        group::appoint(&mut vips);
        self.shared.desired.store(Some(Arc::new(vips)));
        self.shared.bell.ring();
    }

    /// Says what this host's health is for a VIP.
    pub fn health(&self, name: &Name, verdict: Verdict, because: String) {
        let name = name.clone();
        self.command(Command::Health {
            name,
            verdict,
            because,
        });
    }

    /// Says what is tracked for a VIP, all of it as one.
    pub fn tracks(&self, name: &Name, tracks: Tracks) {
        let name = name.clone();
        self.command(Command::Tracks { name, tracks });
    }

    /// Answers a [`VipEvent::ProbeNow`].
    pub fn probed(&self, name: &Name, healthy: bool) {
        let name = name.clone();
        self.command(Command::Probed { name, healthy });
    }

    /// Gives a VIP to another host and stays as its Backup. Without another host it comes back.
    pub fn release(&self, name: &Name) {
        self.command(Command::Order {
            name: name.clone(),
            order: kedge_vip_proto::vrrp::Command::HandOver,
            done: None,
        });
    }

    /// Gives a VIP away or takes it; the answer says whether that was begun. Without an answer
    /// the thread is gone, or too busy to take it.
    #[must_use]
    pub fn order(&self, name: &Name, order: Order) -> oneshot::Receiver<Result<(), Reject>> {
        let (done, answer) = oneshot::channel();
        self.command(Command::Order {
            name: name.clone(),
            order: match order {
                Order::Give => kedge_vip_proto::vrrp::Command::HandOver,
                Order::Take => kedge_vip_proto::vrrp::Command::Take,
                Order::Succeed => kedge_vip_proto::vrrp::Command::Succeed,
            },
            done: Some(done),
        });
        answer
    }

    /// Says that the process of the router at `address`, seen through the interface, ended.
    pub fn peer_gone(&self, ifindex: u32, address: IpAddr) {
        self.command(Command::PeerGone { ifindex, address });
    }

    /// Every VIP: changes of state at once, and everything else as it was when somebody looked last. If
    /// that is a second ago it is written down anew for whoever looks next; who cannot wait for that
    /// [refreshes](Self::refresh) it. Never waits.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Vec<VipSnapshot>> {
        if self.shared.is_old() {
            self.shared.bell.ring();
        }
        self.shared.snapshot.load_full()
    }

    /// Has everything written down as it is; the answer says when the [`snapshot`](Self::snapshot) holds
    /// it. Without an answer the thread is gone, or too busy to take it.
    #[must_use]
    pub fn refresh(&self) -> oneshot::Receiver<()> {
        let (done, answer) = oneshot::channel();
        self.command(Command::Show { done });
        answer
    }

    /// What happens from here on. A receiver that does not keep up loses events, which the log
    /// tells, but never the last change of a VIP's state: that comes when there is room.
    #[must_use]
    pub fn events(&self) -> mpsc::Receiver<VipEvent> {
        self.subscribers.subscribe()
    }

    /// Commands that did not fit the queue, because the thread did not run for long.
    #[must_use]
    pub fn refused_commands(&self) -> u64 {
        self.shared.refused_commands.load(Ordering::Relaxed)
    }

    /// The scheduling class of the thread.
    #[must_use]
    pub fn scheduling(&self) -> Class {
        self.shared.class.get().copied().unwrap_or(Class::Normal)
    }

    /// Why the VIPs have no guardian at present, although they should.
    #[must_use]
    pub fn guardian_problem(&self) -> Option<Arc<Problem>> {
        match &self.keeper {
            Guarding::Unwanted => None,
            Guarding::By(keeper) => keeper.problem(),
            Guarding::Failed(problem) => Some(Arc::clone(problem)),
        }
    }

    /// Whether the thread runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.threads
            .first()
            .is_some_and(|thread| !thread.is_finished())
    }

    /// Leaves: says goodbye, keeps answering until a successor is heard or `timeout` is over,
    /// then drops the addresses. The last snapshot stays readable.
    pub async fn shutdown(&self, timeout: Duration) {
        let (done, wait) = oneshot::channel();
        self.command(Command::Shutdown {
            timeout,
            done: Some(done),
        });
        // An error means that the thread is gone, and with it whatever it held.
        let _ = wait.await;
    }

    /// Stops, and leaves the VIPs to the guardian for another agent that starts within seconds and
    /// goes on with them. Whether that was done: without a guardian, or while it leaves, everything
    /// is as before.
    pub async fn stand_aside(&self) -> bool {
        let Guarding::By(keeper) = &self.keeper else {
            return false;
        };
        let (done, wait) = oneshot::channel();
        self.command(Command::StandAside { done });
        let kept = wait.await.unwrap_or(false);
        if kept {
            keeper.release();
        }
        kept
    }

    fn command(&self, command: Command) {
        match self.commands.try_send(Box::new(command)) {
            Ok(()) => self.shared.bell.ring(),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.shared.refused_commands.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        self.command(Command::Shutdown {
            timeout: Duration::ZERO,
            done: None,
        });
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

impl Coded for StartError {
    fn problem(&self) -> Problem {
        match self {
            Self::Permission(error) => error.problem(),
            Self::Monitor(error) => error.problem(),
            Self::Address(error) => error.problem(),
            Self::Thread(error) => {
                Problem::new(Code::SysUnexpected, self.to_string()).evidence(error.to_string())
            }
        }
    }
}

const COMMANDS: usize = 1024;
/// How old may be what nobody looked at.
pub(crate) const OLD: Duration = Duration::from_secs(1);
