//! A virtual machine can stand still for longer than a router waits for three adverts. Then an
//! Active lets go, as it must, and a test that says who keeps an address says nothing.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use kedge_net::sched;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::ready;

/// Runs a test whose result depends on time, where namespaces can be had.
///
/// It fails when its body does, unless the machine stood still meanwhile: then it says for how
/// long, and the body runs again, three times in all. A body that fails on a steady machine fails
/// at once.
pub fn on_a_steady_machine(body: impl Fn()) {
    if ready() {
        judge(RUNS, STILL, &body, Watch::begin);
    }
}

/// The same for a test that counts every packet of a hand-over: whoever lets go once a successor was
/// announced loses what was sent by a machine that stood still while it should have heard of it.
pub fn on_a_machine_without_pauses(body: impl Fn()) {
    if ready() {
        judge(RUNS, PAUSE, &body, Watch::begin);
    }
}

fn judge(runs: u32, at_least: Duration, body: &impl Fn(), watch: impl Fn() -> Watch) {
    for left in (0..runs).rev() {
        let watch = watch();
        let result = catch_unwind(AssertUnwindSafe(body));
        let still = watch.end();
        match result {
            Ok(()) => return,
            Err(_) if left > 0 && still >= at_least => {
                println!("the machine stood still for {still:?}: again");
            }
            Err(panic) => {
                println!("the machine stood still for {still:?} at most");
                resume_unwind(panic)
            }
        }
    }
}

/// One thread on each processor that sleeps, above the threads under test, and sees when it
/// overslept.
struct Watch {
    over: Arc<AtomicBool>,
    longest: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Watch {
    fn begin() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let longest = Arc::new(AtomicU64::new(0));
        let threads = processors()
            .into_iter()
            .map(|processor| {
                let (over, longest) = (Arc::clone(&over), Arc::clone(&longest));
                thread::spawn(move || watch(&processor, &over, &longest))
            })
            .collect();
        Self {
            over,
            longest,
            threads,
        }
    }

    /// The longest time a processor stood still.
    fn end(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            _ = thread.join();
        }
        Duration::from_nanos(self.longest.load(Ordering::Relaxed))
    }
}

fn watch(processor: &CpuSet, over: &AtomicBool, longest: &AtomicU64) {
    _ = sched_setaffinity(None, processor);
    _ = sched::real_time(sched::VRRP_PRIORITY + 1);
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        thread::sleep(TICK);
        let late = begun.elapsed().saturating_sub(TICK).as_nanos();
        longest.fetch_max(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// A set of one for each processor this process may use.
fn processors() -> Vec<CpuSet> {
    let all = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .filter(|number| all.is_set(*number))
        .map(|number| {
            let mut one = CpuSet::new();
            one.set(number);
            one
        })
        .collect()
}

const RUNS: u32 = 3;
const TICK: Duration = Duration::from_millis(2);

/// A fifth of the interval the tests advertise at.
const STILL: Duration = Duration::from_millis(20);

/// A packet is on its way for less.
const PAUSE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How often a body that always fails is run.
    fn runs(still: Duration) -> u32 {
        let count = Cell::new(0);
        let body = || {
            count.set(count.get() + 1);
            // As a panic, without its words and its trace among those of the tests that fail.
            resume_unwind(Box::new("as always"));
        };
        let watch = || Watch {
            over: Arc::default(),
            longest: Arc::new(AtomicU64::new(still.as_nanos() as u64)),
            threads: Vec::new(),
        };
        assert!(catch_unwind(AssertUnwindSafe(|| judge(3, STILL, &body, watch))).is_err());
        count.get()
    }

    #[test]
    fn a_failure_on_a_steady_machine_is_a_failure_at_once() {
        assert_eq!(runs(Duration::ZERO), 1);
        assert_eq!(runs(STILL - Duration::from_millis(1)), 1);
    }

    #[test]
    fn a_failure_while_the_machine_stood_still_is_tried_again_and_fails_in_the_end() {
        assert_eq!(runs(STILL), 3);
    }

    #[test]
    fn every_processor_is_watched() {
        let count = thread::available_parallelism().unwrap().get();
        let watch = Watch::begin();
        assert_eq!(watch.threads.len(), count);
        watch.end();
    }
}
