//! `lab bench vip`: what a fault costs the client, with Kedge and with keepalived.
//!
//! Two LANs of the same form stand side by side in the same run, one for each. Each fault happens
//! on one and then on the other, and who goes first alternates.

mod cost;
mod fault;
mod lan;
mod rows;
mod soak;

use std::{path::Path, time::Duration};

use self::{
    cost::Costs,
    fault::{Fault, Sample},
    lan::{ADVERT, FAST, Lan, System},
    rows::Measured,
    soak::Soak,
};
use super::{BenchArgs, BenchResult, Part, Samples};
use crate::{error::LabError, stage::Stage};

/// What the samples of one fault on one system say.
#[derive(Debug, Default)]
struct Series {
    outage: Samples,
    lost: Samples,
    switch: Samples,
    beyond: Samples,
    fenced: Samples,
    moves: Samples,
    stale: u32,
    missed_ticks: u64,
}

/// One fault, Kedge first.
type Pair = [Series; 2];

pub(super) fn run(args: &BenchArgs, stage: &Stage) -> Result<BenchResult, LabError> {
    let kedge = crate::lab::executable(args.kedge.as_deref())?;
    let peer = keepalived_version()?;
    stage.heading("kedge lab bench vip");
    if args.wants(Part::Faults) {
        stage.tell(&format!(
            "{} runs of each fault, interleaved with {peer}; {} of a killed daemon",
            args.runs(),
            args.kills()
        ));
    }
    let mut measured = Measured::default();
    let mut left = at_default(args, &kedge, stage, &mut measured)?;
    if args.wants(Part::Faults) || args.wants(Part::Soak) {
        left.extend(at_ten_milliseconds(args, &kedge, stage, &mut measured)?);
    }
    if args.wants(Part::Faults) {
        measured.one_second = at_one_second(args, &kedge, stage)?;
    }

    let mut notes = vec![
        "A probe per millisecond; faults are spread evenly over the advertisement interval; ratio is \
         the peer's median over ours, not below 1 ms."
            .to_owned(),
        "keepalived runs with priorities 150/140/130, Kedge with 254/223/192; part of a ratio is \
         the smaller skew. At 10 ms keepalived has vrrp_rt_priority 40 and 254/200/150."
            .to_owned(),
        "sigkill: of Kedge the agent is killed, of keepalived both processes; beyond_skew is what \
         the switch took beyond the skew of the host that took over."
            .to_owned(),
        "hung.fenced: from SIGSTOP to the last answer to a client that goes on to send to that \
         host; a host that answers until the end of the 1.5 s counts as that."
            .to_owned(),
        "pss, cpu: agent and guardian of one host, and both processes of keepalived, each few seconds; \
         cpu and cpu.backup with the daemons of all hosts kept on one processor and then on another, the \
         mean of both, cpu.free where the scheduler puts them."
            .to_owned(),
        format!("Ticks the prober itself overslept: {}.", measured.missed()),
    ];
    notes.extend(measured.soaks.iter().flat_map(Soak::notes));
    notes.extend(left.iter().map(|left| format!("Left behind: {left}")));
    let (runs, soak, idle) = (args.runs(), args.soak, args.idle);
    let mut command = format!("sudo kedge lab bench vip --runs {runs} --soak {soak} --idle {idle}");
    for part in &args.part {
        command = format!("{command} --part {part}");
    }
    let result = BenchResult::new("vip", peer, command, stage.seconds(), measured.rows());
    Ok(BenchResult {
        ok: result.ok && left.is_empty(),
        notes,
        ..result
    })
}

