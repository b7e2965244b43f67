//! Packets in, outputs out.

use std::time::SystemTime;

use ipnet::IpNet;
use kedge_core::{Instant, Machine};
use kedge_net::{address::AddressError, clock, udp::Family};
use kedge_vip_proto::{
    vrrp::{AddressRefused, Event, Input, Output, Reject, Ticket, Transmit},
    wire::{Neighbor, vrrp::Heard},
};

use super::{Shell, instance::Instance, interface::Interface, problems};
use crate::{
    Chosen, Takeover, Transition, VipEvent,
    reporter::{Closing, Outbox, Report},
};

impl Shell {
    /// Hands one input to a router and does what it wants; what it refuses is counted.
    pub(super) fn give(&mut self, now: Instant, index: usize, input: Input) {
        let _ = self.ask(now, index, input);
    }

    /// The same, with the router's word on it.
    pub(super) fn ask(&mut self, now: Instant, index: usize, input: Input) -> Result<(), Reject> {
        if let Some(instance) = self.instances.get_mut(index) {
            let taken = instance.ask(now, input);
            self.news = true;
            self.settle(now);
            return taken;
        }
        Err(Reject::WrongState)
    }

    /// Hands over what the sockets hold. A flood is cut off, so that our own deadlines are kept;
    /// the rest is there in the next round.
    pub(super) fn take_packets(&mut self, now: Instant) {
        for (ifindex, interface) in &mut self.interfaces {
            let mut on_it = Local {
                ifindex: *ifindex,
                instances: &mut self.instances,
                outbox: &mut self.outbox,
            };
            on_it.take(now, interface);
        }
    }

    /// Does what the routers want, in their order, until none wants anything.
    pub(super) fn settle(&mut self, now: Instant) {
        let mut settled = false;
        while !settled {
            settled = true;
            for index in 0..self.instances.len() {
                while let Some(output) = self
                    .instances
                    .get_mut(index)
                    .and_then(|instance| instance.router.poll_output())
                {
                    settled = false;
                    self.execute(now, index, output);
                }
            }
            if settled {
                settled = !self.tell_groups(now);
            }
        }
    }

    pub(super) fn execute(&mut self, now: Instant, index: usize, output: Output) {
        match output {
            Output::Send(transmit) => self.send(index, &transmit),
            Output::Own { hold: true, ticket } => self.hold(index, ticket),
            Output::Own { hold: false, .. } => self.let_go(index),
            Output::Announce(packet) => {
                // The last announcement on the wire decides where clients go: a better advert
                // that is already here forbids it.
                self.take_packets(clock::now());
                let instance = self.instances.get(index);
                if instance.is_some_and(|instance| instance.router.announcing()) {
                    self.broadcast(index, packet, "announcements_sent", Leaves::ByOwnLink);
                    self.told_everybody(index);
                }
            }
            Output::ProbeAddress(packet) => {
                self.broadcast(index, packet, "probes_sent", Leaves::ByInterface);
            }
            Output::ProbeHealth => {
                if let Some(instance) = self.instances.get(index) {
                    let name = instance.spec.name.clone();
                    self.outbox.say(Report::Event(VipEvent::ProbeNow(name)));
                }
            }
            Output::Prove { look: true } => self.look(index),
            Output::Prove { look: false } => self.look_away(index),
            Output::Event(event) => self.note(now, index, event),
        }
    }

    pub(super) fn send(&mut self, index: usize, transmit: &Transmit) {
        self.raise(index);
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        let interface = instance
            .ifindex()
            .and_then(|ifindex| self.interfaces.get(&ifindex));
        let Some(interface) = interface else { return };
        let through = instance.own_links().of(transmit.src);
        if let (Some(page), Some(slot)) = (self.part.page(), instance.slot) {
            page.advertises(slot, clock::now());
        }
        let seal = instance.seal.as_mut();
        if let Err(error) = interface.send(transmit, seal, through, &mut self.message) {
            instance.counters.count("send_errors");
            instance.send_error = Some((clock::now(), error.raw_os_error().unwrap_or_default()));
        } else {
            instance.stamps.advertised();
        }
    }

