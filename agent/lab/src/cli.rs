//! The command line of the lab, mounted by `agent/cli`.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::MetadataExt,
};

use clap::Subcommand;
use kedge_core::{Code, Coded, Fix, Problem};
use serde::Serialize;

use crate::{
    bench::{self, BenchArgs},
    demo::{self, DemoArgs},
    output::{Exit, Output},
    preflight,
    stage::Stage,
    standing::{self, LabChange, NodeArgs, Request, ShellArgs, UpArgs},
};

/// What the lab can do.
#[derive(Clone, Debug, Subcommand)]
pub enum LabCommand {
    /// Watch the whole main job, and what a fault costs, in under a minute
    Demo(DemoArgs),
    /// Build the demo's site and leave it standing
    Up(UpArgs),
    /// Take the lab down, and whatever killed runs left
    Down,
    /// Show the lab that is up
    Status,
    /// Have a node die: its link goes down, every process is killed
    Kill(NodeArgs),
    /// Cut a node off: its link goes down, its processes live
    Cut(NodeArgs),
    /// Bring a node back that was cut or killed
    Heal(NodeArgs),
    /// Open a shell on a node, or run a program there
    Shell(ShellArgs),
    /// Measure Kedge beside a peer in the same run, or its manager on a real API server
    Bench(BenchArgs),
}

/// Carries out a command and writes its result to stdout.
///
/// # Errors
/// When the command could not be carried out.
pub fn run(command: LabCommand, output: Output) -> Result<Exit, Problem> {
    require_root()?;
    match command {
        LabCommand::Demo(args) => {
            preflight::check(&preflight::DEMO)?;
            let stage = Stage::new(output).map_err(|err| err.problem())?;
            let result = demo::run(&args, &stage)?;
            let (table, ok) = (format!("\n{}", result.table()), result.ok);
            finish(&result.document(), &table, ok, output)
        }
        LabCommand::Up(args) => {
            preflight::check(&preflight::DEMO)?;
            let stage = Stage::new(output).map_err(|err| err.problem())?;
            changed(standing::up(&args, &stage)?, output)
        }
        LabCommand::Down => changed(standing::down()?, output),
        LabCommand::Status => {
            let status = standing::status()?;
            let table = status.table();
            finish(&status.document(), &table, true, output)
        }
        LabCommand::Kill(NodeArgs { node }) => {
            changed(standing::change(&Request::Kill { node })?, output)
        }
        LabCommand::Cut(NodeArgs { node }) => {
            changed(standing::change(&Request::Cut { node })?, output)
        }
        LabCommand::Heal(NodeArgs { node }) => {
            changed(standing::change(&Request::Heal { node })?, output)
        }
        LabCommand::Shell(args) => match standing::shell(&args)? {},
        LabCommand::Bench(args) => {
            let result = bench::run(&args, output)?;
            let (table, ok) = (format!("\n{}", result.table()), result.ok);
            finish(&result.document(), &table, ok, output)
        }
    }
}

fn changed(change: LabChange, output: Output) -> Result<Exit, Problem> {
    let (table, ok) = (change.table(), change.leftovers.is_empty());
    finish(&change.document(), &table, ok, output)
}

/// Writes the one object of a command, or its table.
fn finish<T: Serialize>(
    document: &T,
    table: &str,
    ok: bool,
    output: Output,
) -> Result<Exit, Problem> {
    let text = match output {
        Output::Table => table.to_owned(),
        Output::Json => serde_json::to_string_pretty(document).map_err(unexpected)? + "\n",
        Output::Yaml => serde_saphyr::to_string(document).map_err(unexpected)?,
    };
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(err) if err.kind() != io::ErrorKind::BrokenPipe => return Err(unexpected(err)),
        _ => {}
    }
    Ok(if ok { Exit::Held } else { Exit::Failed })
}

fn require_root() -> Result<(), Problem> {
    let root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if root {
        return Ok(());
    }
    Err(Problem::new(
        Code::LabPrivilege,
        "the lab builds network namespaces, which needs root",
    )
    .consequence("nothing was built")
    .fix(Fix::text("run it as root").command("sudo kedge lab demo")))
}

fn unexpected(err: impl std::error::Error) -> Problem {
    Problem::new(Code::SysUnexpected, "the result cannot be written").caused_by(&err)
}
