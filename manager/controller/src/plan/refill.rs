//! A blank endpoint that was filled and is blank again: somebody re-applies an empty host by
//! force. The same value is filled again, after growing pauses.

use std::time::Duration;

use jiff::Timestamp;
use kedge_crd::{Status, balancer::Refill, condition::find};
use serde_json::Value;

use super::{because::Because, wake::Wake};
use crate::{
    managers,
    snapshot::{Infra, Snapshot},
    store::Name,
};

/// What to do about a fill that may have been undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fill {
    /// It stands, or was never made.
    Stands,
    /// It was undone, and is made again.
    Again(Because),
    /// It was undone, and is made again later.
    Later(Because),
}

/// Decides whether a fill is made again, and keeps count in `refill`.
pub fn check(
    snapshot: &Snapshot,
    balancer: &Name,
    infra: &Infra,
    refill: &mut Option<Refill>,
    wake: &mut Wake,
) -> Fill {
    let last = snapshot.balancers.get(balancer);
    *refill = last.and_then(|layers| layers.status.refill.clone());
    let now: Option<Timestamp> = snapshot.now.parse().ok();
    let since = refill.as_ref().and_then(|last| last.at.parse().ok());
    let Some(now) = now else { return Fill::Stands };
    if let Some(quiet) = since.and_then(|at| wake.until(now, at, QUIET)) {
        wake.at(quiet);
    } else {
        *refill = None;
    }
    if stands(snapshot, infra) {
        let by = refill.as_ref().map(|last| last.by.clone());
        return by.map_or(Fill::Stands, |by| Fill::Again(Because::Blanked { by }));
    }
    let said = last.and_then(|layers| find(&layers.status.conditions, "EndpointPublished"));
    let was_made = said.is_some_and(|said| said.status == Status::True || said.reason == UNDONE);
    if refill.is_none() && !was_made {
        // It was decided, and met a refusal before it was ever made.
        return Fill::Stands;
    }
    let by = blanked_by(snapshot, infra);
    let because = Because::Blanked { by: by.clone() };
    let count = refill.as_ref().map_or(0, |last| last.count);
    if let Some(due) = since.and_then(|at| wake.until(now, at, pause(count))) {
        wake.at(due);
        return Fill::Later(because);
    }
    if snapshot.refused.contains_key(&infra.key) {
        // This time is not made yet: it met a conflict, and counts when it is tried again.
        return Fill::Again(because);
    }
    *refill = Some(Refill {
        count: count.saturating_add(1),
        at: snapshot.now.clone(),
        by,
    });
    Fill::Again(because)
}

/// Whether our value is there.
fn stands(snapshot: &Snapshot, infra: &Infra) -> bool {
    let fill = snapshot.objects.owned(&infra.key, managers::ENDPOINT);
    let host = fill.and_then(|fill| fill.pointer("/spec/controlPlaneEndpoint/host"));
    host.and_then(Value::as_str)
        .is_some_and(|host| !host.is_empty())
}

/// The field managers that wrote the empty host, as the API server tells.
fn blanked_by(snapshot: &Snapshot, infra: &Infra) -> String {
    let layers = snapshot.objects.get(&infra.key);
    let server = layers.and_then(|layers| layers.server.as_ref());
    let mut names: Vec<&str> = server
        .map(|server| server.endpoint_owners.as_slice())
        .unwrap_or_default()
        .iter()
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ").escape_debug().take(100).collect()
}

/// The pause after that many fills: none before the first, then doubling from a second.
fn pause(fills: u32) -> Duration {
    match fills {
        0 => Duration::ZERO,
        fills => Duration::from_secs(1 << (fills - 1).min(16)).min(LONGEST),
    }
}

/// The reason of the condition while a fill that was undone is not made again yet.
const UNDONE: &str = "Conflict";
const LONGEST: Duration = Duration::from_secs(300);
/// What was undone this long ago is forgotten.
const QUIET: Duration = Duration::from_secs(3600);
