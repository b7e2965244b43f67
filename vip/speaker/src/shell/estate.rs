//! What an agent before this one left: VIPs that its guardian kept until this one came, and addresses
//! nobody wants any more.

use std::time::Duration;

use kedge_core::{Instant, vip::RouterState};
use kedge_net::address::AddressError;
use kedge_vip_proto::vrrp::{ADVERTS_LOST, Command as Order, Input};

use super::{Shell, execute::place, instance::Instance};
use crate::{
    guardian::{Kept, RouterId},
    reporter::Report,
};

/// VIPs that wait for their heirs.
#[derive(Debug)]
pub(super) struct Heirs {
    kept: Vec<Kept>,
    /// When nobody is waited for any more.
    until: Instant,
}

impl Heirs {
    pub(super) const fn until(&self) -> Instant {
        self.until
    }
}

impl Instance {
    /// Which virtual router of this host it is, once it has a place.
    pub(super) fn id(&self) -> Option<RouterId> {
        let config = self.router.config();
        Some(RouterId {
            ifindex: self.ifindex()?,
            vrid: config.vrid,
            ipv6: config.addresses.is_ipv6(),
        })
    }
}

impl Shell {
    /// Overtakes the guardian that kept VIPs for this agent, which knows now what it wants. Until the
    /// first of them advertises nobody does.
    pub(super) fn take_estate(&mut self, now: Instant) {
        if let Some(estate) = self.estate.take() {
            self.heirs = Some(Heirs {
                kept: estate.take(),
                until: now + AT_MOST,
            });
        }
    }

    /// Lets a router take part: where an earlier one left off, if no Backup can have taken over
    /// since, else from the beginning, and then nothing of the earlier one may stand.
    pub(super) fn begin(&mut self, now: Instant, index: usize) {
        let inherited = self.instances.get(index).and_then(Instance::id);
        let inherited = inherited.and_then(|id| self.claim(&id));
        let Some(last_advert) = inherited else {
            return self.give(now, index, Input::Command(Order::Start));
        };
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        let config = instance.router.config();
        let fresh = now.since(last_advert) <= config.interval.duration() * ADVERTS_LOST;
        if let (Ok(chosen), false) = (&instance.place, config.owner) {
            let addresses = config.addresses.iter().map(|it| place(chosen, it));
            // The earlier one may have done without some of these.
            let riders: Vec<_> = config.excluded.iter().copied().collect();
            instance.held = addresses.collect();
            for place in &instance.held {
                self.owned.adopt(now, *place);
            }
            let mut refused = Vec::new();
            for address in riders {
                let place = place(chosen, address);
                match self.owned.hold(now, place) {
                    Ok(()) => instance.held.push(place),
                    Err(error) => refused.push((address, error)),
                }
            }
            if !refused.is_empty() {
                self.do_without(index, refused);
            }
        }
        // They stand on links that are up.
        self.raise(index);
        if fresh {
            self.give(now, index, Input::Command(Order::Resume));
        }
        let goes_on = self
            .instances
            .get(index)
            .is_some_and(|instance| instance.router.state() == RouterState::Active);
        if !goes_on {
            self.let_go(index);
        }
        if !fresh {
            self.give(now, index, Input::Command(Order::Start));
        }
    }

    /// Takes a router out of the estate.
    fn claim(&mut self, id: &RouterId) -> Option<Instant> {
        let kept = &mut self.heirs.as_mut()?.kept;
        let position = kept.iter().position(|kept| kept.router == *id)?;
        Some(kept.swap_remove(position).last_advert)
    }

    /// Removes what nobody inherits, once nobody can any more.
    pub(super) fn settle_estate(&mut self, now: Instant) {
        let Some(heirs) = &mut self.heirs else {
            return;
        };
        let waiting = |id: &RouterId| {
            let mut here = self.instances.iter().filter(|it| it.id() == Some(*id));
            here.any(|it| it.next.is_none() && it.router.state() == RouterState::Initialize)
        };
        heirs.kept.retain(|kept| waiting(&kept.router));
        if !heirs.kept.is_empty() && now < heirs.until {
            return;
        }
        self.heirs = None;
        self.lower_leftovers();
        self.remove_unused_links();
        if let Err(error) = self.remove_leftovers() {
            let problem = kedge_core::Coded::problem(&error);
            self.outbox.say(Report::Trouble(problem));
        }
    }

    /// Removes the addresses of ours that nobody holds, and tells of them.
    pub(super) fn remove_leftovers(&mut self) -> Result<(), AddressError> {
        let left = self.owned.remove_leftovers(None)?;
        if !left.is_empty() {
            let names = left.iter().map(|(_, net)| net.addr().to_string()).collect();
            self.outbox.say(Report::Leftovers(names));
        }
        Ok(())
    }
}

/// How long addresses stand for a VIP that is configured later: longer than its fence would let it
/// answer.
const AT_MOST: Duration = Duration::from_secs(1);
