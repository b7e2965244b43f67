//! The tests: those that need no privilege, and those that need network namespaces, booted systems, an API
//! server.

use std::process::Command;

use anyhow::bail;

use crate::{
    ci::LeftOut,
    programs::{self, Built, Program},
    run::{self, Beside},
    running::{run_all, run_together},
};

/// Every test that was not left out; `lint` goes on beside those that wait more than they work. A tier that
/// fails does not hide what the others say: whoever mends the one would learn of the next an hour later.
pub fn run(left_out: &LeftOut, lint: Option<&mut Command>) -> anyhow::Result<()> {
    let built = programs::build()?;
    let programs = &built.tests;
    let mut failed = Vec::new();
    let mut judge = |result: anyhow::Result<()>| {
        if let Err(err) = result {
            failed.push(format!("{err:#}"));
        }
    };
    judge(unprivileged(programs));
    let api_server = (!left_out.no_kube).then(|| api_server(&built));
    let lint = lint.map(|lint| Beside::begin("lint", lint));
    judge(if left_out.no_netns {
        leave_out("no-netns")
    } else {
        netns(programs)
    });
    judge(if left_out.no_boot {
        leave_out("no-boot")
    } else {
        boot(programs)
    });
    judge(match api_server {
        Some(api_server) => api_server.and_then(|beside| kube(programs, beside)),
        None => leave_out("no-kube"),
    });
    judge(lint.map_or(Ok(()), |lint| lint.and_then(Beside::end)));
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

fn leave_out(option: &str) -> anyhow::Result<()> {
    println!("── left out: --{option}");
    Ok(())
}

/// Unit tests, tables, simulation.
fn unprivileged(programs: &[Program]) -> anyhow::Result<()> {
    let own = |program: &&Program| ![NETNS, BOOT, KUBE].contains(&program.package.as_str());
    let quick = run_all("tests", programs.iter().filter(own), &[]);
    let mut pages = run::cargo(&["test", "--quiet", "--workspace", "--doc"])?;
    let pages = run::step("tests in pages of the code", &mut pages);
    // A build of its own: the feature stops the clock of boringtun's core for the whole process. All other
    // tests would say the same again.
    let mut clock = run::cargo(&["test", "--package", "kedge-tunnel-proto"])?;
    clock.args(["--features", "mock-clock", "--lib", "--"]);
    clock.args(["boringtun", "noise::tests"]);
    let clock = run::step("tests on a clock that tests set", &mut clock);
    quick.and(pages).and(clock)
}

/// Modules of tests/netns that wait for timers of seconds, for daemons that start or for benches of which
/// nothing but the rows is looked at: several of their tests run at once. All others measure milliseconds, and
/// have the machine to themselves.
const PATIENT: [&str; 34] = [
    "bgp_agent",
    "bgp_bird",
    "bgp_frr",
    "bgp_guide",
    "bgp_peers",
    "bgp_unnumbered",
    "checked",
    "demo",
    "envoy",
    "gateway_envoy",
    "lab_bench",
    "load_balancing",
    "mesh",
    "proxied",
    "shortcut",
    "sites",
    "tunnel_back_ends",
    "tunnel_failures",
    "tunnel_fallback",
    "tunnel_keys",
    "tunnel_mtu",
    "tunnel_mtu_roles",
    "tunnel_mtu_routes",
    "tunnel_other_port",
    "vip_commands",
    "vip_conflicts",
    "vip_frr",
    "vip_groups",
    "vip_links",
    "vip_migrate",
    "vip_proof",
    "vip_restart",
    "vip_tracks",
    "vip_versions",
];

fn netns(programs: &[Program]) -> anyhow::Result<()> {
    let own = programs.iter().filter(|program| program.package == NETNS);
    let (whole, mut alone): (Vec<Program>, Vec<Program>) =
        own.cloned().partition(|program| program.name == "netns");
    let Some(whole) = whole.first() else {
        bail!("{NETNS} has no program of its name");
    };
    let modules = whole.modules()?;
    if let Some(unknown) = PATIENT
        .iter()
        .find(|it| modules.iter().all(|module| module.name != **it))
    {
        bail!("{unknown} is no module of {NETNS}");
    }
    let (patient, others): (Vec<Program>, Vec<Program>) = modules
        .into_iter()
        .partition(|module| PATIENT.contains(&module.name.as_str()));
    alone.extend(others);
    let tier = "tests in network namespaces";
    let alone = run_all(tier, &alone, &["--test-threads=1", "--nocapture"]);
    let patient = whole.of_modules("patient modules", &patient);
    let tier = "patient tests in network namespaces";
    let threads = ["--test-threads=4", "--nocapture"];
    alone.and(run_together(tier, &[patient], 1, &threads))
}

fn boot(programs: &[Program]) -> anyhow::Result<()> {
    let own = programs.iter().filter(|program| program.package == BOOT);
    let tier = "tests on booted systems";
    run_all(tier, own, &["--test-threads=1", "--nocapture"])
}

/// Begins to build the programs of an API server: they take Go ten minutes, in which the tests in namespaces
/// leave half of the machine idle.
fn api_server(built: &Built) -> anyhow::Result<Beside> {
    let programs = Command::new(built.binary("kube-programs")?);
    Beside::begin("programs of an API server", &programs)
}

fn kube(programs: &[Program], api_server: Beside) -> anyhow::Result<()> {
    // Before the tests, so that none of them is told to wait for a compiler.
    api_server.end()?;
    let own = programs.iter().filter(|program| program.package == KUBE);
    let own: Vec<Program> = own.cloned().collect();
    // They wait for controllers' second looks two seconds of five.
    let tier = "tests against an API server";
    run_together(tier, &own, 2, &["--nocapture"])
}

const NETNS: &str = "kedge-tests-netns";
const BOOT: &str = "kedge-tests-boot";
const KUBE: &str = "kedge-tests-kube";
