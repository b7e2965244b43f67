//! `lab bench tunnel`: what the tunnel carries and what it costs, beside other WireGuard engines.
//!
//! Two hosts on one segment, one TUN device on each, configured by `wg`: nothing of Kedge but the
//! engine is in the way. Each run measures every implementation once, each time with new processes,
//! and each run begins with another one.

mod answers;
mod engine;
mod faults;
mod flood;
mod gateways;
mod limit;
mod load;
mod moves;
mod restart;
mod rows;
mod site;
pub(super) mod standing;
mod storm;

use std::{path::Path, time::Duration};

use self::{
    engine::Engine,
    gateways::Gateways,
    rows::{Measured, Peer},
    site::Site,
    storm::Crowd,
};
use super::{BenchArgs, BenchResult, Part};
use crate::{error::LabError, stage::Stage};

pub(super) fn run(args: &BenchArgs, stage: &Stage) -> Result<BenchResult, LabError> {
    let kedge = crate::lab::executable(args.kedge.as_deref())?;
    let engines = Engine::all(&kedge);
    stage.heading("kedge lab bench tunnel");
    let names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
    stage.tell(&format!(
        "{} runs, interleaved: {}",
        args.runs(),
        names.join(", ")
    ));
    let mut bench = Bench {
        args,
        stage,
        measured: engines.iter().map(|_| Measured::default()).collect(),
        engines: &engines,
        limit: None,
        left: Vec::new(),
    };
    for run in 0..args.runs() {
        for turn in 0..engines.len() {
            bench.turn(run, (turn + run as usize) % engines.len())?;
        }
    }
    if bench.args.wants(Part::Gateways) {
        bench.gateways(&kedge)?;
    }
    if bench.args.wants(Part::Restart) {
        for _ in 0..bench.args.runs() {
            bench.restart(&kedge)?;
        }
    }
    if bench.args.wants(Part::Outage) {
        let left = faults::outage(&engines, &mut bench.measured, stage)?;
        bench.left.extend(left);
    }
    if bench.args.wants(Part::Rotation) {
        let left = moves::rotate(&engines, &mut bench.measured, stage)?;
        bench.left.extend(left);
    }
    Ok(bench.result())
}

struct Bench<'a> {
    args: &'a BenchArgs,
    stage: &'a Stage,
    engines: &'a [Engine],
    measured: Vec<Measured>,
    /// What no engine can do without, and of which run.
    limit: Option<(u32, f64)>,
    /// What labs could not remove.
    left: Vec<String>,
}

