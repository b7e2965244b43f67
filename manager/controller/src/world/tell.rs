//! Tells the journal what an operator cares about.

use kedge_control::local::FleetEndpoint;
use kedge_core::{Problem, Severity};
use tracing::{info, warn};

use super::Part;
use crate::plan::{Plan, pending::waits_for};

/// What is new in a namespace. What stood there when the manager first looked is not: it changed
/// long ago.
pub(super) fn tell(before: &Part, after: &Plan) {
    for item in &after.endpoints {
        if !before.is_planned() && waits_for(&after.pending, item).is_none() {
            continue;
        }
        let last = before.endpoint(item);
        let from = last
            .and_then(|last| last.endpoint.as_deref())
            .unwrap_or("none");
        let to = item.endpoint.as_deref().unwrap_or("none");
        let cluster = format!("{}/{}", item.namespace, item.cluster);
        if from != to {
            info!(
                cluster,
                from,
                to,
                mode = item.mode,
                because = item.because,
                "an endpoint changed"
            );
        } else if last.is_none_or(|last| last.because != item.because) {
            info!(
                cluster,
                endpoint = to,
                because = item.because,
                "an endpoint was looked at"
            );
        }
        let owner = last.map(|last| last.owner.as_str()).unwrap_or_default();
        if owner != item.owner {
            info!(
                cluster,
                from = owner,
                to = item.owner,
                "who serves an endpoint changed"
            );
        }
    }
    let known: Vec<&Problem> = problems(before.problems(), before.endpoints()).collect();
    for problem in problems(&after.problems, &after.endpoints) {
        if !known.contains(&problem) && problem.severity == Severity::Error {
            warn!(KEDGE_CODE = %problem.code, object = problem.object, %problem, "a problem appeared");
        }
    }
}

fn problems<'a>(
    problems: &'a [Problem],
    endpoints: &'a [FleetEndpoint],
) -> impl Iterator<Item = &'a Problem> {
    problems
        .iter()
        .chain(endpoints.iter().flat_map(|item| &item.problems))
}
