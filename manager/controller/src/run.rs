//! The role: opens the store, serves, and leaves in order.

use std::{
    fmt,
    future::pending,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{Router, extract::FromRequestParts};
use kedge_control::{identity::DEFAULT_TRUST_DOMAIN, local::ConfigInForce};
use kedge_core::{Code, Problem};
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    task::JoinSet,
    time::interval,
};
use tracing::{info, warn};

use crate::{
    api::{self, serve::House},
    calm::Calm,
    clock::Clock,
    health,
    pki::{self, Authority},
    socket,
    store::{
        Store,
        directory::Directory,
        kubernetes::{self, lease::Terms},
        watch::Watch,
    },
    world::World,
};

/// What the manager runs with.
pub struct ManagerOptions {
    /// Where the objects are.
    pub place: Place,
    /// Where the agent API listens.
    pub listen: SocketAddr,
    /// Where other managers reach this one's agent API; left out it is `listen`, or where that
    /// names no address, the one this machine speaks to the cluster from.
    pub advertise: Option<SocketAddr>,
    /// The terms of the lease that says who of several managers writes.
    pub lease: Terms,
    /// The trust domain of identities.
    pub trust_domain: String,
    /// How often everything is read again, whatever the watch says.
    pub rescan: Duration,
    /// The life of a host's certificate.
    pub certificate_life: Duration,
    /// The namespaces whose clusters' kubeconfig Secrets may be read and rewritten.
    pub kubeconfig_namespaces: Vec<String>,
    /// Where health and metrics are served; nowhere when left out.
    pub observed: Option<Observed>,
    /// The configuration in force, for `GET /v1/config`.
    pub config: Option<ConfigInForce>,
    /// The time.
    pub clock: Clock,
    /// Told how far the role is.
    pub lifecycle: Box<dyn Fn(Lifecycle<'_>) + Send + Sync>,
}

/// Where health and metrics are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The address.
    pub listen: SocketAddr,
    /// Whether the manager does not start where it is taken.
    pub required: bool,
}

/// Where the objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a folder.
    Directory(PathBuf),
    /// In the cluster of a kubeconfig file.
    Kubeconfig(PathBuf),
    /// In the cluster this manager runs in.
    InCluster,
}

/// How far the role is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle<'a> {
    /// It serves.
    Ready,
    /// One line about it.
    Status(&'a str),
    /// The planner goes round: feed the watchdog.
    Alive,
    /// It has come to rest after its start, or after much work: what that took can be given back.
    AtRest,
    /// It leaves.
    Stopping,
}

impl ManagerOptions {
    /// Options with every default.
    #[must_use]
    pub fn new(dir: &Path, listen: SocketAddr) -> Self {
        Self {
            place: Place::Directory(dir.to_owned()),
            listen,
            advertise: None,
            lease: Terms::default(),
            trust_domain: DEFAULT_TRUST_DOMAIN.to_owned(),
            rescan: Duration::from_secs(10),
            certificate_life: Duration::from_secs(86_400),
            kubeconfig_namespaces: Vec::new(),
            observed: None,
            config: None,
            clock: Clock::system(),
            lifecycle: Box::new(|_| {}),
        }
    }
}

impl fmt::Debug for ManagerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerOptions")
            .field("place", &self.place)
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

/// A running manager; it ends when dropped.
#[derive(Debug)]
pub struct Manager {
    /// Where the agent API listens.
    pub address: SocketAddr,
    /// Where health and metrics are served.
    pub observed: Option<SocketAddr>,
    /// The world.
    pub world: Arc<World>,
    tasks: JoinSet<()>,
    control: Arc<socket::Context>,
    _watch: Option<Watch>,
}

impl Manager {
    /// Starts a manager. Everything that can fail fails here.
    ///
    /// # Errors
    ///
    /// The store or the port cannot be used.
    pub async fn start(options: &ManagerOptions) -> Result<Self, Problem> {
        let started = (Instant::now(), options.clock.text());
        let (store, root) = open(options).await?;
        let authority = Arc::new(Authority::load_or_create(&store, &options.clock).await?);
        let tls = pki::server::config(&authority)?;
        let listener = api::serve::listen(options.listen).await?;
        let address = listener.local_addr().unwrap_or(options.listen);
        let health = observe(options.observed).await?;
        let observed = health.as_ref().and_then(|it| it.local_addr().ok());
        let terms = (options.trust_domain.as_str(), options.certificate_life);
        let world = World::start(store, authority, options.clock.clone(), terms).await;
        let mut tasks = JoinSet::new();
        let watch = root.and_then(|root| watch(&root, &world, options.rescan));
        if let Some(changed) = world.store.changed() {
            let world = Arc::clone(&world);
            tasks.spawn(async move {
                loop {
                    changed.notified().await;
                    world.files_changed.notify_one();
                }
            });
        }
        let control = Arc::new(socket::Context {
            world: Arc::clone(&world),
            agent_api: address.to_string(),
            started,
            config: options.config.clone(),
        });
        let planner = Arc::clone(&world);
        let rescan = options.rescan;
        tasks.spawn(async move { planner.run(rescan).await });
        world.access.allow(&options.kubeconfig_namespaces);
        tasks.spawn(Arc::clone(&world).look_around());
        tasks.spawn(Arc::clone(&world).mind_authority());
        let routes = api::routes(Arc::clone(&world));
        let advertised = options.advertise.or_else(|| advertised(address));
        if let Some(advertised) = advertised {
            world.store.publish(advertised);
        }
        let (tell, leadership) = watch::channel(world.store.leadership());
        let led = Arc::clone(&world);
        tasks.spawn(async move {
            let mut every = interval(GLANCE);
            loop {
                every.tick().await;
                let who = led.store.leadership();
                tell.send_if_modified(|known| std::mem::replace(known, who) != who);
            }
        });
        let house = House {
            authority: Arc::clone(&world.authority),
            store: world.store.clone(),
            leadership,
        };
        tasks.spawn(api::serve::serve(listener, tls, routes, house));
        if let Some(health) = health {
            tasks.spawn(health::serve(health, Arc::clone(&world)));
        }
        info!(store = world.store.name(), agent_api = %address, "the manager serves");
        Ok(Self {
            address,
            observed,
            world,
            tasks,
            control,
            _watch: watch,
        })
    }