impl Bench<'_> {
    /// Measures an engine in each part once.
    fn turn(&mut self, run: u32, at: usize) -> Result<(), LabError> {
        let Some(engine) = self.engines.get(at) else {
            return Ok(());
        };
        let changes_peers = engine.changes_peers();
        let changes = self.args.wants(Part::Changes) && changes_peers;
        let carries = self.args.wants(Part::Load);
        let cuts = self.args.wants(Part::Segmenting);
        let mut cost = None;
        if changes || carries || cuts {
            self.on_a_pair(engine, (run, at), |site, measured| {
                if changes {
                    let lost = faults::change_peers(site)?;
                    measured.syncconf.push(lost);
                    measured.say(format!("{lost} packets lost while peers changed"));
                }
                if cuts {
                    measured.take_cut(site)?;
                }
                if carries {
                    cost = Some(measured.take(site)?);
                }
                Ok(())
            })?;
        }
        if let Some(ours) = cost.filter(|_| at < Engine::OURS) {
            let seconds = match self.limit.filter(|(of, _)| *of == run) {
                Some((_, seconds)) => seconds,
                None => {
                    let (seconds, left) = limit::limit(self.stage)?;
                    self.left.extend(left);
                    seconds
                }
            };
            self.limit = Some((run, seconds));
            if let Some(measured) = self.measured.get_mut(at) {
                measured.take_limit(seconds, ours);
            }
        }
        if self.args.wants(Part::Flood) {
            self.on_a_pair(engine, (run, at), |site, measured| {
                let mut worst = 1_f64;
                let mut newcomers = 0_f64;
                for sources in [1, FLOOD] {
                    let kept = flood::flood(site, sources)?;
                    worst = worst.min(kept.goodput);
                    newcomers = newcomers.max(kept.handshakes.p99());
                    measured.say(format!(
                        "{:.1} % of its packets arrived, newcomers waited {:.2} s at most, in a \
                         flood of {} initiations",
                        worst * 100.0,
                        newcomers,
                        kept.flooded
                    ));
                }
                measured.goodput.push(worst);
                measured.newcomers.push(newcomers);
                measured.slowed.push(flood::slowed(site)?);
                Ok(())
            })?;
        }
        if self.args.wants(Part::Moves) {
            let stage = self.stage;
            self.on_a_pair(engine, (run, at), |site, measured| {
                let roamed = moves::roam(site, stage)?;
                measured.roaming.push(roamed);
                let mut said = format!("answered again {:.0} ms after a move", roamed * 1e3);
                if changes_peers {
                    let revoked = moves::revoke(site)?;
                    measured.revoke.push(revoked);
                    said = format!("{said}, silent {:.0} ms after removal", revoked * 1e3);
                }
                measured.say(said);
                Ok(())
            })?;
        }
        if self.args.wants(Part::Storm) {
            self.storm(engine, at, STORM)?;
        }
        if self.args.wants(Part::LargeStorm) && run == 0 && at < Engine::OURS {
            self.storm(engine, at, LARGE_STORM)?;
        }
        Ok(())
    }

    fn on_a_pair(
        &mut self,
        engine: &Engine,
        (run, at): (u32, usize),
        take: impl FnOnce(&mut Site, &mut Measured) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let Some(measured) = self.measured.get_mut(at) else {
            return Ok(());
        };
        let mut site = Site::start(engine, self.stage)?;
        let result = take(&mut site, measured);
        if let Some(directory) = &self.args.keep {
            site.keep(&directory.join(format!("{run}-{}", engine.name())))?;
        }
        self.left.extend(site.take_down());
        result?;
        let said = format!("{}: {}", engine.name(), measured.last());
        self.stage.tell(&said);
        Ok(())
    }

    /// Hosts that the gateway knows, and has never heard, call it at once.
    fn storm(&mut self, engine: &Engine, at: usize, many: u32) -> Result<(), LabError> {
        let Some(measured) = self.measured.get_mut(at) else {
            return Ok(());
        };
        let (mut site, key) = Site::gateway(engine, self.stage)?;
        let crowd = Crowd::gather(site.lab(), &key, many)?;
        let empty = site.gateway_memory_at_rest()?;
        let keys = crowd.keys();
        site.admit(keys.iter().map(String::as_str))?;
        let known = site.gateway_memory_at_rest()?;
        if many == LARGE_STORM && self.args.wants(Part::Idle) {
            measured.idle.push(site.idle(IDLE)?);
        }
        let before = site.gateway_seconds()?;
        let arrival = crowd.arrive()?;
        let spent = site.gateway_seconds()? - before;
        if many == STORM && at < Engine::OURS {
            let limit = answers::answer()? * f64::from(many);
            measured.handshakes.push(limit / spent.max(1e-9));
        }
        let active = site.gateway_memory_at_rest()?;
        self.left.extend(site.take_down());
        let (last, asked) = (arrival.sessions.max(), arrival.initiations);
        let each = |memory: f64| (memory - empty).max(0.0) / f64::from(many);
        if many == STORM {
            measured.storm.push(last);
            measured.initiations.push(asked);
        } else {
            measured.large_storm.push(last);
        }
        // A page more or less is nothing among so many: the larger storm counts where there are both.
        if many == LARGE_STORM || at >= Engine::OURS || !self.args.wants(Part::LargeStorm) {
            measured.dormant.push(each(known));
            measured.active.push(each(active));
        }
        self.stage.tell(&format!(
            "{}: {many} hosts in {last:.2} s, half of them in {:.2} s, {asked:.2} initiations each",
            engine.name(),
            arrival.sessions.p50()
        ));
        Ok(())
    }

    /// Gateways that are killed, and drained.
    fn gateways(&mut self, kedge: &Path) -> Result<(), LabError> {
        let Some(measured) = self.measured.first_mut() else {
            return Ok(());
        };
        let mut site = Gateways::start(kedge, self.stage)?;
        // Each takes three seconds; a hundred of them are 25 runs of this part alone.
        let (kills, drains) = (self.args.runs() * 4, self.args.runs());
        let mut result = (0..kills).try_for_each(|kill| {
            measured.failover.push(site.kill(kill)?);
            Ok(())
        });
        for _ in 0..drains {
            result = result.and_then(|()| {
                measured.drain.push(site.drain()?);
                Ok(())
            });
        }
        self.left.extend(site.take_down());
        let outages = &measured.failover;
        let (p50, max) = (outages.p50() * 1e3, outages.max() * 1e3);
        self.stage.tell(&format!(
            "{} gateways killed: nothing answered for {p50:.0} ms, {max:.0} at most",
            outages.len()
        ));
        result
    }

    /// A gateway with thousands of hosts is stopped and started, and killed and started.
    fn restart(&mut self, kedge: &Path) -> Result<(), LabError> {
        let (Some(measured), many) = (self.measured.first_mut(), RESTART) else {
            return Ok(());
        };
        let (restarts, left) = restart::restart(kedge, many, self.stage)?;
        self.left.extend(left);
        let [stopped, killed] = &restarts;
        measured.restart.push(stopped.back.p99());
        measured.killed.push(killed.back.p99());
        for (restart, how) in restarts.iter().zip(["stopped", "killed"]) {
            measured.restart_initiations.push(restart.initiations);
            self.stage.tell(&format!(
                "a gateway of {many} hosts {how} and started: half of them were answered again after \
                 {:.2} s, 99 of 100 after {:.2} s, all after {:.2} s, {:.2} initiations each",
                restart.back.p50(),
                restart.back.p99(),
                restart.back.max(),
                restart.initiations
            ));
        }
        Ok(())
    }

    fn result(self) -> BenchResult {
        let mut measured = self.engines.iter().zip(self.measured);
        let ours: Vec<_> = measured
            .by_ref()
            .take(Engine::OURS)
            .map(|(engine, measured)| Peer::new(engine, measured))
            .collect();
        let peers: Vec<_> = measured
            .map(|(engine, measured)| Peer::new(engine, measured))
            .collect();
        let rows = rows::rows(&ours, &peers);
        let mut command = format!("sudo kedge lab bench tunnel --runs {}", self.args.runs());
        for part in &self.args.part {
            command = format!("{command} --part {part}");
        }
        let versions: Vec<String> = peers.iter().map(Peer::version).collect();
        let result = BenchResult::new(
            "tunnel",
            versions.join(", "),
            command,
            self.stage.seconds(),
            rows,
        );
        let mut notes: Vec<String> = NOTES.map(str::to_owned).into();
        notes.extend(self.left.iter().map(|left| format!("Left behind: {left}")));
        BenchResult {
            ok: result.ok && self.left.is_empty(),
            notes,
            ..result
        }
    }
}

/// The ports of the larger flood.
const FLOOD: u32 = 10_000;
const STORM: u32 = 2_000;
const LARGE_STORM: u32 = 10_000;
/// The hosts of a gateway that restarts.
const RESTART: u32 = 2_000;
/// How long a gateway is left alone with peers that say nothing.
const IDLE: Duration = Duration::from_secs(60);

const NOTES: [&str; 4] = [
    "Both ends and the generators share the processors of this machine, over veth and a bridge: nothing \
     here says what a network card allows.",
    "Processor time is that of the threads of both daemons; what the kernel does for them in its own \
     name is in nobody's.",
    "rtt is what the tunnel adds to the same exchange without it.",
    "The hosts of a storm are on the same two processors as the gateway, and of Kedge's own core, \
     whoever the gateway is.",
];
