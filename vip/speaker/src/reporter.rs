//! Logging and telling subscribers, on a thread that may be slow.
//!
//! The thread that drives the routers only puts a [`Report`] into a bounded queue. A report that
//! does not fit is counted; the snapshot holds the state anyway.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use kedge_core::{Code, Problem};
use kedge_net::{monitor::MacText, station::StationListener};
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::{
    VipEvent,
    shell::{Interface, Malformed},
};

/// What the routers' thread has to say.
#[derive(Debug)]
pub(crate) enum Report {
    /// For subscribers and the log.
    Event(VipEvent),
    /// A packet was dropped; at most one of these in ten seconds per interface.
    Malformed {
        interface: String,
        malformed: Malformed,
    },
    /// Something of the shell's own that is no event of a VIP.
    Trouble(Problem),
    /// The routers' thread got its scheduling class.
    Scheduled(kedge_net::sched::Class),
    /// Addresses a process before us left behind are gone.
    Leftovers(Vec<String>),
    /// Somebody removed an address; it is back.
    Readded { address: String, times: u32 },
    /// Something to be closed where it may take its time.
    Close(Closing),
}

/// Packet sockets: closing one waits for an RCU grace period, measured at 7 to 37 ms, which is
/// more than the routers' thread may sleep.
#[derive(Debug)]
pub(crate) enum Closing {
    Interface(#[expect(dead_code, reason = "only dropped")] Box<Interface>),
    Station(#[expect(dead_code, reason = "only dropped")] StationListener),
}

/// Where the routers' thread puts its reports.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: SyncSender<Report>,
    lost: Arc<AtomicU64>,
}

/// Who listens, and what was lost on the way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscribers {
    list: Arc<Mutex<Vec<mpsc::Sender<VipEvent>>>>,
    lost: Arc<AtomicU64>,
}

impl Outbox {
    /// Starts the reporting thread; it ends with the outbox.
    pub(crate) fn open(subscribers: Subscribers) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (queue, reports) = sync_channel(QUEUE);
        let lost = Arc::clone(&subscribers.lost);
        let thread = std::thread::Builder::new()
            .name("kedge-vip-log".into())
            .spawn(move || serve(&reports, &subscribers))?;
        Ok((Self { queue, lost }, thread))
    }

    /// Says something, unless the queue is full. Never waits.
    pub(crate) fn say(&self, report: Report) {
        if self.queue.try_send(report).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Subscribers {
    pub(crate) fn subscribe(&self) -> mpsc::Receiver<VipEvent> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        self.lock().push(sender);
        receiver
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn tell(&self, event: &VipEvent) {
        self.lock()
            .retain(|subscriber| match subscriber.try_send(event.clone()) {
                Ok(()) => true,
                Err(mpsc::error::TrySendError::Closed(_)) => false,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                    true
                }
            });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<mpsc::Sender<VipEvent>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve(reports: &Receiver<Report>, subscribers: &Subscribers) {
    let mut told = BTreeMap::new();
    while let Ok(report) = reports.recv() {
        match report {
            Report::Event(event) => {
                log(&event);
                subscribers.tell(&event);
            }
            Report::Malformed {
                interface,
                malformed,
            } => warn!(
                interface,
                reason = malformed.reason,
                from = %MacText(malformed.mac),
                "a packet was dropped, as are others like it"
            ),
            Report::Trouble(problem) if is_told(&mut told, problem.code) => {}
            Report::Trouble(problem) => {
                warn!(KEDGE_CODE = %problem.code, evidence = ?problem.evidence, "{}", problem.what);
            }
            Report::Scheduled(class) => info!(class = %class, "the VIP thread runs"),
            Report::Leftovers(addresses) => {
                info!(?addresses, "addresses that were left behind are removed");
            }
            Report::Readded { address, times } => {
                warn!(
                    address,
                    times, "somebody removed an address, and it is back"
                );
            }
            Report::Close(closing) => drop(closing),
        }
    }
}

/// Whether a problem of this kind was told a moment ago: what fails twice a second is told once.
fn is_told(told: &mut BTreeMap<Code, Instant>, code: Code) -> bool {
    let recent = told.get(&code).is_some_and(|at| at.elapsed() < TELL_EVERY);
    if !recent {
        told.insert(code, Instant::now());
    }
    recent
}

fn log(event: &VipEvent) {
    match event {
        VipEvent::State {
            name,
            from,
            to,
            because,
            ..
        } => {
            info!(vip = %name, %from, %to, because, "the VIP changed state");
        }
        VipEvent::Priority {
            name,
            from,
            to,
            because,
        } => {
            info!(vip = %name, %from, %to, because, "the VIP's priority changed");
        }
        VipEvent::ProbeNow(name) => tracing::debug!(vip = %name, "a fresh probe is asked for"),
        VipEvent::Problem { name, problem } => {
            warn!(vip = %name, KEDGE_CODE = %problem.code, evidence = ?problem.evidence, "{}", problem.what);
        }
    }
}

const QUEUE: usize = 1024;
const TELL_EVERY: Duration = Duration::from_secs(10);
