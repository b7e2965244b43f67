//! The command line of the lab, mounted by `agent/cli`.

use std::process::ExitCode;

use clap::Subcommand;
use kedge_core::Problem;

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// One JSON object.
    Json,
    /// The same as YAML.
    Yaml,
}

/// How a command ended that could be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything held.
    Held,
    /// Something did not; the output says what.
    Failed,
}

/// What the lab can do.
#[derive(Clone, Debug, Subcommand)]
#[command(subcommand_required = true)]
pub enum LabCommand {}

/// Carries out a command and writes its result to stdout.
///
/// # Errors
/// When the command could not be carried out.
pub fn run(command: LabCommand, _output: Output) -> Result<Exit, Problem> {
    match command {}
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Held => Self::SUCCESS,
            Exit::Failed => Self::FAILURE,
        }
    }
}
