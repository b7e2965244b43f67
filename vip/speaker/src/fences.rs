//! Puts up the fences that the VIP thread wants, and ends the connections of addresses that are
//! lost, on a thread that may be slow: loading rules runs a program.

use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use kedge_core::{Coded, Instant, Problem};
use kedge_net::{
    clock, connections,
    fence::{self, Fence, TableWatch},
    virtual_link::VirtualLinks,
    wait::{Alarm, Doorbell, Waiter},
};
use tracing::{debug, info, warn};

use crate::virtual_links::{Door, opened};

/// The handle: what is wanted, and what stands.
#[derive(Debug)]
pub(crate) struct Fences {
    shared: Arc<Shared>,
    wanted: Vec<Fence>,
    lost: SyncSender<Vec<IpAddr>>,
    doors: SyncSender<Arc<Door>>,
}

/// What became of the fence of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// As it was asked for.
    pub(crate) fence: Fence,
    /// Why it does not stand.
    pub(crate) problem: Option<Problem>,
}

#[derive(Debug)]
struct Shared {
    bell: Doorbell,
    wanted: ArcSwapOption<Vec<Fence>>,
    standing: ArcSwap<BTreeMap<u32, Standing>>,
    over: AtomicBool,
    /// Whether what stands outlives this process.
    stays: AtomicBool,
}

/// The thread's side.
struct Mason {
    shared: Arc<Shared>,
    /// Wakes the VIP thread when something stands or falls.
    tell: Box<dyn Fn() + Send>,
    waiter: Waiter,
    alarm: Alarm,
    watch: Option<TableWatch>,
    /// Why nobody watches.
    unwatched: Option<Problem>,
    wanted: Vec<Fence>,
    standing: BTreeMap<u32, Standing>,
    /// Addresses that are held no longer.
    lost: Receiver<Vec<IpAddr>>,
    /// Virtual links of which less is wanted than there is.
    doors: Receiver<Arc<Door>>,
    links: Option<VirtualLinks>,
    retry_at: Option<Instant>,
}

impl Fences {
    /// Starts the thread in the network namespace of the calling one. `tell` is called on it after
    /// each change.
    pub(crate) fn start(tell: impl Fn() + Send + 'static) -> io::Result<(Self, JoinHandle<()>)> {
        let shared = Arc::new(Shared {
            bell: Doorbell::new()?,
            wanted: ArcSwapOption::empty(),
            standing: ArcSwap::default(),
            over: AtomicBool::new(false),
            stays: AtomicBool::new(false),
        });
        let (lost, queue) = sync_channel(LOST);
        let (doors, lowered) = sync_channel(LOST);
        let mason = Mason::open(Arc::clone(&shared), Box::new(tell), queue, lowered)?;
        let thread = std::thread::Builder::new()
            .name("kedge-vip-fence".into())
            .spawn(move || mason.run())?;
        let wanted = Vec::new();
        let fences = Self {
            shared,
            wanted,
            lost,
            doors,
        };
        Ok((fences, thread))
    }

    /// Makes `wanted` the whole set. Never waits.
    pub(crate) fn want(&mut self, wanted: Vec<Fence>) {
        if wanted != self.wanted {
            self.shared.wanted.store(Some(Arc::new(wanted.clone())));
            self.wanted = wanted;
            self.shared.bell.ring();
        }
    }

    /// Has the connections of addresses end that are held no longer. Never waits: when too many are
    /// lost at once, the users of some find out by themselves.
    pub(crate) fn lost(&self, addresses: Vec<IpAddr>) {
        if self.lost.try_send(addresses).is_ok() {
            self.shared.bell.ring();
        }
    }

    /// Ends and leaves what stands to whoever goes on with the VIPs.
    pub(crate) fn leave_standing(self) {
        self.shared.stays.store(true, Ordering::Release);
    }

    /// Sets a virtual link down or removes it, as is wanted of it. Never waits; it comes back when too
    /// much is asked for at once.
    pub(crate) fn lower(&self, door: Arc<Door>) -> Result<(), Arc<Door>> {
        match self.doors.try_send(door) {
            Ok(()) => {
                self.shared.bell.ring();
                Ok(())
            }
            Err(TrySendError::Full(door) | TrySendError::Disconnected(door)) => Err(door),
        }
    }

    /// What stands, by interface index.
    pub(crate) fn standing(&self) -> Arc<BTreeMap<u32, Standing>> {
        self.shared.standing.load_full()
    }

    /// Whether everything that is wanted was tried.
    pub(crate) fn settled(&self) -> bool {
        let standing = self.shared.standing.load();
        self.wanted.iter().all(|fence| {
            standing
                .get(&fence.ifindex)
                .is_some_and(|it| it.fence == *fence)
        })
    }
}

impl Drop for Fences {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        self.shared.bell.ring();
    }
}

