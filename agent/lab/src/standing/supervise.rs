//! The supervisor: holds the lab and does what commands ask.

use std::{
    collections::BTreeMap,
    io,
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use kedge_control::local::TunnelState;
use kedge_core::{Code, Coded, Fix, Problem};
use kedge_net::link::Links;

use super::{
    LabChange, LabStatus, NodeStatus,
    control::{self, Answer, Request, SOCKET},
    no_node, only_one,
};
use crate::{
    demo,
    error::LabError,
    lab::Lab,
    output::Output,
    site::Site,
    stage::Stage,
    topology::{HOSTS, Topology},
};

/// Flags of the supervisor.
#[derive(Clone, Debug, Args)]
pub struct SuperviseArgs {
    /// The executable whose roles run
    #[arg(long, value_name = "PATH")]
    kedge: PathBuf,
}

/// Builds the lab, says how that went on stdout, and serves commands until the end.
///
/// # Errors
/// None that the command which started it has not read from stdout.
pub fn run(args: &SuperviseArgs) -> Result<(), Problem> {
    let stage = Stage::new(Output::Table).map_err(|err| err.problem())?;
    let tell = |answer: &Answer| {
        // Nobody reads when the command was interrupted; the lab is up all the same.
        _ = control::write(io::stdout().lock(), answer);
    };
    let (mut held, listener) = match begin(args, &stage) {
        Ok(begun) => begun,
        Err(problem) => {
            tell(&Answer::Problem(Box::new(problem)));
            return Ok(());
        }
    };
    let id = held.site.lab().id();
    let done = format!("the lab is up, run {id}; look at it with `kedge lab status`");
    tell(&Answer::Done(LabChange {
        done,
        leftovers: Vec::new(),
    }));
    match held.serve(&listener, &stage) {
        None => drop(held.site.take_down()),
        Some(stream) => {
            drop(listener);
            let leftovers = held.site.take_down();
            let done = "the lab is down".to_owned();
            _ = control::write(&stream, &Answer::Done(LabChange { done, leftovers }));
        }
    }
    Ok(())
}

/// What the supervisor holds.
struct Held {
    site: Site,
    hurt: BTreeMap<String, Hurt>,
    _only_one: std::fs::File,
}

/// What was done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hurt {
    Cut,
    Dead,
}

fn begin(args: &SuperviseArgs, stage: &Stage) -> Result<(Held, UnixListener), Problem> {
    let only_one = only_one().map_err(|err| err.problem())?;
    let build = || -> Result<(Site, UnixListener), LabError> {
        let (lab, _) = Lab::build(Topology::edge(), args.kedge.clone())?;
        let socket = lab.directory().join(SOCKET);
        let listener = UnixListener::bind(&socket).map_err(LabError::file(&socket))?;
        listener
            .set_nonblocking(true)
            .map_err(LabError::file(&socket))?;
        Ok((Site::new(lab)?, listener))
    };
    let (mut site, listener) = build().map_err(|err| err.problem())?;
    demo::raise(&mut site, stage).map_err(|step| {
        Problem::new(
            Code::LabStepFailed,
            format!("the lab's step `{}` did not hold", step.name),
        )
        .evidence(step.detail)
        .consequence("the lab was taken down")
        .fix(Fix::text(
            "run `kedge lab demo --keep DIR` and read the logs in DIR",
        ))
    })?;
    Ok((
        Held {
            site,
            hurt: BTreeMap::new(),
            _only_one: only_one,
        },
        listener,
    ))
}

impl Held {
    /// Serves commands until one asks for the end, and returns who waits for it; `None` when a
    /// signal did.
    fn serve(&mut self, listener: &UnixListener, stage: &Stage) -> Option<UnixStream> {
        while !stage.is_stopped() {
            let Ok((stream, _)) = listener.accept() else {
                std::thread::sleep(LOOK_AGAIN);
                continue;
            };
            // A client that says nothing must not keep the others waiting for ever.
            let heard = stream
                .set_nonblocking(false)
                .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
                .and_then(|()| control::read(&stream));
            let answer = match heard {
                Ok(Request::Down) => return Some(stream),
                Ok(request) => self
                    .obey(&request)
                    .unwrap_or_else(|problem| Answer::Problem(Box::new(problem))),
                Err(_) => continue,
            };
            _ = control::write(&stream, &answer);
        }
        None
    }

