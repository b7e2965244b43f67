//! What a daemon costs while nothing happens: memory and processor time.

use std::{fs, time::Duration};

use super::lan::{DAEMON, ECHO, Lan};
use crate::error::LabError;

/// What the processes of a daemon cost on one host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Proportional set size, MiB.
    pub(super) pss: f64,
    /// Processor time a second, of one processor.
    pub(super) cpu: f64,
}

impl Lan {
    /// Watches the daemon of one host for a while.
    pub(super) fn cost(&mut self, host: &str, time: Duration) -> Result<Cost, LabError> {
        let echo = self.lab_mut().process(host, ECHO)?.pid();
        // There is one, or this says so.
        self.lab_mut().process(host, DAEMON)?;
        let mut pids = self.lab_mut().pids(host)?;
        pids.retain(|pid| *pid != echo);
        let before: f64 = pids.iter().map(|pid| processor_seconds(*pid)).sum();
        std::thread::sleep(time);
        let after: f64 = pids.iter().map(|pid| processor_seconds(*pid)).sum();
        Ok(Cost {
            pss: pids.iter().map(|pid| pss(*pid)).sum(),
            cpu: (after - before) / time.as_secs_f64(),
        })
    }
}

/// The processor time of a process, in seconds, to the nanosecond: of all threads that live.
fn processor_seconds(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let times = threads.flatten().filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    times.sum::<f64>() / 1e9
}

/// The proportional set size of a process, in MiB.
fn pss(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|kib| kib.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1024.0
}