/// Everything at adverts of 100 ms.
fn at_default(
    args: &BenchArgs,
    kedge: &Path,
    stage: &Stage,
    measured: &mut Measured,
) -> Result<Vec<String>, LabError> {
    let mut lans = pair(kedge, ADVERT, stage)?;
    stage.good("two LANs stand: one Active and two Backups on each");
    let mut measure = || {
        if args.wants(Part::Cost) {
            measured.costs = Some(cost(args, &mut lans, stage)?);
        }
        let faults = args.wants(Part::Faults);
        for (fault, runs, series) in [
            (Fault::Kill, args.kills(), &mut measured.kill),
            (Fault::Stop, args.runs(), &mut measured.stop),
            (Fault::Reload, args.runs(), &mut measured.reload),
            (Fault::Upgrade, args.runs(), &mut measured.upgrade),
            (Fault::Hang, args.runs(), &mut measured.hang),
            (Fault::HostDeath, args.runs(), &mut measured.death),
        ]
        .into_iter()
        .filter(|_| faults)
        {
            suffer(&mut lans, fault, runs, args.runs(), series, stage)?;
        }
        if args.wants(Part::Soak) {
            let time = args.soak_default.unwrap_or(args.soak);
            measured.soaks.push(Soak::run(&lans, time, false, stage));
        }
        Ok(())
    };
    let result = measure();
    finish(lans, args, "default", result)
}

/// What both cost while nothing happens.
fn cost(args: &BenchArgs, lans: &mut [Lan; 2], stage: &Stage) -> Result<Costs, LabError> {
    let idle = Duration::from_secs(args.idle.into());
    stage.heading(&format!("nothing happens for {idle:?}"));
    // What a start costs is not what standing there costs.
    std::thread::sleep(idle.min(SETTLES));
    let costs = Costs::watch(lans, idle)?;
    for (name, [ours, theirs]) in [
        ("pss, MiB", &costs.pss),
        ("cpu, %", &costs.kept),
        ("cpu where it likes, %", &costs.free),
        ("cpu of a Backup, %", &costs.backup),
    ] {
        let told = |samples: &Samples| {
            let (p50, max) = (samples.p50(), samples.max());
            format!("{p50:.3} ({max:.3} at most)")
        };
        let (ours, theirs) = (told(ours), told(theirs));
        stage.tell(&format!("{name}: kedge {ours}, keepalived {theirs}"));
    }
    Ok(costs)
}

/// A dead host, and no fault at all under load, at adverts of 10 ms.
fn at_ten_milliseconds(
    args: &BenchArgs,
    kedge: &Path,
    stage: &Stage,
    measured: &mut Measured,
) -> Result<Vec<String>, LabError> {
    let mut lans = pair(kedge, FAST, stage)?;
    let mut measure = || {
        if args.wants(Part::Faults) {
            let (runs, fast) = (args.runs(), &mut measured.fast_death);
            suffer(&mut lans, Fault::HostDeath, runs, runs, fast, stage)?;
        }
        if args.wants(Part::Soak) {
            let soak = Soak::run(&lans, args.soak, true, stage);
            measured.soaks.push(soak);
        }
        Ok(())
    };
    let result = measure();
    finish(lans, args, "fast", result)
}

fn pair(kedge: &Path, interval: Duration, stage: &Stage) -> Result<[Lan; 2], LabError> {
    let theirs = System::Keepalived {
        interval,
        real_time: interval < ADVERT,
    };
    Ok([
        Lan::start(System::Kedge { interval }, kedge.to_owned(), stage)?,
        Lan::start(theirs, kedge.to_owned(), stage)?,
    ])
}

fn finish(
    [ours, theirs]: [Lan; 2],
    args: &BenchArgs,
    name: &str,
    result: Result<(), LabError>,
) -> Result<Vec<String>, LabError> {
    if let Some(directory) = &args.keep {
        ours.lab()
            .keep_logs(&directory.join(format!("kedge-{name}")))?;
        theirs
            .lab()
            .keep_logs(&directory.join(format!("keepalived-{name}")))?;
    }
    let mut left = ours.take_down();
    left.extend(theirs.take_down());
    result.map(|()| left)
}

