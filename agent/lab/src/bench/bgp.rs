//! `lab bench bgp`: how fast a router knows that a speaker or its host is gone, and what BGP and BFD cost,
//! with Kedge, BIRD and GoBGP.
//!
//! Every speaker has a host of its own on one LAN, and one router learns from all of them: BIRD, whose
//! kernel is listened to. Where BIRD is compared with Kedge it is the announcer, not that router.

mod announce;
mod collector;
mod load;
mod machine;
mod observer;
mod pair;
mod rows;
mod site;
mod speaker;

use std::{path::Path, process::Command, time::Duration};

use self::{pair::Subject, rows::Measured, site::Site, speaker::Speaker};
use super::{BenchArgs, BenchResult, Part, Samples};
use crate::{error::LabError, stage::Stage};

pub(super) fn run(args: &BenchArgs, stage: &Stage) -> Result<BenchResult, LabError> {
    let kedge = crate::lab::executable(args.kedge.as_deref())?;
    let peer = format!("{}, {}", version("bird")?, version("gobgpd")?);
    stage.heading("kedge lab bench bgp");
    stage.tell(&format!("{} runs, interleaved: {peer}", args.runs()));
    let mut bench = Bench {
        args,
        kedge: &kedge,
        stage,
        measured: Measured::default(),
        left: Vec::new(),
    };
    bench.faults()?;
    if args.wants(Part::Announce) {
        let keep = args.keep.as_deref();
        bench.measured.announced =
            announce::announce(args.runs(), &kedge, keep, &mut bench.left, stage)?;
    }
    bench.bfd()?;
    Ok(bench.result(peer))
}

struct Bench<'a> {
    args: &'a BenchArgs,
    kedge: &'a Path,
    stage: &'a Stage,
    measured: Measured,
    /// What labs could not remove.
    left: Vec<String>,
}

