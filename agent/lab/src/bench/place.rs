//! Where processes may run: what a packet costs depends on whom it wakes where.

use std::fs;

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};

/// Two processors, where there are two, each alone.
pub(super) fn processors(anywhere: &CpuSet) -> Vec<CpuSet> {
    let processors = (0..CpuSet::MAX_CPU).filter(|cpu| anywhere.is_set(*cpu));
    let one = |cpu| {
        let mut only = CpuSet::new();
        only.set(cpu);
        only
    };
    processors.take(2).map(one).collect()
}

/// Keeps every thread of these processes there.
pub(super) fn keep(pids: &[u32], place: &CpuSet) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processors_take_turns() {
        let mut three = CpuSet::new();
        for cpu in [1, 4, 6] {
            three.set(cpu);
        }
        let cpus = |set: &CpuSet| {
            let cpus = (0..8).filter(|cpu| set.is_set(*cpu));
            cpus.collect::<Vec<_>>()
        };
        let sets: Vec<_> = processors(&three).iter().map(cpus).collect();
        assert_eq!(sets, [[1], [4]]);
    }
}
