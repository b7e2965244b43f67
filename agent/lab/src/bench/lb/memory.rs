//! What Envoy takes of memory for each service.

use std::{path::Path, thread, time::Duration};

use kedge_control::frontend::Health;

use super::{
    super::Samples,
    Sizes,
    envoy::Variant,
    place::{Place, apart},
};
use crate::{error::LabError, lab::Lab, stage::Stage};

/// KiB for each service: with one thread, with checks, and with two threads.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) each: [Samples; 3],
}

/// Measures each of them with an Envoy of its own; and what could not be removed.
pub(super) fn measure(
    kedge: &Path,
    envoy: &Path,
    sizes: &Sizes,
    stage: &Stage,
) -> Result<(Memory, Vec<String>), LabError> {
    let mut memory = Memory::default();
    let mut left = Vec::new();
    let variants = [(1, None), (1, Some(CHECKED)), (2, None)];
    for ((threads, health), samples) in variants.into_iter().zip(&mut memory.each) {
        let checks = health.map_or("without checks", |_| "with checks");
        let name = format!("memory, {threads} threads, {checks}");
        let on = (&*name, apart(&[NODE]));
        let (each, remains) = super::on_a_lab(on, kedge, sizes, |lab| {
            slope(lab, envoy, sizes, (threads, health), stage)
        })?;
        left.extend(remains);
        samples.push(each);
        stage.tell(&format!(
            "{each:.1} KiB for each service, {threads} threads, {checks}"
        ));
    }
    Ok((memory, left))
}

fn slope(
    lab: &mut Lab,
    envoy: &Path,
    sizes: &Sizes,
    (threads, health): (u32, Option<Health>),
    stage: &Stage,
) -> Result<f64, LabError> {
    let mut place = Place::start(lab, NODE, envoy, Variant::Delta, threads)?;
    let [few, many] = sizes.memory;
    let mut resident = [0.0; 2];
    for (resident, services) in resident.iter_mut().zip([few, many]) {
        place.serve(lab, services, health, stage)?;
        *resident = at_rest(&place, lab)?;
    }
    let [before, after] = resident;
    Ok((after - before) / f64::from(many.saturating_sub(few).max(1)))
}

/// What is resident once that no longer changes.
fn at_rest(place: &Place, lab: &mut Lab) -> Result<f64, LabError> {
    let mut before = place.envoy.rss(lab)?;
    for _ in 0..LOOKS {
        thread::sleep(SOON);
        let now = place.envoy.rss(lab)?;
        if (now - before).abs() < before / 500.0 {
            return Ok(now);
        }
        before = now;
    }
    Ok(before)
}

const NODE: &str = "memory";
const LOOKS: u32 = 10;
const SOON: Duration = Duration::from_millis(300);
const CHECKED: Health = Health {
    interval_seconds: 5.0,
    timeout_seconds: 1.0,
    fall: 2,
    rise: 2,
};
