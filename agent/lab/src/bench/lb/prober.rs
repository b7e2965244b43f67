//! A client that opens a connection every few milliseconds, whatever became of the ones before.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use kedge_net::netns::Namespace;
use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    runtime::Builder,
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{error::LabError, lab::Lab};

/// A running one.
pub(super) struct Prober {
    over: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Vec<Probe>>>,
}

/// A connection: when it was begun, and whether it was answered in time.
#[derive(Clone, Copy, Debug)]
struct Probe {
    begun: Instant,
    answered: bool,
}

impl Prober {
    pub(super) fn start(lab: &Lab, node: &str, to: SocketAddr) -> Result<Self, LabError> {
        let namespace = Namespace::open(&lab.namespace(node))?;
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = thread::spawn(move || {
            namespace.enter().map_err(io::Error::other)?;
            let runtime = Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(probe(to, &told)))
        });
        Ok(Self { over, thread })
    }

    /// Ends, and says how long after `since` the last connection was begun that failed, in seconds, and how many
    /// did.
    pub(super) fn end(self, since: Instant) -> Result<(f64, usize), LabError> {
        self.over.store(true, Relaxed);
        let ended = self.thread.join();
        let ended = ended.unwrap_or_else(|_| Err(io::Error::other("the prober's thread ended")));
        let probes = ended.map_err(LabError::file("a prober's sockets"))?;
        let failed = probes
            .iter()
            .filter(|probe| !probe.answered && probe.begun >= since);
        let after = failed.map(|probe| probe.begun.duration_since(since).as_secs_f64());
        let after: Vec<f64> = after.collect();
        Ok((after.iter().copied().fold(0.0, f64::max), after.len()))
    }
}

async fn probe(to: SocketAddr, over: &AtomicBool) -> Vec<Probe> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut asking, mut probes) = (JoinSet::new(), Vec::new());
    while !over.load(Relaxed) {
        ticks.tick().await;
        asking.spawn(async move {
            let begun = Instant::now();
            let answered = matches!(timeout(LIMIT, ask(to)).await, Ok(Ok(_)));
            Probe { begun, answered }
        });
        while let Some(probe) = asking.try_join_next() {
            probes.extend(probe);
        }
    }
    while let Some(probe) = asking.join_next().await {
        probes.extend(probe);
    }
    probes
}

async fn ask(to: SocketAddr) -> io::Result<u8> {
    TcpStream::connect(to).await?.read_u8().await
}

const EVERY: Duration = Duration::from_millis(20);
/// A connection that is not answered by then has failed.
const LIMIT: Duration = Duration::from_secs(1);
