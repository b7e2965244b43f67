//! Running other programs.

use std::{
    path::PathBuf,
    process::{Child, Command},
    time::Instant,
};

use anyhow::{Context as _, bail};

use crate::heard::{self, Hearing};

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
    step_read(name, command, |_| Ok(()))
}

/// The same with what `read` makes of the process, such as of its output, before its end is waited for.
pub fn step_read<T>(
    name: &str,
    command: &mut Command,
    read: impl FnOnce(&mut Child) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    println!("── {name}");
    let start = Instant::now();
    let process = command.spawn();
    let mut process = process.with_context(|| format!("cannot start {command:?}"))?;
    let read = read(&mut process);
    let status = process.wait()?;
    if !status.success() {
        bail!("{name}: {command:?} ended with {status}");
    }
    let read = read?;
    println!("── {name}: ok in {:.1} s", start.elapsed().as_secs_f64());
    Ok(read)
}

/// A step that goes on beside others, with whatever processor time they leave.
pub struct Beside {
    name: &'static str,
    hearing: Hearing,
    start: Instant,
}

impl Beside {
    /// Begins it. In the idle class even a compiler on every core takes nothing from tests that measure
    /// milliseconds.
    pub fn begin(name: &'static str, command: &Command) -> anyhow::Result<Self> {
        println!("── {name}, beside what follows");
        let mut idle = Command::new("chrt");
        idle.args(["--idle", "0"]).arg(command.get_program());
        idle.args(command.get_args()).current_dir(root()?);
        let set = command.get_envs();
        idle.envs(set.filter_map(|(name, value)| Some((name, value?))));
        let hearing = heard::start(idle, String::new());
        Ok(Self {
            name,
            hearing: hearing.with_context(|| format!("cannot start {command:?}"))?,
            start: Instant::now(),
        })
    }

    /// Waits for its end.
    pub fn end(self) -> anyhow::Result<()> {
        let (name, waited) = (self.name, Instant::now());
        let heard = self.hearing.end().context(name)?;
        if !heard.status.success() {
            let (status, last) = (heard.status, heard.last.join("\n  "));
            bail!("{name}: ended with {status}, and said last:\n  {last}");
        }
        println!(
            "── {name}: ok after {:.1} s, of which it was waited for {:.1} s",
            self.start.elapsed().as_secs_f64(),
            waited.elapsed().as_secs_f64()
        );
        Ok(())
    }
}
