//! What is wrong with a neighbour, in the shape in which people see it.

use std::{
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use kedge_core::{Code, Fix, Problem, bgp::SessionState};
use kedge_vip_proto::bgp::{Because, DialError, View};

use super::BgpSpec;

pub(super) fn no_thread(why: String) -> Problem {
    Problem::new(Code::SysUnexpected, "there is no thread for BGP")
        .evidence(why)
        .consequence("no neighbour is told of any route")
}

/// What is wrong with a session that has been in its state for `since`.
pub(super) fn of(
    spec: &BgpSpec,
    peer: Option<IpAddr>,
    view: &View,
    since: Duration,
) -> Vec<Problem> {
    let peer = match (peer, &spec.interface) {
        (Some(peer), _) => peer.to_string(),
        (None, Some(interface)) => format!("the router on {interface}"),
        (None, None) => spec.name.to_string(),
    };
    let mut problems = Vec::new();
    let is_down = view.state != SessionState::Established && spec.config.shutdown.is_none();
    let was_up = view.counts.established > 0;
    if is_down && (was_up || since >= PATIENCE || view.notification.is_some()) {
        problems.push(not_established(spec, &peer, view));
    }
    if !view.without_next_hop.is_empty() {
        problems.push(without_next_hop(spec, &peer, view));
    }
    problems
}

fn not_established(spec: &BgpSpec, peer: &str, view: &View) -> Problem {
    let name = &spec.name;
    let state = view.state;
    let cure = match view.because {
        Because::DialFailed(DialError::TimedOut) | Because::Retry | Because::Started => format!(
            "let TCP {} to {peer} through firewalls, and see that both have the same password",
            spec.port
        ),
        Because::DialFailed(DialError::NoNeighbour) => {
            "have it send router advertisements there: FRR does for a neighbour of an interface"
                .to_owned()
        }
        Because::BfdDown | Because::BfdAwaited => format!(
            "have BFD run at {peer} with this host, and see to the link: the session follows BFD"
        ),
        Because::DialFailed(DialError::Unsigned) => {
            "take a kernel that has TCP-AO, or `password_file` on both sides".to_owned()
        }
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

fn without_next_hop(spec: &BgpSpec, peer: &str, view: &View) -> Problem {
    let all = view.without_next_hop.iter().map(ToString::to_string);
    let all: Vec<String> = all.take(8).collect();
    Problem::warning(
        Code::BgpNoNextHop,
        format!("{peer} is not told of {}", all.join(", ")),
    )
    .object(object(spec))
    .evidence("this host's end of the session has no address of that family")
    .consequence("packets to those addresses do not come by it")
    .fix(Fix::text(
        "give the interface one, or set `next_hop` of the neighbour",
    ))
}

/// One neighbour of an interface is one router.
pub(super) fn two_routers(spec: &BgpSpec, (other, known): (Ipv6Addr, Ipv6Addr)) -> Problem {
    Problem::warning(
        Code::BgpRouters,
        format!(
            "two routers advertise themselves to the neighbour {}",
            spec.name
        ),
    )
    .object(object(spec))
    .evidence(format!(
        "{known} is the neighbour, and {other} is there too"
    ))
    .consequence("the other one is told of nothing")
    .fix(Fix::text(
        "give each of them a neighbour with its `address`",
    ))
}

pub(super) fn object(spec: &BgpSpec) -> String {
    format!("bgp/{}", spec.name)
}

/// How long a session may take to come up.
const PATIENCE: Duration = Duration::from_secs(10);
