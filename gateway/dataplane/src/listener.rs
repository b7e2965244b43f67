//! One bound address: bind, accept, give every client to a connection task, drain.

use std::{
    error::Error,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kedge_control::local::ListenerStatus;
use kedge_core::{Code, Fix, Problem};
use kedge_net::splice;
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::{Notify, mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{debug, info, warn};

use crate::{
    connection::{Client, probe, reset, serve},
    counters::Counters,
    means::Means,
    pool::Pool,
    proxied::Told,
    ranges::Ranges,
};

/// Bounds of the data plane.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections one listener holds at a time; more are reset and counted.
    pub connections: usize,
    /// How long one connect to a member may take.
    pub connect: Duration,
    /// How often a refused member is asked again.
    pub recheck: Duration,
    /// After how much silence of a peer a connection ends (keepalives, unacknowledged data).
    pub silence: Duration,
    /// How long the connections of a removed listener may go on.
    pub drain: Duration,
    /// How long a client may take to say by TLS whom it wants, and a load balancer before the gateway to say
    /// who the client is.
    pub hello: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connect: Duration::from_millis(1_500),
            recheck: Duration::from_millis(500),
            silence: Duration::from_secs(20),
            drain: Duration::from_secs(30),
            hello: Duration::from_secs(5),
        }
    }
}

/// What the listener's tasks and its observers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub at: SocketAddr,
    pub limits: Limits,
    pub means: Arc<Means>,
    pub counters: Counters,
    /// Rings when a member was refused.
    pub recheck: Notify,
    pub told: Told,
    pub ranges: Ranges,
    name: Mutex<String>,
    pool: Mutex<Pool>,
    /// That of the door, where clients come through one.
    binding: Arc<Mutex<Binding>>,
}

#[derive(Clone, Debug)]
enum Binding {
    Waiting,
    Bound(SocketAddr),
    Failed(Problem),
}

impl Shared {
    pub fn new(name: String, at: SocketAddr, limits: Limits, means: Arc<Means>) -> Self {
        Self {
            at,
            limits,
            means,
            counters: Counters::default(),
            recheck: Notify::new(),
            told: Told::default(),
            ranges: Ranges::default(),
            name: Mutex::new(name),
            pool: Mutex::default(),
            binding: Arc::new(Mutex::new(Binding::Waiting)),
        }
    }

    /// Of somebody whose clients come through a door.
    pub fn behind(door: &Self, name: String) -> Self {
        let mut shared = Self::new(name, door.at, door.limits, Arc::clone(&door.means));
        shared.binding = Arc::clone(&door.binding);
        shared
    }

