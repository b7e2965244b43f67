//! Answers benches of peers, where that is allowed: bounded in time and rate, one at a time, and only to
//! who comes by the tunnel's interface.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kedge_core::Instant;
use kedge_net::clock;
use kedge_tunnel_proto::bench::{Direction, Gate, PORT, Pace, Request, Tally, Verdict};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
    time::{sleep, timeout, timeout_at},
};
use tracing::{debug, info};

/// Benches that are answered, as long as they are wanted.
#[derive(Debug, Default)]
pub struct Benches(Option<(Wanted, Answering)>);

/// Where benches are answered, and up to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The tunnel's interface.
    pub ifname: String,
    /// The addresses of this end.
    pub on: Vec<IpAddr>,
    /// Which opening of the device they are on.
    pub opening: u64,
    /// The highest rate, in Mbit/s.
    pub mbps: u32,
}

#[derive(Debug)]
struct Answering {
    // Dropping the set ends the tasks, and with them every bench.
    _tasks: JoinSet<()>,
}

impl Benches {
    /// Answers what is wanted from here on; what fails is tried again with the next call.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn tend(&mut self, wanted: Option<Wanted>) {
        let wanted = wanted.filter(|it| it.mbps > 0 && !it.on.is_empty());
        if self.0.as_ref().map(|(now, _)| now) == wanted.as_ref() {
            return;
        }
        self.0 = None;
        let Some(wanted) = wanted else { return };
        match Answering::start(&wanted) {
            Ok(answering) => self.0 = Some((wanted, answering)),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                debug!(error, "benches are not answered yet");
            }
        }
    }
}

impl Answering {
    fn start(wanted: &Wanted) -> io::Result<Self> {
        let gate = Arc::new(Mutex::new(Gate::default()));
        let mut tasks = JoinSet::new();
        for address in &wanted.on {
            let listener = listen(&wanted.ifname, *address)?;
            tasks.spawn(answer(listener, Arc::clone(&gate), wanted.mbps));
        }
        Ok(Self { _tasks: tasks })
    }
}

/// Only what comes by the interface is heard: somebody on the LAN may send to an address of the tunnel as
/// well.
fn listen(ifname: &str, address: IpAddr) -> io::Result<TcpListener> {
    let socket = match address {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind_device(Some(ifname.as_bytes()))?;
    socket.bind(SocketAddr::new(address, PORT))?;
    socket.listen(BACKLOG)
}

async fn answer(listener: TcpListener, gate: Arc<Mutex<Gate>>, limit: u32) {
    let mut tasks = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                while tasks.try_join_next().is_some() {}
                if tasks.len() >= GUESTS {
                    continue;
                }
                tasks.spawn(serve(stream, from, Arc::clone(&gate), limit));
            }
            Err(error) => {
                debug!(
                    error = &error as &dyn std::error::Error,
                    "nobody could be let in"
                );
                sleep(PAUSE).await;
            }
        }
    }
}

async fn serve(mut stream: TcpStream, from: SocketAddr, gate: Arc<Mutex<Gate>>, limit: u32) {
    let mut bytes = [0; Request::LENGTH];
    let read = timeout(MANNERS, stream.read_exact(&mut bytes)).await;
    let Some(request) = read
        .ok()
        .and_then(Result::ok)
        .and_then(|_| Request::parse(&bytes).ok())
    else {
        return;
    };
    let verdict = open(&gate).ask(clock::now(), request, limit);
    if stream.write_all(&verdict.emit()).await.is_err() {
        if matches!(verdict, Verdict::Granted { .. }) {
            open(&gate).ended();
        }
        return;
    }
    let Verdict::Granted { seconds, mbps } = verdict else {
        return;
    };
    let _ends = Ends(gate);
    let time = Duration::from_secs(seconds.into());
    info!(%from, direction = ?request.direction, seconds, mbps, because = "a peer asked", "bench");
    let pace = Pace::new(mbps);
    let outcome = match request.direction {
        Direction::Up => take(&mut stream, time, pace).await,
        Direction::Down => give(&mut stream, time, pace).await,
    };
    if let Err(error) = outcome {
        debug!(%from, error = &error as &dyn std::error::Error, "the bench ended early");
    }
}

/// Whatever becomes of a bench, the next one may come.
struct Ends(Arc<Mutex<Gate>>);

impl Drop for Ends {
    fn drop(&mut self) {
        open(&self.0).ended();
    }
}

fn open(gate: &Mutex<Gate>) -> std::sync::MutexGuard<'_, Gate> {
    gate.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes what comes, no faster than allowed, and says how much that was.
async fn take(stream: &mut TcpStream, time: Duration, pace: Pace) -> io::Result<()> {
    let end = tokio::time::Instant::now() + time + LAST;
    let mut buffer = vec![0; pace.chunk()];
    let (begun, mut last, mut bytes) = (clock::now(), Duration::ZERO, 0);
    loop {
        match timeout_at(end, stream.read(&mut buffer)).await {
            Ok(Ok(0)) | Err(_) => break,
            Ok(Ok(length)) => bytes += u64::try_from(length).unwrap_or_default(),
            Ok(Err(error)) => return Err(error),
        }
        last = clock::now().since(begun);
        keep(pace, begun, bytes).await;
    }
    let tally = Tally { bytes, time: last };
    stream.write_all(&tally.emit()).await
}

/// Gives as much as is allowed.
async fn give(stream: &mut TcpStream, time: Duration, pace: Pace) -> io::Result<()> {
    let end = tokio::time::Instant::now() + time;
    let buffer = vec![0; pace.chunk()];
    let (begun, mut bytes) = (clock::now(), 0);
    // Who takes nothing any more is not waited for.
    while let Ok(sent) = timeout_at(end, stream.write(&buffer)).await {
        bytes += u64::try_from(sent?).unwrap_or_default();
        keep(pace, begun, bytes).await;
        if tokio::time::Instant::now() >= end {
            break;
        }
    }
    timeout(LAST, stream.shutdown()).await.unwrap_or(Ok(()))
}

async fn keep(pace: Pace, begun: Instant, bytes: u64) {
    let ahead = pace.due(bytes).saturating_sub(clock::now().since(begun));
    // The timer's own grain.
    if ahead >= Duration::from_millis(1) {
        sleep(ahead).await;
    }
}

/// How long somebody may take to say what is wanted.
const MANNERS: Duration = Duration::from_secs(5);
/// What is still on its way at the end.
const LAST: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);
/// Connections at once, all but one of which are told to come later.
const GUESTS: usize = 8;
const BACKLOG: u32 = 8;
