//! What a process costs: memory and processor time.

use std::fs;

/// The processor time of a process, in seconds, to the nanosecond: of all threads that live.
pub(super) fn processor_seconds(pid: u32) -> f64 {
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
pub(super) fn pss(pid: u32) -> f64 {
    rolled_up(pid, "Pss:")
}

/// What is resident of a process, in MiB, whoever shares it.
pub(super) fn rss(pid: u32) -> f64 {
    rolled_up(pid, "Rss:")
}

/// What is its own of that, and not a page of a file, in MiB.
pub(super) fn anonymous(pid: u32) -> f64 {
    rolled_up(pid, "Anonymous:")
}

fn rolled_up(pid: u32, field: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|kib| kib.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1024.0
}
