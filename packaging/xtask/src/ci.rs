//! The pipeline: what a change must pass, in the order in which failures are cheapest.

use std::process::Command;

use crate::{arch, crds, docs, run, tiers};

/// The tiers a run goes without.
#[derive(clap::Args)]
pub struct LeftOut {
    /// Leaves out the tests that need root and network namespaces
    #[arg(long)]
    pub no_netns: bool,
    /// Leaves out the tests against a real API server, whose programs take minutes to build
    #[arg(long)]
    pub no_kube: bool,
    /// Leaves out the tests on booted systems, which need root and systemd-nspawn
    #[arg(long)]
    pub no_boot: bool,
}

/// Every check.
pub fn all(left_out: &LeftOut) -> anyhow::Result<()> {
    run::step("fmt", &mut run::cargo(&["fmt", "--all", "--", "--check"])?)?;
    arch::check()?;
    deny()?;
    docs::generate(true)?;
    crds::generate(true)?;
    // What compilers warn of takes ten minutes to hear: more than half of that time tests leave idle.
    let mut lint = Command::new(std::env::current_exe()?);
    tiers::run(left_out, Some(lint.arg("lint")))
}

/// What compilers warn of, in every build: clippy's lints, and links in the pages of the code that lead nowhere.
pub fn lint() -> anyhow::Result<()> {
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    run::step("clippy", &mut run::cargo(&clippy)?)?;
    // The build for hosts leaves manager and lab out (docs/adr/0021).
    let hosts = [
        "clippy",
        "--package",
        "kedge-agent-cli",
        "--no-default-features",
        "--lib",
        "--bins",
        "--",
        "-D",
        "warnings",
    ];
    run::step("clippy of the build for hosts", &mut run::cargo(&hosts)?)?;
    let mut rustdoc = run::cargo(&["doc", "--workspace", "--no-deps", "--quiet"])?;
    run::step("rustdoc", rustdoc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Licences, bans and sources of the dependencies. The advisory database is not consulted here:
/// it lives outside the package registry, so an offline build could not reproduce the verdict.
fn deny() -> anyhow::Result<()> {
    let installed = Command::new("cargo-deny").arg("--version").output();
    if installed.is_err() {
        println!("── deny: skipped, cargo-deny is not installed (cargo install cargo-deny)");
        return Ok(());
    }
    run::step(
        "deny",
        &mut run::cargo(&["deny", "check", "bans", "licenses", "sources"])?,
    )
}
