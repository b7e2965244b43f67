//! Running a role in the foreground: this is what the units start.

use kedge_agent_daemon::AgentFile;
use kedge_core::{Code, Coded as _, Problem};
use kedge_gateway_hub::GatewayFile;
use kedge_host::{
    Role,
    layers::{Live, Override, RoleFile},
    local::{RequireRoot, Socket},
    notify::Notifier,
};
use kedge_manager_controller::{Lifecycle, ManagerOptions, Place};
use tokio::runtime::{Builder, Runtime};

use crate::{
    App,
    args::{ManagerArgs, RoleArgs},
    client::Failure,
    exit::Exit,
    manager_file::ManagerFile,
};

/// Runs the agent until it is told to leave.
///
/// # Errors
///
/// Its configuration does not hold, or it cannot start.
pub fn agent(app: &App, args: &RoleArgs) -> Result<Exit, Failure> {
    let live: Live<AgentFile> = configured(app, args.set.clone())?;
    let role = kedge_agent_daemon::run(live);
    until_told(&runtime("agent", CONTROL)?, role)
}

/// Runs a gateway until it is told to leave.
///
/// # Errors
///
/// Its configuration does not hold, or it cannot start.
pub fn gateway(app: &App, args: &RoleArgs) -> Result<Exit, Failure> {
    let live: Live<GatewayFile> = configured(app, args.set.clone())?;
    let role = kedge_gateway_hub::run(live);
    until_told(&runtime("gateway", PROXIES)?, role)
}

/// Runs the manager until it is told to leave.
///
/// # Errors
///
/// Its configuration does not hold, or it cannot start.
pub fn manager(app: &App, args: &ManagerArgs) -> Result<Exit, Failure> {
    let dir = args.dir.as_ref();
    let dir = dir.map(|dir| Override::new("--dir", "dir", dir.display()));
    let overrides: Vec<Override> = args.set.iter().cloned().chain(dir).collect();
    let live: Live<ManagerFile> = configured(app, overrides)?;
    let config = live.config();
    let dir = app.root.locate(&config.dir);
    let place = match &args.kubeconfig {
        None => Place::Directory(dir.clone()),
        Some(here) if here.as_os_str() == IN_CLUSTER => Place::InCluster,
        Some(file) => Place::Kubeconfig(app.root.locate(file)),
    };
    let options = ManagerOptions {
        place,
        kubeconfig_namespaces: config.kubeconfig_namespaces.clone(),
        advertise: config.advertise,
        trust_domain: config.trust_domain.as_str().to_owned(),
        observed: Some(config.observed),
        config: Some(live.in_force()),
        lifecycle: Box::new(notify),
        ..ManagerOptions::new(&dir, config.listen)
    };
    // Every host keeps connections open, and the store needs descriptors besides.
    if let Err(error) = kedge_net::limits::raise_descriptors() {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, "the number of descriptors stays low");
    }
    // The manager knows no host: it has the routes, and here they get the socket of every role.
    let role = async {
        let socket = Socket::bind(&app.root.socket(Role::Manager)).map_err(|e| e.problem())?;
        kedge_manager_controller::run(options, |manager| {
            socket.serve(manager.routes::<RequireRoot>())
        })
        .await
    };
    until_told(&runtime("manager", PLANNING)?, role)
}

/// Passes on to the service manager how far the manager is.
fn notify(at: Lifecycle<'_>) {
    let notifier = Notifier::new();
    match at {
        Lifecycle::Ready => notifier.ready("serving"),
        Lifecycle::Status(line) => notifier.status(line),
        Lifecycle::Alive => notifier.watchdog(),
        Lifecycle::Stopping => notifier.stopping("leaving"),
    }
}

fn configured<F: RoleFile>(app: &App, set: Vec<Override>) -> Result<Live<F>, Failure> {
    Live::load(app.root.clone(), set).map_err(|error| app.refused(error))
}

fn until_told(
    runtime: &Runtime,
    role: impl Future<Output = Result<(), Problem>>,
) -> Result<Exit, Failure> {
    runtime.block_on(role)?;
    Ok(Exit::Ok)
}

fn runtime(name: &str, threads: usize) -> Result<Runtime, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        .worker_threads(threads.min(cores).max(2))
        .thread_name(name)
        .enable_all()
        .build()
        .map_err(|error| {
            Problem::new(Code::SysUnexpected, "the role's threads cannot be started")
                .caused_by(&error)
                .into()
        })
}

/// The word for the cluster around the manager.
pub(crate) const IN_CLUSTER: &str = "in-cluster";
// VIPs and tunnel have threads of their own.
const CONTROL: usize = 2;
// The planner, and hosts that ask.
const PLANNING: usize = 4;
// The gateway's proxy runs on these threads.
const PROXIES: usize = 16;
