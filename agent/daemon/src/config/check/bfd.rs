//! BFD sessions of the configuration, and the tracks that name them.

use std::{collections::BTreeMap, net::IpAddr};

use kedge_core::{Fix, Name, Problem};
use kedge_host::layers::closest;
use kedge_vip_speaker::bfd::{BfdSpec, Config, Interval, MinTtl, Multiplier};

use super::{range, rule};
use crate::config::{BfdFile, BfdSessionFile, BfdSpan, Tracked, VipConfig};

pub(super) fn check(file: &BfdFile, problems: &mut Vec<Problem>) -> Vec<BfdSpec> {
    let mut sessions: Vec<BfdSpec> = Vec::new();
    for (name, session) in file.sessions.iter().flatten() {
        let key = format!("bfd.sessions.{name}");
        let Some(spec) = check_session(&key, name, session, problems) else {
            continue;
        };
        let same = |other: &&BfdSpec| {
            (other.peer, other.multihop, &other.interface, other.source)
                == (spec.peer, spec.multihop, &spec.interface, spec.source)
        };
        if let Some(other) = sessions.iter().find(same) {
            let what = format!("{} and {name} are the same session", other.name);
            let fix = Fix::text("keep one of the two; any number of tracks may name it");
            problems.push(rule(&format!("{key}.peer"), what).fix(fix));
        }
        sessions.push(spec);
    }
    sessions
}

/// A track of a session that nobody configured watches nothing.
pub(super) fn check_tracks(
    vips: &BTreeMap<Name, VipConfig>,
    sessions: &[BfdSpec],
    problems: &mut Vec<Problem>,
) {
    let known = || sessions.iter().map(|it| it.name.as_str());
    for (vip, config) in vips {
        for (track, of) in &config.tracks {
            let Tracked::Bfd(name) = &of.what else {
                continue;
            };
            if known().any(|it| it == name.as_str()) {
                continue;
            }
            let key = format!("vips.{vip}.track.{track}.bfd");
            let fix = match closest(name.as_str(), known()) {
                Some(meant) => Fix::text(format!("did you mean `{meant}`?")),
                None => Fix::text("configure the session")
                    .command(format!("bfd: {{sessions: {{{name}: {{peer: 10.0.0.1}}}}}}")),
            };
            problems.push(rule(&key, format!("there is no BFD session {name}")).fix(fix));
        }
    }
}

fn check_session(
    key: &str,
    name: &Name,
    file: &BfdSessionFile,
    problems: &mut Vec<Problem>,
) -> Option<BfdSpec> {
    let Some(peer) = file.peer else {
        let fix = Fix::text("say whom it watches").command("peer: 10.0.0.1");
        problems.push(rule(&format!("{key}.peer"), "a session needs its peer").fix(fix));
        return None;
    };
    let before = problems.len();
    let mut wrong = |part: &str, what: String, fix: &str| {
        problems.push(rule(&format!("{key}.{part}"), what).fix(Fix::text(fix)));
    };
    let multihop = file.multihop.unwrap_or(false);
    if is_link_local(peer) && multihop {
        let what = format!("{peer} is on a link, and no router leads there");
        wrong("multihop", what, "leave `multihop` out");
    } else if is_link_local(peer) && file.interface.is_none() {
        let what = format!("{peer} is on every link: nothing says on which");
        wrong("interface", what, "name the interface");
    }
    if let Some(source) = file.source
        && source.is_ipv4() != peer.is_ipv4()
    {
        let what = format!("{source} is of another family than {peer}");
        wrong("source", what, "take a source of the peer's family");
    }
    if file.min_ttl.is_some() && !multihop {
        let what = "between neighbours the TTL is 255, always".to_owned();
        wrong("min_ttl", what, "leave it out, or set `multihop: true`");
    }
    let is_host = |ip: IpAddr| {
        let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        !ip.is_unspecified() && !ip.is_multicast() && !broadcast
    };
    for (part, address) in [("peer", Some(peer)), ("source", file.source)] {
        if let Some(address) = address.filter(|it| !is_host(*it)) {
            let what = format!("{address} is not the address of a host");
            problems.push(range(&format!("{key}.{part}"), what));
        }
    }
    if problems.len() > before {
        return None;
    }
    let interval = |span: &Option<BfdSpan>, default: Interval| {
        let span = span.as_ref().map(BfdSpan::duration);
        span.map_or(default, Interval::saturating)
    };
    let multiplier = file.detect_multiplier;
    let multiplier = multiplier.and_then(|it| Multiplier::new(it.get()));
    Some(BfdSpec {
        name: name.clone(),
        peer,
        interface: file.interface.as_ref().map(ToString::to_string),
        source: file.source,
        inside: None,
        multihop,
        config: Config {
            desired_min_tx: interval(&file.transmit_interval, Config::DEFAULT.desired_min_tx),
            required_min_rx: interval(&file.receive_interval, Config::DEFAULT.required_min_rx),
            multiplier: multiplier.unwrap_or(Multiplier::DEFAULT),
            passive: file.passive.unwrap_or(false),
            shutdown: file.shutdown.unwrap_or(false),
            min_ttl: if multihop {
                MinTtl::multihop(file.min_ttl.map_or(MULTIHOP_TTL, |ttl| ttl.get()))
            } else {
                MinTtl::NEIGHBOR
            },
        },
        on_request: false,
    })
}

const fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// One router in between, as FRR has it.
pub(in crate::config) const MULTIHOP_TTL: u8 = 254;
