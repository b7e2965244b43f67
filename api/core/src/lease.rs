//! Who of several processes writes, decided without a clock of the wall and without a server.
//!
//! ```text
//!              free, or seen unchanged for its duration
//!   Follow ────────────────────────────────────────────► Acquire ── written ──► Lead
//!     ▲                                                                           │
//!     └──────── another's name in the record, or no renewal by the deadline ◄─────┘
//! ```
//!
//! Times of other machines are never compared: another's lease has expired when *we* saw no change
//! of it for as long as it says it lives. A leader that could not renew in time stops writing
//! before anybody may take its place: the renewal deadline is shorter than the duration.

use std::{collections::BTreeMap, time::Duration};

use crate::Instant;

/// The terms of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long others wait for a holder that says nothing.
    pub duration: Duration,
    /// How long a holder that cannot renew goes on writing.
    pub renew_deadline: Duration,
    /// How often it is tried.
    pub retry: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// A lease as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Who holds it; empty when it was given back.
    pub holder: String,
    /// How long the holder says it lives.
    pub duration: Duration,
    /// Changes with every renewal.
    pub resource_version: String,
    /// How often it changed hands.
    pub transitions: i32,
    /// What the holder tells with it: its annotations.
    pub told: BTreeMap<String, String>,
}

/// What we know of a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    record: Option<(Record, Instant)>,
    renewed: Option<Instant>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// We hold it: write until then, renew at `renew_at`.
    Lead {
        /// Nothing is written any more from then on.
        until: Instant,
        /// When to renew.
        renew_at: Instant,
    },
    /// Another holds it.
    Follow {
        /// When to look again.
        retry_at: Instant,
    },
    /// It is free: take it as it was seen, or make it where there is none.
    Acquire,
}

impl Observed {
    /// The lease was read, or found missing. A record that did not change is not seen anew.
    pub fn saw(&mut self, record: Option<Record>, now: Instant) {
        match (record, &self.record) {
            (Some(record), Some((last, _))) if record == *last => {}
            (Some(record), _) => self.record = Some((record, now)),
            (None, _) => self.record = None,
        }
    }

    /// A renewal or an acquisition that was begun at `began` was written: the lease counts from
    /// there, whatever the answer took.
    pub fn renewed(&mut self, record: Record, began: Instant) {
        self.record = Some((record, began));
        self.renewed = Some(began);
    }

