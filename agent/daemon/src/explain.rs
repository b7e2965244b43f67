//! Why a VIP is where it is, as sentences. No I/O.

use kedge_control::local::{
    HealthStatus, RejectedInterface, TrackStatus, Transition, Vip, VipExplanation,
};
use kedge_core::{Instant, vip::RouterState};
use kedge_host::wall;
use kedge_net::monitor::MacText;
use kedge_vip_proto::vrrp::{Verdict, Waiting};
use kedge_vip_speaker::{Members, Proof, VipSnapshot};

use crate::{
    desired::Vip as Wanted,
    status::{holds, spoken},
};

/// What an explanation is made of.
#[derive(Clone, Debug)]
pub(crate) struct Known<'a> {
    /// The VIP as its router sees it.
    pub vip: &'a VipSnapshot,
    /// The same as people see it.
    pub told: Vip,
    /// The VIP as it is wanted; absent while it is leaving.
    pub wanted: Option<&'a Wanted>,
    /// Its health gate.
    pub health: Option<&'a HealthStatus>,
    /// What it tracks.
    pub tracks: &'a [TrackStatus],
    /// The host's name.
    pub host: &'a str,
    /// The time of the explanation.
    pub now: Instant,
}

/// Explains a VIP.
pub(crate) fn explain(known: &Known<'_>) -> VipExplanation {
    let vip = known.vip;
    VipExplanation {
        vip: known.told.clone(),
        conclusion: conclusion(known),
        because: reasons(known),
        would_move_if: would_move_if(known),
        rejected_interfaces: vip
            .rejected_interfaces
            .iter()
            .map(|rejected| RejectedInterface {
                interface: rejected.interface.clone(),
                because: rejected.because.clone(),
            })
            .collect(),
        transitions: vip
            .transitions
            .iter()
            .map(|change| Transition {
                at: wall::rfc3339_micros(change.at),
                boottime_micros: change.boottime.as_nanos() / 1_000,
                from: change.from,
                to: change.to,
                because: change.because.clone(),
            })
            .collect(),
        counters: vip.counters.clone(),
    }
}

fn conclusion(known: &Known<'_>) -> String {
    let (vip, host) = (known.vip, known.host);
    let addresses: Vec<String> = vip.addresses.iter().map(ToString::to_string).collect();
    let address = addresses.join(", ");
    match (vip.state, &vip.active) {
        (RouterState::Active, _) => format!("{address} is on {host}"),
        (RouterState::Releasing, _) => format!("{address} is leaving {host}"),
        (RouterState::Backup, Some(peer)) => {
            format!("{address} is on {}, and {host} stands by", peer.address)
        }
        (RouterState::Backup, None) => match vip.takes_over_at {
            Some(at) => {
                let left = spoken(at.since(known.now));
                format!("nobody is heard holding {address}, {host} takes it over in {left}")
            }
            None => format!("nobody is heard holding {address}, {host} stands by"),
        },
        (RouterState::Fault, _) => format!("{host} cannot hold {address}"),
        (RouterState::Initialize, _) => format!("{host} does not take part in {address} yet"),
    }
}

fn reasons(known: &Known<'_>) -> Vec<String> {
    let (vip, wanted) = (known.vip, known.wanted);
    let since = spoken(known.now.since(vip.since_boottime));
    let mut reasons = vec![format!(
        "{} ({} since {}, {since} ago)",
        vip.because,
        vip.state,
        wall::rfc3339(vip.since)
    )];
    if let Some(peer) = &vip.active {
        let age = spoken(known.now.since(peer.heard_at));
        reasons.push(format!(
            "{} advertises priority {}, heard {age} ago",
            peer.address, peer.priority
        ));
    }
    reasons.push(match &vip.interface {
        Some(_) => format!("interface {}", vip.interface_because),
        None => format!("no interface: {}", vip.interface_because),
    });
    match (&vip.sync_group, &vip.leader) {
        (Some(group), Some(leader)) => reasons.push(format!(
            "it moves with the group {group}, for which {leader} is elected"
        )),
        (Some(group), None) => {
            reasons.push(format!(
                "the group {group} moves with it, for which it is elected"
            ));
        }
        (None, _) => {}
    }
    let vrid = wanted.map_or(&vip.vrid_because, |wanted| &wanted.vrid_because);
    reasons.push(format!("VRID {}: {vrid}", vip.vrid));
    let shown = &known.told;
    reasons.push(format!(
        "priority {}: {}",
        vip.priority, shown.priority_because
    ));
    match known.health {
        Some(health) => reasons.push(format!("health {}: {}", health.verdict, health.because)),
        None => reasons.push("health: nobody is asked (health: none)".to_owned()),
    }
    reasons.extend(known.tracks.iter().map(|track| {
        let mark = if track.good { "" } else { " (failed)" };
        format!("track {}{mark}: {}", track.name, track.because)
    }));
    reasons.extend(orders(known));
    match vip.waiting {
        Some(Waiting::FirstClaim { until }) => reasons.push(format!(
            "it was never held here: other hosts are asked for {} more before a first claim",
            spoken(until.since(known.now))
        )),
        Some(Waiting::Holder { mac, until }) => reasons.push(format!(
            "{} advertises without proof and is asked whether it holds the address, for {} more",
            MacText(mac.0),
            spoken(until.since(known.now))
        )),
        Some(Waiting::Frame { until }) => reasons.push(format!(
            "no frame of another station was received since the link came up; waits {} more at most",
            spoken(until.since(known.now))
        )),
        None => {}
    }
    reasons.extend(proof(known));
    reasons.extend(
        shown
            .duplicates
            .iter()
            .map(|seen| format!("seen twice: {seen}")),
    );
    reasons
}

