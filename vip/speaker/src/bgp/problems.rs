//! What is wrong with a neighbour, in the shape in which people see it.

use std::time::Duration;

use kedge_core::{Code, Fix, Problem, bgp::SessionState};
use kedge_vip_proto::bgp::{Because, DialError, View};

use super::BgpSpec;

pub(super) fn no_thread(why: String) -> Problem {
    Problem::new(Code::SysUnexpected, "there is no thread for BGP")
        .evidence(why)
        .consequence("no neighbour is told of any route")
}

/// What is wrong with a session that has been in its state for `since`.
pub(super) fn of(spec: &BgpSpec, view: &View, since: Duration) -> Vec<Problem> {
    let mut problems = Vec::new();
    let is_down = view.state != SessionState::Established && spec.config.shutdown.is_none();
    let was_up = view.counts.established > 0;
    if is_down && (was_up || since >= PATIENCE || view.notification.is_some()) {
        problems.push(not_established(spec, view));
    }
    if !view.without_next_hop.is_empty() {
        problems.push(without_next_hop(spec, view));
    }
    problems
}

fn not_established(spec: &BgpSpec, view: &View) -> Problem {
    let (name, peer) = (&spec.name, spec.peer);
    let state = view.state;
    let cure = match view.because {
        Because::DialFailed(DialError::TimedOut) | Because::Retry | Because::Started => format!(
            "let TCP {} to {peer} through firewalls, and see that both have the same password",
            spec.port
        ),
        Because::DialFailed(DialError::NoSource) => "see to `source` and `interface`".to_owned(),
        Because::DialFailed(_) => format!("have BGP run at {peer}, with this host as a neighbour"),
        _ => format!("configure the session alike at {peer}"),
    };
    let mut problem = Problem::warning(
        Code::BgpNotEstablished,
        format!("the BGP session {name} is not established"),
    )
    .object(object(spec))
    .evidence(format!("{state}: {}", view.because));
    if let Some((_, notification)) = &view.notification {
        problem = problem.evidence(format!("the last word was: {notification}"));
    }
    problem
        .consequence(format!("{peer} has no route to the VIPs of this host"))
        .fix(Fix::text(cure).command(format!("tcpdump -ni any tcp port {}", spec.port)))
}

fn without_next_hop(spec: &BgpSpec, view: &View) -> Problem {
    let all = view.without_next_hop.iter().map(ToString::to_string);
    let all: Vec<String> = all.take(8).collect();
    Problem::warning(
        Code::BgpNoNextHop,
        format!("{} is not told of {}", spec.peer, all.join(", ")),
    )
    .object(object(spec))
    .evidence("this host's end of the session has no address of that family")
    .consequence("packets to those addresses do not come by it")
    .fix(Fix::text(
        "give the interface one, or set `next_hop` of the neighbour",
    ))
}

fn object(spec: &BgpSpec) -> String {
    format!("bgp/{}", spec.name)
}

/// How long a session may take to come up.
const PATIENCE: Duration = Duration::from_secs(10);
