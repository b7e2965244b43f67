//! Running other programs.

use std::{path::PathBuf, process::Command, time::Instant};

use anyhow::{Context as _, bail};

/// The root of the project.
pub fn root() -> anyhow::Result<PathBuf> {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| ".".into());
    PathBuf::from(here)
        .join("../..")
        .canonicalize()
        .context("the project's root")
}

/// A cargo command in the project's root.
pub fn cargo(args: &[&str]) -> anyhow::Result<Command> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root()?);
    Ok(command)
}

/// Runs a step to its end and says how long it took.
pub fn step(name: &str, command: &mut Command) -> anyhow::Result<()> {
    println!("── {name}");
    let start = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{name}: {command:?} ended with {status}");
    }
    println!("── {name}: ok in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
