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

/// A connection: when it was begun, and after how long it was answered, if it was in time.
#[derive(Clone, Copy, Debug)]
struct Probe {
    begun: Instant,
    answered: Option<Duration>,
}

/// What became of its connections since something happened, in seconds after that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// When the last one was begun that failed.
    pub(super) failing: f64,
    /// When the last one was begun that failed, or was answered late: by its second back end.
    pub(super) late: f64,
    /// How many failed.
    pub(super) failed: usize,
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

    /// Ends, and says what became of the connections that were begun after `since`.
    pub(super) fn end(self, since: Instant) -> Result<Seen, LabError> {
        self.over.store(true, Relaxed);
        let ended = self.thread.join();
        let ended = ended.unwrap_or_else(|_| Err(io::Error::other("the prober's thread ended")));
        let probes = ended.map_err(LabError::file("a prober's sockets"))?;
        let after: Vec<&Probe> = probes.iter().filter(|it| it.begun >= since).collect();
        let last = |is: &dyn Fn(&Probe) -> bool| {
            let begun = after.iter().filter(|it| is(it)).map(|it| it.begun);
            let last = begun.max();
            last.map_or(0.0, |last| last.duration_since(since).as_secs_f64())
        };
        let fails = |it: &Probe| it.answered.is_none();
        Ok(Seen {
            failing: last(&fails),
            late: last(&|it| it.answered.is_none_or(|took| took > LATE)),
            failed: after.iter().filter(|it| fails(it)).count(),
        })
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
            let answer = timeout(LIMIT, ask(to)).await;
            let answered = matches!(answer, Ok(Ok(_))).then(|| begun.elapsed());
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
/// Whom Envoy does not reach within half a second it leaves for another one.
const LATE: Duration = Duration::from_millis(400);
const LIMIT: Duration = Duration::from_secs(1);
