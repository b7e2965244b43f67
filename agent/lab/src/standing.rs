//! A lab that stands while commands come and go: `lab up`, `down`, `status`, `kill`, `cut`,
//! `heal`, `shell`.
//!
//! A supervisor process in the background holds it: the kernel kills a lab's processes when the
//! thread that spawned them ends, so somebody must stay, and while it stays its locked lease tells
//! everyone that the lab lives. If it is killed, the nodes' processes die with it and the next run
//! collects the rest. Commands talk to it over `lab.sock` in the run's directory, so that one
//! process alone knows what is cut and what is dead.

mod control;
mod supervise;

use std::{
    convert::Infallible,
    fs::{File, TryLockError},
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, Stdio},
};

use clap::Args;
use kedge_control::document::{Document, Kind};
use kedge_core::{Code, Coded, Fix, Problem};
use kedge_net::netns::{self, Namespace};
use serde::{Deserialize, Serialize};

use self::control::Answer;
use crate::{columns::columns, error::LabError, lab, stage::Stage};

pub(crate) use self::control::Request;
pub use self::supervise::{SuperviseArgs, run as supervise};

/// Flags of `lab up`.
#[derive(Clone, Debug, Args)]
pub struct UpArgs {
    /// The executable whose roles run; this one when left out
    #[arg(long, value_name = "PATH")]
    pub kedge: Option<PathBuf>,
}

/// A node of the lab that is up.
#[derive(Clone, Debug, Args)]
pub struct NodeArgs {
    /// The node: edge-a, edge-b, edge-c, router, gateway, manager or client
    pub node: String,
}

/// Flags of `lab shell`.
#[derive(Clone, Debug, Args)]
pub struct ShellArgs {
    /// The node
    pub node: String,
    /// What to run there; a shell when left out
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

/// The lab that is up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabStatus {
    /// The run's four hex digits, part of its namespaces' names; empty when no lab is up.
    pub id: String,
    /// The run's directory.
    pub directory: String,
    /// Its nodes.
    pub nodes: Vec<NodeStatus>,
}

/// A node of the lab that is up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Its namespace, for `ip netns exec`.
    pub namespace: String,
    /// `up`, `cut` or `dead`.
    pub state: String,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// The processes that run on it.
    pub processes: Vec<String>,
    /// What its VIP does, on a host.
    pub vip: String,
    /// What its tunnels do.
    pub tunnel: String,
}

/// What a command did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabChange {
    /// What was done, as a sentence.
    pub done: String,
    /// What could not be removed.
    pub leftovers: Vec<String>,
}

impl Kind for LabStatus {
    const KIND: &'static str = "LabStatus";
}

impl Kind for LabChange {
    const KIND: &'static str = "LabChange";
}

/// Builds a lab, starts the site on it and leaves it to a supervisor.
pub(crate) fn up(args: &UpArgs, stage: &Stage) -> Result<LabChange, Problem> {
    let kedge = lab::executable(args.kedge.as_deref()).map_err(|err| err.problem())?;
    let supervisor = kedge.clone();
    let unstartable = |source| {
        let (program, node) = (supervisor.display().to_string(), "this machine".to_owned());
        LabError::Spawn {
            program,
            node,
            source,
        }
        .problem()
    };
    let mut child = Command::new(&kedge)
        .args(["lab-role", "supervise", "--kedge"])
        .arg(&kedge)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()
        .map_err(unstartable)?;
    let stdout = child.stdout.take();
    for line in stdout
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines().map_while(Result::ok))
    {
        match serde_json::from_str::<Answer>(&line) {
            Ok(Answer::Done(change)) => return Ok(change),
            Ok(Answer::Problem(problem)) => {
                _ = child.wait();
                return Err(*problem);
            }
            _ => stage.line(&line),
        }
    }
    let ended = child
        .wait()
        .map(|status| status.to_string())
        .unwrap_or_default();
    Err(
        Problem::new(Code::LabStepFailed, "the lab's supervisor ended early")
            .evidence(ended)
            .consequence("no lab is up")
            .fix(Fix::text(
                "run `kedge lab demo --keep DIR` and read the logs in DIR",
            )),
    )
}

