//! Health bands: who may hold the VIP when not everybody is healthy.

use std::fmt;

use kedge_core::vip::Priority;

use super::{Config, Members};

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

/// The priority to advertise.
pub(super) fn effective(config: &Config, verdict: Verdict) -> Priority {
    if config.owner || !config.gated || verdict == Verdict::Healthy {
        return config.priority;
    }
    match config.members {
        Members::Mixed { unhealthy } => unhealthy,
        Members::Kedge => {
            Priority::new(config.priority.get().saturating_sub(DEMOTION)).unwrap_or(LOWEST)
        }
    }
}

/// Whether a Kedge member with this priority is not healthy.
pub(super) fn in_low_band(priority: Priority) -> bool {
    priority.get() <= 254 - DEMOTION
}

/// Moves 192..=254 to 1..=63: order and spacing survive.
pub(super) const DEMOTION: u8 = 191;

const LOWEST: Priority = match Priority::new(1) {
    Ok(lowest) => lowest,
    Err(_) => Priority::OWNER,
};
