//! What a daemon costs while nothing happens: memory and processor time.
//!
//! An owner's `sendto` wakes the other hosts' daemons, and on one machine that wake-up is the owner's
//! to pay: more of it when it is on another processor. Left to the scheduler the figure is therefore
//! one of luck. So all daemons of both LANs are kept on one processor together, which changes from
//! one slice of time to the next, and every third slice they are where they like.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use super::{
    super::{
        Samples,
        cost::{processor_seconds, pss},
    },
    lan::{DAEMON, ECHO, Lan},
};
use crate::{error::LabError, topology::HOSTS};

/// What the processes of the daemons cost on hosts of both LANs: a sample for each slice, Kedge first.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// The owner's proportional set size, MiB.
    pub(super) pss: [Samples; 2],
    /// The owner's processor time, % of a processor, all daemons on one.
    pub(super) kept: [Samples; 2],
    /// The same where they may move.
    pub(super) free: [Samples; 2],
    /// A Backup's, all daemons on one.
    pub(super) backup: [Samples; 2],
}

impl Costs {
    /// Watches the daemons of both LANs for a while; all at once, since what else the machine does costs
    /// everybody.
    pub(super) fn watch(
        lans: &mut [Lan; 2],
        [owner, backup]: [&str; 2],
        time: Duration,
    ) -> Result<Self, LabError> {
        let mut all = Vec::new();
        let mut watched = Vec::new();
        for lan in lans {
            for host in HOSTS {
                all.extend(lan.daemons(host)?);
            }
            watched.push([lan.daemons(owner)?, lan.daemons(backup)?]);
        }
        let anywhere = sched_getaffinity(None).unwrap_or_default();
        let places = places(anywhere);
        let mut costs = Self::default();
        let slices = (time.as_secs() / SLICE.as_secs()).max(places.len() as u64);
        let length = time / u32::try_from(slices).unwrap_or(1).max(1);
        for (place, _) in places.iter().cycle().zip(0..slices) {
            keep(&all, place.as_ref().unwrap_or(&anywhere));
            costs.slice(&watched, place.is_some(), length);
        }
        keep(&all, &anywhere);
        Ok(costs)
    }

    fn slice(&mut self, watched: &[[Vec<u32>; 2]], kept: bool, length: Duration) {
        let used = |pids: &Vec<u32>| pids.iter().map(|pid| processor_seconds(*pid)).sum::<f64>();
        let all =
            || -> Vec<[f64; 2]> { watched.iter().map(|lan| lan.each_ref().map(used)).collect() };
        let (begun, before) = (Instant::now(), all());
        std::thread::sleep(length);
        let (after, seconds) = (all(), begun.elapsed().as_secs_f64());
        let share = |before: f64, after: f64| 100.0 * (after - before).max(0.0) / seconds;
        let (owners, backups) = match kept {
            true => (&mut self.kept, Some(&mut self.backup)),
            false => (&mut self.free, None),
        };
        let both = before.iter().zip(&after);
        for (samples, ([before, _], [after, _])) in owners.iter_mut().zip(both.clone()) {
            samples.push(share(*before, *after));
        }
        for (samples, ([_, before], [_, after])) in backups.into_iter().flatten().zip(both) {
            samples.push(share(*before, *after));
        }
        for (samples, [owner, _]) in self.pss.iter_mut().zip(watched) {
            samples.push(owner.iter().map(|pid| pss(*pid)).sum());
        }
    }
}

impl Lan {
    /// The processes of the daemon on a host.
    fn daemons(&mut self, host: &str) -> Result<Vec<u32>, LabError> {
        let echo = self.lab_mut().process(host, ECHO)?.pid();
        // There is one, or this says so.
        self.lab_mut().process(host, DAEMON)?;
        let mut pids = self.lab_mut().pids(host)?;
        pids.retain(|pid| *pid != echo);
        Ok(pids)
    }
}

/// Where the daemons are, slice by slice: two processors in turns, where there are two, then anywhere.
fn places(anywhere: CpuSet) -> Vec<Option<CpuSet>> {
    let processors = (0..CpuSet::MAX_CPU).filter(|cpu| anywhere.is_set(*cpu));
    let one = |cpu| {
        let mut only = CpuSet::new();
        only.set(cpu);
        Some(only)
    };
    processors.take(2).map(one).chain([None]).collect()
}

/// Keeps every thread of these processes there.
fn keep(pids: &[u32], place: &CpuSet) {
    for pid in pids {
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let id = thread.file_name().to_str().and_then(|id| id.parse().ok());
            // One that has just ended need not be kept.
            let _ = id
                .and_then(Pid::from_raw)
                .map(|id| sched_setaffinity(Some(id), place));
        }
    }
}

/// Some forty adverts, and a handful of whatever is done each second.
const SLICE: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_take_turns_and_then_nobody_is_kept() {
        let mut three = CpuSet::new();
        for cpu in [1, 4, 6] {
            three.set(cpu);
        }
        let places = places(three);
        let set = |place: &Option<CpuSet>| {
            let place = place.as_ref()?;
            let cpus = (0..8).filter(|cpu| place.is_set(*cpu));
            Some(cpus.collect::<Vec<_>>())
        };
        let sets: Vec<_> = places.iter().map(set).collect();
        assert_eq!(sets, [Some(vec![1]), Some(vec![4]), None]);
    }
}