/// Takes the lab down, and whatever killed runs left.
pub(crate) fn down() -> Result<LabChange, Problem> {
    let standing = control::find()?;
    let mut change = match &standing {
        None => LabChange {
            done: "no lab is up".to_owned(),
            ..LabChange::default()
        },
        Some(socket) => match control::ask(socket, &Request::Down)? {
            Answer::Done(change) => change,
            other => return Err(control::unexpected(&other)),
        },
    };
    let collected = netns::collect().map_err(|err| err.problem())?;
    if collected.runs > 0 {
        change.done.push_str(&format!(
            "; removed what {} killed run(s) had left: {} namespaces, {} processes",
            collected.runs, collected.namespaces, collected.processes
        ));
    }
    Ok(change)
}

/// What the lab that is up looks like.
pub(crate) fn status() -> Result<LabStatus, Problem> {
    match control::ask(&control::require()?, &Request::Status)? {
        Answer::Status(status) => Ok(status),
        other => Err(control::unexpected(&other)),
    }
}

/// Has a node die, be cut off, or be well again.
pub(crate) fn change(request: &Request) -> Result<LabChange, Problem> {
    match control::ask(&control::require()?, request)? {
        Answer::Done(change) => Ok(change),
        other => Err(control::unexpected(&other)),
    }
}

/// Becomes a shell, or another program, on a node.
pub(crate) fn shell(args: &ShellArgs) -> Result<Infallible, Problem> {
    let status = status()?;
    let node = status
        .nodes
        .iter()
        .find(|node| node.name == args.node)
        .ok_or_else(|| {
            let names: Vec<_> = status.nodes.iter().map(|node| node.name.as_str()).collect();
            no_node(&args.node, &names).consequence("nothing was run")
        })?;
    let namespace = Namespace::open(&node.namespace).map_err(|err| err.problem())?;
    namespace.enter().map_err(|err| err.problem())?;
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
    let (program, arguments) = match args.command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments),
        None => (shell, [].as_slice()),
    };
    let root = PathBuf::from(&status.directory).join(&node.name);
    // Returns only when it could not be done.
    let source = Command::new(&program)
        .args(arguments)
        .env("KEDGE_LAB_ROOT", root)
        .exec();
    Err(LabError::Spawn {
        program,
        node: args.node.clone(),
        source,
    }
    .problem()
    .consequence("nothing was run")
    .fix(Fix::text("name a program that this machine has")))
}

/// What to say of a name that is no node's.
fn no_node(name: &str, nodes: &[&str]) -> Problem {
    let what = format!("there is no node `{}` for this", name.escape_debug());
    Problem::new(Code::SysUsage, what).fix(
        Fix::text(format!("name one of {}", nodes.join(", "))).command("sudo kedge lab status"),
    )
}

impl LabStatus {
    /// The status with its `apiVersion` and `kind`.
    #[must_use]
    pub fn document(self) -> Document<Self> {
        Document::new(self)
    }

    /// The status for people.
    #[must_use]
    pub fn table(&self) -> String {
        let titles = ["node", "state", "addresses", "processes", "vip", "tunnel"];
        let mut table = columns(&titles, &[]);
        for node in &self.nodes {
            table.add_row([
                node.name.clone(),
                node.state.clone(),
                node.addresses.join("\n"),
                node.processes.join(" "),
                node.vip.clone(),
                node.tunnel.clone(),
            ]);
        }
        format!(
            "{table}\n\nrun {} in {}\nNext: kedge --root {}/edge-a status · kedge lab kill NODE · \
             kedge lab shell NODE\n",
            self.id, self.directory, self.directory
        )
    }
}

impl LabChange {
    /// The change with its `apiVersion` and `kind`.
    #[must_use]
    pub fn document(self) -> Document<Self> {
        Document::new(self)
    }

    /// The change for people.
    #[must_use]
    pub fn table(&self) -> String {
        let left = self
            .leftovers
            .iter()
            .map(|left| format!("\nleft behind: {left}"));
        format!("{}{}\n", self.done, left.collect::<String>())
    }
}

/// The mark that one lab is up; held by its supervisor.
fn only_one() -> Result<File, LabError> {
    let path = PathBuf::from("/run/kedge-lab/up");
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(LabError::file(directory))?;
    }
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(LabError::file(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LabError::Busy(format!(
            "its supervisor holds {}",
            path.display()
        ))),
        Err(TryLockError::Error(err)) => Err(LabError::file(&path)(err)),
    }
}

#[cfg(test)]
mod tests;
