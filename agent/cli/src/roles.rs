//! Running a role in the foreground: this is what the units start.

use std::{
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    path::{Path, PathBuf},
};

use kedge_agent_daemon::{AgentFile, Ended, Executable, guardian::GuardianError};
use kedge_core::{Code, Coded as _, Problem};
use kedge_gateway_hub::GatewayFile;
use kedge_host::layers::{Live, Override, RoleFile};
use tokio::runtime::{Builder, Runtime};

use crate::{
    App,
    args::{BootstrapArgs, RoleArgs},
    client::Failure,
    exit::Exit,
};

/// Runs the agent until it is told to leave.
///
/// # Errors
///
/// Its configuration does not hold, or it cannot start.
pub fn agent(app: &App, args: &RoleArgs) -> Result<Exit, Failure> {
    let live: Live<AgentFile> = configured(app, args.set.clone())?;
    // Where it was started from, before a package replaces the file there.
    let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from(THIS));
    let running = PathBuf::from(THIS);
    let role = kedge_agent_daemon::run(live, Some(Executable { running, path }));
    let ended = calm_runtime()?.block_on(role)?;
    match ended {
        Ended::Left => Ok(Exit::Ok),
        Ended::ReplacedBy(executable) => Err(go_on_as(&executable).into()),
    }
}

/// Goes on as another executable, in the same process and with the same arguments. Returns when it
/// cannot.
fn go_on_as(executable: &Path) -> Problem {
    let arguments = std::env::args_os().skip(1);
    let error = std::process::Command::new(executable)
        .args(arguments)
        .exec();
    let what = format!(
        "{} cannot take the place of the agent",
        executable.display()
    );
    Problem::new(Code::HostReplacement, what)
        .caused_by(&error)
        .consequence("the agent has ended; its guardian hands the VIPs over within seconds")
}

/// Stands by beside the agent that started this process, which is at the other end of its stdin.
///
/// # Errors
///
/// Nobody is there, or it cannot wait.
pub fn guardian() -> Result<(), Problem> {
    let inherited = std::io::stdin().as_fd().try_clone_to_owned();
    let channel = inherited.map_err(|error| GuardianError::from(error).problem())?;
    kedge_agent_daemon::guardian::run(channel).map_err(|error| error.problem())
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

/// Shows what an Envoy beside a gateway starts with, or writes it.
///
/// # Errors
///
/// Its configuration does not hold, no Envoy is to be beside it, or nothing can be written there.
pub fn bootstrap(app: &App, args: &BootstrapArgs) -> Result<Exit, Failure> {
    let live: Live<GatewayFile> = configured(app, args.role.set.clone())?;
    if args.write {
        out!("{}\n", kedge_gateway_hub::write_bootstrap(&live)?.display());
    } else {
        out!("{}\n", kedge_gateway_hub::bootstrap(&live)?);
    }
    Ok(Exit::Ok)
}

pub(crate) fn configured<F: RoleFile>(app: &App, set: Vec<Override>) -> Result<Live<F>, Failure> {
    Live::load(app.root.clone(), set).map_err(|error| app.refused(error))
}

pub(crate) fn until_told(
    runtime: &Runtime,
    role: impl Future<Output = Result<(), Problem>>,
) -> Result<Exit, Failure> {
    runtime.block_on(role)?;
    Ok(Exit::Ok)
}

/// One thread, for the agent: its VIPs and its tunnel have threads of their own, and what is left is
/// little and in no hurry.
pub(crate) fn calm_runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(no_threads)
}

pub(crate) fn runtime(name: &str, threads: usize) -> Result<Runtime, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        .worker_threads(threads.min(cores).max(2))
        .thread_name(name)
        .enable_all()
        .build()
        .map_err(no_threads)
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err gives it")]
fn no_threads(error: std::io::Error) -> Failure {
    Problem::new(Code::SysUnexpected, "the role's threads cannot be started")
        .caused_by(&error)
        .into()
}

/// This executable, also when a package has replaced the file.
const THIS: &str = "/proc/self/exe";
// The gateway's proxy runs on these threads.
const PROXIES: usize = 16;