/// One fault on both LANs in turn; the peer's as often as `theirs` says.
fn suffer(
    lans: &mut [Lan; 2],
    fault: Fault,
    runs: u32,
    theirs: u32,
    pair: &mut Pair,
    stage: &Stage,
) -> Result<(), LabError> {
    stage.heading(fault.name());
    for run in 0..runs {
        let mut seen = [None; 2];
        let order: &[usize] = match run {
            _ if run >= theirs => &[0],
            _ if run % 2 == 0 => &[0, 1],
            _ => &[1, 0],
        };
        for index in order {
            let (Some(lan), Some(series), Some(seen)) = (
                lans.get_mut(*index),
                pair.get_mut(*index),
                seen.get_mut(*index),
            ) else {
                continue;
            };
            let sample = lan.suffer(fault, run, stage)?;
            series.add(&sample);
            *seen = Some(sample);
        }
        let mut line = format!("{:>3}", run + 1);
        for (name, sample) in ["kedge", "keepalived"].iter().zip(seen) {
            if let Some(sample) = sample {
                line += &format!("  {name} {}", told(fault, &sample));
            }
        }
        stage.tell(&line);
    }
    Ok(())
}

fn told(fault: Fault, sample: &Sample) -> String {
    let (outage, switch) = (sample.outage * 1e3, sample.switch * 1e3);
    match fault {
        Fault::Hang => format!("answers for {:>7.1} ms", sample.fenced * 1e3),
        Fault::Reload => format!("{:>3} lost", sample.lost),
        Fault::Upgrade => format!("{:>3} lost, {} moves", sample.lost, sample.moves),
        Fault::HostDeath | Fault::Stop | Fault::Kill => {
            format!(
                "{outage:>6.1} ms, {:>3} lost, switch {switch:>6.1} ms{}",
                sample.lost,
                if sample.stale { ", stale" } else { "" }
            )
        }
    }
}

/// keepalived as it comes: adverts each second. A few runs; each costs three seconds.
fn at_one_second(args: &BenchArgs, kedge: &Path, stage: &Stage) -> Result<Series, LabError> {
    stage.heading("host death, keepalived at its default of 1 s");
    let system = System::Keepalived {
        interval: Duration::from_secs(1),
        real_time: false,
    };
    let mut lan = Lan::start(system, kedge.to_owned(), stage)?;
    let mut series = Series::default();
    for run in 0..args.runs().min(DEFAULT_RUNS) {
        let sample = lan.suffer(Fault::HostDeath, run, stage)?;
        stage.tell(&format!(
            "{:>3}  keepalived {:>6.1} ms",
            run + 1,
            sample.outage * 1e3
        ));
        series.add(&sample);
    }
    for left in lan.take_down() {
        stage.bad(&format!("left behind: {left}"));
    }
    Ok(series)
}

impl Series {
    fn add(&mut self, sample: &Sample) {
        self.outage.push(sample.outage);
        self.lost
            .push(f64::from(u32::try_from(sample.lost).unwrap_or(u32::MAX)));
        self.switch.push(sample.switch);
        self.beyond.push(sample.beyond);
        self.fenced.push(sample.fenced);
        self.moves.push(f64::from(sample.moves));
        self.stale += u32::from(sample.stale);
        self.missed_ticks += sample.missed_ticks;
    }
}

fn keepalived_version() -> Result<String, LabError> {
    let output = std::process::Command::new("keepalived")
        .arg("--version")
        .output();
    let output = output.map_err(|source| LabError::Spawn {
        program: "keepalived".to_owned(),
        node: "this machine".to_owned(),
        source,
    })?;
    // It writes to stderr: `Keepalived v2.2.7 (01/16,2022)`.
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().next().unwrap_or("keepalived");
    Ok(first.split(" (").next().unwrap_or(first).to_owned())
}

/// How often the peer's default is measured: its spread is known and each run takes seconds.
const DEFAULT_RUNS: u32 = 7;
/// How long a daemon is left alone before it is watched, or as long as it is watched then.
const SETTLES: Duration = Duration::from_secs(20);