    /// The routes of the control socket. Whoever serves it knows who asks: `Root` is what lets only
    /// root through.
    pub fn routes<Root>(&self) -> Router
    where
        Root: FromRequestParts<Arc<socket::Context>> + Send + 'static,
    {
        socket::routes::<Root>(Arc::clone(&self.control))
    }

    /// Ends every task; the store is free afterwards.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
        // Requests that are still under way end on their own, without writing any more.
        self.world.store.close().await;
    }

    /// Ends once a task has: none should.
    async fn ended(&mut self) -> Problem {
        let why = match self.tasks.join_next().await {
            Some(Err(error)) => error.to_string(),
            Some(Ok(())) => "it returned".to_owned(),
            None => pending().await,
        };
        Problem::new(Code::SysUnexpected, "a task of the manager ended").evidence(why)
    }

    /// One line about the manager.
    async fn line(&self) -> String {
        let state = self.world.state().await;
        let (mut all, mut filled, mut hosts) = (0, 0, 0);
        for (_, part) in state.parts() {
            let endpoints = part.endpoints();
            all += endpoints.len();
            let set = endpoints.iter().filter(|item| item.endpoint.is_some());
            filled += set.count();
            hosts += part.hosts();
        }
        format!("{filled} of {all} endpoints set, {hosts} hosts enrolled")
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.world.store.abandon();
    }
}

/// Runs the manager until SIGTERM or SIGINT. `control` serves its control socket for as long as
/// what it gives back lives.
///
/// # Errors
///
/// It cannot start, or a part of it ends.
pub async fn run<S>(
    options: ManagerOptions,
    control: impl FnOnce(&Manager) -> S,
) -> Result<(), Problem> {
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let mut manager = Manager::start(&options).await?;
    let serving = control(&manager);
    let tell = &options.lifecycle;
    tell(Lifecycle::Ready);
    let mut beat = interval(BEAT);
    let (mut last, mut calm) = (String::new(), Calm::default());
    let ended = loop {
        tokio::select! {
            _ = terminate.recv() => break Ok(()),
            _ = interrupt.recv() => break Ok(()),
            _ = hangup.recv() => manager.world.files_changed.notify_one(),
            problem = manager.ended() => break Err(problem),
            _ = beat.tick() => {
                // Takes the state: a planner that hangs stops the beat.
                let line = manager.line().await;
                tell(Lifecycle::Alive);
                if calm.beat(manager.world.metrics.due()) {
                    tell(Lifecycle::AtRest);
                }
                if line != last {
                    tell(Lifecycle::Status(&line));
                    last = line;
                }
            }
        }
    };
    tell(Lifecycle::Stopping);
    drop(serving);
    manager.stop().await;
    info!("the manager stopped");
    ended
}

/// Binds the listener of probes and scrapers. Where nobody chose the address, the manager does
/// without it rather than not at all.
async fn observe(observed: Option<Observed>) -> Result<Option<TcpListener>, Problem> {
    let Some(observed) = observed else {
        return Ok(None);
    };
    match health::listen(observed.listen).await {
        Ok(listener) => Ok(Some(listener)),
        Err(problem) if observed.required => Err(problem),
        Err(problem) => {
            warn!(KEDGE_CODE = %problem.code, %problem, "health and metrics are not served");
            Ok(None)
        }
    }
}

/// Where other managers reach a port of this one. Of an address that stands for all of them the
/// one is taken that the way to the cluster's API server begins at; nothing is sent to find it.
fn advertised(bound: SocketAddr) -> Option<SocketAddr> {
    if !bound.ip().is_unspecified() {
        return Some(bound);
    }
    let host: IpAddr = std::env::var("KUBERNETES_SERVICE_HOST")
        .ok()?
        .parse()
        .ok()?;
    let any: IpAddr = if host.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((host, 443)).ok()?;
    let own = socket.local_addr().ok()?.ip();
    Some(SocketAddr::new(own, bound.port()))
}

/// Opens the store; for a folder with its path, to be watched.
async fn open(options: &ManagerOptions) -> Result<(Store, Option<PathBuf>), Problem> {
    let place = &options.place;
    match place {
        Place::Directory(dir) => {
            let directory = Directory::open(dir)?;
            let root = directory.root().to_owned();
            Ok((Store::from(directory), Some(root)))
        }
        Place::Kubeconfig(_) | Place::InCluster => {
            Ok((kubernetes::open(place, options.lease).await?.into(), None))
        }
    }
}

fn watch(root: &Path, world: &World, every: Duration) -> Option<Watch> {
    let watch = Watch::start(root, Arc::clone(&world.files_changed));
    if let Err(error) = &watch {
        let error = error as &dyn std::error::Error;
        warn!(
            error,
            ?every,
            "changes of files are found by reading them again only"
        );
    }
    watch.ok()
}

fn listen(kind: SignalKind) -> Result<Signal, Problem> {
    signal(kind).map_err(|error| {
        Problem::new(Code::SysUnexpected, "signals cannot be received").caused_by(&error)
    })
}

const BEAT: Duration = Duration::from_secs(2);
/// How soon a change of leadership is seen where connections are served.
const GLANCE: Duration = Duration::from_millis(100);
