//! VIPs that every healthy host has, and that routers are told of.

use std::{collections::BTreeMap, net::IpAddr};

use kedge_core::{Code, Fix, Name, Problem};
use kedge_net::{PROTOCOL, monitor::Link};

use super::Vip;
use crate::{
    config::{AgentConfig, Announced, ProbeConfig, TrackConfig, Via},
    facts::Facts,
};

/// A VIP that every healthy host has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Anycast {
    /// Its name.
    pub name: Name,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// What routers are told of it.
    pub announced: Announced,
    /// The health gate.
    pub health: Option<ProbeConfig>,
    /// What is tracked, by name.
    pub tracks: BTreeMap<Name, TrackConfig>,
    /// Whether this host is to let go of it: it is drained, or goes down.
    pub leaves: bool,
}

pub(super) fn plan(
    config: &AgentConfig,
    facts: &Facts,
    vips: &[Vip],
    problems: &mut Vec<Problem>,
) -> Vec<Anycast> {
    let anycast = config.vips.iter().filter(|(_, vip)| vip.via == Via::Bgp);
    let mut planned = Vec::new();
    for (name, vip) in anycast {
        let addresses: Vec<IpAddr> = vip.held().collect();
        let stands = |address: &IpAddr| {
            vips.iter()
                .find(|it| it.spec.held().any(|held| held == *address))
        };
        let taken = addresses.iter().find_map(|it| Some((*it, stands(it)?)));
        let on_link = addresses
            .iter()
            .find_map(|it| Some((*it, near(facts, *it)?)));
        if let Some((address, other)) = taken {
            let other = &other.spec.name;
            let what = format!("{address} belongs to the VIP {other} already");
            problems.push(
                refused(name, Code::ConfigRule, what)
                    .fix(Fix::text("give it another address, the same on every host")),
            );
        } else if let Some((address, (link, net))) = on_link {
            let what = format!("{address} is in {net}, a network of this host");
            problems.push(
                refused(name, Code::BgpOnLink, what)
                    .evidence(format!("{} has an address of {net}", link.name))
                    .fix(Fix::text(
                        "take an address outside of the hosts' networks, or `via: [vrrp, bgp]`",
                    )),
            );
        } else {
            planned.push(Anycast {
                name: name.clone(),
                addresses,
                announced: vip.announced.clone(),
                health: vip.health.clone(),
                tracks: vip.tracks.clone(),
                leaves: false,
            });
        }
    }
    planned
}

fn refused(name: &Name, code: Code, what: String) -> Problem {
    Problem::new(code, what)
        .object(format!("vips/{name}"))
        .consequence(format!("the VIP {name} is not served by this host"))
}

/// The network of this host that an address is in: its neighbours there would ask for it by ARP, and
/// every host with the address would answer.
fn near(facts: &Facts, address: IpAddr) -> Option<(&Link, ipnet::IpNet)> {
    facts.links.iter().find_map(|link| {
        let foreign = link.addresses.iter().filter(|it| it.protocol != PROTOCOL);
        let mut nets = foreign.map(|it| it.net.trunc());
        let whole =
            nets.find(|net| net.prefix_len() < net.max_prefix_len() && net.contains(&address))?;
        Some((link, whole))
    })
}
