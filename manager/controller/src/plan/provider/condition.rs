//! What a claim is told, in the form of the version it is served in.

use std::{fmt, net::IpAddr};

use kedge_crd::{Condition, Status, condition::merge};
use serde_json::{Value, json};

use crate::{
    plan::{
        given::{Claim, claim_key},
        holder::Holder,
    },
    snapshot::{Contract, Snapshot},
    store::Layers,
};

/// What became of a claim.
#[derive(Clone, Copy, Debug)]
pub enum Verdict<'a> {
    /// It has an address.
    Served,
    /// There is no such pool.
    NoPool,
    /// The pool cannot be read.
    BadPool(&'a str),
    /// The pool is being deleted.
    PoolLeaves,
    /// The LoadBalancer it belongs to takes its address elsewhere.
    Unasked,
    /// Every one of so many addresses is given away.
    Exhausted(u64),
    /// Another object has the name of its address.
    NameTaken,
    /// Its address is another's as well.
    Doubled {
        /// The address.
        address: IpAddr,
        /// The other.
        holder: Option<&'a Holder>,
    },
}

impl Verdict<'_> {
    const fn reason(&self) -> &'static str {
        match self {
            Self::Served => "Ready",
            Self::NoPool | Self::BadPool(_) | Self::PoolLeaves => "PoolNotReady",
            Self::Exhausted(_) => "PoolExhausted",
            Self::Unasked | Self::NameTaken | Self::Doubled { .. } => "AllocationFailed",
        }
    }

    /// How bad it is, for v1beta1.
    const fn severity(&self) -> &'static str {
        match self {
            Self::NameTaken | Self::Doubled { .. } => "Error",
            _ => "Warning",
        }
    }

    const fn is_served(&self) -> bool {
        matches!(self, Self::Served)
    }
}

impl fmt::Display for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Served => Ok(()),
            Self::NoPool => f.write_str("there is no VIPPool of that name"),
            Self::BadPool(error) => write!(f, "the VIPPool is not usable: {error}"),
            Self::PoolLeaves => f.write_str("the VIPPool is being deleted"),
            Self::Unasked => f.write_str("the LoadBalancer asks for no address of the VIPPool"),
            Self::Exhausted(total) => write!(f, "the VIPPool has 0 of {total} addresses free"),
            Self::NameTaken => {
                f.write_str("another IPAddress has the name of the claim; delete one of the two")
            }
            Self::Doubled { address, holder } => {
                write!(f, "{address} is given to ")?;
                match holder {
                    Some(holder) => write!(f, "{holder}")?,
                    None => f.write_str("another")?,
                }
                f.write_str(" as well; delete this claim and make it again")
            }
        }
    }
}

/// The status of a claim: the name of its address, and Ready in both forms of Cluster API, each
/// where that version has it.
pub fn status(
    snapshot: &Snapshot,
    claim: &Claim,
    address: Option<&str>,
    verdict: &Verdict<'_>,
) -> Value {
    let layers = snapshot.objects.get(&claim_key(&claim.name));
    let contract = snapshot.environment.ipam().unwrap_or(Contract::V1Beta2);
    let (new_path, old_path) = match contract {
        Contract::V1Beta1 => ("/status/v1beta2/conditions", "/status/conditions"),
        Contract::V1Beta2 => (
            "/status/conditions",
            "/status/deprecated/v1beta1/conditions",
        ),
    };
    let mut ready = Condition::new(
        "Ready",
        verdict.is_served(),
        verdict.reason(),
        verdict.to_string(),
    );
    ready.observed_generation = layers.and_then(|layers| layers.server.as_ref()?.generation);
    let last = last(layers, new_path).or_else(|| last(layers, old_path));
    let conditions = merge(&last.unwrap_or_default(), vec![ready], &snapshot.now);
    let old: Vec<Value> = conditions
        .iter()
        .map(|condition| old_form(condition, verdict))
        .collect();
    let mut status = match contract {
        Contract::V1Beta1 => json!({"conditions": old, "v1beta2": {"conditions": conditions}}),
        Contract::V1Beta2 => {
            json!({"conditions": conditions, "deprecated": {"v1beta1": {"conditions": old}}})
        }
    };
    if let (Some(address), Some(status)) = (address, status.as_object_mut()) {
        status.insert("addressRef".to_owned(), json!({ "name": address }));
    }
    status
}

/// The condition as it was last told.
fn last(layers: Option<&Layers>, path: &str) -> Option<Vec<Condition>> {
    let conditions = layers?.status.as_ref()?.pointer(path)?;
    serde_json::from_value(conditions.clone()).ok()
}

fn old_form(condition: &Condition, verdict: &Verdict<'_>) -> Value {
    let mut old = json!({
        "type": condition.kind,
        "status": condition.status.as_str(),
        "lastTransitionTime": condition.last_transition_time,
    });
    if let (false, Some(old)) = (condition.status == Status::True, old.as_object_mut()) {
        old.insert("severity".to_owned(), json!(verdict.severity()));
        old.insert("reason".to_owned(), json!(condition.reason));
        old.insert("message".to_owned(), json!(condition.message));
    }
    old
}