impl Mason {
    fn open(
        shared: Arc<Shared>,
        tell: Box<dyn Fn() + Send>,
        lost: Receiver<Vec<IpAddr>>,
        doors: Receiver<Arc<Door>>,
    ) -> io::Result<Self> {
        let (waiter, alarm) = (Waiter::new()?, Alarm::new()?);
        waiter.add(&shared.bell, BELL)?;
        waiter.add(&alarm, ALARM)?;
        let (watch, unwatched) = match TableWatch::open() {
            Ok(watch) => (Some(watch), None),
            Err(error) => (None, Some(error.problem())),
        };
        if let Some(watch) = &watch {
            waiter.add(watch, WATCH)?;
        }
        Ok(Self {
            shared,
            tell,
            waiter,
            alarm,
            watch,
            unwatched,
            wanted: Vec::new(),
            standing: BTreeMap::new(),
            lost,
            doors,
            links: None,
            retry_at: None,
        })
    }

    fn run(mut self) {
        // Those of a process that died. What cannot be removed is told by what cannot be added.
        let _ = fence::remove_all();
        loop {
            let Ok(ready) = self.waiter.wait() else {
                return;
            };
            let (bell, watch) = (ready.contains(&BELL), ready.contains(&WATCH));
            self.alarm.silence();
            if watch {
                self.look();
            }
            if bell {
                self.shared.bell.silence();
                self.lower();
                self.abort();
                if let Some(wanted) = self.shared.wanted.swap(None) {
                    self.wanted = wanted.to_vec();
                }
                if self.shared.over.load(Ordering::Acquire) {
                    // What was asked for between the two looks.
                    self.lower();
                    if !self.shared.stays.load(Ordering::Acquire) {
                        self.wanted.clear();
                        self.build();
                    }
                    return;
                }
            }
            self.build();
            if self.alarm.set(self.retry_at).is_err() {
                return;
            }
        }
    }

    fn lower(&mut self) {
        for door in self.doors.try_iter() {
            if let Err(error) = opened(&mut self.links).and_then(|links| door.work(links)) {
                let error = &error as &dyn std::error::Error;
                warn!(error, "a virtual link is not what it should be");
            }
        }
    }

    /// Ends the connections of what is lost: their users would wait for a time limit of their own.
    fn abort(&self) {
        let lost: Vec<IpAddr> = self.lost.try_iter().flatten().collect();
        if lost.is_empty() {
            return;
        }
        match connections::abort(&lost) {
            Ok(0) => {}
            Ok(ended) => info!(ended, addresses = ?lost, "connections of lost VIPs are ended"),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                debug!(error, "connections of lost VIPs end by themselves");
            }
        }
    }

    /// Forgets what somebody else removed.
    fn look(&mut self) {
        let Some(watch) = &self.watch else { return };
        if !watch.removed().unwrap_or(true) {
            return;
        }
        // Without an answer nothing is known to be missing.
        if let Ok(there) = fence::standing() {
            self.standing
                .retain(|ifindex, standing| standing.problem.is_some() || there.contains(ifindex));
        }
    }

    /// Makes what stands what is wanted.
    fn build(&mut self) {
        let before = self.standing.clone();
        let gone = |ifindex: &u32| !self.wanted.iter().any(|it| it.ifindex == *ifindex);
        for ifindex in before.keys().filter(|ifindex| gone(ifindex)) {
            if let Some(Standing {
                fence,
                problem: None,
            }) = self.standing.remove(ifindex)
            {
                // Its interface may be gone, and the table with it; a leftover is removed at the
                // next start.
                let _ = fence.remove();
            }
        }
        let due = self.retry_at.is_some_and(|at| at <= clock::now());
        for fence in &self.wanted {
            let known = self.standing.get(&fence.ifindex);
            let tried = known.is_some_and(|it| it.fence == *fence);
            let stands = known.filter(|it| it.problem.is_none()).map(|it| &it.fence);
            if tried && (stands.is_some() || !due) {
                continue;
            }
            let problem = fence.install(stands).err().map(|error| error.problem());
            let fence = fence.clone();
            self.standing
                .insert(fence.ifindex, Standing { fence, problem });
        }
        let failed = self.standing.values().any(|it| it.problem.is_some());
        self.retry_at = match self.retry_at {
            Some(at) if !due && failed => Some(at),
            _ => failed.then(|| clock::now() + RETRY),
        };
        if before != self.standing || self.shared.standing.load().is_empty() {
            self.publish();
        }
    }

    fn publish(&self) {
        let mut standing = self.standing.clone();
        for it in standing.values_mut() {
            it.problem = it.problem.take().or_else(|| self.unwatched.clone());
        }
        self.shared.standing.store(Arc::new(standing));
        (self.tell)();
    }
}

const BELL: u64 = 0;
const ALARM: u64 = 1;
const WATCH: u64 = 2;
/// Releases that wait for the thread.
const LOST: usize = 64;
/// When what was refused is tried again.
const RETRY: Duration = Duration::from_secs(10);
