//! Intervals below 50 ms: kept only after this host has shown that it can.

use std::sync::Arc;

use kedge_core::{Code, Fix, Instant, Problem, vip::AdvertInterval};
use kedge_vip_proto::vrrp::{Config, Input};

use super::Shell;
use crate::{
    VipSpec,
    selftest::{Unsafe, needs_proof},
};

impl Shell {
    /// The configuration that a VIP runs with: at its own interval, or at the default one while it
    /// is not known to be safe.
    pub(super) fn paced(&mut self, spec: &VipSpec, config: Config) -> Config {
        let wanted = spec.interval.duration();
        if !needs_proof(wanted) {
            return config;
        }
        let shared = Arc::clone(&self.shared);
        let ring = move || shared.bell.ring();
        self.timers
            .measure(self.settings.real_time, "kedge-vip-test", ring);
        match self.timers.judgement().map(|it| it.allows(wanted)) {
            Some(Ok(())) => config,
            Some(Err(Unsafe(_))) | None => Config {
                interval: AdvertInterval::DEFAULT,
                ..config
            },
        }
    }

    /// Goes over to the short intervals when they turn out to be safe.
    pub(super) fn speed_up(&mut self, now: Instant) {
        if !self.timers.has_news() {
            return;
        }
        for index in 0..self.instances.len() {
            let Some(spec) = self.instances.get(index).map(|it| it.spec.clone()) else {
                continue;
            };
            if let Ok(config) = spec.config(self.settings.link_up_wait) {
                let config = self.paced(&spec, config);
                let Some(instance) = self.instances.get(index) else {
                    break;
                };
                let config = instance.lacking.without(config);
                self.give(now, index, Input::Config(config));
            }
        }
        self.fence();
    }

    /// What there is to say about the interval of a VIP.
    pub(super) fn pace_problem(&self, spec: &VipSpec) -> Option<Problem> {
        let wanted = spec.interval.duration();
        let Unsafe(why) = self.timers.judgement()?.allows(wanted).err()?;
        let instead = AdvertInterval::DEFAULT.duration();
        Some(
            Problem::warning(
                Code::VipTooFast,
                format!("the VIP {} does not run at {wanted:?}", spec.name),
            )
            .object(format!("vips/{}", spec.name))
            .evidence(why)
            .consequence(format!(
                "it runs at {instead:?}: at {wanted:?} routers would take over from each other without a cause"
            ))
            .fix(Fix::text(
                "give the service real-time scheduling (LimitRTPRIO=40), or take an advert_interval \
                 of 50ms or more",
            )),
        )
    }
}
