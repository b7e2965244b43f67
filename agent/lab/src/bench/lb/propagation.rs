//! How long a change takes until an Envoy uses it: one resource told, a whole plan told, and everything told
//! again. Envoys take turns, each with a client that connects in a loop.

use std::{sync::Arc, thread, time::Duration};

use kedge_control::frontend::{Health, Offer};
use kedge_gateway_xds::{Here, Kind, Life, Resource, render};

use super::{
    super::Samples,
    Sizes,
    ends::ask,
    envoy::Variant,
    place::{MOMENT, Place, apart},
    services::{End, PROBED, at, here, offer, probed_host},
};
use crate::{error::LabError, lab::Lab, stage::Stage};

/// What was measured, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Propagation {
    /// A back end of one service comes and another goes: among all services, told whole, with one service.
    pub(super) change: [Samples; 3],
    /// The same as another plan of all services, rendered and told.
    pub(super) plan: Samples,
    /// A service more: told alone, told whole.
    pub(super) add: [Samples; 2],
    /// The same as another plan.
    pub(super) add_plan: Samples,
    /// How many of the connections right after a back end was removed went there, of each round.
    pub(super) picks: Samples,
}

/// Measures on a lab of its own; and what could not be removed.
pub(super) fn measure(
    kedge: &std::path::Path,
    envoy: &std::path::Path,
    sizes: &Sizes,
    stage: &Stage,
) -> Result<(Propagation, Vec<String>), LabError> {
    super::on_a_lab(("propagation", apart(&NODES)), kedge, sizes, |lab| {
        rounds(lab, envoy, sizes, stage)
    })
}

fn rounds(
    lab: &mut Lab,
    envoy: &std::path::Path,
    sizes: &Sizes,
    stage: &Stage,
) -> Result<Propagation, LabError> {
    let variants = [Variant::Delta, Variant::Whole, Variant::Delta];
    let many = [sizes.services, sizes.services, 1];
    let mut places = Vec::new();
    for ((node, variant), many) in NODES.into_iter().zip(variants).zip(many) {
        let mut place = Place::start(lab, node, envoy, variant, 1)?;
        place.serve(lab, many, None, stage)?;
        stage.good(&format!("{many} services at the Envoy on {node}"));
        places.push(place);
    }
    let mut measured = Propagation::default();
    for round in 0..sizes.rounds {
        for turn in 0..places.len() {
            let at = (turn + round as usize) % places.len();
            let (Some(place), Some(samples)) = (places.get_mut(at), measured.change.get_mut(at))
            else {
                continue;
            };
            samples.push(change(place, lab)? * 1e3);
            place.settle(lab, stage)?;
            thread::sleep(PAUSE);
        }
    }
    let [ours, whole, one] = measured.change.each_ref().map(Samples::p50);
    stage.tell(&format!(
        "a back end changed: used after {ours:.2} ms, {whole:.1} ms told whole, {one:.2} ms with one service"
    ));
    for round in 0..sizes.adds {
        let number = sizes.services + round;
        for (place, samples) in places.iter().zip(&mut measured.add) {
            samples.push(add(place, lab, number)? * 1e3);
            place.settle(lab, stage)?;
            thread::sleep(PAUSE);
        }
    }
    let [ours, whole] = measured.add.each_ref().map(Samples::p50);
    stage.tell(&format!(
        "a service more: answers after {ours:.1} ms, {whole:.1} ms told whole"
    ));
    let Some(place) = places.first_mut() else {
        return Ok(measured);
    };
    for _ in 0..sizes.removals {
        let went = removed(place, lab, sizes, stage)?;
        measured.picks.push(went);
    }
    stage.tell(&format!(
        "{} connections after a removal, {} times: {} went there at most",
        sizes.picks,
        sizes.removals,
        measured.picks.max()
    ));
    plans(place, lab, sizes, &mut measured, stage)?;
    stage.tell(&format!(
        "another plan of all: used after {:.1} ms, with a service more after {:.1} ms",
        measured.plan.p50(),
        measured.add_plan.p50()
    ));
    Ok(measured)
}

/// One back end of the probed service dies, and the other one lives.
fn change(place: &mut Place, lab: &Lab) -> Result<f64, LabError> {
    let next = place.alive.other();
    let (members, here) = (Arc::clone(&place.members), here(next));
    let took = place.time(
        lab,
        "another back end is used",
        move |server| server.change(members.of_host(&here, &probed_host(next))),
        move || ask(at(PROBED), MOMENT).is_ok_and(|byte| byte == next.byte()),
    )?;
    place.alive = next;
    Ok(took)
}

