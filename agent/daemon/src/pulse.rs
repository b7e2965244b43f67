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
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            next: Instant::now(),
        }
    }

    /// Waits for the next beat.
    pub(crate) async fn beat(&self) {
        sleep_until(self.next).await;
    }

    /// Something happened.
    pub(crate) fn hurry(&mut self) {
        self.next = self.next.min(Instant::now() + SOON);
    }

    /// Everything is looked after, and `calm` says whether there is nothing to come back to.
    pub(crate) fn rest(&mut self, calm: bool) {
        self.next = Instant::now() + if calm { CALM } else { SOON };
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

#[cfg(test)]
mod tests {
    use super::*;

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
