//! What the external manager of an infrastructure cluster owes: the provisioned flag and the
//! condition `Ready`, in the version of the contract its kind speaks.

use serde_json::{Value, json};

use super::{
    Case, Decided, EndpointPlan,
    desired::Desired,
    gate::{MANAGED_BY_KEDGE, managed_by},
};
use crate::{
    snapshot::{Contract, Infra, Snapshot},
    store::Layer,
};

/// Wants the status of every infrastructure cluster that Kedge manages and whose endpoint is set.
pub fn statuses(snapshot: &Snapshot, cases: &[Case], decided: &[Decided], wanted: &mut Desired) {
    for (case, decided) in cases.iter().zip(decided) {
        let Some(infra) = &case.infra else { continue };
        let set = matches!(
            decided.plan,
            EndpointPlan::Set { .. } | EndpointPlan::Keep { .. } | EndpointPlan::User { .. }
        );
        let served = case.asked.is_ok() && managed_by(infra) == Some(MANAGED_BY_KEDGE);
        match contract(snapshot, infra).filter(|_| served && set) {
            Some(contract) => {
                let status = status(snapshot, infra, contract);
                wanted.status_of(&infra.key, &infra.api_version, status);
            }
            // Once provisioned is provisioned: nothing is taken back.
            None => wanted.retain(&snapshot.objects, &infra.key, &Layer::Status),
        }
    }
}

/// The contract of an infrastructure cluster's kind.
pub fn contract(snapshot: &Snapshot, infra: &Infra) -> Option<Contract> {
    let (group, kind) = (&infra.key.group, &infra.key.kind);
    snapshot
        .environment
        .contract(group, kind, &infra.api_version)
}

fn status(snapshot: &Snapshot, infra: &Infra, contract: Contract) -> Value {
    let since = last_transition(snapshot, infra).unwrap_or_else(|| snapshot.now.clone());
    match contract {
        Contract::V1Beta1 => json!({"ready": true, "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": since}]}),
        Contract::V1Beta2 => json!({"initialization": {"provisioned": true}, "conditions": [
            {"type": "Ready", "status": "True", "reason": "EndpointSet",
             "message": "", "lastTransitionTime": since}]}),
    }
}

fn last_transition(snapshot: &Snapshot, infra: &Infra) -> Option<String> {
    let last = snapshot.objects.content(&infra.key, &Layer::Status)?;
    let since = last.pointer("/status/conditions/0/lastTransitionTime")?;
    since.as_str().map(str::to_owned)
}
