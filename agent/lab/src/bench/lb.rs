//! `lab bench lb`: what load balancing takes of time, memory and processor: Envoy as the gateway tells it, beside
//! an Envoy that is told everything at each change; whole gateways through their faults; and what proxies take for
//! the same bytes.
//!
//! Where a row is counted from the cache of the gateway's server on, that server is in this process. Everything
//! else is the roles as they are.

mod ads;
mod ends;
mod envoy;
mod faults;
mod gateway;
mod memory;
mod place;
mod prober;
mod propagation;
mod proxies;
mod rows;
mod services;
mod site;

use std::path::{Path, PathBuf};

use kedge_core::{Coded as _, Problem};

use self::rows::Measured;
use super::{BenchArgs, BenchResult, Part};
use crate::{error::LabError, lab::Lab, stage::Stage, topology::Topology};

/// How much of everything.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    services: u16,
    /// How often a back end changes, a whole plan does, and a service comes.
    rounds: u32,
    plans: u32,
    adds: u16,
    /// How often a back end is removed, and how many connections follow.
    removals: u32,
    picks: u32,
    /// Between how many services memory is counted.
    memory: [u16; 2],
    /// How often gateways fall and hosts are black-holed.
    runs: u32,
    /// How long a gateway is gone, in seconds.
    gone: u64,
    /// Whether it is waited for slow checks.
    slow_checks: bool,
    bytes: u64,
    connects: u32,
    connections: u32,
    /// Where logs go.
    keep: Option<PathBuf>,
}

impl Sizes {
    fn new(args: &BenchArgs) -> Self {
        let runs = args.runs();
        let keep = args.keep.clone();
        if args.quick {
            return Self {
                services: 100,
                rounds: 3,
                plans: 2,
                adds: 2,
                removals: 1,
                picks: 200,
                memory: [50, 150],
                runs: 1,
                gone: 1,
                slow_checks: false,
                bytes: 32 * proxies::MIB,
                connects: 100,
                connections: 300,
                keep,
            };
        }
        Self {
            services: 5_000,
            rounds: runs * 20,
            plans: runs * 6,
            adds: u16::try_from(runs)
                .unwrap_or(100)
                .saturating_mul(4)
                .min(400),
            removals: runs,
            picks: 2_000,
            memory: [1_000, 3_700],
            runs,
            gone: 6,
            slow_checks: true,
            bytes: 2_048 * proxies::MIB,
            connects: 5_000,
            connections: 5_000,
            keep,
        }
    }
}

pub(super) fn run(args: &BenchArgs, stage: &Stage) -> Result<BenchResult, Problem> {
    let executable = envoy::find(args.envoy.as_deref())?;
    measure(args, &executable, stage).map_err(|error| error.problem())
}

fn measure(args: &BenchArgs, envoy: &Path, stage: &Stage) -> Result<BenchResult, LabError> {
    let kedge = crate::lab::executable(args.kedge.as_deref())?;
    // Thousands of connections have their ends in this process and in those it starts.
    kedge_net::limits::raise_descriptors().map_err(LabError::file("the limit of descriptors"))?;
    stage.heading("kedge lab bench lb");
    let sizes = Sizes::new(args);
    let (mut measured, mut left) = (Measured::default(), Vec::new());
    if args.wants(Part::Propagation) {
        let (found, remains) = propagation::measure(&kedge, envoy, &sizes, stage)?;
        measured.propagation = Some(found);
        left.extend(remains);
    }
    if args.wants(Part::EnvoyMemory) {
        let (found, remains) = memory::measure(&kedge, envoy, &sizes, stage)?;
        measured.memory = Some(found);
        left.extend(remains);
    }
    if args.wants(Part::GatewayFaults) {
        let (found, remains) = faults::measure(&kedge, envoy, &sizes, stage)?;
        measured.faults = found;
        left.extend(remains);
    }
    if args.wants(Part::Proxies) {
        let (found, remains) = proxies::measure(&kedge, envoy, &sizes, stage)?;
        measured.proxies = Some(found);
        left.extend(remains);
    }
    let peer = envoy::version(envoy);
    let result = BenchResult::new("lb", peer, command(args), stage.seconds(), measured.rows());
    let mut notes: Vec<String> = NOTES.map(str::to_owned).into();
    notes.push(format!(
        "{} services at an Envoy, its memory between {} and {} of them; {} connections after a removal; {} at once.",
        sizes.services,
        sizes.memory[0],
        sizes.memory[1],
        sizes.picks,
        sizes.connections
    ));
    if args.quick {
        notes.push("Quick: so little of everything that no number means anything.".to_owned());
    }
    notes.extend(left.iter().map(|left| format!("Left behind: {left}")));
    Ok(BenchResult {
        ok: result.ok && left.is_empty(),
        notes,
        ..result
    })
}

fn command(args: &BenchArgs) -> String {
    let mut command = format!("sudo kedge lab bench lb --runs {}", args.runs());
    if args.quick {
        command += " --quick";
    }
    for part in &args.part {
        command = format!("{command} --part {part}");
    }
    command
}

/// Measures on a lab of its own, whose logs are kept where they are wanted; and what could not be removed.
fn on_a_lab<T>(
    (name, topology): (&str, Topology),
    kedge: &Path,
    sizes: &Sizes,
    measure: impl FnOnce(&mut Lab) -> Result<T, LabError>,
) -> Result<(T, Vec<String>), LabError> {
    let (mut lab, _) = Lab::build(topology, kedge.to_owned())?;
    let measured = measure(&mut lab);
    if let Some(folder) = &sizes.keep {
        lab.keep_logs(&folder.join(name))?;
    }
    let left = lab.take_down();
    Ok((measured?, left))
}

const NOTES: [&str; 4] = [
    "Envoys, gateways, back ends and clients share the processors of this machine.",
    "A change counts from the moment it is in the cache of the server that tells Envoy, until a new connection has \
     been answered by whom it should reach; `plan` counts the rendering of all services as well.",
    "Told whole means: as control planes with one snapshot do, everything of every kind goes out again at each \
     change, of the same resources.",
    "Processor time is that of the proxy's threads; back ends are on the proxy's node, clients on another.",
];
