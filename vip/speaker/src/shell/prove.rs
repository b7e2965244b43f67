//! Looking for the first packet that the network brings for a VIP's address (R22).

use kedge_core::Instant;
use kedge_net::{arrival::ArrivalListener, clock, udp::Family};
use kedge_vip_proto::{
    vrrp::{Config, Evidence, Input},
    wire::{Mac, Neighbor},
};

use super::{
    SOCKETS, Shell,
    execute::{Leaves, Local},
    instance::Instance,
};
use crate::reporter::{Closing, Report};

impl Shell {
    /// Looks for packets and asks the router of the link for one.
    pub(super) fn look(&mut self, index: usize) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        let Some(question) = question(instance, |ifindex, family| {
            self.monitor.gateway(ifindex, family)
        }) else {
            return instance.give(clock::now(), Input::Evidence(Evidence::NobodyToAsk));
        };
        if instance.arrivals.is_none() {
            // Where it cannot be opened nothing is proved, which is told.
            let listener = instance.listen_for_arrivals();
            instance.arrivals =
                listener.filter(|listener| self.waiter.add(listener, SOCKETS).is_ok());
        }
        self.broadcast(index, question, "questions_sent", Leaves::ByOwnLink);
    }

    /// Ends that.
    pub(super) fn look_away(&mut self, index: usize) {
        let listener = self
            .instances
            .get_mut(index)
            .and_then(|instance| instance.arrivals.take());
        if let Some(listener) = listener {
            self.outbox.say(Report::Close(Closing::Arrival(listener)));
        }
    }
}

impl Instance {
    fn listen_for_arrivals(&self) -> Option<ArrivalListener> {
        let chosen = self.place.as_ref().ok()?;
        let config = self.router.config();
        let at = announced_at(config, Mac(chosen.mac));
        ArrivalListener::open(chosen.ifindex, at.0, config.held()).ok()
    }
}

impl Local<'_> {
    /// Tells the routers what has arrived.
    pub(super) fn take_arrivals(&mut self, now: Instant) {
        let ifindex = self.ifindex;
        let here = self.instances.iter_mut();
        for instance in here.filter(|one| one.ifindex() == Some(ifindex)) {
            let found = instance
                .arrivals
                .take_if(|listener| listener.arrived().unwrap_or_default());
            if let Some(listener) = found {
                self.outbox.say(Report::Close(Closing::Arrival(listener)));
                instance.give(now, Input::Evidence(Evidence::Arrived));
            }
        }
    }
}

/// "Who has the router's address?", from the VIP's.
fn question(
    instance: &Instance,
    gateway: impl FnOnce(u32, Family) -> Option<std::net::IpAddr>,
) -> Option<Neighbor> {
    let chosen = instance.place.as_ref().ok()?;
    let address = instance.router.config().addresses.iter().next()?;
    let router = gateway(chosen.ifindex, Family::of(address))?;
    let at = announced_at(instance.router.config(), Mac(chosen.mac));
    Neighbor::question(address, at, router)
}

/// The hardware address that the advertised addresses were announced with.
fn announced_at(config: &Config, own: Mac) -> Mac {
    if config.virtual_mac {
        Mac::virtual_router(config.vrid, config.addresses.is_ipv6())
    } else {
        own
    }
}
