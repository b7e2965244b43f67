//! `kedge k8s uninstall`: a manager's traces on a cluster, with or without a manager.

use kedge_control::{
    Document,
    local::{Uninstalled, UninstalledObject},
};
use kedge_core::{Code, Problem};
use kedge_manager_controller::{
    Place,
    store::kubernetes::lease::Terms,
    uninstall::{Request, uninstall},
};
use tokio::runtime::Runtime;

use super::{kubeconfig, runtime};
use crate::{
    App,
    args::UninstallArgs,
    client::{Answer, Failure},
    confirm,
    exit::Exit,
    show,
};

/// Takes them back.
///
/// # Errors
///
/// The cluster does not answer or refuses, or a manager still leads.
pub fn take_back(app: &App, args: &UninstallArgs) -> Result<Exit, Failure> {
    let is_decided = args.yes || args.dry_run;
    if !is_decided && !confirm::can_be_asked() {
        return Err(confirm::unasked(&spelt(args)).into());
    }
    let mut request = Request {
        place: place(app, args)?,
        stop: args.stop.clone(),
        dry_run: args.dry_run || !args.yes,
        terms: Terms::default(),
    };
    let runtime = runtime()?;
    let exit = tell(app, &runtime, &request)?;
    if is_decided {
        return Ok(exit);
    }
    // Who can be asked was shown what would happen.
    if !confirm::is_meant("Take all of it back?") {
        return Ok(Exit::Ok);
    }
    request.dry_run = false;
    tell(app, &runtime, &request)
}

/// The command as it was given: what is meant is meant of that cluster.
fn spelt(args: &UninstallArgs) -> String {
    let mut command = "kedge k8s uninstall".to_owned();
    if let Some(file) = &args.kubeconfig {
        command += &format!(" --kubeconfig {}", file.display());
    }
    if let Some(deployment) = &args.stop {
        command += &format!(" --stop {deployment}");
    }
    command
}

fn tell(app: &App, runtime: &Runtime, request: &Request) -> Result<Exit, Failure> {
    let taken = runtime.block_on(uninstall(request))?;
    let items = taken.into_iter().map(|taken| UninstalledObject {
        kind: taken.kind,
        namespace: taken.namespace,
        name: taken.name,
        took: taken.what,
    });
    let body = Uninstalled {
        dry_run: request.dry_run,
        items: items.collect(),
    };
    let raw = serde_json::to_value(Document::new(body.clone())).map_err(|error| {
        Problem::new(Code::SysUnexpected, "the result cannot be written").caused_by(&error)
    })?;
    let text = show::render(&Answer { raw, body }, app.format, &app.view)?;
    out!("{text}");
    Ok(Exit::Ok)
}

fn place(app: &App, args: &UninstallArgs) -> Result<Place, Failure> {
    let example = "kedge k8s uninstall --kubeconfig FILE --dry-run";
    let file = kubeconfig(app, args.kubeconfig.clone(), example)?;
    Ok(file.map_or(Place::InCluster, Place::Kubeconfig))
}