    pub(super) fn broadcast(
        &mut self,
        index: usize,
        packet: Neighbor,
        counter: &'static str,
        leaves: Leaves,
    ) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        let interface = instance
            .ifindex()
            .and_then(|ifindex| self.interfaces.get(&ifindex));
        let Some(interface) = interface else { return };
        let through = match leaves {
            Leaves::ByInterface => None,
            Leaves::ByOwnLink => packet
                .claim()
                .and_then(|claim| instance.own_links().of(claim.address)),
        };
        match interface.broadcast(packet, through) {
            Ok(()) => instance.counters.count(counter),
            Err(_) => instance.counters.count("arp_send_errors"),
        }
    }

    /// Puts the addresses on the interface and tells the router what the kernel said.
    fn hold(&mut self, index: usize, ticket: Ticket) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        let Ok(chosen) = &instance.place else {
            return;
        };
        let wanted: Vec<_> = instance
            .router
            .config()
            .held()
            .map(|ip| (ip, place(chosen, ip)))
            .collect();
        let surplus: Vec<_> = instance
            .held
            .iter()
            .copied()
            .filter(|held| !wanted.iter().any(|(_, place)| place == held))
            .collect();
        let (mut result, mut refused) = (Ok(()), Vec::new());
        // The owner's address is the interface's own: it stands there already, and stays.
        if !instance.router.config().owner {
            for (address, place) in wanted {
                if instance.held.contains(&place) {
                    continue;
                }
                if let Err(error) = self.owned.hold(clock::now(), place) {
                    if !instance.router.config().addresses.contains(address) {
                        refused.push((address, error));
                        continue;
                    }
                    let errno = errno(&error);
                    instance.refusal = Some(kedge_core::Coded::problem(&error));
                    result = Err(AddressRefused { address, errno });
                    break;
                }
                instance.held.push(place);
            }
        }
        if result.is_ok() && !refused.is_empty() {
            return self.do_without(index, refused);
        }
        if result.is_ok() {
            instance.stamps.held();
            instance.refusal = None;
            for place in surplus {
                instance.held.retain(|held| *held != place);
                release(&mut self.owned, &mut self.outbox, place);
            }
        } else {
            for place in instance.held.drain(..) {
                release(&mut self.owned, &mut self.outbox, place);
            }
        }
        instance.give(clock::now(), Input::Owned { ticket, result });
    }

    /// The first announcement ends the account of a take-over.
    fn told_everybody(&mut self, index: usize) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        if let Some(takeover) = instance.stamps.announced() {
            let event = taken_over(instance, takeover);
            self.outbox.say(Report::Event(event));
        }
    }

    pub(super) fn let_go(&mut self, index: usize) {
        if self.is_overtaken() {
            return;
        }
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        let lost: Vec<_> = instance.held.iter().map(|(_, net)| net.addr()).collect();
        for place in instance.held.drain(..) {
            release(&mut self.owned, &mut self.outbox, place);
        }
        if let Some(fences) = self.fences.as_ref().filter(|_| !lost.is_empty()) {
            fences.lost(lost);
        }
        self.lower(index);
        let Some(instance) = self.instances.get(index) else {
            return;
        };
        if let (Some(page), Some(slot)) = (self.part.page(), instance.slot) {
            page.lets_go(slot);
        }
        self.forget_riders(index);
    }

    /// Keeps what people will ask for, and passes it on.
    fn note(&mut self, now: Instant, index: usize, event: Event) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        let name = instance.spec.name.clone();
        let at = SystemTime::now();
        let event = match event {
            Event::State { from, to, because } => {
                if let Some(cut_short) = instance.stamps.changed(to) {
                    let event = taken_over(instance, cut_short);
                    self.outbox.say(Report::Event(event));
                }
                let because = instance.explain(&because);
                instance.changed(Transition {
                    at,
                    boottime: now,
                    from,
                    to,
                    because: because.clone(),
                });
                VipEvent::State {
                    name,
                    from,
                    to,
                    because,
                    at,
                    boottime: now,
                }
            }
            Event::Priority { from, to, because } => {
                let because = instance.explain(&because);
                VipEvent::Priority {
                    name,
                    from,
                    to,
                    because,
                }
            }
            Event::Notice(notice) => {
                let problem = problems::of_notice(&instance.spec.name, &notice);
                instance.noticed(now, at, notice);
                VipEvent::Problem { name, problem }
            }
        };
        self.news = true;
        self.outbox.say(Report::Event(event));
    }
}

