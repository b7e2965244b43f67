//! Which interface each VIP is on, again whenever links or addresses change.

use std::net::IpAddr;

use kedge_core::{Code, Coded, Fix, Instant, Problem, vip::RouterState};
use kedge_net::udp::Family;
use kedge_vip_proto::{
    vrrp::{Input, Link, LinkLoss},
    wire::Mac,
};

use super::{RETRY, Shell, instance::Instance, interface::Interface};
use crate::{
    Chosen, VipSpec, WhyNot,
    reporter::{Closing, Report},
    select::{Wanted, select},
};

/// Why a VIP is on no interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unplaced {
    /// Nobody has looked yet.
    Fresh,
    /// None fits.
    Why(WhyNot),
    /// Another VIP uses its VRID there.
    DuplicateVrid(Problem),
    /// Another VIP has its address.
    DuplicateAddress(Problem),
    /// The sockets or the virtual links cannot be opened; tried again.
    Sockets(Problem),
}

impl Shell {
    /// Looks at every VIP anew; what stays where it is notices nothing.
    pub(super) fn place_all(&mut self, now: Instant) {
        self.give_slots();
        // Who leads a group first: its followers do what it does.
        for follows in [false, true] {
            for index in 0..self.instances.len() {
                let follower = self.instances.get(index).is_some_and(|it| it.spec.follows);
                if follower == follows {
                    let place = self.judge(index);
                    let place = self.bridge(now, index, place);
                    self.move_to(now, index, place);
                }
            }
        }
        self.settle_estate(now);
        self.watch_addresses();
        self.remove_unused_links();
        self.raise_again();
        self.fence();
        self.tell_guardian(now);
        self.news = true;
    }

    fn judge(&mut self, index: usize) -> Result<Chosen, Unplaced> {
        let Some((earlier, instance)) = self
            .instances
            .split_at_checked(index)
            .and_then(|(earlier, rest)| Some((earlier, rest.first()?)))
        else {
            return Err(Unplaced::Fresh);
        };
        let spec = &instance.spec;
        let Some(vip) = spec.on_link() else {
            return Err(Unplaced::Fresh);
        };
        let interface = spec.interface.as_deref();
        let wanted = Wanted {
            vip,
            interface,
            source: spec.source,
            owner: spec.owner,
        };
        let chosen = select(self.monitor.links(), wanted).map_err(Unplaced::Why)?;
        let placed_here = |other: &&Instance| other.ifindex() == Some(chosen.ifindex);
        if let Some(other) = earlier
            .iter()
            .filter(placed_here)
            .find(|other| other.spec.vrid == spec.vrid && excludes(&other.spec, spec))
        {
            return Err(Unplaced::DuplicateVrid(duplicate_vrid(
                instance, other, &chosen,
            )));
        }
        if let Some(other) = earlier.iter().find(|other| shares_address(other, instance)) {
            return Err(Unplaced::DuplicateAddress(duplicate_address(
                instance, other,
            )));
        }
        let config = instance.router.config();
        let interface = self
            .interfaces
            .entry(chosen.ifindex)
            .or_insert_with(|| Interface::new(&chosen));
        if let Err(problem) = interface.open(config, &self.waiter) {
            return Err(Unplaced::Sockets(problem));
        }
        match self.doors.of(spec, chosen.ifindex, &self.monitor) {
            Ok(own_links) => Ok(chosen.on(own_links, spec.vrid)),
            Err(error) => Err(Unplaced::Sockets(error.problem())),
        }
    }

