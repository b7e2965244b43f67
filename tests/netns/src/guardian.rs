//! The process that stands by beside an agent.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::{eventually, millis, secs};

/// A guardian, by its process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guardian(u32);

impl Guardian {
    /// That of the agent with this process id, as soon as there is one.
    #[must_use]
    pub fn of(agent: u32) -> Self {
        let mut found = None;
        eventually("a guardian stands by", secs(5), || {
            found = children(agent)
                .into_iter()
                .map(Self)
                .find(|it| it.is_alive());
            found.is_some()
        });
        found.unwrap()
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(self) -> bool {
        let words = fs::read(format!("/proc/{}/cmdline", self.0)).unwrap_or_default();
        words
            .split(|byte| *byte == 0)
            .any(|word| word == b"guardian")
    }

    /// Stops it where it is, so that it can be killed before it says a word.
    pub fn freeze(self) {
        self.signal(Signal::STOP);
    }

    /// Kills it.
    pub fn kill(self) {
        self.signal(Signal::KILL);
        eventually("the guardian is gone", millis(2_000), || !self.is_alive());
    }

    fn signal(self, signal: Signal) {
        kill_process(Pid::from_raw(self.0.cast_signed()).unwrap(), signal).unwrap();
    }
}

/// The processes a process has started, from any of its threads.
fn children(id: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{id}/task"))
        .into_iter()
        .flatten();
    let lists = threads.flatten().map(|it| it.path().join("children"));
    lists
        .filter_map(|list| fs::read_to_string(list).ok())
        .flat_map(|list| {
            let ids = list.split_whitespace().map(|id| id.parse().unwrap());
            ids.collect::<Vec<_>>()
        })
        .collect()
}
