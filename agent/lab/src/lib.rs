//! The lab: namespaces, links, faults, probes, the demo and the benches.
//!
//! Mounting it into the command line takes two lines each:
//!
//! ```ignore
//! /// Network-namespace lab: see Kedge work on this machine
//! #[command(subcommand)]
//! Lab(kedge_agent_lab::LabCommand),
//! #[command(subcommand, hide = true)]
//! LabRole(kedge_agent_lab::roles::LabRole),
//! // …
//! Command::Lab(command) => kedge_agent_lab::run(command, output)?.into(),
//! Command::LabRole(role) => kedge_agent_lab::roles::run(role).map(|()| ExitCode::SUCCESS)?,
//! ```
//!
//! Both calls block and start runtimes of their own: call them from the main thread, not from
//! within tokio. [`run`] writes its result to stdout in the wanted [`Output`]; live lines go to
//! stdout with [`Output::Table`] and to stderr otherwise.

pub mod bench;
pub mod certificate;
pub mod cli;
pub mod client;
mod columns;
pub mod demo;
pub mod error;
pub mod kube;
pub mod lab;
pub mod output;
mod preflight;
pub mod probe;
pub mod prober;
pub mod process;
pub mod roles;
pub mod site;
pub mod stage;
pub mod standing;
pub mod topology;

pub use cli::{LabCommand, run};
pub use output::{Exit, Output};
