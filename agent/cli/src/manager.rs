//! Running the manager in the foreground.

use kedge_core::Coded as _;
use kedge_host::{
    Role,
    layers::{Live, Override},
    local::{MayChange, Socket},
    notify::Notifier,
};
use kedge_manager_controller::{Lifecycle, ManagerOptions, Observed, Place};

use crate::{
    App,
    args::ManagerArgs,
    client::Failure,
    exit::Exit,
    manager_file::ManagerFile,
    roles::{configured, runtime, until_told},
};

/// Runs the manager until it is told to leave.
///
/// # Errors
///
/// Its configuration does not hold, or it cannot start.
pub(crate) fn run(app: &App, args: &ManagerArgs) -> Result<Exit, Failure> {
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
        observed: Some(Observed {
            listen: config.metrics.listen,
            required: config.metrics.required,
        }),
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
            socket.serve(manager.routes::<MayChange>())
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
        Lifecycle::AtRest => kedge_net::memory::forget_start_soon(),
        Lifecycle::Stopping => notifier.stopping("leaving"),
    }
}

/// The word for the cluster around the manager.
pub(crate) const IN_CLUSTER: &str = "in-cluster";
// The planner, and hosts that ask.
const PLANNING: usize = 4;
