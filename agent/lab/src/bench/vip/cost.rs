//! What a daemon costs while nothing happens: memory and processor time.

use std::time::{Duration, Instant};

use super::{
    super::cost::{processor_seconds, pss},
    lan::{DAEMON, ECHO, Lan},
};
use crate::error::LabError;

/// What the processes of a daemon cost on one host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Proportional set size, MiB.
    pub(super) pss: f64,
    /// Processor time a second, of one processor.
    pub(super) cpu: f64,
}

/// Watches the daemons of one host on each LAN for a while; both at once, since what else the machine does
/// costs both.
pub(super) fn costs(
    lans: &mut [Lan; 2],
    host: &str,
    time: Duration,
) -> Result<[Cost; 2], LabError> {
    let [ours, theirs] = lans;
    let pids = [ours.daemons(host)?, theirs.daemons(host)?];
    let used = || {
        pids.each_ref()
            .map(|pids| pids.iter().map(|pid| processor_seconds(*pid)).sum::<f64>())
    };
    let (begun, before) = (Instant::now(), used());
    std::thread::sleep(time);
    let (after, seconds) = (used(), begun.elapsed().as_secs_f64());
    let cost = |((pids, before), after): ((&Vec<u32>, f64), f64)| Cost {
        pss: pids.iter().map(|pid| pss(*pid)).sum(),
        cpu: (after - before) / seconds,
    };
    let [one, two] = &pids;
    let ([before_one, before_two], [after_one, after_two]) = (before, after);
    Ok([
        cost(((one, before_one), after_one)),
        cost(((two, before_two), after_two)),
    ])
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