/// Whether the network brings what is sent to it.
fn proof(known: &Known<'_>) -> Option<String> {
    let ago = |then| spoken(known.now.since(then));
    match known.vip.proof {
        Proof::None => None,
        Proof::Awaited { since } => Some(format!(
            "no packet for it was seen here in the {} since it is held; the router of the link is asked",
            ago(since)
        )),
        Proof::Seen { at } => Some(format!(
            "packets for it arrive here: the first was seen {} ago",
            ago(at)
        )),
        Proof::Missing { since } => Some(format!(
            "no packet for it was seen here in the {} since it is held, and the router of the link \
             does not answer it",
            ago(since)
        )),
    }
}

/// What the operator ordered, and how to end it.
fn orders(known: &Known<'_>) -> Vec<String> {
    let (ordered, name) = (known.vip.ordered, &known.vip.name);
    let mut told = Vec::new();
    if let Some(frozen) = &known.told.frozen {
        let (since, until) = (&frozen.since, &frozen.until);
        told.push(format!(
            "frozen since {since} until {until}: only a fault moves it (kedge vip thaw {name})"
        ));
    }
    if ordered.drained {
        told.push(
            "this host is drained: it holds the VIP only while no other host does (kedge undrain)"
                .to_owned(),
        );
    }
    if ordered.yielded {
        told.push(format!(
            "it was released by order: `preempt` does not bring it back (kedge vip move {name} does)"
        ));
    }
    told
}

fn would_move_if(known: &Known<'_>) -> Vec<String> {
    let vip = known.vip;
    if let Some(leader) = &vip.leader {
        return vec![format!("{leader}, which leads its group, moves")];
    }
    let down = spoken(vip.active_down);
    let preempt = known.wanted.is_some_and(|wanted| wanted.spec.preempt);
    let frozen = vip.ordered.frozen;
    if holds(vip.state) {
        let mut ways = Vec::new();
        let probe = known.wanted.and_then(|wanted| wanted.health.as_ref());
        if vip.ordered.drained {
            ways.push("any other host takes part (this one is drained)".to_owned());
        } else if let Some(probe) = probe.filter(|_| !frozen) {
            let ways_of_health = match vip.verdict {
                Verdict::Healthy => format!(
                    "{} fails {} times in a row ({}) while another host is healthy",
                    probe.url,
                    probe.fall,
                    spoken(probe.interval * probe.fall)
                ),
                Verdict::Unproven | Verdict::Failing => {
                    "another host's service answers its probe, because this one's does not"
                        .to_owned()
                }
            };
            ways.push(ways_of_health);
        }
        ways.extend(ways_of_tracks(known, preempt));
        if let Some(chosen) = &vip.interface {
            ways.push(format!("{} loses its link or its address", chosen.name));
        }
        ways.push(format!(
            "this host is silent for {down}, or Kedge leaves it"
        ));
        ways.push(format!(
            "a host of higher priority than {} preempts (preempt is {} here)",
            vip.priority,
            if preempt { "on" } else { "off" }
        ));
        return ways;
    }
    match (vip.state, &vip.active) {
        (RouterState::Backup, Some(peer)) => {
            let mut ways = vec![format!("{} is silent for {down}, or leaves", peer.address)];
            let acts = !frozen && !vip.ordered.drained;
            if acts && vip.verdict == Verdict::Healthy && known.health.is_some() {
                ways.push(format!(
                    "{}'s service fails while this host's answers",
                    peer.address
                ));
            }
            if acts && preempt && !vip.ordered.yielded {
                let own = vip.priority;
                ways.push(format!(
                    "{} advertises less than {own} (preempt is on)",
                    peer.address
                ));
            }
            ways
        }
        (RouterState::Fault, _) => vec!["what is named above ends".to_owned()],
        _ => Vec::new(),
    }
}

/// What the tracks that are well would do by failing.
fn ways_of_tracks<'a>(known: &Known<'a>, preempt: bool) -> impl Iterator<Item = String> + 'a {
    let priority = i32::from(known.vip.priority.get());
    let lowest = match known.wanted.map(|wanted| wanted.spec.members) {
        Some(Members::Mixed { .. }) => 1,
        Some(Members::Kedge) | None => LOWEST_BASE,
    };
    known.tracks.iter().filter(|track| track.good).map(move |track| {
        let TrackStatus { name, what, .. } = track;
        let Some(weight) = track.weight else {
            return format!("track {name} fails ({what}, critical)");
        };
        let left = (priority + i32::from(weight)).max(lowest.min(priority));
        format!(
            "track {name} fails ({what}) and a host above {left} preempts (preempt is {} here, and \
             must be on there)",
            if preempt { "on" } else { "off" }
        )
    })
}

/// Among Kedge members tracks lower no priority further.
const LOWEST_BASE: i32 = 192;

#[cfg(test)]
pub(crate) mod tests;