    /// The lease as it was last seen.
    #[must_use]
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref().map(|(record, _)| record)
    }

    /// What `me` does now.
    #[must_use]
    pub fn evaluate(&self, terms: Terms, me: &str, now: Instant) -> Verdict {
        let Some((record, seen)) = &self.record else {
            return Verdict::Acquire;
        };
        if record.holder == me {
            // Our name in a record we did not write in this life is nobody's word yet.
            let Some(renewed) = self.renewed else {
                return Verdict::Acquire;
            };
            let until = renewed + terms.renew_deadline;
            return if now < until {
                let renew_at = renewed + terms.retry;
                Verdict::Lead { until, renew_at }
            } else {
                Verdict::Acquire
            };
        }
        let expires = *seen + record.duration;
        if record.holder.is_empty() || now >= expires {
            return Verdict::Acquire;
        }
        let retry_at = (now + terms.retry).min(expires);
        Verdict::Follow { retry_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms {
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry: Duration::from_secs(2),
    };

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 * (1000 + seconds))
    }

    fn held(by: &str, version: &str) -> Record {
        Record {
            holder: by.to_owned(),
            duration: TERMS.duration,
            resource_version: version.to_owned(),
            transitions: 0,
            told: BTreeMap::new(),
        }
    }

    fn follow(seconds: u64) -> Verdict {
        Verdict::Follow {
            retry_at: at(seconds),
        }
    }

    #[test]
    fn a_lease_that_nobody_made_or_that_was_given_back_is_taken() {
        let mut observed = Observed::default();
        assert_eq!(observed.evaluate(TERMS, "a", at(0)), Verdict::Acquire);
        observed.saw(Some(held("", "1")), at(0));
        assert_eq!(observed.evaluate(TERMS, "a", at(0)), Verdict::Acquire);
        observed.saw(None, at(1));
        assert_eq!(observed.evaluate(TERMS, "a", at(1)), Verdict::Acquire);
    }

    #[test]
    fn anothers_lease_expires_by_our_own_watch() {
        let mut observed = Observed::default();
        observed.saw(Some(held("b", "1")), at(0));
        assert_eq!(observed.evaluate(TERMS, "a", at(0)), follow(2));
        assert_eq!(observed.evaluate(TERMS, "a", at(14)), follow(15));
        // It renewed: the watch starts again. Seeing the same again starts nothing.
        observed.saw(Some(held("b", "2")), at(14));
        observed.saw(Some(held("b", "2")), at(20));
        assert_eq!(observed.evaluate(TERMS, "a", at(28)), follow(29));
        assert_eq!(observed.evaluate(TERMS, "a", at(29)), Verdict::Acquire);
    }

    #[test]
    fn a_leader_that_cannot_renew_stops_before_another_may_begin() {
        let mut leader = Observed::default();
        leader.renewed(held("a", "1"), at(0));
        let lead = Verdict::Lead {
            until: at(10),
            renew_at: at(2),
        };
        assert_eq!(leader.evaluate(TERMS, "a", at(0)), lead);
        assert_eq!(leader.evaluate(TERMS, "a", at(9)), lead);
        assert_eq!(leader.evaluate(TERMS, "a", at(10)), Verdict::Acquire);
        // Reading its own name again is no renewal.
        leader.saw(Some(held("a", "1")), at(11));
        assert_eq!(leader.evaluate(TERMS, "a", at(11)), Verdict::Acquire);

        let mut other = Observed::default();
        other.saw(Some(held("a", "1")), at(0));
        assert_eq!(other.evaluate(TERMS, "b", at(10)), follow(12));
        assert_eq!(other.evaluate(TERMS, "b", at(15)), Verdict::Acquire);
    }

    #[test]
    fn a_leader_that_was_replaced_follows() {
        let mut observed = Observed::default();
        observed.renewed(held("a", "1"), at(0));
        observed.saw(Some(held("b", "2")), at(3));
        assert_eq!(observed.evaluate(TERMS, "a", at(3)), follow(5));
    }

    #[test]
    fn our_own_name_from_an_earlier_life_does_not_make_us_leader() {
        let mut observed = Observed::default();
        observed.saw(Some(held("a", "1")), at(0));
        assert_eq!(observed.evaluate(TERMS, "a", at(0)), Verdict::Acquire);
    }

    #[test]
    fn a_slow_renewal_counts_from_its_beginning() {
        let mut observed = Observed::default();
        // Begun at 0, answered at 9: one second is left.
        observed.renewed(held("a", "1"), at(0));
        assert!(matches!(
            observed.evaluate(TERMS, "a", at(9)),
            Verdict::Lead { until, .. } if until == at(10)
        ));
    }

    /// Two managers, a frozen server, a frozen process, skewed starts: at no moment do both write.
    #[test]
    fn at_no_moment_do_two_lead() {
        for freeze in 0..40_u64 {
            for thaw in freeze..freeze + 40 {
                let mut record: Option<Record> = None;
                let mut version = 0_u64;
                let mut all = [("a", Observed::default()), ("b", Observed::default())];
                for second in 0..80 {
                    let mut leaders = 0;
                    for (index, (me, observed)) in all.iter_mut().enumerate() {
                        // The first one's process stands still for a while.
                        let frozen = index == 0 && (freeze..thaw).contains(&second);
                        if frozen {
                            continue;
                        }
                        let verdict = observed.evaluate(TERMS, me, at(second));
                        leaders += u32::from(matches!(verdict, Verdict::Lead { .. }));
                        observed.saw(record.clone(), at(second));
                        let take = match observed.evaluate(TERMS, me, at(second)) {
                            Verdict::Acquire => true,
                            Verdict::Lead { renew_at, .. } => at(second) >= renew_at,
                            Verdict::Follow { .. } => false,
                        };
                        // The precondition: written only over what was seen.
                        if take && observed.record() == record.as_ref() {
                            version += 1;
                            let new = held(me, &version.to_string());
                            record = Some(new.clone());
                            observed.renewed(new, at(second));
                        }
                    }
                    assert!(leaders <= 1, "{freeze} {thaw} {second}");
                }
            }
        }
    }
}
