//! Running a role in the foreground: this is what the units start.

use kedge_agent_daemon::AgentFile;
use kedge_core::{Code, Problem};
use kedge_gateway_hub::GatewayFile;
use kedge_host::layers::{self, Loaded, Override, RoleFile};
use tokio::runtime::{Builder, Runtime};

use crate::{App, args::RoleArgs, client::Failure, exit::Exit};

/// Runs the agent until it is told to leave.
///
/// # Errors
///
/// Its configuration does not hold, or it cannot start.
pub fn agent(app: &App, args: &RoleArgs) -> Result<Exit, Failure> {
    let loaded: Loaded<AgentFile> = configured(app, &args.set)?;
    let role = kedge_agent_daemon::run(loaded, app.root.clone(), args.set.clone());
    until_told(&runtime("agent", CONTROL)?, role)
}

/// Runs a gateway until it is told to leave.
///
/// # Errors
///
/// Its configuration does not hold, or it cannot start.
pub fn gateway(app: &App, args: &RoleArgs) -> Result<Exit, Failure> {
    let loaded: Loaded<GatewayFile> = configured(app, &args.set)?;
    let role = kedge_gateway_hub::run(loaded, app.root.clone(), args.set.clone());
    until_told(&runtime("gateway", PROXIES)?, role)
}

fn configured<F: RoleFile>(app: &App, set: &[Override]) -> Result<Loaded<F>, Failure> {
    layers::load(&app.root, set).map_err(|error| app.refused(error))
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

// VIPs and tunnel have threads of their own.
const CONTROL: usize = 2;
// The gateway's proxy runs on these threads.
const PROXIES: usize = 16;
