//! `kedge k8s run`, `services`, `ingresses`, `routes` and `status`: the agent of a cluster, and what it offers.

use std::path::PathBuf;

use kedge_agent_cluster::{
    Options, Place, Poll, identity::Identity, run as run_agent, snapshot::Config, survey,
};
use kedge_control::{Document, Kind};
use kedge_core::{Code, Problem, lease::Terms};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use super::{kubeconfig, runtime};
use crate::{
    App,
    args::{K8sClassArgs, K8sClusterArgs, K8sPlaceArgs, K8sRunArgs, K8sStatusArgs},
    client::{Answer, Failure},
    exit::Exit,
    show::{self, Show},
};

/// Runs the agent until it is told to leave.
///
/// # Errors
///
/// The cluster cannot be reached.
pub fn run(app: &App, args: &K8sRunArgs) -> Result<Exit, Failure> {
    let options = Options {
        place: place(app, &args.place)?,
        namespace: Some(args.namespace.clone()),
        me: me(),
        identity: Identity {
            url: args.manager.clone(),
            token_file: args.token_file.as_deref().map(|file| app.root.locate(file)),
            name: args.name.clone(),
            dir: app.root.path().join("var/lib/kedge/services"),
            secret: args.identity_secret.clone(),
        },
        config: config(&args.place.class),
        terms: Terms::default(),
        poll: Poll::default(),
        confirm: args.confirm_removal,
        health: args.health_listen,
    };
    runtime()?.block_on(async {
        let stop = told().map_err(|error| {
            Problem::new(Code::SysUnexpected, "signals cannot be awaited").caused_by(&error)
        })?;
        run_agent(&options, stop).await
    })?;
    Ok(Exit::Ok)
}

/// Lists the Services that are offered.
///
/// # Errors
///
/// The cluster does not answer or refuses.
pub fn list(app: &App, args: &K8sPlaceArgs) -> Result<Exit, Failure> {
    let place = place(app, args)?;
    let found = runtime()?.block_on(survey::services(&place, &config(&args.class)));
    print(app, found?)?;
    Ok(Exit::Ok)
}

/// Lists the Ingresses that are offered.
///
/// # Errors
///
/// The cluster does not answer or refuses.
pub fn list_ingresses(app: &App, args: &K8sClusterArgs) -> Result<Exit, Failure> {
    let place = at(
        app,
        args.kubeconfig.clone(),
        "kedge k8s ingresses --kubeconfig FILE",
    )?;
    let found = runtime()?.block_on(survey::ingresses(&place));
    print(app, found?)?;
    Ok(Exit::Ok)
}

/// Lists the routes that are offered.
///
/// # Errors
///
/// The cluster does not answer or refuses.
pub fn list_routes(app: &App, args: &K8sClusterArgs) -> Result<Exit, Failure> {
    let example = "kedge k8s routes --kubeconfig FILE";
    let place = at(app, args.kubeconfig.clone(), example)?;
    let found = runtime()?.block_on(survey::routes(&place));
    print(app, found?)?;
    Ok(Exit::Ok)
}

/// Shows who offers them.
///
/// # Errors
///
/// The cluster does not answer or refuses.
pub fn status(app: &App, args: &K8sStatusArgs) -> Result<Exit, Failure> {
    let place = place(app, &args.place)?;
    let config = config(&args.place.class);
    let found = runtime()?.block_on(survey::agent(&place, &config, &args.namespace))?;
    let exit = match found.problems.is_empty() {
        true => Exit::Ok,
        false => Exit::Critical,
    };
    print(app, found)?;
    Ok(exit)
}

fn print<T: Show + Kind + Serialize + Clone>(app: &App, body: T) -> Result<(), Failure> {
    let raw = serde_json::to_value(Document::new(body.clone())).map_err(|error| {
        Problem::new(Code::SysUnexpected, "the result cannot be written").caused_by(&error)
    })?;
    let text = show::render(&Answer { raw, body }, app.format, &app.view)?;
    out!("{text}");
    Ok(())
}

fn place(app: &App, args: &K8sPlaceArgs) -> Result<Place, Failure> {
    let example = "kedge k8s services --kubeconfig FILE";
    at(app, args.kubeconfig.clone(), example)
}

fn at(app: &App, given: Option<PathBuf>, example: &str) -> Result<Place, Failure> {
    let file = kubeconfig(app, given, example)?;
    Ok(file.map_or(Place::InCluster, Place::Kubeconfig))
}

fn config(class: &K8sClassArgs) -> Config {
    Config {
        class: class.class.clone(),
        unclassed: class.unclassed,
        ..Config::default()
    }
}

/// A name of this run: a restarted agent waits for its predecessor's Lease like any other.
fn me() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let host = read("/proc/sys/kernel/hostname");
    let run = read("/proc/sys/kernel/random/uuid");
    format!("{}_{}", host.trim(), run.trim())
}

/// Ends when the process is told to leave.
fn told() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
