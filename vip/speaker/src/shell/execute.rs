//! Packets in, outputs out.

use std::time::SystemTime;

use ipnet::IpNet;
use kedge_core::{Instant, Machine};
use kedge_net::{address::AddressError, clock, udp::Family};
use kedge_vip_proto::{
    vrrp::{AddressRefused, Event, Input, Output, Ticket, Transmit},
    wire::{Neighbor, vrrp::Heard},
};

use super::{Shell, instance::Instance, interface::Interface, problems};
use crate::{
    Transition, VipEvent,
    reporter::{Closing, Outbox, Report},
};

impl Shell {
    /// Hands one input to a router and does what it wants.
    pub(super) fn give(&mut self, now: Instant, index: usize, input: Input) {
        if let Some(instance) = self.instances.get_mut(index) {
            instance.give(now, input);
            self.news = Some(true);
            self.settle(now);
        }
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
            if on_it.take(now, interface) {
                self.news.get_or_insert(false);
            }
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
        }
    }

    fn execute(&mut self, now: Instant, index: usize, output: Output) {
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
                    self.broadcast(index, packet, "announcements_sent");
                }
            }
            Output::ProbeAddress(packet) => self.broadcast(index, packet, "probes_sent"),
            Output::ProbeHealth => {
                if let Some(instance) = self.instances.get(index) {
                    let name = instance.spec.name.clone();
                    self.outbox.say(Report::Event(VipEvent::ProbeNow(name)));
                }
            }
            Output::Event(event) => self.note(now, index, event),
        }
    }

    fn send(&mut self, index: usize, transmit: &Transmit) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        let interface = instance
            .ifindex()
            .and_then(|ifindex| self.interfaces.get(&ifindex));
        let Some(interface) = interface else { return };
        if let Err(error) = interface.send(transmit, instance.seal.as_mut()) {
            instance.counters.count("send_errors");
            instance.send_error = Some((clock::now(), error.raw_os_error().unwrap_or_default()));
        }
    }

    fn broadcast(&mut self, index: usize, packet: Neighbor, counter: &'static str) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        let interface = instance
            .ifindex()
            .and_then(|ifindex| self.interfaces.get(&ifindex));
        let Some(interface) = interface else { return };
        match interface.broadcast(packet) {
            Ok(()) => instance.counters.count(counter),
            Err(_) => instance.counters.count("arp_send_errors"),
        }
    }

    /// Puts the addresses on the interface and tells the router what the kernel said.
    fn hold(&mut self, index: usize, ticket: Ticket) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        let Some(ifindex) = instance.ifindex() else {
            return;
        };
        let wanted: Vec<_> = instance
            .router
            .config()
            .held()
            .map(|ip| (ip, place(ifindex, ip)))
            .collect();
        let surplus: Vec<_> = instance
            .held
            .iter()
            .copied()
            .filter(|held| !wanted.iter().any(|(_, place)| place == held))
            .collect();
        let mut result = Ok(());
        // The owner's address is the interface's own: it stands there already, and stays.
        if !instance.router.config().owner {
            for (address, place) in wanted {
                if instance.held.contains(&place) {
                    continue;
                }
                if let Err(error) = self.owned.hold(clock::now(), place) {
                    let errno = errno(&error);
                    instance.refusal = Some(kedge_core::Coded::problem(&error));
                    result = Err(AddressRefused { address, errno });
                    break;
                }
                instance.held.push(place);
            }
        }
        if result.is_ok() {
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

    fn let_go(&mut self, index: usize) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        for place in instance.held.drain(..) {
            release(&mut self.owned, &mut self.outbox, place);
        }
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
        self.news = Some(true);
        self.outbox.say(Report::Event(event));
    }
}

/// The routers on one interface.
struct Local<'a> {
    ifindex: u32,
    instances: &'a mut [Instance],
    outbox: &'a mut Outbox,
}

impl Local<'_> {
    fn take(&mut self, now: Instant, interface: &mut Interface) -> bool {
        let mut taken = false;
        if let Some(station) = interface.heard() {
            taken = true;
            self.outbox.say(Report::Close(Closing::Station(station)));
            self.each(|instance| instance.give(now, Input::Heard));
        }
        for family in [Family::V4, Family::V6] {
            for _ in 0..AT_MOST {
                let Some(parsed) = interface.next_advert(family) else {
                    break;
                };
                taken = true;
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
                taken = true;
                match parsed {
                    Ok(packet) => self.neighbor(now, packet),
                    Err((mac, error)) => self.dropped(now, interface, error.label(), mac),
                }
            }
        }
        taken
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
                instance.hear(now, heard);
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

fn place(ifindex: u32, address: std::net::IpAddr) -> kedge_net::address::Place {
    (ifindex, IpNet::from(address))
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