/// By which link something about an address leaves.
#[derive(Clone, Copy)]
pub(super) enum Leaves {
    /// The interface itself, which a Backup speaks by.
    ByInterface,
    /// The link the address stands on.
    ByOwnLink,
}

/// The routers on one interface.
pub(super) struct Local<'a> {
    pub(super) ifindex: u32,
    pub(super) instances: &'a mut [Instance],
    pub(super) outbox: &'a mut Outbox,
}

impl Local<'_> {
    fn take(&mut self, now: Instant, interface: &mut Interface) {
        if let Some(station) = interface.heard() {
            self.outbox.say(Report::Close(Closing::Station(station)));
            self.each(|instance| {
                instance.give(now, Input::Heard);
            });
        }
        self.take_arrivals(now);
        for family in [Family::V4, Family::V6] {
            for _ in 0..AT_MOST {
                let Some(parsed) = interface.next_advert(family) else {
                    break;
                };
                match parsed {
                    Ok(heard) => {
                        if !self.advert(now, heard) {
                            // Other virtual routers on the LAN are no fault of anybody's.
                            interface.counters.count("other_vrid");
                        }
                    }
                    Err((mac, error)) => self.dropped(now, interface, error.label(), mac),
                }
            }
            for _ in 0..AT_MOST {
                let Some(parsed) = interface.next_neighbor(family) else {
                    break;
                };
                match parsed {
                    Ok(packet) => self.neighbor(now, packet),
                    Err((mac, error)) => self.dropped(now, interface, error.label(), mac),
                }
            }
        }
    }

    fn neighbor(&mut self, now: Instant, packet: Neighbor) {
        let about = packet.claim().map(|claim| claim.address);
        self.each(|instance| {
            if about.is_some_and(|address| instance.router.config().holds(address)) {
                instance.give(now, Input::Neighbor(packet));
            }
        });
    }

    /// Gives an advert to its router, if there is one.
    fn advert(&mut self, now: Instant, heard: Heard<'_>) -> bool {
        let vrid = heard.received.advert.vrid;
        let ifindex = self.ifindex;
        let mut here = self
            .instances
            .iter_mut()
            .filter(|one| one.ifindex() == Some(ifindex));
        let ipv6 = heard.received.src.is_ipv6();
        let is_it = |instance: &&mut Instance| {
            let config = instance.router.config();
            config.vrid == vrid && config.addresses.is_ipv6() == ipv6
        };
        match here.find(is_it) {
            Some(instance) => {
                if let Some(first) = instance.hear(now, heard) {
                    self.outbox.say(Report::Event(first));
                }
                true
            }
            None => false,
        }
    }

    fn dropped(
        &mut self,
        now: Instant,
        interface: &mut Interface,
        reason: &'static str,
        mac: kedge_net::Mac,
    ) {
        if interface.dropped(now, reason, mac)
            && let Some(malformed) = interface.malformed
        {
            let interface = interface.name.clone();
            self.outbox.say(Report::Malformed {
                interface,
                malformed,
            });
        }
    }

    fn each(&mut self, mut act: impl FnMut(&mut Instance)) {
        for instance in self.instances.iter_mut() {
            if instance.ifindex() == Some(self.ifindex) {
                act(instance);
            }
        }
    }
}

fn taken_over(instance: &Instance, takeover: Takeover) -> VipEvent {
    VipEvent::TakenOver {
        name: instance.spec.name.clone(),
        takeover,
        at: SystemTime::now(),
        boottime: clock::now(),
    }
}

pub(super) fn place(chosen: &Chosen, address: std::net::IpAddr) -> kedge_net::address::Place {
    (chosen.device(address), IpNet::from(address))
}

fn release(
    owned: &mut kedge_net::address::Owned,
    outbox: &mut Outbox,
    place: kedge_net::address::Place,
) {
    if let Err(error) = owned.release(place) {
        outbox.say(Report::Trouble(kedge_core::Coded::problem(&error)));
    }
}

fn errno(error: &AddressError) -> i32 {
    let source = std::error::Error::source(error);
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    // A foreign address of the same name is the one refusal without a kernel's number.
    io.and_then(std::io::Error::raw_os_error).unwrap_or(EEXIST)
}

const EEXIST: i32 = 17;
/// Packets taken from one socket before deadlines are looked at again.
const AT_MOST: usize = 256;
