//! What a cluster refuses or does not answer, for people.

use kedge_core::{Code, Fix, Problem};

use crate::store::ObjectKey;

/// A cluster that does not answer.
pub(super) fn unanswered(name: &str) -> Problem {
    Problem::new(
        Code::SysUnexpected,
        format!("{name} cannot be used as a store"),
    )
    .consequence("the manager does not start")
    .fix(Fix::text(
        "see that the address and the credentials are right, and that Kedge's kinds are installed",
    ))
}

/// A cluster that was let go.
pub(super) fn leaving(name: &str) -> Problem {
    Problem::new(
        Code::HostStateNotPersisted,
        format!("nothing is written to {name} any more: the manager is leaving"),
    )
}

/// A cluster whose last leader wrote what was not seen yet.
pub(super) fn behind(name: &str) -> Problem {
    let what = format!("nothing is written to {name} for a moment");
    Problem::new(Code::HostStateNotPersisted, what)
        .evidence("what the last leader wrote has not been seen yet")
}

/// An object that was not written.
pub(super) fn not_written(key: &ObjectKey) -> Problem {
    let what = format!("{key} cannot be written");
    Problem::new(Code::HostStateNotPersisted, what)
        .object(key.to_string())
        .consequence("nothing that depends on it is handed out; it is tried again")
}

/// What the API server refused; for a missing permission the rule that is missing.
pub(super) fn refused(key: &ObjectKey, verb: &str, error: &kube::Error) -> Problem {
    let problem = not_written(key).caused_by(error);
    let kube::Error::Api(status) = error else {
        return problem;
    };
    if status.code != 403 {
        return problem;
    }
    let resource = status.details.as_ref().map(|details| details.kind.as_str());
    let resource = resource.filter(|resource| !resource.is_empty());
    let resource = resource.map_or_else(|| key.kind.to_lowercase(), str::to_owned);
    let rule = format!(
        "{{apiGroups: [\"{}\"], resources: [\"{resource}\"], verbs: [\"{verb}\"]}}",
        key.group
    );
    problem.fix(Fix::text(format!(
        "give the manager's role this rule: {rule}"
    )))
}
