//! Health bands: who may hold the VIP when not everybody is healthy.

use std::{fmt, time::Duration};

use kedge_core::{Instant, vip::Priority};

use super::{Config, Members, Tracked, config::LOWEST_BASE};

/// What the health gate says about this host's service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// No success since boot.
    #[default]
    Unproven,
    /// The service answers.
    Healthy,
    /// The service answered once and fails now.
    Failing,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unproven => "the service on this host has not answered since boot",
            Self::Healthy => "the service on this host answers",
            Self::Failing => "the service on this host fails",
        })
    }
}

/// The priority to advertise: the base less what failed tracks cost, and for bad health the band
/// below.
///
/// Among Kedge members tracks alone never leave the healthy band, so that only health crosses it.
pub(super) fn effective(config: &Config, verdict: Verdict, tracked: Tracked) -> Priority {
    if config.owner {
        return config.priority;
    }
    if config.drained {
        return LOWEST;
    }
    let base = tracked.lowered(config);
    if !config.gated || verdict == Verdict::Healthy {
        return base;
    }
    match config.members {
        Members::Mixed { unhealthy } => base.min(unhealthy),
        Members::Kedge => Priority::new(base.get().saturating_sub(DEMOTION)).unwrap_or(LOWEST),
    }
}

impl Tracked {
    /// The base priority less the cost.
    fn lowered(self, config: &Config) -> Priority {
        let base = config.priority.get();
        let lowest = match config.members {
            Members::Kedge => LOWEST_BASE,
            Members::Mixed { .. } => LOWEST.get(),
        };
        let cost = u8::try_from(self.cost).unwrap_or(u8::MAX);
        // A base below the range is the configuration's to refuse, not this one's to raise.
        let lowered = base.saturating_sub(cost).max(lowest.min(base));
        Priority::new(lowered).unwrap_or(LOWEST)
    }
}

/// Whether a router with this configuration and verdict may pull the VIP from an Active that
/// advertises `priority`, if its own service answers a fresh probe.
///
/// Without preemption a Backup accepts lower adverts (RFC 9568 section 6.4.2), so an Active that
/// lowers its priority because its service is ill would keep the VIP for ever.
pub(super) fn may_pull(config: &Config, verdict: Verdict, priority: Priority) -> bool {
    config.gated
        && verdict == Verdict::Healthy
        && moves_by_itself(config)
        && priority <= HIGHEST_UNHEALTHY
}

/// Whether a router without a gate may take the VIP from an Active that advertises `priority`: it
/// is drained, and holds the VIP only because nobody else was there.
pub(super) fn may_relieve(config: &Config, priority: Priority) -> bool {
    !config.gated && moves_by_itself(config) && priority == LOWEST
}

/// Whether the bands mean anything, and neither of the operator's orders forbids to act on them.
fn moves_by_itself(config: &Config) -> bool {
    config.members == Members::Kedge && !config.drained && !config.frozen
}

/// The fresh probe that must succeed before a living Active is overruled for its health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FreshProbe {
    asked_at: Option<Instant>,
    failed_at: Option<Instant>,
}

impl FreshProbe {
    /// Whether to ask for a probe now; if so it counts as asked for.
    pub(super) fn ask(&mut self, now: Instant) -> bool {
        let running = self.asked_at.is_some_and(|at| now.since(at) < LOST);
        let failed = self
            .failed_at
            .is_some_and(|at| now.since(at) < AFTER_FAILURE);
        if running || failed {
            return false;
        }
        self.asked_at = Some(now);
        true
    }

    pub(super) const fn is_asked(&self) -> bool {
        self.asked_at.is_some()
    }

    /// Takes the answer.
    pub(super) fn answered(&mut self, now: Instant, healthy: bool) {
        self.asked_at = None;
        self.failed_at = (!healthy).then_some(now);
    }

    /// Forgets a question that no longer matters.
    pub(super) fn cancel(&mut self) {
        self.asked_at = None;
    }
}

/// Moves 192..=254 to 1..=63: order and spacing survive.
const DEMOTION: u8 = 191;

const LOWEST: Priority = match Priority::new(1) {
    Ok(lowest) => lowest,
    Err(_) => Priority::OWNER,
};

const HIGHEST_UNHEALTHY: Priority = match Priority::new(254 - DEMOTION) {
    Ok(highest) => highest,
    Err(_) => LOWEST,
};

/// An answer that takes longer than any probe's time limit does not come.
const LOST: Duration = Duration::from_secs(5);
/// An Active advertises every few milliseconds; a service that just failed is not asked as often.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
