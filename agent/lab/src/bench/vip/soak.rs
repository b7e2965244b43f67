//! Nothing is wrong but that every processor is busy: whoever takes over now does so without a cause.

use std::{thread, time::Duration};

use super::{
    super::{load::Load, stillness::Stillness},
    lan::{ADVERT, FAST, Lan},
};
use crate::{stage::Stage, topology::HOSTS};

/// What happened while nothing was wrong but the load.
#[derive(Debug)]
pub(super) struct Soak {
    /// Adverts each 10 ms instead of each 100.
    pub(super) fast: bool,
    pub(super) seconds: u32,
    /// Of Kedge and of keepalived.
    pub(super) take_overs: [usize; 2],
    /// What each host said about each change of state, Kedge's first.
    pub(super) said: Vec<String>,
    /// How long the machine itself stood still, in words.
    pub(super) stood_still: String,
}

impl Soak {
    pub(super) fn run(lans: &[Lan; 2], seconds: u32, fast: bool, stage: &Stage) -> Self {
        let interval = if fast { FAST } else { ADVERT };
        stage.heading(&format!(
            "no fault, but every processor busy, at {interval:?}"
        ));
        let before = lans.each_ref().map(Changes::of);
        let stillness = Stillness::watch(interval * LEASE);
        let load = Load::start();
        thread::sleep(Duration::from_secs(seconds.into()));
        drop(load);
        let stood_still = stillness.end();
        let after = lans.each_ref().map(Changes::of);
        let mut said = Vec::new();
        let mut take_overs = [0; 2];
        for ((before, after), count) in before.iter().zip(&after).zip(&mut take_overs) {
            *count = after.take_overs.saturating_sub(before.take_overs);
            for (old, new) in before.lines.iter().zip(&after.lines) {
                said.extend(new.iter().skip(old.len()).cloned());
            }
        }
        let [ours, theirs] = take_overs;
        stage.tell(&format!(
            "in {seconds} s: kedge {ours}, keepalived {theirs} take-overs; {stood_still}"
        ));
        for line in &said {
            stage.detail(line);
        }
        Self {
            fast,
            seconds,
            take_overs,
            said,
            stood_still,
        }
    }

    /// What is worth keeping beside the number.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> + '_ {
        let interval = if self.fast { FAST } else { ADVERT };
        let stood = format!(
            "{} s under load at {interval:?}: {}.",
            self.seconds, self.stood_still
        );
        std::iter::once(stood).chain(self.said.iter().map(|line| format!("In it: {line}")))
    }
}

/// What the hosts of a LAN said about their changes of state so far.
struct Changes {
    take_overs: usize,
    /// Of each host.
    lines: Vec<Vec<String>>,
}

impl Changes {
    fn of(lan: &Lan) -> Self {
        Self {
            take_overs: HOSTS.iter().map(|host| lan.take_overs(host)).sum(),
            lines: HOSTS.iter().map(|host| lan.changes(host)).collect(),
        }
    }
}

/// After as many intervals of silence a Backup may act.
const LEASE: u32 = 3;