    fn obey(&mut self, request: &Request) -> Result<Answer, Problem> {
        if let Request::Kill { node } | Request::Cut { node } | Request::Heal { node } = request {
            known(self.site.lab().topology(), node)?;
        }
        let done = match request {
            Request::Status | Request::Down => return Ok(Answer::Status(self.status())),
            change => self.change(change).map_err(|err| {
                err.problem()
                    .consequence("the lab stands, and the change may be half done")
                    .fix(
                        Fix::text("build another")
                            .command("sudo kedge lab down && sudo kedge lab up"),
                    )
            })?,
        };
        Ok(Answer::Done(LabChange {
            done,
            leftovers: Vec::new(),
        }))
    }

    fn change(&mut self, request: &Request) -> Result<String, LabError> {
        Ok(match request {
            Request::Status | Request::Down => String::new(),
            Request::Kill { node } => {
                self.site.lab_mut().kill_host(node)?;
                self.hurt.insert(node.clone(), Hurt::Dead);
                format!("{node} is dead: its link is down and every process killed")
            }
            Request::Cut { node } => {
                self.site.lab().cut(node)?;
                self.hurt.entry(node.clone()).or_insert(Hurt::Cut);
                format!("{node} is cut off")
            }
            Request::Heal { node } => {
                self.site.lab().heal(node)?;
                if self.hurt.remove(node) == Some(Hurt::Dead) {
                    self.site.start_node(node)?;
                    format!("{node} starts again")
                } else {
                    format!("{node} has its link again")
                }
            }
        })
    }

    fn status(&mut self) -> LabStatus {
        let names: Vec<_> = self
            .site
            .lab()
            .topology()
            .nodes
            .iter()
            .map(|node| node.name)
            .collect();
        LabStatus {
            id: self.site.lab().id().to_owned(),
            directory: self.site.lab().directory().display().to_string(),
            nodes: names.into_iter().map(|name| self.node(name)).collect(),
        }
    }

    fn node(&mut self, name: &str) -> NodeStatus {
        let state = match self.hurt.get(name) {
            None => "up",
            Some(Hurt::Cut) => "cut",
            Some(Hurt::Dead) => "dead",
        };
        let mut processes = Vec::new();
        for process in Site::expected(name) {
            let alive = self
                .site
                .lab_mut()
                .process(name, process)
                .is_ok_and(|process| process.ended().is_none());
            processes.push(if alive {
                (*process).to_owned()
            } else {
                format!("({process})")
            });
        }
        let mut vip = String::new();
        let mut tunnels = Vec::new();
        if HOSTS.contains(&name) && state != "dead" {
            if let Ok(status) = self.site.agent(name) {
                let states = status.vips.iter().map(|vip| format!("{:?}", vip.state));
                vip = states.collect::<Vec<_>>().join(" ");
                tunnels = status.tunnels;
            }
        } else if name == "gateway" && state != "dead" {
            tunnels = self
                .site
                .gateway()
                .map(|status| status.tunnels)
                .unwrap_or_default();
        }
        let up = tunnels
            .iter()
            .filter(|tunnel| tunnel.state == TunnelState::Up)
            .count();
        NodeStatus {
            name: name.to_owned(),
            namespace: self.site.lab().namespace(name),
            state: state.to_owned(),
            addresses: self.addresses(name),
            processes,
            vip,
            tunnel: if tunnels.is_empty() {
                String::new()
            } else {
                format!("{up} of {} up", tunnels.len())
            },
        }
    }

    fn addresses(&self, name: &str) -> Vec<String> {
        let read = || {
            let mut links = Links::open()?;
            let mut all = Vec::new();
            for link in links.list()?.into_iter().filter(|link| link.name != "lo") {
                let addresses = links.addresses(&link.name)?.into_iter();
                let global = addresses.filter(|address| match address.addr() {
                    std::net::IpAddr::V4(_) => true,
                    std::net::IpAddr::V6(v6) => !v6.is_unicast_link_local(),
                });
                all.extend(global.map(|address| format!("{} {address}", link.name)));
            }
            Ok::<_, LabError>(all)
        };
        let worker = self.site.lab().worker(name);
        worker
            .and_then(|worker| worker.run(read)?)
            .unwrap_or_default()
    }
}

/// Refuses what is no node, and the nodes that are the wires: they have no link to cut.
pub(super) fn known(topology: &Topology, name: &str) -> Result<(), Problem> {
    let hurtable = || topology.nodes.iter().filter(|node| !node.legs.is_empty());
    if hurtable().any(|node| node.name == name) {
        return Ok(());
    }
    let names: Vec<_> = hurtable().map(|node| node.name).collect();
    Err(no_node(name, &names).consequence("nothing was changed"))
}

const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long a command may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(1);
