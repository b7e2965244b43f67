//! Logging and telling subscribers, on a thread that may be slow.
//!
//! The thread that drives the routers only puts a [`Report`] into a bounded queue. What does not
//! fit is counted and told, except that the last change of state of each VIP is [`Late`] then.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use kedge_core::{Code, Problem};
use kedge_net::{arrival::ArrivalListener, monitor::MacText, station::StationListener};
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::{
    VipEvent,
    late::Late,
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
    Arrival(#[expect(dead_code, reason = "only dropped")] ArrivalListener),
    Station(#[expect(dead_code, reason = "only dropped")] StationListener),
}

/// Where the routers' thread puts its reports.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Boxed: the queue has all its places from the start, and nearly always they are empty.
    queue: SyncSender<Box<Report>>,
    late: Late,
    lost: Arc<AtomicU64>,
}

/// Who listens, and what was lost on the way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscribers {
    list: Arc<Mutex<Vec<Subscriber>>>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Subscriber {
    queue: mpsc::Sender<VipEvent>,
    late: Late,
}

impl Outbox {
    /// Starts the reporting thread; it ends with the outbox.
    pub(crate) fn open(subscribers: Subscribers) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (queue, reports) = sync_channel(QUEUE);
        let outbox = Self {
            queue,
            late: Late::default(),
            lost: Arc::clone(&subscribers.lost),
        };
        let thread = std::thread::Builder::new()
            .name("kedge-vip-log".into())
            .spawn(move || serve(&reports, &subscribers))?;
        Ok((outbox, thread))
    }

    /// Says something, unless the queue is full. Never waits.
    pub(crate) fn say(&mut self, report: Report) {
        let lost = match report {
            Report::Event(event) => self.late.offer(event, into(&self.queue)),
            other => u64::from(self.queue.try_send(Box::new(other)).is_err()),
        };
        self.lost.fetch_add(lost, Ordering::Relaxed);
    }

    /// Says what was late, as far as there is room; whether all of it is said. Never waits.
    pub(crate) fn catch_up(&mut self) -> bool {
        self.late.catch_up(into(&self.queue));
        self.late.is_empty()
    }
}

impl Subscribers {
    pub(crate) fn subscribe(&self) -> mpsc::Receiver<VipEvent> {
        let (queue, receiver) = mpsc::channel(QUEUE);
        let late = Late::default();
        self.lock().push(Subscriber { queue, late });
        receiver
    }

    fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn tell(&self, event: &VipEvent) {
        for Subscriber { queue, late } in self.lock().iter_mut() {
            let lost = late.offer(event.clone(), to(queue));
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }

    /// Tells what was late, as far as there is room; whether all of it is told.
    fn catch_up(&self) -> bool {
        let mut list = self.lock();
        list.retain(|subscriber| !subscriber.queue.is_closed());
        for Subscriber { queue, late } in list.iter_mut() {
            late.catch_up(to(queue));
        }
        list.iter().all(|subscriber| subscriber.late.is_empty())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Subscriber>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts events into the queue of reports.
fn into(queue: &SyncSender<Box<Report>>) -> impl FnMut(VipEvent) -> Result<(), VipEvent> {
    |event| match queue.try_send(Box::new(Report::Event(event))) {
        Err(TrySendError::Full(report)) => match *report {
            Report::Event(event) => Err(event),
            _ => Ok(()),
        },
        // Without a reader nothing waits for room.
        Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
    }
}

/// Puts events into the queue of a subscriber.
fn to(queue: &mpsc::Sender<VipEvent>) -> impl FnMut(VipEvent) -> Result<(), VipEvent> {
    |event| match queue.try_send(event) {
        Err(mpsc::error::TrySendError::Full(event)) => Err(event),
        Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
    }
}

fn serve(reports: &Receiver<Box<Report>>, subscribers: &Subscribers) {
    let mut told = BTreeMap::new();
    let mut losses = Losses::default();
    loop {
        let all_told = losses.tell(subscribers.lost());
        let wait = match (subscribers.catch_up(), all_told) {
            (false, _) => CATCH_UP,
            (true, false) => TELL_EVERY,
            (true, true) => Duration::MAX,
        };
        let report = match reports.recv_timeout(wait) {
            Ok(report) => report,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        match *report {
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
            Report::Trouble(problem) if is_told(&mut told, &problem) => {}
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

/// What was lost, told at most once in [`TELL_EVERY`].
#[derive(Default)]
struct Losses {
    told: u64,
    at: Option<Instant>,
}

impl Losses {
    /// Tells what is new; whether everything is told.
    fn tell(&mut self, lost: u64) -> bool {
        let recent = self.at.is_some_and(|at| at.elapsed() < TELL_EVERY);
        if lost != self.told && !recent {
            let new = lost - self.told;
            warn!(
                lost = new,
                total = lost,
                "events of VIPs were lost: somebody is too slow"
            );
            self.told = lost;
            self.at = Some(Instant::now());
        }
        lost == self.told
    }
}

/// Whether this problem was told a moment ago: what fails twice a second is told once. The sentence
/// names the interface or the address, so that one's trouble does not hide another's.
fn is_told(told: &mut BTreeMap<(Code, String), Instant>, problem: &Problem) -> bool {
    told.retain(|_, at| at.elapsed() < TELL_EVERY);
    let key = (problem.code, problem.what.clone());
    let recent = told.contains_key(&key);
    if !recent {
        told.insert(key, Instant::now());
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
        VipEvent::TakenOver { name, takeover, .. } => {
            let late = takeover.fired.since(takeover.due);
            tracing::debug!(vip = %name, ?late, "the VIP was taken over");
        }
        VipEvent::Heard {
            name,
            peer,
            goodbye,
            ..
        } => tracing::debug!(vip = %name, %peer, goodbye, "another Active is heard"),
        VipEvent::ProbeNow(name) => tracing::debug!(vip = %name, "a fresh probe is asked for"),
        VipEvent::Problem { name, problem } => {
            warn!(vip = %name, KEDGE_CODE = %problem.code, evidence = ?problem.evidence, "{}", problem.what);
        }
    }
}

const QUEUE: usize = 1024;
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How often a subscriber that has no room is tried again.
const CATCH_UP: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
