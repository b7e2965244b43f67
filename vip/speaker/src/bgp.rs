//! BGP neighbours on a thread of their own, which there is from the first one on.
//!
//! ```text
//!  agent ── apply ──► what is wanted (watch) ──► thread: every Session ──► connections, a task each
//!  agent ◄── snapshot (arc-swap) ◄─────────────────┤
//!  agent ◄── events (bounded queue) ◄──────────────┘
//! ```
//!
//! It knows no VIP, only what is offered. No descriptor of it outlives the process: a host whose agent
//! is gone closes its connections, and its routes are gone as fast as that.

mod connection;
mod doors;
mod neighbour;
mod on_link;
mod problems;
mod shell;
mod snapshot;
mod spec;

use std::{collections::BTreeMap, io, net::IpAddr, sync::Arc, thread::JoinHandle, time::Duration};

use arc_swap::ArcSwap;
use kedge_core::{Name, Problem, bfd::Liveness};
use tokio::sync::{mpsc, oneshot, watch};

pub use self::{
    snapshot::{BgpEvent, BgpSnapshot, HeardRoute},
    spec::{AoAlgorithm, BgpSpec, Password, TcpAo},
};
pub use kedge_vip_proto::{
    bgp::{Config, Offer, Offers, Policy, View, What},
    wire::bgp::{Attributes, Family, HoldTime, NextHop, PORT, Prefix, Text},
};

/// Every BGP neighbour of this host.
///
/// Dropping it ends every session at once, and says so.
#[derive(Debug)]
pub struct Bgp {
    port: u16,
    wanted: watch::Sender<Wanted>,
    shown: Arc<Shown>,
    events: mpsc::Receiver<BgpEvent>,
    tell: mpsc::Sender<BgpEvent>,
    thread: Option<JoinHandle<()>>,
    /// Why there is no thread.
    trouble: Option<io::Error>,
}

/// What readers see.
#[derive(Debug, Default)]
struct Shown {
    neighbours: ArcSwap<Vec<BgpSnapshot>>,
    problems: ArcSwap<Vec<Problem>>,
    /// The addresses of neighbours that none was configured for.
    found: watch::Sender<BTreeMap<Name, IpAddr>>,
}

/// All that is wanted, as a whole.
#[derive(Clone, Debug, Default)]
struct Wanted {
    neighbours: Arc<Vec<BgpSpec>>,
    offers: Arc<Offers>,
    liveness: BTreeMap<Name, Liveness>,
    leave: Option<Leave>,
}

/// The order to leave.
#[derive(Clone, Debug)]
struct Leave {
    text: Text,
    timeout: Duration,
    done: Arc<std::sync::Mutex<Option<oneshot::Sender<()>>>>,
}

impl Leave {
    /// Says so to whoever asked.
    fn is_done(&self) {
        let done = self
            .done
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        if let Some(done) = done {
            // Whoever asked may be gone.
            let _ = done.send(());
        }
    }
}

impl Bgp {
    /// No neighbour, and no thread. Neighbours call `port`.
    #[must_use]
    pub fn new(port: u16) -> Self {
        let (tell, events) = mpsc::channel(EVENTS);
        Self {
            port,
            wanted: watch::Sender::default(),
            shown: Arc::default(),
            events,
            tell,
            thread: None,
            trouble: None,
        }
    }

    /// Makes `neighbours` all there are. What did not change notices nothing; one that is missing is
    /// told so, after its routes were taken back.
    ///
    /// The thread runs in the network namespace of the thread that calls this first.
    pub fn apply(&mut self, neighbours: Vec<BgpSpec>) {
        if neighbours.is_empty() && self.thread.is_none() {
            return;
        }
        self.wanted
            .send_modify(|wanted| wanted.neighbours = Arc::new(neighbours));
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished)
            && let Err(error) = self.start()
        {
            self.trouble = Some(error);
        }
    }

    /// Makes `offers` all that is offered. Neighbours are told what changes.
    pub fn offer(&self, offers: Offers) {
        self.wanted.send_if_modified(|wanted| {
            let is_new = *wanted.offers != offers;
            if is_new {
                wanted.offers = Arc::new(offers);
            }
            is_new
        });
    }

    /// What BFD says of the paths to neighbours, by their names.
    pub fn follow(&self, liveness: BTreeMap<Name, Liveness>) {
        self.wanted.send_if_modified(|wanted| {
            let is_new = wanted.liveness != liveness;
            wanted.liveness = liveness;
            is_new
        });
    }

    fn start(&mut self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let shell = shell::Shell::new(
            self.port,
            self.wanted.subscribe(),
            Arc::clone(&self.shown),
            self.tell.clone(),
        );
        let thread = std::thread::Builder::new().name("kedge-bgp".into());
        self.thread = Some(thread.spawn(move || runtime.block_on(shell.run()))?);
        self.trouble = None;
        Ok(())
    }

    /// Every neighbour: changes of state at once, counters at most a second old.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Vec<BgpSnapshot>> {
        self.shown.neighbours.load_full()
    }

    /// The addresses of those neighbours that are whichever router there is on a link, and each change of
    /// that.
    #[must_use]
    pub fn found(&self) -> watch::Receiver<BTreeMap<Name, IpAddr>> {
        self.shown.found.subscribe()
    }

    /// What is wrong that is no neighbour's.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.shown.problems.load().to_vec();
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            problems.push(problems::no_thread("it has ended".to_owned()));
        }
        let trouble = self.trouble.as_ref();
        problems.extend(trouble.map(|error| problems::no_thread(error.to_string())));
        problems
    }

    /// Waits for something to happen. Loses nothing when it is cancelled; a reader that does not
    /// keep up loses events, and the [snapshot](Self::snapshot) has the last word.
    pub async fn event(&mut self) -> Option<BgpEvent> {
        self.events.recv().await
    }

    /// Leaves every neighbour, with a text for the people there: routes are said to go where that
    /// was configured, then taken back, then the session ends. Waits for that, at most `timeout`.
    pub async fn shutdown(&mut self, text: Text, timeout: Duration) {
        if let Some(wait) = self.leave(text, timeout) {
            // An error means that the thread is gone.
            let _ = wait.await;
        }
    }

    fn leave(&self, text: Text, timeout: Duration) -> Option<oneshot::Receiver<()>> {
        self.thread.as_ref()?;
        let (done, wait) = oneshot::channel();
        let leave = Leave {
            text,
            timeout,
            done: Arc::new(std::sync::Mutex::new(Some(done))),
        };
        self.wanted.send_modify(|wanted| wanted.leave = Some(leave));
        Some(wait)
    }
}

impl Drop for Bgp {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let done = Arc::default();
            self.wanted.send_modify(|wanted| {
                wanted.leave = Some(Leave {
                    text: Text::default(),
                    timeout: Duration::ZERO,
                    done,
                });
            });
            // A thread that panicked has said so; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

const EVENTS: usize = 64;
