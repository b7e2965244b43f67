//! Addresses that go along with a VIP: one that the kernel refuses takes no other address down.
//!
//! The advertised addresses are the VIP, and without one of them this host cannot hold it. What goes
//! along (the other family's of a VIP with both, `excluded_addresses`) is held where the kernel takes
//! it: a host without IPv6 still serves IPv4. What is refused is neither announced nor defended, it
//! is told, and it is tried again while the VIP is here.

use std::{borrow::Cow, collections::BTreeMap, net::IpAddr, time::Duration};

use kedge_core::{Coded, Instant, Problem};
use kedge_net::{address::AddressError, clock};
use kedge_vip_proto::vrrp::{Config, Input};

use super::{Shell, execute::place, instance::Instance};
use crate::{VipEvent, VipSpec, reporter::Report};

/// What the kernel refused of the addresses that go along.
#[derive(Debug)]
pub(super) struct Lacking {
    refused: BTreeMap<IpAddr, Problem>,
    again_at: Instant,
}

impl Default for Lacking {
    fn default() -> Self {
        Self {
            refused: BTreeMap::new(),
            again_at: Instant::FAR,
        }
    }
}

impl Lacking {
    pub(super) fn is_empty(&self) -> bool {
        self.refused.is_empty()
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.refused.keys().copied()
    }

    pub(super) fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.refused.values()
    }

    /// `config` without them.
    pub(super) fn without(&self, config: Config) -> Config {
        if self.is_empty() {
            return config;
        }
        let excluded = config.excluded.iter().copied();
        let excluded = excluded
            .filter(|it| !self.refused.contains_key(it))
            .collect();
        Config { excluded, ..config }
    }

    /// `spec` without them, for one who holds what is held.
    pub(super) fn without_in<'a>(&self, spec: &'a VipSpec) -> Cow<'a, VipSpec> {
        if self.is_empty() {
            return Cow::Borrowed(spec);
        }
        let mut spec = spec.clone();
        let held = |address: &IpAddr| !self.refused.contains_key(address);
        spec.addresses.retain(held);
        spec.excluded.retain(held);
        Cow::Owned(spec)
    }
}

impl Instance {
    /// What is wrong with an address that goes along.
    fn refused(&self, address: IpAddr, error: &AddressError) -> Problem {
        let beside: Vec<_> = self.router.config().addresses.iter().collect();
        let others: Vec<_> = beside.iter().map(IpAddr::to_string).collect();
        error
            .problem()
            .object(format!("vips/{}", self.spec.name))
            .consequence(format!(
                "{address} is not served from this host; {} is, and Kedge tries again every 5 s",
                others.join(", ")
            ))
    }

    /// When what was refused is tried again, if it is.
    pub(super) fn riders_at(&self) -> Option<Instant> {
        (!self.lacking.is_empty()).then_some(self.lacking.again_at)
    }
}

impl Shell {
    /// Goes on without what the kernel refused: the router asks anew for the rest.
    pub(super) fn do_without(&mut self, index: usize, refused: Vec<(IpAddr, AddressError)>) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        for (address, error) in refused {
            let problem = instance.refused(address, &error);
            let name = instance.spec.name.clone();
            instance.lacking.refused.insert(address, problem.clone());
            self.outbox
                .say(Report::Event(VipEvent::Problem { name, problem }));
        }
        let now = clock::now();
        instance.lacking.again_at = now + AGAIN;
        let config = instance.lacking.without(instance.router.config().clone());
        instance.give(now, Input::Config(config));
    }

    /// Tries again what was refused, of VIPs that are here.
    pub(super) fn try_riders(&mut self, now: Instant) {
        for index in 0..self.instances.len() {
            let Some(instance) = self.instances.get_mut(index) else {
                break;
            };
            if instance.riders_at().is_none_or(|at| now < at) {
                continue;
            }
            instance.lacking.again_at = now + AGAIN;
            let Ok(chosen) = &instance.place else {
                continue;
            };
            let refused: Vec<_> = instance.lacking.addresses().collect();
            let before = refused.len();
            for address in refused {
                let place = place(chosen, address);
                if self.owned.hold(now, place).is_ok() {
                    instance.held.push(place);
                    instance.lacking.refused.remove(&address);
                }
            }
            if instance.lacking.refused.len() < before {
                self.complete(now, index);
                self.settle(now);
            }
        }
    }

    /// The VIP is not here any more: next time everything is asked for.
    pub(super) fn forget_riders(&mut self, index: usize) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        if !instance.lacking.is_empty() {
            instance.lacking = Lacking::default();
            self.complete(clock::now(), index);
        }
    }

    /// Gives the router everything that is configured and not refused.
    fn complete(&mut self, now: Instant, index: usize) {
        let Some(spec) = self.instances.get(index).map(|it| it.spec.clone()) else {
            return;
        };
        let Ok(config) = spec.config(self.settings.link_up_wait) else {
            return;
        };
        let config = self.paced(&spec, config);
        if let Some(instance) = self.instances.get_mut(index) {
            let config = instance.lacking.without(config);
            instance.give(now, Input::Config(config));
            self.news = true;
        }
    }
}

const AGAIN: Duration = Duration::from_secs(5);
