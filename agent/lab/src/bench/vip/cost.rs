//! What a daemon costs while nothing happens: memory and processor time.

use std::time::Duration;

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
