//! `kedge k8s`: the agent of a cluster, what it offers, and a manager's traces on a cluster.

mod services;
mod uninstall;

use std::path::PathBuf;

use kedge_core::{Code, Fix, Problem};
use tokio::runtime::{Builder, Runtime};

use crate::{App, args::K8sCommand, client::Failure, exit::Exit, manager::IN_CLUSTER};

/// `kedge k8s …`.
///
/// # Errors
///
/// The cluster does not answer or refuses, or a manager still leads.
pub fn run(app: &App, command: &K8sCommand) -> Result<Exit, Failure> {
    match command {
        K8sCommand::Run(args) => services::run(app, args),
        K8sCommand::Services(args) => services::list(app, args),
        K8sCommand::Ingresses(args) => services::list_ingresses(app, args),
        K8sCommand::Routes(args) => services::list_routes(app, args),
        K8sCommand::Status(args) => services::status(app, args),
        K8sCommand::Uninstall(args) => uninstall::take_back(app, args),
    }
}

/// The kubeconfig file that is meant; `None` for the cluster around this process.
fn kubeconfig(
    app: &App,
    given: Option<PathBuf>,
    example: &str,
) -> Result<Option<PathBuf>, Failure> {
    if given
        .as_ref()
        .is_some_and(|it| it.as_os_str() == IN_CLUSTER)
    {
        return Ok(None);
    }
    let of_environment = || {
        let list = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty())?;
        std::env::split_paths(&list).next()
    };
    let of_home = || {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
        Some(PathBuf::from(home).join(".kube/config"))
    };
    let file = given.or_else(of_environment).or_else(of_home);
    let file = file.ok_or_else(|| {
        let fix = Fix::text("name a kubeconfig file");
        Problem::new(Code::SysUsage, "no cluster is named").fix(fix.command(example))
    })?;
    Ok(Some(app.root.locate(&file)))
}

fn runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| {
            Problem::new(Code::SysUnexpected, "threads cannot be started")
                .caused_by(&error)
                .into()
        })
}
