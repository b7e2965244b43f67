//! How long this machine stands still: what no program on it can make up for.
//!
//! A thread of the highest real-time priority on each processor wakes each millisecond. What it is
//! late, everything on that processor is late.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use kedge_net::sched;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Watches until it is ended.
#[derive(Debug)]
pub(super) struct Stillness {
    over: Arc<AtomicBool>,
    longer_than: Duration,
    threads: Vec<JoinHandle<Stood>>,
}

/// What one processor did.
#[derive(Clone, Copy, Debug, Default)]
struct Stood {
    longest: Duration,
    times: u32,
}

impl Stillness {
    /// Starts to count what is longer than this.
    pub(super) fn watch(longer_than: Duration) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let allowed = sched_getaffinity(None).unwrap_or_default();
        let threads = (0..CpuSet::MAX_CPU)
            .filter(|cpu| allowed.is_set(*cpu))
            .map(|cpu| {
                let over = Arc::clone(&over);
                thread::spawn(move || {
                    let mut only = CpuSet::new();
                    only.set(cpu);
                    // Where it is refused the thread sees less, and says so little.
                    let _ = sched_setaffinity(None, &only);
                    let _ = sched::real_time(HIGHEST);
                    watch(&over, longer_than)
                })
            })
            .collect();
        Self {
            over,
            longer_than,
            threads,
        }
    }

    /// Ends, and says what was seen.
    pub(super) fn end(self) -> String {
        self.over.store(true, Relaxed);
        let seen: Vec<Stood> = self
            .threads
            .into_iter()
            .filter_map(|it| it.join().ok())
            .collect();
        let longest = seen.iter().map(|it| it.longest).max().unwrap_or_default();
        let times: u32 = seen.iter().map(|it| it.times).sum();
        format!(
            "processors of this machine stood still {times} times for more than {:?}, for {:.1} ms at most",
            self.longer_than,
            longest.as_secs_f64() * 1e3
        )
    }
}

fn watch(over: &AtomicBool, longer_than: Duration) -> Stood {
    let mut stood = Stood::default();
    while !over.load(Relaxed) {
        let begun = Instant::now();
        thread::sleep(TICK);
        let late = begun.elapsed().saturating_sub(TICK);
        stood.longest = stood.longest.max(late);
        stood.times += u32::from(late > longer_than);
    }
    stood
}

const TICK: Duration = Duration::from_millis(1);
/// Above every thread of the daemons.
const HIGHEST: i32 = 60;