impl Bench<'_> {
    /// Speakers that die, and hosts that do.
    fn faults(&mut self) -> Result<(), LabError> {
        let (deaths, cuts) = (
            self.args.wants(Part::SpeakerDeath),
            self.args.wants(Part::Cut),
        );
        if deaths || cuts {
            self.on_a_site(&Speaker::ALL, SLOW, |site, bench| {
                if deaths {
                    bench.deaths(site)?;
                }
                if cuts {
                    bench.measured.cut = bench.cuts(site, "hosts that are cut off, 3 × 50 ms")?;
                }
                Ok(())
            })?;
        }
        if !self.args.wants(Part::FastCut) {
            return Ok(());
        }
        let outcome = self.on_a_site(&CUT, FAST, |site, bench| {
            let what = "hosts that are cut off, 3 × 10 ms, real-time";
            bench.measured.fast_cut = bench.cuts(site, what)?;
            Ok(())
        });
        match outcome {
            // A host that cannot keep such an interval does not have it; that is an answer as well.
            Err(LabError::Late { what, seen, .. }) => {
                let note = format!("bfd_10ms: {what} did not happen: {seen}");
                self.stage.bad(&note);
                self.measured.refused = Some(note);
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn on_a_site(
        &mut self,
        speakers: &[Speaker],
        interval: Duration,
        measure: impl FnOnce(&mut Site<'_>, &mut Self) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut site = Site::start(speakers, interval, self.kedge, self.stage)?;
        self.stage.good("the router knows every speaker's route");
        let result = measure(&mut site, self);
        if let Some(directory) = &self.args.keep {
            let name = format!("faults-{}ms", interval.as_millis());
            site.lab().keep_logs(&directory.join(name))?;
        }
        self.left.extend(site.take_down());
        result
    }

    fn deaths(&mut self, site: &mut Site<'_>) -> Result<(), LabError> {
        self.stage.heading("speakers that are killed");
        for run in 0..self.args.runs() {
            site.settle(self.stage)?;
            let order = turns(&Speaker::ALL, run);
            let mut seen = [0.0; 3];
            for speaker in &order {
                let seconds = site.kill(*speaker, self.stage)?;
                let at = speaker.place();
                if let (Some(samples), Some(seen)) =
                    (self.measured.death.get_mut(at), seen.get_mut(at))
                {
                    samples.push(seconds);
                    *seen = seconds * 1e3;
                }
                std::thread::sleep(APART);
            }
            for speaker in order {
                site.begin(speaker, self.stage)?;
            }
            let [ours, bird, gobgp] = seen;
            self.stage.tell(&format!(
                "{:>3}  kedge {ours:>6.2} ms, BIRD {bird:>6.2} ms, GoBGP {gobgp:>6.2} ms",
                run + 1
            ));
        }
        site.settle(self.stage)
    }

    fn cuts(&self, site: &mut Site<'_>, what: &str) -> Result<[Samples; 2], LabError> {
        self.stage.heading(what);
        let mut both = <[Samples; 2]>::default();
        for run in 0..self.args.runs() {
            site.settle(self.stage)?;
            let mut seen = [0.0; 2];
            for speaker in turns(&CUT, run) {
                let seconds = site.cut(speaker, run, self.stage)?;
                let at = speaker.place();
                if let (Some(samples), Some(seen)) = (both.get_mut(at), seen.get_mut(at)) {
                    samples.push(seconds);
                    *seen = seconds * 1e3;
                }
            }
            let [ours, bird] = seen;
            self.stage.tell(&format!(
                "{:>3}  kedge {ours:>6.1} ms, BIRD {bird:>6.1} ms",
                run + 1
            ));
        }
        Ok(both)
    }

    /// What BFD costs and withstands.
    fn bfd(&mut self) -> Result<(), LabError> {
        let (args, stage) = (self.args, self.stage);
        let place = (self.kedge, args.keep.as_deref());
        if args.wants(Part::BfdCost) {
            self.measured.machine = machine::measure();
            let time = Duration::from_secs(args.idle.into());
            for sessions in SESSIONS {
                let both = load::costs(sessions, time, place, &mut self.left, stage)?;
                self.measured.costs.push((sessions, both));
            }
        }
        if args.wants(Part::BfdLoad) {
            for subject in [Subject::Kedge, Subject::Bird, Subject::BirdAsItComes] {
                let loaded = load::flaps(subject, args.soak, place, &mut self.left, stage)?;
                self.measured.loaded.push(loaded);
            }
        }
        Ok(())
    }

    fn result(self, peer: String) -> BenchResult {
        let (runs, soak, idle) = (self.args.runs(), self.args.soak, self.args.idle);
        let mut command =
            format!("sudo kedge lab bench bgp --runs {runs} --soak {soak} --idle {idle}");
        for part in &self.args.part {
            command = format!("{command} --part {part}");
        }
        let mut notes = Vec::new();
        if self.args.wants(Part::SpeakerDeath) {
            notes.push(
                "speaker_death: from SIGKILL (of Kedge the agent) until the kernel of the router, BIRD in \
                 the normal class, has no route any more."
                    .to_owned(),
            );
        }
        notes.extend(self.measured.refused.clone());
        if self.args.wants(Part::Cut) || self.args.wants(Part::FastCut) {
            notes.push(
                "bfd_50ms, bfd_10ms: from the order to take the host's port down until the same; at 10 ms \
                 the router and BIRD have SCHED_FIFO 40, as Kedge has always."
                    .to_owned(),
            );
        }
        if self.args.wants(Part::Announce) {
            let unmarked = match self.measured.announced.unmarked.as_slice() {
                [] => "all mark it".to_owned(),
                names => format!(
                    "{} do not mark it, and the last route counts",
                    names.join(", ")
                ),
            };
            notes.push(format!(
                "announce_1000: from the KEEPALIVE that establishes both sessions until the End-of-RIB of \
                 both; {unmarked}."
            ));
        }
        if self.args.wants(Part::BfdCost) {
            notes.push(
                "bfd_packet_cpu: processor time of all threads over datagrams taken and sent, all daemons \
                 on one processor and then on another."
                    .to_owned(),
            );
        }
        for loaded in &self.measured.loaded {
            notes.push(format!(
                "{} s of {} under load: {}.",
                loaded.seconds,
                loaded.subject.name(),
                loaded.stood_still
            ));
        }
        notes.extend(self.left.iter().map(|left| format!("Left behind: {left}")));
        let rows = self.measured.rows();
        let result = BenchResult::new("bgp", peer, command, self.stage.seconds(), rows);
        BenchResult {
            ok: result.ok && self.left.is_empty(),
            notes,
            ..result
        }
    }
}

/// The speakers, another one first in each run.
fn turns(speakers: &[Speaker], run: u32) -> Vec<Speaker> {
    let mut turns = speakers.to_vec();
    turns.rotate_left(run as usize % speakers.len().max(1));
    turns
}

/// What a program calls itself.
fn version(program: &'static str) -> Result<String, LabError> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|source| LabError::Spawn {
        program: program.to_owned(),
        node: "this machine".to_owned(),
        source,
    })?;
    // `BIRD version 2.0.12` on stderr, `gobgpd version 3.10.0` on stdout.
    let both = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&both);
    let first = text.lines().next().unwrap_or(program);
    Ok(first.replace(" version", ""))
}

const SLOW: Duration = Duration::from_millis(50);
const FAST: Duration = Duration::from_millis(10);
/// Those that speak BFD.
const CUT: [Speaker; 2] = [Speaker::Kedge, Speaker::Bird];
/// How many sessions of BFD a packet's cost is measured with: a host with a few routers, and a gateway.
const SESSIONS: [u16; 2] = [8, 64];
/// A speaker that was killed leaves the processors to the next.
const APART: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_speaker_is_first_in_turn() {
        let first = |run| turns(&Speaker::ALL, run).first().copied();
        assert_eq!(
            [0, 1, 2, 3].map(first),
            [
                Speaker::Kedge,
                Speaker::Bird,
                Speaker::GoBgp,
                Speaker::Kedge
            ]
            .map(Some)
        );
        assert_eq!(turns(&CUT, 1), [Speaker::Bird, Speaker::Kedge]);
    }
}
