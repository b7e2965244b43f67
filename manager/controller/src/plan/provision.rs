//! What the external manager of an infrastructure cluster owes: the provisioned flag and the
//! condition `Ready`, in the version of the contract its kind speaks.

use serde_json::{Value, json};

use super::{
    Because, Case, Decided, EndpointPlan,
    desired::Desired,
    gate::{MANAGED_BY_KEDGE, managed_by},
};
use crate::{
    snapshot::{Contract, Infra, Snapshot},
    store::Layer,
};

/// Wants the status of every infrastructure cluster that Kedge manages: provisioned once its
/// endpoint is set, and until then what is waited for. Cluster API mirrors it to the Cluster, and
/// `clusterctl describe cluster` shows it.
pub fn statuses(snapshot: &Snapshot, cases: &[Case], decided: &[Decided], wanted: &mut Desired) {
    for (case, decided) in cases.iter().zip(decided) {
        let Some(infra) = &case.infra else { continue };
        let is_ours = case.asked.is_ok() && managed_by(infra) == Some(MANAGED_BY_KEDGE);
        let contract = contract(snapshot, infra).filter(|_| is_ours);
        let last = snapshot.objects.content(&infra.key, &Layer::Status);
        let status = match &decided.plan {
            EndpointPlan::Set { .. } | EndpointPlan::Keep { .. } | EndpointPlan::User { .. } => {
                contract.map(|contract| provisioned(contract, since(snapshot, last, true)))
            }
            EndpointPlan::Wait { because } | EndpointPlan::Conflict { because }
                if !is_provisioned(last) && because.reason() != WAITING_FOR_OWNER =>
            {
                contract.map(|contract| waiting(contract, because, since(snapshot, last, false)))
            }
            _ => None,
        };
        match status {
            Some(status) => wanted.status_of(&infra.key, &infra.api_version, status),
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

fn provisioned(contract: Contract, since: String) -> Value {
    match contract {
        Contract::V1Beta1 => json!({"ready": true, "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": since}]}),
        Contract::V1Beta2 => json!({"initialization": {"provisioned": true}, "conditions": [
            {"type": "Ready", "status": "True", "reason": "EndpointSet",
             "message": "", "lastTransitionTime": since}]}),
    }
}

fn waiting(contract: Contract, because: &Because, since: String) -> Value {
    let reason = because.reason();
    let message = match because.code() {
        Some(code) => format!("{because} ({code})"),
        None => because.to_string(),
    };
    match contract {
        Contract::V1Beta1 => json!({"ready": false, "conditions": [
            {"type": "Ready", "status": "False", "severity": "Info", "reason": reason,
             "message": message, "lastTransitionTime": since}]}),
        Contract::V1Beta2 => json!({"conditions": [
            {"type": "Ready", "status": "False", "reason": reason,
             "message": message, "lastTransitionTime": since}]}),
    }
}

fn is_provisioned(status: Option<&Value>) -> bool {
    let says = |pointer: &str| {
        let said = status.and_then(|status| status.pointer(pointer));
        said == Some(&Value::Bool(true))
    };
    says("/status/ready") || says("/status/initialization/provisioned")
}

/// Since when its condition says so.
fn since(snapshot: &Snapshot, last: Option<&Value>, is_ready: bool) -> String {
    let condition = last.and_then(|last| last.pointer("/status/conditions/0"));
    let same = condition.filter(|it| (it.get("status").is_some_and(|it| it == "True")) == is_ready);
    let since = same.and_then(|it| it.get("lastTransitionTime")?.as_str());
    since.map_or_else(|| snapshot.now.clone(), str::to_owned)
}

/// The contract writes no status before the Cluster owns it.
const WAITING_FOR_OWNER: &str = "WaitingForOwner";
