//! Intervals below 50 ms: kept only after this host has shown that it can, as those of VIPs.

use std::{sync::Arc, time::Duration};

use kedge_net::wait::Doorbell;
use kedge_vip_proto::{bfd::Config, wire::bfd::Interval};

use super::Shared;
use crate::selftest::{Timers, Unsafe, needs_proof};

/// Whether this host may be as quick as its sessions want.
#[derive(Debug)]
pub(super) struct Pace {
    real_time: bool,
    timers: Timers,
}

impl Pace {
    pub(super) fn new(real_time: bool) -> Self {
        Self {
            real_time,
            timers: Timers::default(),
        }
    }

    /// The configuration to run with: as it is wanted, or no quicker than anybody can.
    pub(super) fn paced(&mut self, shared: &Arc<Shared>, config: Config) -> Config {
        if !needs_proof(quickest(&config)) {
            return config;
        }
        let shared = Arc::clone(shared);
        let ring = move || Doorbell::ring(&shared.bell);
        self.timers.measure(self.real_time, "kedge-bfd-test", ring);
        let known = self.timers.judgement();
        if known.is_some_and(|it| it.allows(quickest(&config)).is_ok()) {
            return config;
        }
        Config {
            desired_min_tx: config.desired_min_tx.max(INSTEAD),
            required_min_rx: config.required_min_rx.max(INSTEAD),
            ..config
        }
    }

    /// Why a configuration is not run as it is.
    pub(super) fn refusal(&self, config: &Config) -> Option<String> {
        let known = self.timers.judgement()?;
        let Unsafe(why) = known.allows(quickest(config)).err()?;
        Some(why)
    }

    /// Whether more is known than before, so that sessions may go over to their own intervals.
    pub(super) fn has_news(&mut self) -> bool {
        self.timers.has_news()
    }
}

fn quickest(config: &Config) -> Duration {
    config.desired_min_tx.min(config.required_min_rx).duration()
}

/// What everybody can keep.
pub(super) const INSTEAD: Interval = Interval::from_micros(100_000);