    pub fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn name(&self) -> String {
        self.name
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn rename(&self, name: String) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    pub fn status(&self) -> ListenerStatus {
        let bound = match self.binding() {
            Binding::Bound(at) => Some(at),
            Binding::Waiting | Binding::Failed(_) => None,
        };
        let at = bound.unwrap_or(self.at);
        ListenerStatus {
            name: self.name(),
            address: at.ip(),
            port: at.port(),
            bound: bound.is_some(),
            accepted: self.counters.accepted.get(),
            open: self.counters.open.get(),
            refused: self.counters.refused(),
            members: self.pool().status(),
        }
    }

    /// What is wrong with the place.
    pub fn of_place(&self) -> Option<Problem> {
        match self.binding() {
            Binding::Failed(problem) => Some(problem.object(self.object())),
            Binding::Waiting | Binding::Bound(_) => None,
        }
    }

    /// What is wrong with whom it leads to.
    pub fn of_members(&self) -> Option<Problem> {
        let pool = self.pool();
        if !pool.any_alive() {
            let members = pool.status();
            let mut problem =
                Problem::new(Code::GatewayNoMember, "the listener has no live member")
                    .object(self.object())
                    .consequence("connections to it are reset at once")
                    .fix(
                        Fix::text("bring back one of the hosts or its tunnel")
                            .command("kedge tunnel list"),
                    );
            problem.evidence = members
                .iter()
                .take(8)
                .map(|member| format!("{}: {}", member.host, member.because))
                .collect();
            if members.is_empty() {
                problem = problem.evidence("the manager gave it no member");
            }
            return Some(problem);
        }
        None
    }

    /// Whether there is no room for more connections.
    pub fn of_room(&self) -> Option<Problem> {
        let open = self.counters.open.get();
        if open >= u64::try_from(self.limits.connections).unwrap_or(u64::MAX) {
            return Some(
                Problem::warning(Code::GatewayListenerFull, "the listener has no room left")
                    .object(self.object())
                    .evidence(format!("{open} connections are open"))
                    .evidence(format!(
                        "{} were turned away since it was bound",
                        self.counters.full.get()
                    ))
                    .consequence("more connections are reset at once")
                    .fix(Fix::text("find out who holds so many connections")),
            );
        }
        None
    }

    fn object(&self) -> String {
        format!("listeners/{}", self.name())
    }

    /// Whether it is not bound, and why not where that is known.
    pub fn unbound(&self) -> Option<Option<Problem>> {
        match self.binding() {
            Binding::Bound(_) => None,
            Binding::Waiting => Some(None),
            Binding::Failed(problem) => Some(Some(problem)),
        }
    }

    fn binding(&self) -> Binding {
        self.binding
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set_binding(&self, binding: Binding) {
        *self.binding.lock().unwrap_or_else(PoisonError::into_inner) = binding;
    }
}

/// Runs a listener until `stop` says how long its connections may go on, then drains them. Each
/// client is what `each` makes of it.
pub(crate) async fn run<F>(
    shared: Arc<Shared>,
    mut stop: watch::Receiver<Option<Duration>>,
    each: impl Fn(Client) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let bound = tokio::select! {
        listener = bind(&shared, |at| try_bind(at, shared.limits.silence)) => Some(listener),
        () = stopped(&mut stop) => None,
    };
    if let Some(listener) = bound {
        let source = Source::Socket(listener);
        accept(&shared, source, &mut connections, &mut stop, each).await;
        info!(
            listener = shared.name(),
            open = connections.len(),
            "listener closed"
        );
    }
    shared.set_binding(Binding::Waiting);
    drain(&shared, connections, &stop).await;
}

/// As [`run`], for somebody to whom clients come through a door.
pub(crate) async fn run_behind(
    shared: Arc<Shared>,
    clients: mpsc::Receiver<Client>,
    mut stop: watch::Receiver<Option<Duration>>,
) {
    let mut connections = JoinSet::new();
    let each = |client| serve(client, Arc::clone(&shared));
    let source = Source::Door(clients);
    accept(&shared, source, &mut connections, &mut stop, each).await;
    drain(&shared, connections, &stop).await;
}

async fn drain(
    shared: &Shared,
    mut connections: JoinSet<()>,
    stop: &watch::Receiver<Option<Duration>>,
) {
    let limit = stop.borrow().unwrap_or_default();
    let drained = timeout(limit, async {
        while connections.join_next().await.is_some() {}
    })
    .await;
    if drained.is_err() {
        warn!(
            listener = shared.name(),
            open = connections.len(),
            "connections outlived their listener's drain and are closed"
        );
    }
}

/// Where clients come from.
enum Source {
    Socket(TcpListener),
    Door(mpsc::Receiver<Client>),
}

impl Source {
    async fn next(&mut self) -> io::Result<Client> {
        match self {
            Self::Socket(listener) => {
                let (socket, _) = listener.accept().await?;
                Ok(Client {
                    socket,
                    said: Vec::new(),
                    proxied: None,
                })
            }
            Self::Door(clients) => match clients.recv().await {
                Some(client) => Ok(client),
                // Nobody can come any more; it is told to stop as well.
                None => std::future::pending().await,
            },
        }
    }
}

async fn accept<F>(
    shared: &Arc<Shared>,
    mut source: Source,
    connections: &mut JoinSet<()>,
    stop: &mut watch::Receiver<Option<Duration>>,
    each: impl Fn(Client) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut probes = JoinSet::new();
    let mut recheck_at: Option<Instant> = None;
    let mut complained: Option<Instant> = None;
    loop {
        shared.counters.open.set(connections.len());
        tokio::select! {
            () = stopped(stop) => return,
            came = source.next() => match came {
                Ok(client) => admit(shared, client, connections, &each),
                Err(error) => {
                    // Out of descriptors, most likely: the backlog waits, we must not spin.
                    if complained.is_none_or(|at| at.elapsed() > COMPLAIN_EVERY) {
                        complained = Some(Instant::now());
                        warn!(listener = shared.name(), error = &error as &dyn Error, "accept failed");
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = shared.recheck.notified(), if recheck_at.is_none() => {
                recheck_at = Some(Instant::now() + shared.limits.recheck);
            }
            () = sleep_until(recheck_at.unwrap_or_else(Instant::now)), if recheck_at.is_some() => {
                while probes.try_join_next().is_some() {}
                let waiting = shared.pool().to_probe();
                recheck_at = (!waiting.is_empty()).then(|| Instant::now() + shared.limits.recheck);
                if probes.is_empty() {
                    for member in waiting {
                        probes.spawn(probe(member, Arc::clone(shared)));
                    }
                }
            }
        }
    }
}

/// Returns when the listener was told to stop, or nobody is left to tell it.
pub(crate) async fn stopped(stop: &mut watch::Receiver<Option<Duration>>) {
    let _ = stop.wait_for(Option::is_some).await.map(drop);
}

fn admit<F>(
    shared: &Shared,
    client: Client,
    connections: &mut JoinSet<()>,
    each: impl Fn(Client) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    shared.counters.accepted.add();
    if connections.len() >= shared.limits.connections {
        shared.counters.full.add();
        reset(&client.socket);
        return;
    }
    connections.spawn(each(client));
}

/// Binds the listener's address, however long that takes.
pub(crate) async fn bind<T>(
    shared: &Shared,
    try_bind: impl Fn(SocketAddr) -> io::Result<(T, SocketAddr)>,
) -> T {
    let mut pause = BIND_PAUSE;
    loop {
        match try_bind(shared.at) {
            Ok((listener, at)) => {
                shared.set_binding(Binding::Bound(at));
                info!(listener = shared.name(), address = %at, "listener bound");
                return listener;
            }
            Err(error) => {
                let problem = bind_problem(shared.at, &error);
                debug!(
                    listener = shared.name(),
                    error = &error as &dyn Error,
                    "bind failed"
                );
                if pause >= BIND_PAUSE_MOST && !matches!(shared.binding(), Binding::Failed(_)) {
                    warn!(
                        listener = shared.name(),
                        KEDGE_CODE = %problem.code,
                        error = &error as &dyn Error,
                        "listener cannot be bound, retrying"
                    );
                }
                shared.set_binding(Binding::Failed(problem));
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(BIND_PAUSE_MOST);
    }
}

fn try_bind(at: SocketAddr, silence: Duration) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if at.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    // Every connection that is accepted is as its listener is: what is set here is set for all of them.
    splice::prepare(&socket, silence)?;
    socket.bind(at)?;
    let listener = socket.listen(BACKLOG)?;
    let at = listener.local_addr()?;
    Ok((listener, at))
}

fn bind_problem(at: SocketAddr, error: &io::Error) -> Problem {
    let (code, what, fix) = match error.kind() {
        io::ErrorKind::AddrInUse => (
            Code::GatewayPortInUse,
            format!("port {} on {} is taken", at.port(), at.ip()),
            Fix::text("find the process that listens there and stop or move it")
                .command(format!("ss -Hltnp 'sport = :{}'", at.port())),
        ),
        io::ErrorKind::PermissionDenied => (
            Code::NetPermission,
            format!("no permission to listen on port {}", at.port()),
            Fix::text("run the gateway with CAP_NET_BIND_SERVICE"),
        ),
        io::ErrorKind::AddrNotAvailable => (
            Code::NetKernel,
            format!("{} is no address of this machine", at.ip()),
            Fix::text("give the machine the address, or correct the gateway's public address")
                .command("ip address show"),
        ),
        _ => (
            Code::NetKernel,
            format!("the kernel does not let us listen on {at}"),
            Fix::text("the evidence says what the kernel objects to"),
        ),
    };
    Problem::new(code, what)
        .evidence(format!("bind {at}: {error}"))
        .consequence("the listener serves nobody; binding is tried again every second")
        .fix(fix)
}

const BACKLOG: u32 = 1_024;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);
/// A listener that moves to another name frees its port within moments: ask soon, then rarely.
const BIND_PAUSE: Duration = Duration::from_millis(25);
const BIND_PAUSE_MOST: Duration = Duration::from_secs(1);
