//! One bound address that takes datagrams: each client's go to its member, and the answers back.

use std::{
    collections::HashMap,
    error::Error,
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use kedge_control::balance::Member;
use tokio::{
    net::UdpSocket,
    sync::watch,
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};
use tracing::{debug, info};

use crate::{
    listener::{Shared, bind, stopped},
    sessions::{Sessions, Way},
};

/// Runs a listener of datagrams until it is told to stop. Sessions end with it.
pub(crate) async fn run(
    shared: Arc<Shared>,
    idle: Duration,
    mut stop: watch::Receiver<Option<Duration>>,
) {
    let socket = tokio::select! {
        socket = bind(&shared, try_bind) => socket,
        () = stopped(&mut stop) => return,
    };
    let mut server = Server {
        sessions: Arc::new(Mutex::new(Sessions::new(idle, shared.limits.connections))),
        ways: HashMap::new(),
        socket: Arc::new(socket),
        shared,
    };
    let mut sweep = interval((idle / 4).clamp(SWEEP_LEAST, SWEEP_MOST));
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let open = server.sessions().len();
        server.shared.counters.is_open(open);
        tokio::select! {
            () = stopped(&mut stop) => break,
            ready = server.socket.readable() => match ready {
                Ok(()) => server.take(),
                Err(error) => {
                    debug!(error = &error as &dyn Error, "a socket cannot be read");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            _ = sweep.tick() => server.expire(),
        }
    }
    server.shared.counters.is_open(0);
    info!(listener = server.shared.name(), "listener closed");
}

struct Server {
    shared: Arc<Shared>,
    socket: Arc<UdpSocket>,
    sessions: Arc<Mutex<Sessions>>,
    ways: HashMap<SocketAddr, Upstream>,
}

/// The socket of a session, and who reads the answers from it.
struct Upstream {
    socket: Arc<UdpSocket>,
    answers: JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.answers.abort();
    }
}

impl Server {
    /// Takes what has come.
    fn take(&mut self) {
        let mut room = [0; LARGEST];
        for _ in 0..BATCH {
            let (length, client) = match self.socket.try_recv_from(&mut room) {
                Ok(taken) => taken,
                // Nothing is left, or a client refused an answer: the next datagram is another's.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => continue,
            };
            let bytes = room.get(..length).unwrap_or_default();
            self.pass_on(client, bytes);
        }
    }

    fn pass_on(&mut self, client: SocketAddr, bytes: &[u8]) {
        if !self.shared.ranges.has(client.ip()) {
            self.shared.counters.outside.add();
            return;
        }
        let way = {
            let mut pool = self.shared.pool();
            self.sessions().datagram(Instant::now(), client, &mut pool)
        };
        match way {
            Way::Same => {}
            Way::Opened(member) => {
                self.shared.counters.accepted.add();
                match self.open(client, &member, bytes) {
                    Ok(upstream) => {
                        self.ways.insert(client, upstream);
                        return;
                    }
                    Err(error) => {
                        let error = &error as &dyn Error;
                        debug!(host = member.host, error, "no socket for a session");
                        self.shared.counters.unreachable.add();
                        self.sessions().end(client, &mut self.shared.pool());
                        self.ways.remove(&client);
                        return;
                    }
                }
            }
            Way::Full => {
                self.shared.counters.full.add();
                return;
            }
            Way::Nobody => {
                self.shared.counters.unreachable.add();
                self.ways.remove(&client);
                return;
            }
        }
        if let Some(upstream) = self.ways.get(&client) {
            // Datagrams may be lost: one that finds no room is not waited for.
            let _ = upstream.socket.try_send(bytes);
        }
    }

    /// Opens a session with its first datagram.
    fn open(&self, client: SocketAddr, member: &Member, first: &[u8]) -> io::Result<Upstream> {
        let socket = self.shared.means.datagrams(member)?;
        // The runtime does not know yet that the socket has room. What is lost here is lost as on any way.
        let _ = socket.send(first);
        let socket = Arc::new(UdpSocket::from_std(socket)?);
        let answers = answer(
            Arc::clone(&socket),
            Arc::clone(&self.socket),
            Arc::clone(&self.sessions),
            client,
        );
        Ok(Upstream {
            answers: tokio::spawn(answers),
            socket,
        })
    }

    fn expire(&mut self) {
        let over = {
            let mut pool = self.shared.pool();
            self.sessions().expire(Instant::now(), &mut pool)
        };
        for client in over {
            self.ways.remove(&client);
        }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        locked(&self.sessions)
    }
}

/// Carries the answers of a session's member to its client, until it is aborted.
async fn answer(
    from: Arc<UdpSocket>,
    to: Arc<UdpSocket>,
    sessions: Arc<Mutex<Sessions>>,
    client: SocketAddr,
) {
    while from.readable().await.is_ok() {
        if carry(&from, &to, client) {
            locked(&sessions).answered(Instant::now(), client);
        }
    }
}

/// Carries what has come; whether anything has. The room for it is not kept by whoever waits.
fn carry(from: &UdpSocket, to: &UdpSocket, client: SocketAddr) -> bool {
    let mut room = [0; LARGEST];
    let mut any = false;
    for _ in 0..BATCH {
        match from.try_recv(&mut room) {
            Ok(length) => {
                any = true;
                let bytes = room.get(..length).unwrap_or_default();
                let _ = to.try_send_to(bytes, client);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // Nobody listens there: the host says so for each datagram.
            Err(_) => {}
        }
    }
    any
}

fn try_bind(at: SocketAddr) -> io::Result<(UdpSocket, SocketAddr)> {
    let socket = std::net::UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    let at = socket.local_addr()?;
    Ok((UdpSocket::from_std(socket)?, at))
}

fn locked(sessions: &Mutex<Sessions>) -> MutexGuard<'_, Sessions> {
    sessions.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The largest datagram there is, bytes (RFC 768).
const LARGEST: usize = 65_535;
/// Datagrams of one socket before others have a turn.
const BATCH: usize = 64;
const PAUSE: Duration = Duration::from_millis(100);
const SWEEP_LEAST: Duration = Duration::from_millis(100);
const SWEEP_MOST: Duration = Duration::from_secs(5);
