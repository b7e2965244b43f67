//! Hundreds of sessions of BFD: what their packets cost, and whether they last where every processor is busy.

use std::{path::Path, time::Duration};

use rustix::thread::sched_getaffinity;

use super::{
    super::{Samples, load::Load, place::processors, stillness::Stillness},
    pair::{Pair, Subject},
    speaker::MISSING,
};
use crate::{error::LabError, stage::Stage};

/// What happened to a subject under load.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) subject: Subject,
    pub(super) seconds: u32,
    /// Sessions that went down, as the other end saw it.
    pub(super) flaps: u32,
    /// Microseconds of processor time for a packet, before the load.
    pub(super) cost: f64,
    /// How long the machine itself stood still, in words.
    pub(super) stood_still: String,
}

/// What a packet costs Kedge and BIRD, all daemons of both on one processor and then on another, for `time`
/// in all. What labs could not remove is added to `left`.
pub(super) fn costs(
    sessions: u16,
    time: Duration,
    (kedge, keep): (&Path, Option<&Path>),
    left: &mut Vec<String>,
    stage: &Stage,
) -> Result<[Samples; 2], LabError> {
    stage.heading(&format!("{sessions} sessions of BFD at {INTERVAL:?}"));
    let start = |subject| Pair::start(subject, sessions, INTERVAL, kedge, stage);
    let mut pairs = [start(Subject::Kedge)?, start(Subject::BirdAsItComes)?];
    let both = slices(&mut pairs, time);
    for pair in pairs {
        left.extend(pair.take_down(keep)?);
    }
    let both = both?;
    let [ours, theirs] = both.each_ref().map(Samples::p50);
    stage.tell(&format!(
        "kedge {ours:.2}, BIRD {theirs:.2} µs of processor time a packet"
    ));
    Ok(both)
}

fn slices(pairs: &mut [Pair; 2], time: Duration) -> Result<[Samples; 2], LabError> {
    let anywhere = sched_getaffinity(None).unwrap_or_default();
    let processors = processors(&anywhere);
    let turns = u32::try_from(processors.len().max(1)).unwrap_or(1);
    let rounds = u32::try_from(time.as_secs() / SLICE.as_secs() / u64::from(turns));
    let rounds = rounds.unwrap_or(1).max(1);
    let length = time / rounds / turns;
    let mut both = <[Samples; 2]>::default();
    for _ in 0..rounds {
        let mut sums = [0.0; 2];
        for processor in &processors {
            let mut before = Vec::new();
            for pair in pairs.iter_mut() {
                pair.keep([processor, processor])?;
                before.push(pair.used()?);
            }
            std::thread::sleep(length);
            for ((pair, before), sum) in pairs.iter_mut().zip(before).zip(&mut sums) {
                *sum += pair.used()?.since(before);
            }
        }
        for (samples, sum) in both.iter_mut().zip(sums) {
            samples.push(sum / f64::from(turns));
        }
    }
    Ok(both)
}

/// Has a subject keep 256 sessions on one processor while eight loops want all of them.
pub(super) fn flaps(
    subject: Subject,
    seconds: u32,
    (kedge, keep): (&Path, Option<&Path>),
    left: &mut Vec<String>,
    stage: &Stage,
) -> Result<Loaded, LabError> {
    stage.heading(&format!(
        "{MANY} sessions of BFD of {}, every processor busy",
        subject.name()
    ));
    let mut pair = Pair::start(subject, MANY, INTERVAL, kedge, stage)?;
    let result = soak(&mut pair, seconds);
    left.extend(pair.take_down(keep)?);
    let loaded = result?;
    let Loaded {
        flaps,
        cost,
        stood_still,
        ..
    } = &loaded;
    stage.tell(&format!(
        "in {seconds} s: {flaps} flaps; {cost:.2} µs of processor time a packet before; {stood_still}"
    ));
    Ok(loaded)
}

fn soak(pair: &mut Pair, seconds: u32) -> Result<Loaded, LabError> {
    let anywhere = sched_getaffinity(None).unwrap_or_default();
    let processors = processors(&anywhere);
    let one = processors.first().unwrap_or(&anywhere);
    let other = processors.last().unwrap_or(&anywhere);
    pair.keep([one, other])?;
    let cost = pair.cost(SLICE)?;
    let before = pair.flaps();
    let stillness = Stillness::watch(INTERVAL * MISSING);
    let load = Load::start();
    std::thread::sleep(Duration::from_secs(seconds.into()));
    drop(load);
    let stood_still = stillness.end();
    let flaps = pair.flaps().saturating_sub(before);
    Ok(Loaded {
        subject: pair.subject(),
        seconds,
        flaps: u32::try_from(flaps).unwrap_or(u32::MAX),
        cost,
        stood_still,
    })
}

const INTERVAL: Duration = Duration::from_millis(50);
const MANY: u16 = 256;
/// Some hundreds of packets at least.
const SLICE: Duration = Duration::from_secs(4);
