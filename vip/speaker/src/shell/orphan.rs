//! The shell of a guardian: it goes on with the sockets of an agent that ended, to leave, or to keep
//! the VIPs until another agent is there.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kedge_core::{Instant, Machine, vip::RouterState};
use kedge_net::clock;
use kedge_vip_proto::{
    vrrp::{Config, ConfigError, Link, Orphan, Router},
    wire::Mac,
};

use super::{
    Interface, Part, SOCKETS, Shell,
    execute::place,
    instance::{Instance, Next},
};
use crate::{
    Settings, StartError,
    guardian::{Mastership, Ward},
    reporter::{Outbox, Subscribers},
    speaker::Shared,
};

impl Shell {
    /// A shell with no VIP that leaves everything as it is, until another agent overtakes.
    pub(crate) fn guarding(page: Arc<Mastership>) -> Result<Self, StartError> {
        let shared = Arc::new(Shared::new()?);
        let (_, commands) = std::sync::mpsc::sync_channel(1);
        let (outbox, _) = Outbox::open(Subscribers::default())?;
        let settings = Settings {
            real_time: false,
            lock_memory: false,
            ..Settings::default()
        };
        Self::build(settings, shared, commands, outbox, Part::Guardian(page))
    }

    /// Goes on with the agent's sockets.
    pub(crate) fn adopt(&mut self, interfaces: BTreeMap<u32, Interface>) {
        for interface in interfaces.values() {
            for socket in interface.sockets() {
                // One that is not waited for is read when another one is.
                let _ = self.waiter.add(&socket, SOCKETS);
            }
        }
        self.interfaces = interfaces;
    }

    /// Takes the place of a router that was Active, to leave. Nothing leaves yet.
    pub(crate) fn orphan(&mut self, now: Instant, ward: &Ward, sent_at: Instant) {
        self.stand_in(ward, sent_at, Some(Next::Nothing), |config, orphan| {
            Router::orphan(now, config, orphan)
        });
    }

    /// Takes the place of a router that is Active, to go on.
    pub(crate) fn caretake(&mut self, now: Instant, ward: &Ward, sent_at: Instant) {
        self.stand_in(ward, sent_at, None, |config, orphan| {
            Router::caretaker(now, config, orphan, ward.priority)
        });
    }

    fn stand_in(
        &mut self,
        ward: &Ward,
        sent_at: Instant,
        next: Option<Next>,
        router: impl FnOnce(Config, Orphan) -> Result<Router, ConfigError>,
    ) {
        let Ok((spec, chosen)) = ward.restore() else {
            return;
        };
        let Ok(config) = spec.config(Config::LINK_UP_WAIT) else {
            return;
        };
        let orphan = Orphan {
            source: chosen.address,
            mac: Mac(chosen.mac),
            sent_at,
            both_checksums: ward.both_checksums,
        };
        let link = Link::Up {
            source: orphan.source,
            mac: orphan.mac,
        };
        let mut held = Vec::new();
        if !config.owner {
            held.extend(config.held().map(|address| place(&chosen, address)));
        }
        self.doors.adopt(&spec, chosen.ifindex, chosen.own_links);
        if let Ok(router) = router(config, orphan) {
            let mut instance = Instance::stand_in(router, spec, chosen, link, held);
            (instance.slot, instance.next) = (Some(ward.slot), next);
            self.instances.push(instance);
        }
    }

    /// Says what is to be said, before anything slow, and ends when nothing is held.
    pub(crate) fn leave_at_once(&mut self, now: Instant) {
        self.take_packets(now);
        self.settle(now);
        for index in 0..self.instances.len() {
            if let Some(instance) = self.instances.get_mut(index) {
                instance.router.handle_timeout(now);
                self.settle(now);
            }
        }
        self.adopt_addresses();
        self.leave(now, AT_MOST, None);
    }

    /// Goes on with the VIPs until another agent overtakes, or else leaves at `until`.
    pub(crate) fn keep(&mut self, now: Instant, until: Instant) {
        self.adopt_addresses();
        self.keeps_until = Some(until);
        self.take_packets(now);
        self.settle(now);
    }

    /// Leaves when no other agent came in time, and lets go of a VIP that a better router took.
    pub(super) fn end_keeping(&mut self, now: Instant) {
        let Some(until) = self.keeps_until else {
            return;
        };
        for index in 0..self.instances.len() {
            let state = self.instances.get(index).map(|it| it.router.state());
            if matches!(state, Some(RouterState::Backup | RouterState::Fault)) {
                self.end(now, index, Next::Nothing);
            }
        }
        self.succeed(now);
        if until <= now || self.instances.is_empty() {
            self.keeps_until = None;
            self.leave(now, AT_MOST, None);
        }
    }

    fn adopt_addresses(&mut self) {
        for instance in &self.instances {
            for place in &instance.held {
                self.owned.adopt(clock::now(), *place);
            }
        }
    }
}

/// Longer than any router takes to leave.
const AT_MOST: Duration = Duration::from_secs(300);
