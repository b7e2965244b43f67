//! The tests: those that need no privilege, and those that need network namespaces, booted systems, an API
//! server.

use anyhow::bail;
use cargo_metadata::{MetadataCommand, TargetKind};

use crate::{ci::LeftOut, run};

/// Every test that was not left out. A tier that fails does not hide what the others say: together they
/// take half an hour.
pub fn run(left_out: &LeftOut) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    let mut judge = |result: anyhow::Result<()>| {
        if let Err(err) = result {
            println!("── failed: {err:#}");
            failed.push(err.to_string());
        }
    };
    judge(unprivileged());
    judge(unless(left_out.no_netns, "no-netns", netns));
    judge(unless(left_out.no_boot, "no-boot", boot));
    judge(unless(left_out.no_kube, "no-kube", kube));
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(())
}

fn unless(left_out: bool, option: &str, tier: fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    if left_out {
        println!("── left out: --{option}");
        return Ok(());
    }
    tier()
}

/// Unit tests, tables, simulation.
fn unprivileged() -> anyhow::Result<()> {
    let quick = [
        "test",
        "--no-fail-fast",
        "--workspace",
        "--exclude",
        "kedge-tests-netns",
        "--exclude",
        "kedge-tests-kube",
        "--exclude",
        "kedge-tests-boot",
    ];
    let quick = run::step("tests", &mut run::cargo(&quick)?);
    // A run of its own: the feature stops the clock of the Noise core for the whole process.
    let clock = [
        "test",
        "--package",
        "kedge-tunnel-proto",
        "--features",
        "mock-clock",
        "--lib",
    ];
    let name = "tests on a clock that tests set";
    quick.and(run::step(name, &mut run::cargo(&clock)?))
}

/// Programs of tests/netns that wait for timers of seconds most of the time: several of their tests run
/// at once. All others measure milliseconds, and have the machine to themselves.
const PATIENT: [&str; 5] = [
    "tunnel_fallback",
    "vip_conflicts",
    "vip_migrate",
    "vip_proof",
    "vip_versions",
];

fn netns() -> anyhow::Result<()> {
    let package = "kedge-tests-netns";
    let metadata = MetadataCommand::new()
        .current_dir(run::root()?)
        .no_deps()
        .exec()?;
    let package_metadata = metadata.packages.iter().find(|it| it.name == package);
    let targets = package_metadata.iter().flat_map(|it| &it.targets);
    let programs: Vec<&str> = targets
        .filter(|target| target.kind.contains(&TargetKind::Test))
        .map(|target| target.name.as_str())
        .collect();
    if let Some(unknown) = PATIENT.iter().find(|name| !programs.contains(*name)) {
        bail!("{unknown} is no program of {package}");
    }
    let named = |patient: bool| {
        let chosen = programs
            .iter()
            .filter(move |name| PATIENT.contains(*name) == patient);
        chosen.flat_map(|name| ["--test", *name])
    };
    let ours = ["--lib"].into_iter().chain(named(false));
    let alone = tests(
        "tests in network namespaces",
        package,
        ours,
        "--test-threads=1",
    );
    let name = "patient tests in network namespaces";
    let patient = tests(name, package, named(true), "--test-threads=4");
    alone.and(patient)
}

fn boot() -> anyhow::Result<()> {
    let name = "tests on booted systems";
    tests(name, "kedge-tests-boot", [], "--test-threads=1")
}

fn kube() -> anyhow::Result<()> {
    let package = "kedge-tests-kube";
    // Before the tests, so that none of them is told to wait for a compiler.
    let mut programs = run::cargo(&["run", "--quiet", "--package", package])?;
    programs.args(["--bin", "kube-programs"]);
    run::step("programs of an API server", &mut programs)?;
    let mut tests = run::cargo(&["test", "--no-fail-fast", "--package", package])?;
    tests.args(["--", "--nocapture"]);
    run::step("tests against an API server", &mut tests)
}

fn tests<'a>(
    name: &str,
    package: &str,
    programs: impl IntoIterator<Item = &'a str>,
    threads: &str,
) -> anyhow::Result<()> {
    let mut tests = run::cargo(&["test", "--no-fail-fast", "--package", package])?;
    tests.args(programs).args(["--", threads, "--nocapture"]);
    run::step(name, &mut tests)
}
