//! When the loop looks after what no event tells.
//!
//! A host where nothing is wrong and nothing happens is nearly all there is: it is left asleep, and the
//! text of what is done each second elsewhere stays out of its memory.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

/// A second after anything happened, each second while something is wrong or under way, else once a
/// minute.
#[derive(Debug)]
pub(crate) struct Pulse {
    next: Instant,
    lull: Option<Instant>,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            next: Instant::now(),
            lull: None,
        }
    }

    /// Waits for the next beat.
    pub(crate) async fn beat(&self) {
        sleep_until(self.next).await;
    }

    /// Waits for the moment after a beat when whatever that set off is done.
    pub(crate) async fn lull(&self) {
        match self.lull {
            Some(lull) => sleep_until(lull).await,
            None => std::future::pending().await,
        }
    }

    /// That moment was used.
    pub(crate) fn lulled(&mut self) {
        self.lull = None;
    }

    /// Something happened.
    pub(crate) fn hurry(&mut self) {
        self.next = self.next.min(Instant::now() + SOON);
        self.lull = None;
    }

    /// Everything is looked after, and `calm` says whether there is nothing to come back to.
    pub(crate) fn rest(&mut self, calm: bool) {
        let now = Instant::now();
        self.next = now + if calm { CALM } else { SOON };
        self.lull = Some(now + LULL);
    }
}

/// Feeding the service manager's watchdog, where there is one.
#[derive(Debug)]
pub(crate) struct Watchdog(Option<Interval>);

impl Watchdog {
    pub(crate) fn every(period: Option<Duration>) -> Self {
        Self(period.map(|period| {
            let mut ticks = interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        }))
    }

    /// Waits until it is to be fed.
    pub(crate) async fn hungry(&mut self) {
        match &mut self.0 {
            Some(ticks) => drop(ticks.tick().await),
            None => std::future::pending().await,
        }
    }
}

const SOON: Duration = Duration::from_secs(1);
const CALM: Duration = Duration::from_secs(60);
const LULL: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_lull_after_a_beat_unless_something_happens() {
        let mut pulse = Pulse::new();
        assert_eq!(pulse.lull, None);
        pulse.rest(true);
        assert!(pulse.lull.is_some_and(|lull| lull < pulse.next));
        pulse.lulled();
        assert_eq!(pulse.lull, None, "once");
        pulse.rest(false);
        assert!(pulse.lull.is_some_and(|lull| lull < pulse.next));
        pulse.hurry();
        assert_eq!(pulse.lull, None);
    }

    #[test]
    fn it_beats_at_once_then_rests_and_comes_soon_after_anything() {
        let start = Instant::now();
        let mut pulse = Pulse::new();
        assert!(pulse.next <= Instant::now());
        pulse.rest(true);
        assert!(pulse.next >= start + CALM);
        pulse.hurry();
        let soon = pulse.next;
        assert!(soon >= start + SOON && soon < start + CALM);
        pulse.hurry();
        assert_eq!(pulse.next, soon, "a flood delays nothing");
        pulse.rest(false);
        assert!(pulse.next >= soon && pulse.next < start + CALM);
    }
}
