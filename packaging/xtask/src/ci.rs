//! The pipeline: what a change must pass, in the order in which failures are cheapest.

use std::process::Command;

use crate::{arch, crds, docs, run};

/// Every check.
pub fn all(no_netns: bool) -> anyhow::Result<()> {
    run::step("fmt", &mut run::cargo(&["fmt", "--all", "--", "--check"])?)?;
    arch::check()?;
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    run::step("clippy", &mut run::cargo(&clippy)?)?;
    docs::generate(true)?;
    crds::generate(true)?;
    tests(no_netns)?;
    let mut rustdoc = run::cargo(&["doc", "--workspace", "--no-deps", "--quiet"])?;
    run::step("rustdoc", rustdoc.env("RUSTDOCFLAGS", "-D warnings"))?;
    deny()
}

/// Every test.
pub fn tests(no_netns: bool) -> anyhow::Result<()> {
    // Unit tests, tables, simulation: everything that needs no privilege.
    let quick = ["test", "--workspace", "--exclude", "kedge-tests-netns"];
    run::step("tests", &mut run::cargo(&quick)?)?;
    // A run of its own: the feature stops the clock of the Noise core for the whole process.
    let clock = [
        "test",
        "--package",
        "kedge-tunnel-proto",
        "--features",
        "mock-clock",
        "--lib",
    ];
    run::step("tests on a clock that tests set", &mut run::cargo(&clock)?)?;
    if no_netns {
        println!("── tests in network namespaces: left out (--no-netns)");
        return Ok(());
    }
    // One at a time: they measure how long things take.
    let netns = [
        "test",
        "--package",
        "kedge-tests-netns",
        "--",
        "--test-threads=1",
        "--nocapture",
    ];
    run::step("tests in network namespaces", &mut run::cargo(&netns)?)
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
