//! Whether this host can keep an interval of a few centiseconds: how late its timers wake a thread
//! of the class that the VIPs get.
//!
//! A router that is late looks dead. Under load a thread of the normal class is woken up to 400 ms
//! late, and routers with short intervals take over from each other without a cause.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use kedge_net::{
    clock,
    sched::{self, Class},
    wait::Waiter,
};

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Timers are on time, up to this.
    Late {
        /// 99 of 100 wake-ups were no later.
        p99: Duration,
        /// The latest.
        worst: Duration,
    },
    /// The kernel gives no real-time class, and nothing was measured.
    NotRealTime(Class),
    /// It could not be measured.
    Unknown(String),
}

/// Why an interval is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsafe(pub(crate) String);

/// Whether a host must show first that it can keep `interval`: below 50 ms.
pub(crate) fn needs_proof(interval: Duration) -> bool {
    interval < ANYBODY
}

/// What is known about this host's timers: nothing until it was asked for, and for two seconds
/// after that.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Set by the thread that measures.
    judgement: Option<Arc<OnceLock<Judgement>>>,
    told: bool,
}

impl Timers {
    /// What came of it, once it is known.
    pub(crate) fn judgement(&self) -> Option<&Judgement> {
        self.judgement.as_ref()?.get()
    }

    /// Measures, once, on a thread of this name that rings at its end. A host that was not asked
    /// for the real-time class is not measured at all.
    pub(crate) fn measure(
        &mut self,
        real_time: bool,
        name: &str,
        ring: impl FnOnce() + Send + 'static,
    ) {
        if self.judgement.is_some() {
            return;
        }
        let judgement = Arc::new(OnceLock::new());
        self.judgement = Some(Arc::clone(&judgement));
        if !real_time {
            let _ = judgement.set(Judgement::NotRealTime(Class::Normal));
            return;
        }
        let there = Arc::clone(&judgement);
        let spawned = thread::Builder::new().name(name.into()).spawn(move || {
            // Set once, here.
            let _ = there.set(Judgement::measure());
            ring();
        });
        if let Err(error) = spawned {
            let _ = judgement.set(Judgement::Unknown(error.to_string()));
        }
    }

    /// Whether more is known than when this was asked last.
    pub(crate) fn has_news(&mut self) -> bool {
        let known = self.judgement().is_some();
        !std::mem::replace(&mut self.told, known) && known
    }
}

impl Judgement {
    /// Whether `interval` can be kept.
    ///
    /// # Errors
    ///
    /// Why not.
    pub(crate) fn allows(&self, interval: Duration) -> Result<(), Unsafe> {
        if !needs_proof(interval) {
            return Ok(());
        }
        match self {
            Self::Late { p99, worst } if *p99 < interval / 4 && *worst < interval * 2 => Ok(()),
            Self::Late { .. } | Self::NotRealTime(_) | Self::Unknown(_) => {
                Err(Unsafe(self.to_string()))
            }
        }
    }

    /// Measures, for two seconds, on the calling thread, which gets the class for good.
    fn measure() -> Self {
        match sched::real_time(sched::VRRP_PRIORITY) {
            Class::Fifo(_) => {}
            class @ (Class::Normal | Class::Refused(_)) => return Self::NotRealTime(class),
        }
        match lateness() {
            Ok(late) => Self::of(late),
            Err(error) => Self::Unknown(error.to_string()),
        }
    }

    fn of(mut late: Vec<Duration>) -> Self {
        late.sort_unstable();
        let rank = (late.len() * 99).div_ceil(100).saturating_sub(1);
        Self::Late {
            p99: late.get(rank).copied().unwrap_or_default(),
            worst: late.last().copied().unwrap_or_default(),
        }
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late { p99, worst } => write!(
                f,
                "timers of this host are up to {:.1} ms late (99 of 100: {:.1} ms)",
                worst.as_secs_f64() * 1e3,
                p99.as_secs_f64() * 1e3
            ),
            Self::NotRealTime(class) => write!(f, "the VIP thread's class is {class}"),
            Self::Unknown(why) => write!(f, "how late timers are could not be measured: {why}"),
        }
    }
}

/// How late each of the wake-ups was.
fn lateness() -> std::io::Result<Vec<Duration>> {
    let mut waiter = Waiter::new()?;
    let mut late = Vec::with_capacity(SAMPLES);
    let mut due = clock::now();
    while late.len() < SAMPLES {
        due = due.max(clock::now()) + PERIOD;
        while clock::now() < due {
            waiter.wait_until(Some(due))?;
        }
        late.push(clock::now().since(due));
    }
    Ok(late)
}

/// The shortest interval that needs no proof.
const ANYBODY: Duration = Duration::from_millis(50);
const PERIOD: Duration = Duration::from_millis(5);
/// Two seconds.
const SAMPLES: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(centis: u64) -> Duration {
        Duration::from_millis(centis * 10)
    }

    #[test]
    fn short_intervals_need_timers_that_are_on_time() {
        let late = |micros: u64, count: usize| {
            let mut all = vec![Duration::from_micros(100); SAMPLES - count];
            all.extend(vec![Duration::from_micros(micros); count]);
            Judgement::of(all)
        };
        assert_eq!(late(2_400, 400).allows(interval(1)), Ok(()));
        assert!(late(2_600, 400).allows(interval(1)).is_err());
        assert_eq!(late(2_600, 400).allows(interval(2)), Ok(()));
        // Now and then a machine stands still; three adverts are more than that.
        assert_eq!(late(19_000, 3).allows(interval(1)), Ok(()));
        assert!(late(19_000, 5).allows(interval(1)).is_err());
        assert!(late(21_000, 1).allows(interval(1)).is_err());
        let slow = late(400_000, 400);
        assert_eq!(slow.allows(interval(5)), Ok(()));
        let Unsafe(why) = slow.allows(interval(4)).unwrap_err();
        assert!(why.contains("400.0 ms late"), "{why}");
    }

    #[test]
    fn without_a_real_time_class_nothing_short_is_safe() {
        let refused = Judgement::NotRealTime(Class::Refused(1));
        assert!(
            refused
                .allows(interval(4))
                .unwrap_err()
                .0
                .contains("LimitRTPRIO")
        );
        assert_eq!(refused.allows(interval(5)), Ok(()));
    }

    #[test]
    fn lateness_is_measured() {
        let late = thread::spawn(lateness).join().unwrap().unwrap();
        assert_eq!(late.len(), SAMPLES);
    }
}
