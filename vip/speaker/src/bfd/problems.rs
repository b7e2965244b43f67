//! What is wrong with a session, in the shape in which people see it.

use std::{error::Error, io, time::Duration};

use kedge_core::{Code, Fix, Name, Problem};
use kedge_vip_proto::bfd::{Reject, Remote, View};

use super::{BfdSpec, pace};

pub(super) fn no_thread(why: String) -> Problem {
    Problem::new(Code::SysUnexpected, "there is no thread for BFD")
        .evidence(why)
        .consequence("no BFD session runs: what tracks one counts as well")
}

/// What the session has to say about the path.
pub(super) fn lost(name: &Name, view: &View) -> Problem {
    Problem::new(
        Code::BfdLost,
        format!("the BFD session {name} has lost its peer"),
    )
    .object(object(name))
    .evidence(view.because.to_string())
    .consequence("what tracks the session fails on this host until it is up again")
    .fix(
        Fix::text("see whether the peer is there, and whether it hears this host")
            .command("kedge bfd sessions"),
    )
}

/// Why a session that should be up never was.
pub(super) fn not_up(
    spec: &BfdSpec,
    view: &View,
    refused: Option<Reject>,
    unsent: Option<i32>,
) -> Problem {
    let peer = spec.peer;
    let Remote {
        state, heard_at, ..
    } = view.remote;
    let port = spec.port();
    let (evidence, cure) = match (refused, unsent) {
        (_, Some(errno)) => (
            format!(
                "the kernel does not send: {}",
                io::Error::from_raw_os_error(errno)
            ),
            format!("see to the route to {peer}, and to the output chain of the firewall"),
        ),
        (Some(why), None) if heard_at.is_none() => (
            format!("packets of {peer} arrive and are refused: {why}"),
            "configure the session alike on both sides".to_owned(),
        ),
        _ if state == kedge_core::bfd::SessionState::AdminDown => (
            format!("{peer} was told to stop"),
            "enable the session at the peer".to_owned(),
        ),
        _ if heard_at.is_some() => (
            format!("{peer} is heard, and does not hear this host"),
            format!("let UDP {port} from this host through the peer's firewall"),
        ),
        _ => (
            format!("nothing was heard from {peer}"),
            format!(
                "configure a session with this host at {peer}, and let UDP {port} through the \
                 firewalls"
            ),
        ),
    };
    let name = &spec.name;
    Problem::warning(
        Code::BfdNotUp,
        format!("the BFD session {name} does not come up"),
    )
    .object(object(name))
    .evidence(evidence)
    .consequence("it says nothing of the path: what tracks it counts as well")
    .fix(Fix::text(cure).command(format!("tcpdump -ni any udp port {port}")))
}

pub(super) fn ttl(spec: &BfdSpec, ttl: u8) -> Problem {
    let (name, peer) = (&spec.name, spec.peer);
    let least = spec.config.min_ttl.get();
    let what = format!("BFD packets of {peer} have crossed a router");
    let cure = if spec.multihop {
        "lower `min_ttl` if the peer is that far away"
    } else {
        "let the peer send with TTL 255, or set `multihop` on both sides if it is not on this link"
    };
    Problem::warning(Code::BfdTtl, what)
        .object(object(name))
        .evidence(format!(
            "the last one came with TTL {ttl}, and {least} is asked for"
        ))
        .consequence("they are dropped and change nothing")
        .fix(Fix::text(cure))
}

pub(super) fn flaps(name: &Name, times: usize, within: Duration) -> Problem {
    let minutes = within.as_secs() / 60;
    Problem::warning(
        Code::BfdFlaps,
        format!("the BFD session {name} comes and goes"),
    )
    .object(object(name))
    .evidence(format!(
        "it lost its peer {times} times within {minutes} minutes"
    ))
    .consequence("VIPs that track it may move to and fro")
    .fix(
        Fix::text("see what the reasons have in common, or give it more time on both sides")
            .command("journalctl -u kedge-agent"),
    )
}

pub(super) fn too_fast(spec: &BfdSpec, why: String) -> Problem {
    let name = &spec.name;
    let wanted = spec.config.desired_min_tx.min(spec.config.required_min_rx);
    Problem::warning(
        Code::BfdTooFast,
        format!(
            "the BFD session {name} does not run at {:?}",
            wanted.duration()
        ),
    )
    .object(object(name))
    .evidence(why)
    .consequence(format!(
        "it runs at {:?}, and tells the peer so",
        pace::INSTEAD.duration()
    ))
    .fix(Fix::text(
        "give the service real-time scheduling (LimitRTPRIO=40), or take intervals of 50ms or more",
    ))
}

/// A socket that cannot be opened.
pub(super) fn socket(name: &Name, error: &kedge_net::bfd::BfdError) -> Problem {
    let mut problem = kedge_core::Coded::problem(error).object(object(name));
    if let Some(source) = error.source()
        && problem.evidence.is_empty()
    {
        problem = problem.evidence(source.to_string());
    }
    problem
}

fn object(name: &Name) -> String {
    format!("bfd/{name}")
}
