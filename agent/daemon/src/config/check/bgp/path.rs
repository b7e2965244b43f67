//! The BFD sessions of BGP neighbours.

use std::net::IpAddr;

use kedge_core::{Fix, Name, Problem};
use kedge_host::layers::{Auto, closest};
use kedge_vip_speaker::{
    bfd::{self, BfdSpec},
    bgp::BgpSpec,
};

use super::rule;
use crate::config::BgpNeighborFile;

/// The BFD session that a neighbour follows.
pub(super) fn path(
    key: &str,
    file: &BgpNeighborFile,
    spec: &BgpSpec,
    sessions: &mut Vec<BfdSpec>,
    problems: &mut Vec<Problem>,
) -> Option<Name> {
    let key = format!("{key}.bfd");
    let name = match file.bfd.clone()? {
        Auto::Value(name) => name,
        Auto::Auto => {
            if sessions.iter().any(|it| it.name == spec.name) {
                let what = format!("there is a BFD session {} already", spec.name);
                let fix = Fix::text("name it").command(format!("bfd: {}", spec.name));
                problems.push(rule(&key, what).fix(fix));
                return None;
            }
            // One whose address is not known yet has its session as soon as it is.
            sessions.extend(spec.peer.map(|peer| own_session(spec, peer)));
            return Some(spec.name.clone());
        }
    };
    let Some(session) = sessions.iter().find(|it| it.name == name) else {
        let known = sessions.iter().map(|it| it.name.as_str());
        let fix = match closest(name.as_str(), known) {
            Some(meant) => Fix::text(format!("did you mean `{meant}`?")),
            None => Fix::text("take `auto`, or one of `bfd.sessions`").command("bfd: auto"),
        };
        problems.push(rule(&key, format!("there is no BFD session {name}")).fix(fix));
        return None;
    };
    if Some(session.peer) != spec.peer {
        let whom = match spec.peer {
            Some(peer) => peer.to_string(),
            None => "whichever router there is on the interface".to_owned(),
        };
        let what = format!(
            "the BFD session {name} watches {}, not {whom}",
            session.peer
        );
        problems.push(rule(&key, what).fix(Fix::text("take the one of this neighbour, or `auto`")));
        return None;
    }
    Some(name)
}

/// The BFD session of a neighbour at that address, with the usual times.
pub(crate) fn own_session(spec: &BgpSpec, peer: IpAddr) -> BfdSpec {
    let min_ttl = spec.multihop.map_or(bfd::MinTtl::NEIGHBOR, |crossed| {
        bfd::MinTtl::multihop(u8::MAX.saturating_sub(crossed).max(1))
    });
    BfdSpec {
        name: spec.name.clone(),
        peer,
        interface: spec.interface.clone(),
        source: spec.source,
        inside: None,
        multihop: spec.multihop.is_some(),
        config: bfd::Config {
            min_ttl,
            ..bfd::Config::DEFAULT
        },
        on_request: false,
    }
}
