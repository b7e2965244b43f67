//! BFD sessions on a thread of their own, which there is from the first session on.
//!
//! ```text
//!  agent ── apply ──► desired set (arc-swap, doorbell) ──► thread: every Session ──► sockets
//!  agent ◄── snapshot (arc-swap), levels (watch) ◄───────────┤
//!  agent ◄── events (bounded queue; the levels lose nothing) ◄┘
//! ```
//!
//! It knows no VIP. Whoever acts on a session follows [`Bfd::levels`].

mod demux;
mod due;
mod instance;
mod pace;
mod problems;
mod shell;
mod snapshot;
mod spec;

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use kedge_core::{Name, Problem};
use kedge_net::wait::Doorbell;
use kedge_vip_proto::wire::bfd as wire;
use tokio::sync::{mpsc, oneshot, watch};

pub use self::{
    snapshot::{BfdEvent, BfdSnapshot, Level},
    spec::BfdSpec,
};
pub use kedge_vip_proto::{
    bfd::{Config, MinTtl, View},
    wire::bfd::{Interval, Multiplier},
};

/// Every BFD session of this host.
///
/// Dropping it leaves at once: each peer is told once that this is no failure.
#[derive(Debug)]
pub struct Bfd {
    real_time: bool,
    shared: Arc<Shared>,
    events: mpsc::Receiver<BfdEvent>,
    tell: mpsc::Sender<BfdEvent>,
    thread: Option<JoinHandle<()>>,
    /// Why there is no thread.
    trouble: Option<io::Error>,
}

/// What every session says, by name.
pub type Levels = Arc<BTreeMap<Name, Level>>;

/// What the handle and the thread share.
#[derive(Debug)]
struct Shared {
    bell: Doorbell,
    desired: ArcSwapOption<Vec<BfdSpec>>,
    snapshot: ArcSwap<Vec<BfdSnapshot>>,
    levels: watch::Sender<Levels>,
    leave: Mutex<Option<Leave>>,
    lost_events: AtomicU64,
}

/// The order to leave.
#[derive(Debug)]
struct Leave {
    timeout: Duration,
    done: Option<oneshot::Sender<()>>,
}

impl Shared {
    fn leaving(&self) -> MutexGuard<'_, Option<Leave>> {
        self.leave.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bfd {
    /// No session, and no thread. With `real_time` the thread asks for `SCHED_FIFO`.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left.
    pub fn new(real_time: bool) -> io::Result<Self> {
        let (tell, events) = mpsc::channel(EVENTS);
        Ok(Self {
            real_time,
            shared: Arc::new(Shared {
                bell: Doorbell::new()?,
                desired: ArcSwapOption::empty(),
                snapshot: ArcSwap::default(),
                levels: watch::Sender::default(),
                leave: Mutex::default(),
                lost_events: AtomicU64::new(0),
            }),
            events,
            tell,
            thread: None,
            trouble: None,
        })
    }

    /// Makes `sessions` the whole desired set. What did not change notices nothing, new timers are
    /// agreed upon with the peer, and what is missing tells its peer that it leaves.
    ///
    /// The thread runs in the network namespace of the thread that calls this first.
    pub fn apply(&mut self, sessions: Vec<BfdSpec>) {
        if sessions.is_empty() && self.thread.is_none() {
            return;
        }
        self.shared.desired.store(Some(Arc::new(sessions)));
        if self.thread.is_none()
            && let Err(error) = self.start()
        {
            self.trouble = Some(error);
        }
        self.shared.bell.ring();
    }

    fn start(&mut self) -> io::Result<()> {
        let shell = shell::Shell::new(Arc::clone(&self.shared), self.tell.clone(), self.real_time)?;
        let thread = std::thread::Builder::new().name("kedge-bfd".into());
        self.thread = Some(thread.spawn(move || shell.run())?);
        self.trouble = None;
        Ok(())
    }

    /// Every session: changes of state at once, counters at most a second old while packets come.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Vec<BfdSnapshot>> {
        self.shared.snapshot.load_full()
    }

    /// What every session says, and each change of that.
    #[must_use]
    pub fn levels(&self) -> watch::Receiver<Levels> {
        self.shared.levels.subscribe()
    }

    /// Waits for something to happen. Loses nothing when it is cancelled; a reader that does not
    /// keep up loses events, and the [levels](Self::levels) have the last word.
    pub async fn event(&mut self) -> Option<BfdEvent> {
        self.events.recv().await
    }

    /// Events that nobody took in time.
    #[must_use]
    pub fn lost_events(&self) -> u64 {
        self.shared.lost_events.load(Ordering::Relaxed)
    }

    /// Why no session runs although some are wanted.
    #[must_use]
    pub fn problem(&self) -> Option<Problem> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return Some(problems::no_thread("it has ended".to_owned()));
        }
        let error = self.trouble.as_ref()?;
        Some(problems::no_thread(error.to_string()))
    }

    /// Tells every peer that this is no failure, waits until each has answered or `timeout` is
    /// over, and ends the thread.
    pub async fn shutdown(&mut self, timeout: Duration) {
        if self.thread.is_none() {
            return;
        }
        let (done, wait) = oneshot::channel();
        self.leave(Leave {
            timeout,
            done: Some(done),
        });
        // An error means that the thread is gone.
        let _ = wait.await;
    }

    fn leave(&self, leave: Leave) {
        *self.shared.leaving() = Some(leave);
        self.shared.bell.ring();
    }
}

impl Drop for Bfd {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.leave(Leave {
                timeout: Duration::ZERO,
                done: None,
            });
            // A thread that panicked has said so; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

/// The ports of BFD.
pub const PORTS: [u16; 2] = [wire::PORT, wire::MULTIHOP_PORT];
const EVENTS: usize = 64;
