//! Project tasks: `cargo xtask arch | ci | crds | dist | docs | lint | test`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer tool talks to its developer"
)]

mod arch;
mod ci;
mod crds;
mod docs;
mod generated;
mod heard;
mod programs;
mod run;
mod running;
mod tiers;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project tasks of Kedge")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Checks the map of crates: names, places, arrows, file sizes
    Arch,
    /// Writes the CustomResourceDefinitions (or, with --check, fails when they differ)
    Crds {
        /// Only compare
        #[arg(long)]
        check: bool,
    },
    /// Writes the generated parts of docs/ (or, with --check, fails when they differ)
    Docs {
        /// Only compare
        #[arg(long)]
        check: bool,
    },
    /// Builds the packages for hosts: deb, rpm, system extension, tarball; `dist --help` says how
    #[command(disable_help_flag = true)]
    Dist {
        /// What `kedge-dist` takes
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Compiles everything for its warnings: clippy, of the build for hosts too, and rustdoc
    Lint,
    /// Runs every check: fmt, clippy, arch, docs, CRDs, tests, deny
    Ci {
        #[command(flatten)]
        left_out: ci::LeftOut,
    },
    /// Runs every test there is, and says what it skipped
    Test {
        #[command(flatten)]
        left_out: ci::LeftOut,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Arch => arch::check(),
        Task::Crds { check } => crds::generate(check),
        Task::Docs { check } => docs::generate(check),
        Task::Dist { arguments } => dist(&arguments),
        Task::Lint => ci::lint(),
        Task::Ci { left_out } => ci::all(&left_out),
        Task::Test { left_out } => tiers::run(&left_out, None),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A program of its own, so that nothing else waits for what it is built from.
fn dist(arguments: &[String]) -> anyhow::Result<()> {
    let mut program = run::cargo(&["run", "--quiet", "--package", "kedge-packaging-dist", "--"])?;
    run::step("dist", program.args(arguments))
}
