//! An endpoint that the API server does not let us write, and that is left alone for a moment.

use kedge_core::Problem;
use kedge_crd::{Condition, Endpoint, capi};

use crate::{
    managers,
    plan::{Because, EndpointPlan, Service, follow::is_to_move, report::clean},
    snapshot::Snapshot,
    store::ObjectKey,
};

/// The condition in the place of the one that says the endpoint is published. Where a right is
/// missing it names the rule that gives it, otherwise it quotes the server.
pub fn condition(snapshot: &Snapshot, service: &Service) -> Option<Condition> {
    let (EndpointPlan::Set { endpoint, because } | EndpointPlan::Keep { endpoint, because }) =
        &service.decided.plan
    else {
        return None;
    };
    let problem = infra(snapshot, service, endpoint).or_else(|| moved(snapshot, service, endpoint));
    let problem = problem?;
    let (reason, why) = match (&problem.fix, because) {
        (Some(rule), _) => ("Forbidden", rule.text.clone()),
        (None, Because::Blanked { .. }) => ("Conflict", because.to_string()),
        (None, _) => {
            let said = problem.evidence.first();
            let said = said.map_or_else(String::new, |said| format!("{}; ", clean(said)));
            ("WriteRefused", format!("{said}it is tried again"))
        }
    };
    let text = format!("{}: {why} ({})", problem.what, problem.code);
    Some(Condition::new("EndpointPublished", false, reason, text))
}

/// Why the infrastructure cluster does not have it, if so.
fn infra<'a>(snapshot: &'a Snapshot, service: &Service, set: &Endpoint) -> Option<&'a Problem> {
    let cluster = snapshot.clusters.get(&service.cluster);
    let key = snapshot.infra(cluster?)?.key;
    let problem = snapshot.refused.get(&key)?;
    let fill = snapshot.objects.owned(&key, managers::ENDPOINT);
    let fill = fill.and_then(|fill| fill.pointer("/spec/controlPlaneEndpoint"));
    let filled: Option<Endpoint> = fill.and_then(|it| serde_json::from_value(it.clone()).ok());
    // What is refused then is something else.
    (filled.as_ref() != Some(set)).then_some(problem)
}

/// Why the Cluster itself does not follow, if so.
fn moved<'a>(snapshot: &'a Snapshot, service: &Service, set: &Endpoint) -> Option<&'a Problem> {
    let key = ObjectKey::new(capi::GROUP, "Cluster", service.cluster.clone());
    let problem = snapshot.refused.get(&key)?;
    is_to_move(snapshot, &service.cluster, &service.balancer, set).then_some(problem)
}