    fn move_to(&mut self, now: Instant, index: usize, place: Result<Chosen, Unplaced>) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        if let Err(Unplaced::Sockets(_)) = place {
            self.retry_at = Some(now + RETRY);
        }
        let ifindex = place.as_ref().ok().map(|chosen| chosen.ifindex);
        let fresh = instance.place == Err(Unplaced::Fresh);
        let own_links = place.as_ref().ok().map(|chosen| chosen.own_links);
        let moves = instance.ifindex() != ifindex || Some(instance.own_links()) != own_links;
        if instance.ifindex().is_some() && moves {
            // It lets go of everything on the old interface before it knows the new one.
            self.give(now, index, Input::Link(Link::Down(LinkLoss::Gone)));
        }
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        let link = match &place {
            Ok(chosen) if chosen.running => Link::Up {
                source: chosen.address,
                mac: Mac(chosen.mac),
            },
            Ok(_) => Link::Down(LinkLoss::Carrier),
            Err(Unplaced::Why(WhyNot::InterfaceMissing { .. })) => Link::Down(LinkLoss::Gone),
            Err(Unplaced::Why(_)) => Link::Down(LinkLoss::NoAddress),
            Err(_) => Link::Down(LinkLoss::Unknown),
        };
        let came_up = matches!(link, Link::Up { .. }) && !instance.is_linked();
        instance.place = place;
        instance.link = Some(link);
        if came_up
            && let Ok(chosen) = &instance.place
            && let Some(interface) = self.interfaces.get_mut(&chosen.ifindex)
        {
            interface.listen(now, chosen, &mut self.monitor, &self.waiter);
        }
        self.give(now, index, Input::Link(link));
        if fresh {
            self.start(now, index);
        }
    }

    /// Lets a router take part, once it is known where, and what is tracked for it.
    pub(super) fn start(&mut self, now: Instant, index: usize) {
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        // A router that was told to leave before it began has nothing to begin.
        if instance.next.is_some() || instance.router.state() != RouterState::Initialize {
            return;
        }
        let unknown = instance.spec.tracked && instance.tracks.is_none();
        if instance.place == Err(Unplaced::Fresh) || unknown {
            return;
        }
        let verdict = instance.health.as_ref().map(|(verdict, _)| *verdict);
        if let Some(verdict) = verdict {
            self.give(now, index, Input::Health(verdict));
        }
        let burden = self.burden(index);
        if let Some(instance) = self.instances.get_mut(index) {
            instance.burden = burden.words;
        }
        self.give(now, index, Input::Tracked(burden.tracked));
        self.begin(now, index);
    }

    /// Closes interfaces nobody is on, and tells the others' sockets which addresses count.
    fn watch_addresses(&mut self) {
        let mut unused = Vec::new();
        for (ifindex, interface) in &self.interfaces {
            let here = self
                .instances
                .iter()
                .filter(|one| one.ifindex() == Some(*ifindex));
            let addresses: Vec<IpAddr> = here.flat_map(|one| one.router.config().held()).collect();
            if addresses.is_empty() {
                unused.push(*ifindex);
            } else if let Err(problem) = interface.watch(&addresses) {
                self.outbox.say(Report::Trouble(problem));
            }
        }
        for interface in unused
            .iter()
            .filter_map(|ifindex| self.interfaces.remove(ifindex))
        {
            for socket in interface.sockets() {
                self.waiter.remove(&socket);
            }
            self.outbox
                .say(Report::Close(Closing::Interface(Box::new(interface))));
        }
    }
}

impl Instance {
    /// Where it is and why, or why nowhere, and the interfaces it is not on.
    pub(super) fn describe_place(&self) -> (Option<Chosen>, String, Vec<crate::Rejected>) {
        match &self.place {
            Ok(chosen) => (
                Some(chosen.clone()),
                chosen.because.clone(),
                chosen.rejected.clone(),
            ),
            Err(Unplaced::Why(why)) => (None, why.to_string(), why.rejected().to_vec()),
            Err(
                Unplaced::DuplicateVrid(problem)
                | Unplaced::DuplicateAddress(problem)
                | Unplaced::Sockets(problem),
            ) => (None, problem.what.clone(), Vec::new()),
            Err(Unplaced::Fresh) => (None, "not looked for yet".to_owned(), Vec::new()),
        }
    }
}

fn shares_address(one: &Instance, other: &Instance) -> bool {
    let mut held = one.router.config().held();
    one.ifindex().is_some() && held.any(|address| other.router.config().holds(address))
}

/// Whether two VIPs cannot both have one VRID: adverts of one family, or one hardware address.
fn excludes(one: &VipSpec, other: &VipSpec) -> bool {
    let both = |family| one.has_virtual(family) && other.has_virtual(family);
    one.is_ipv6() == other.is_ipv6() || both(Family::V4) || both(Family::V6)
}

fn duplicate_vrid(this: &Instance, other: &Instance, chosen: &Chosen) -> Problem {
    let vrid = this.spec.vrid;
    Problem::new(
        Code::ConfigDuplicateVrid,
        format!(
            "the VIPs {} and {} both use VRID {vrid} on {}",
            other.spec.name, this.spec.name, chosen.name
        ),
    )
    .object(format!("vips/{}", this.spec.name))
    .consequence(format!(
        "{} is served, {} is not",
        other.spec.name, this.spec.name
    ))
    .fix(Fix::text("give one of them another `vrid`").command("kedge config check"))
}

fn duplicate_address(this: &Instance, other: &Instance) -> Problem {
    let mut held = this.router.config().held();
    let shared = held
        .find(|address| other.router.config().holds(*address))
        .map_or_else(String::new, |address| address.to_string());
    Problem::new(
        Code::ConfigRule,
        format!(
            "the VIPs {} and {} both have the address {shared}",
            other.spec.name, this.spec.name
        ),
    )
    .object(format!("vips/{}", this.spec.name))
    .consequence(format!(
        "{} is served, {} is not",
        other.spec.name, this.spec.name
    ))
    .fix(Fix::text("remove the address from one of them").command("kedge config check"))
}
