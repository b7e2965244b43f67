//! What a daemon costs while nothing happens: memory and processor time.
//!
//! An owner's `sendto` wakes the other hosts' daemons, and on one machine that wake-up is the owner's
//! to pay: more of it when it is on another processor. Left to the scheduler the figure is therefore
//! one of luck. So all daemons of both LANs are kept on one processor together, which changes from
//! one slice of time to the next, and every third slice they are where they like.

use std::time::{Duration, Instant};

use rustix::thread::sched_getaffinity;

use super::{
    super::{
        Samples,
        cost::{processor_seconds, pss},
        place::{keep, processors},
    },
    lan::{DAEMON, ECHO, Lan},
};
use crate::{error::LabError, topology::HOSTS};

/// What the processes of the daemons cost on hosts of both LANs, Kedge first: memory at the end of each
/// slice, processor time in each round of slices, since processors differ.
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
    pub(super) fn watch(lans: &mut [Lan; 2], time: Duration) -> Result<Self, LabError> {
        let mut all = Vec::new();
        let mut watched = <[[Vec<u32>; 2]; 2]>::default();
        for (lan, watched) in lans.iter_mut().zip(&mut watched) {
            for host in HOSTS {
                all.extend(lan.daemons(host)?);
            }
            // Whoever became it: with nobody preempting that is not always the first.
            let mut hosts = HOSTS;
            hosts.sort_by_key(|host| !lan.holds(host).unwrap_or_default());
            let [owner, backup, _] = hosts;
            *watched = [lan.daemons(owner)?, lan.daemons(backup)?];
        }
        let anywhere = sched_getaffinity(None).unwrap_or_default();
        let processors = processors(&anywhere);
        let turns = u32::try_from(processors.len() + 1).unwrap_or(u32::MAX);
        let rounds = (time.as_secs() / SLICE.as_secs() / u64::from(turns)).max(1);
        let length = time / turns / u32::try_from(rounds).unwrap_or(u32::MAX);
        let mut costs = Self::default();
        for _ in 0..rounds {
            let mut kept = [Share::default(); 2];
            for processor in &processors {
                keep(&all, processor);
                for (kept, share) in kept.iter_mut().zip(costs.slice(&watched, length)) {
                    kept.owner += share.owner / f64::from(turns - 1);
                    kept.backup += share.backup / f64::from(turns - 1);
                }
            }
            keep(&all, &anywhere);
            let free = costs.slice(&watched, length);
            for (at, (kept, free)) in kept.iter().zip(free).enumerate() {
                for (samples, share) in [
                    (&mut costs.kept, kept.owner),
                    (&mut costs.backup, kept.backup),
                    (&mut costs.free, free.owner),
                ] {
                    if let Some(samples) = samples.get_mut(at) {
                        samples.push(share);
                    }
                }
            }
        }
        Ok(costs)
    }

    /// Watches for a slice of time: what the daemons of each LAN used.
    fn slice(&mut self, watched: &[[Vec<u32>; 2]; 2], length: Duration) -> [Share; 2] {
        let used = |pids: &Vec<u32>| pids.iter().map(|pid| processor_seconds(*pid)).sum::<f64>();
        let all = || watched.each_ref().map(|lan| lan.each_ref().map(used));
        let (begun, before) = (Instant::now(), all());
        std::thread::sleep(length);
        let ([ours, theirs], seconds) = (all(), begun.elapsed().as_secs_f64());
        for (samples, [owner, _]) in self.pss.iter_mut().zip(watched) {
            samples.push(owner.iter().map(|pid| pss(*pid)).sum());
        }
        let [ours_before, theirs_before] = before;
        let share = |[owner, backup]: [f64; 2], [owner_before, backup_before]: [f64; 2]| Share {
            owner: 100.0 * (owner - owner_before).max(0.0) / seconds,
            backup: 100.0 * (backup - backup_before).max(0.0) / seconds,
        };
        [share(ours, ours_before), share(theirs, theirs_before)]
    }
}

/// Processor time of one slice, % of a processor.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    owner: f64,
    backup: f64,
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

/// Some forty adverts, and a handful of whatever is done each second.
const SLICE: Duration = Duration::from_secs(4);
