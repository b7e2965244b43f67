//! The lab's own processes: hidden sub-commands of `kedge`.

mod apiserver;
mod copy;
mod echo;
mod probe;

use std::net::SocketAddr;

use clap::Subcommand;
use kedge_core::Problem;

use crate::standing::{self, SuperviseArgs};

pub use self::{
    apiserver::ApiserverArgs,
    copy::CopyArgs,
    echo::EchoArgs,
    probe::{ProbeArgs, ProbeEvent},
};

pub(crate) use self::probe::boottime_seconds;

/// What a process of the lab is. `agent/cli` mounts it as the hidden sub-command `lab-role`.
#[derive(Clone, Debug, Subcommand)]
pub enum LabRole {
    /// Stands in for an API server: HTTPS `/readyz` and `/version`, and UDP echo on the same port
    Apiserver(ApiserverArgs),
    /// Answers UDP probes with its name
    Echo(EchoArgs),
    /// Sends a UDP probe each millisecond until stdin ends, and reports what was lost
    Probe(ProbeArgs),
    /// Carries packets between a TUN device and its other end, and seals nothing
    Copy(CopyArgs),
    /// Holds the lab that is up and does what commands ask
    Supervise(SuperviseArgs),
}

/// Runs a role until it is told to end.
///
/// # Errors
/// When its sockets or files cannot be used.
pub fn run(role: LabRole) -> Result<(), Problem> {
    match role {
        LabRole::Apiserver(args) => apiserver::run(&args),
        LabRole::Echo(args) => echo::run(&args),
        LabRole::Probe(args) => probe::run(&args),
        LabRole::Copy(args) => copy::run(&args),
        LabRole::Supervise(args) => standing::supervise(&args),
    }
}

/// The real-time priority of what is measured with: above the agents' 40, so that a busy machine
/// is not taken for an outage.
pub(crate) const PRIORITY: i32 = 60;

fn default_listen() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], 6443))
}
