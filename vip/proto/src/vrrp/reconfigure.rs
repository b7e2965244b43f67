//! A new configuration is a difference: what did not change emits nothing.

use kedge_core::Instant;

use super::{Because, Config, ConfigError, Link, router::Router, state::State};
use crate::claim::Probe;

impl Router {
    /// Whether `config` may replace the one in force.
    pub(super) fn accept_config(&self, config: &Config) -> Result<(), ConfigError> {
        config.check()?;
        let same = |config: &Config| {
            let ipv6 = config.addresses.is_ipv6();
            (
                config.vrid,
                config.version.number(),
                ipv6,
                config.virtual_mac,
            )
        };
        if same(config) == same(&self.config) {
            Ok(())
        } else {
            Err(ConfigError::OtherRouter)
        }
    }

    pub(super) fn reconfigure(&mut self, now: Instant, config: Config) {
        if config == self.config {
            return;
        }
        let priority = self.priority();
        if !config.follows {
            self.lead = None;
        }
        let before = std::mem::replace(&mut self.config, config);
        let addresses = !before.addresses.same_set(&self.config.addresses)
            || before.excluded != self.config.excluded;
        let advert = before.addresses != self.config.addresses
            || before.interval != self.config.interval
            || before.version != self.config.version
            || before.peers != self.config.peers;
        self.lower_pin(&before);
        self.drain(now, &before);
        if priority != self.priority() {
            self.priority_changed(now, priority, self.why_reconfigured(&before));
        } else if advert {
            self.advertise(now);
        }
        match &mut self.state {
            State::Active(active) if addresses => {
                active.held = false;
                self.silence();
                self.own();
                self.stop_proving();
            }
            State::Backup(_) if self.config.owner => self.take_over(now, Because::OwnsAddress),
            State::Backup(_) => {
                let interval = before.interval != self.config.interval;
                self.reconfigure_backup(now, interval, addresses);
            }
            State::Releasing(_) if before.interval != self.config.interval => {
                self.goodbye_again(now);
            }
            State::Initialize | State::Active(_) | State::Releasing(_) | State::Fault(_) => {}
        }
        // Only the owner of the address is bound by no track.
        self.heed_tracks(now);
    }

    fn reconfigure_backup(&mut self, now: Instant, interval: bool, addresses: bool) {
        if interval && self.active.is_none() {
            self.interval = self.config.interval;
        }
        let soonest = now + self.active_down(self.interval);
        let Link::Up { mac, .. } = self.link else {
            return;
        };
        let claimed = self.claimed();
        let State::Backup(backup) = &mut self.state else {
            return;
        };
        if interval {
            // Only an advert may postpone it.
            backup.down_at = backup.down_at.min(soonest);
        }
        if addresses && backup.probe.is_some() {
            backup.suspect = None;
            backup.probe = Some(Probe::start(now, claimed, mac));
            self.wait_for_probes();
        }
    }
}
