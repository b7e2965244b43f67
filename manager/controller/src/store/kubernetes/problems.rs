//! What a cluster refuses or does not answer, for people.

use kedge_core::{Code, Fix, Problem};
use kube::core::Status;

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
    let problem = caused(not_written(key), error);
    let kube::Error::Api(status) = error else {
        return problem;
    };
    match missing_rule(status, (&key.group, &key.kind), &[verb]) {
        Some(rule) => problem.fix(Fix::text(format!(
            "give the manager's role this rule: {rule}"
        ))),
        None => problem,
    }
}

/// The problem with what an API server said, or with why it said nothing.
pub(crate) fn caused(problem: Problem, error: &kube::Error) -> Problem {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => {
            problem.evidence(status.message.clone())
        }
        error => problem.caused_by(error),
    }
}

/// The rule that would let us; `None` where something else is in the way: an admission policy, a
/// quota or the end of a namespace answer 403 as well.
pub(super) fn missing_rule(
    status: &Status,
    (group, kind): (&str, &str),
    verbs: &[&str],
) -> Option<String> {
    // As every API server says it: `User "x" cannot patch resource "y/status" in API group "z"`.
    let (_, said) = status.message.split_once(" cannot ")?;
    if status.code != 403 {
        return None;
    }
    let named = said.split_once(" resource \"");
    let named = named.and_then(|(verb, rest)| Some((verb, rest.split('"').next()?)));
    let kind = kind.to_lowercase();
    let (verb, resource) = named.unwrap_or(("", &kind));
    let verbs = match verbs {
        // Who makes an object by applying it may be refused to create it.
        [_] if !verb.is_empty() => &[verb],
        verbs => verbs,
    };
    let verbs = verbs.join("\", \"");
    Some(format!(
        "{{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"{verbs}\"]}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Name;

    #[test]
    fn a_missing_right_is_told_with_its_rule_and_another_refusal_is_not() {
        let key = ObjectKey::new("i.example", "Cluster", Name::new("ns", "c"));
        let told = |code: u16, message: &str| {
            let status = Status {
                code,
                message: message.to_owned(),
                ..Status::default()
            };
            let problem = refused(&key, "patch", &kube::Error::Api(Box::new(status)));
            assert_eq!(
                problem.evidence,
                [message],
                "its words, and nothing around them"
            );
            problem.fix.map(|fix| fix.text)
        };
        let text = "clusters.i.example \"c\" is forbidden: User \"u\" cannot patch resource \
                    \"clusters/status\" in API group \"i.example\" in the namespace \"ns\"";
        let rule = "give the manager's role this rule: {apiGroups: [\"i.example\"], \
                    resources: [\"clusters/status\"], verbs: [\"patch\"]}";
        assert_eq!(told(403, text).as_deref(), Some(rule));
        assert_eq!(told(409, text), None);
        let text = "clusters.i.example \"c\" is forbidden: unable to create new content in \
                    namespace ns because it is being terminated";
        assert_eq!(told(403, text), None);
    }
}