/// A service more is told alone.
fn add(place: &Place, lab: &Lab, number: u16) -> Result<f64, LabError> {
    let one = offer(number..number + 1, None);
    let alive = place.alive;
    place.time(
        lab,
        "another service answers",
        move |server| server.change(render(&one, &here(alive)).resources),
        move || is_answered(number),
    )
}

fn is_answered(number: u16) -> bool {
    let answered = ask(at(number), MOMENT).is_ok();
    if !answered {
        // Who listens needs the processor as well.
        thread::sleep(REFUSED);
    }
    answered
}

/// Plans of all services, of which each differs in one from the one before: what a gateway makes of them.
fn plans(
    place: &mut Place,
    lab: &mut Lab,
    sizes: &Sizes,
    measured: &mut Propagation,
    stage: &Stage,
) -> Result<(), LabError> {
    let both = both();
    let all = offer(0..sizes.services, None);
    let with = |end: End| {
        let mut offer = all.clone();
        let pool = offer.pools.get_mut(usize::from(PROBED));
        let members = pool.into_iter().map(|pool| &mut pool.members);
        members.for_each(|members| members.retain(|member| member.host == probed_host(end)));
        offer
    };
    let mut now = End::A;
    place.declare(&with(now), &both)?;
    place.settle(lab, stage)?;
    for _ in 0..sizes.plans {
        now = now.other();
        let (offer, here, byte) = (with(now), both.clone(), now.byte());
        let took = place.time(
            lab,
            "another plan is used",
            move |server| server.declare(render(&offer, &here).resources),
            move || ask(at(PROBED), MOMENT).is_ok_and(|heard| heard == byte),
        )?;
        measured.plan.push(took * 1e3);
        place.settle(lab, stage)?;
    }
    for round in 0..sizes.adds {
        let number = sizes.services + round;
        let (mut offer, here) = (with(now), both.clone());
        let more = self::offer(sizes.services..number + 1, None);
        extend(&mut offer, more);
        let took = place.time(
            lab,
            "a service of another plan answers",
            move |server| server.declare(render(&offer, &here).resources),
            move || is_answered(number),
        )?;
        measured.add_plan.push(took * 1e3);
        place.settle(lab, stage)?;
    }
    Ok(())
}

fn extend(offer: &mut Offer, more: Offer) {
    offer.frontends.extend(more.frontends);
    offer.pools.extend(more.pools);
}

/// Every host is alive.
fn both() -> Here {
    let mut both = here(End::A);
    both.lives.values_mut().for_each(|life| *life = Life::Alive);
    both
}

/// Removes a back end that its checks call healthy, and says how many connections went there once Envoy had
/// said that it has taken the removal.
fn removed(
    place: &mut Place,
    lab: &mut Lab,
    sizes: &Sizes,
    stage: &Stage,
) -> Result<f64, LabError> {
    let number = sizes.services + sizes.adds;
    let mut offer = offer(number..number + 1, Some(CHECKED));
    let told = |offer: &Offer| render(offer, &both()).resources;
    place.server.change(told(&offer));
    place.settle(lab, stage)?;
    let picks = |lab: &Lab, wanted: u32| -> Result<_, LabError> {
        let ask = move || (0..wanted).map(|_| ask(at(number), MOMENT)).collect();
        let picks: std::io::Result<Vec<u8>> = lab.worker(place.node)?.run(ask)?;
        picks.map_err(LabError::file("a connection to a service"))
    };
    stage.eventually("both back ends answer", MOMENT * 5, || {
        let picks = picks(lab, 4).map_err(|error| kedge_core::with_causes(&error))?;
        let is_both = End::BOTH.iter().all(|end| picks.contains(&end.byte()));
        is_both.then_some(()).ok_or_else(|| format!("{picks:?}"))
    })?;
    for pool in &mut offer.pools {
        pool.members.truncate(1);
    }
    let members = told(&offer).into_iter();
    let members: Vec<Resource> = members.filter(|one| one.kind == Kind::Endpoint).collect();
    place.server.change(members);
    place.settle(lab, stage)?;
    let picks = picks(lab, sizes.picks)?;
    let gone = picks.iter().filter(|byte| **byte == End::B.byte());
    Ok(f64::from(u32::try_from(gone.count()).unwrap_or(u32::MAX)))
}

/// The Envoys: told as the gateway tells them, told whole, and with one service.
const NODES: [&str; 3] = ["delta", "whole", "one"];
/// Until what a change left to do is done.
const PAUSE: Duration = Duration::from_millis(20);
const REFUSED: Duration = Duration::from_micros(200);
const CHECKED: Health = Health {
    interval_seconds: 1.0,
    timeout_seconds: 0.5,
    fall: 2,
    rise: 2,
};
