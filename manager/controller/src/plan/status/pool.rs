//! The status of a VIPPool.

use kedge_crd::{
    Condition, VipPool, VipPoolSpec, VipPoolStatus, condition::merge, pool::AddressCounts,
};

use super::{Desired, Ledger, last_conditions, put};
use crate::{ipam::Pool, plan::given::is_at_rest, snapshot::Snapshot, store::Name};

/// Wants the status of every pool.
pub fn write(snapshot: &Snapshot, ledger: &Ledger, wanted: &mut Desired) {
    for (name, object) in &snapshot.pools {
        // What goes now is told nothing any more.
        let leaves = object.metadata.deletion_timestamp.is_some();
        if leaves && ledger.taken_from(name).next().is_none() {
            continue;
        }
        let (counts, mut conditions) = match ledger.pool(name) {
            Some(Ok(pool)) => found(ledger, name, object, pool),
            Some(Err(error)) => {
                let ready = Condition::new("Ready", false, "Invalid", error.as_str());
                (AddressCounts::default(), vec![ready])
            }
            None => continue,
        };
        let rests = is_at_rest(object);
        let reason = if rests { "Paused" } else { "NotPaused" };
        conditions.push(Condition::new("Paused", rests, reason, ""));
        let last = last_conditions::<VipPoolSpec>(snapshot, name);
        let status = VipPoolStatus {
            ip_addresses: counts,
            conditions: merge(&last, conditions, &snapshot.now),
        };
        put::<VipPoolSpec>(snapshot, wanted, name, &status);
    }
}

fn found(
    ledger: &Ledger,
    name: &Name,
    object: &VipPool,
    pool: &Pool,
) -> (AddressCounts, Vec<Condition>) {
    let (total, used) = (pool.total(), ledger.used(name, pool));
    let outside: Vec<String> = ledger
        .taken_from(name)
        .filter(|address| !pool.contains(*address))
        .map(|address| address.to_string())
        .collect();
    let counts = AddressCounts {
        total,
        free: total.saturating_sub(used),
        used,
        out_of_range: outside.len() as u64,
    };
    let ready = match object.metadata.deletion_timestamp {
        Some(_) => {
            let text = "it is being deleted, and goes with the last address that is in use";
            Condition::new("Ready", false, "DeletionBlocked", text)
        }
        None => Condition::new("Ready", true, "Ready", "the pool gives addresses away"),
    };
    let full = used >= total;
    let exhausted = if full { "NoneFree" } else { "SomeFree" };
    let text = match full {
        true => format!("none of its {total} addresses is free"),
        false => String::new(),
    };
    let mut conditions = vec![ready, Condition::new("Exhausted", full, exhausted, text)];
    conditions.push(match outside.as_slice() {
        [] => Condition::new("AddressesInRange", true, "InRange", ""),
        [first, ..] => {
            let text = format!(
                "{first} is in use and the pool does not hold it any more, the first of those \
                 counted in ipAddresses.outOfRange; whoever has one keeps it, and nobody else gets \
                 it while this pool names it: put them back, or delete their claims first"
            );
            Condition::new("AddressesInRange", false, "ShrunkBelowUse", text)
        }
    });
    (counts, conditions)
}
