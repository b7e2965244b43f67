//! What BGP neighbours are told: which routes, and each neighbour which of them. No I/O.

use std::{collections::BTreeSet, net::IpAddr};

use kedge_core::{Instant, Name, Problem};
use kedge_vip_speaker::bgp::{BgpSpec, Offer, Offers, Prefix, TcpAo};

use crate::{
    config::{Announced, BgpConfig},
    desired::Desired,
    ownership::{Ownership, Tells},
    secrets::Secrets,
};

/// A VIP that has routes at this moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Route<'a> {
    pub name: &'a Name,
    pub addresses: Vec<IpAddr>,
    pub announced: &'a Announced,
    /// Whether it goes away soon.
    pub leaving: bool,
}

/// The VIPs that one host holds: of those that this one does, routers are told. One that is given away is
/// told of no more, or for a moment as one that goes, while its address stands yet.
pub(crate) fn owned<'a>(
    desired: &'a Desired,
    now: Instant,
    ownership: &Ownership,
) -> Vec<Route<'a>> {
    let held = desired.vips.iter().filter_map(|vip| {
        let announced = vip.announced.as_ref()?;
        let tells = ownership.tells(now, &vip.spec.name);
        (tells != Tells::Nothing).then(|| Route {
            name: &vip.spec.name,
            addresses: vip.spec.held().collect(),
            announced,
            leaving: tells == Tells::Goes,
        })
    });
    held.collect()
}

/// The routes as the speaker is told of them.
pub(crate) fn offers(routes: &[Route<'_>]) -> Offers {
    let mut offers = Offers::new();
    for route in routes {
        let offer = Offer {
            leaving: route.leaving,
            ..route.announced.offer.clone()
        };
        for address in &route.addresses {
            offers.insert(Prefix::host(*address), offer.clone());
        }
    }
    offers
}

/// Every neighbour, with its password and what may be told to it. One whose password cannot be read
/// is left out: without it nobody would answer, and with none somebody else might.
pub(crate) fn neighbors(
    config: &BgpConfig,
    desired: &Desired,
    secrets: &Secrets,
    problems: &mut Vec<Problem>,
) -> Vec<BgpSpec> {
    let mut specs = Vec::new();
    for neighbor in &config.neighbors {
        let mut spec = neighbor.spec.clone();
        if let Some(file) = &neighbor.password_file {
            match secrets.bgp_password(file) {
                Ok(password) => spec.password = Some(password),
                Err(problem) => {
                    problems.push(problem.object(format!("bgp/{}", spec.name)));
                    continue;
                }
            }
        }
        if let Some(ao) = &neighbor.tcp_ao {
            match secrets.bgp_password(&ao.file) {
                Ok(key) => {
                    let [send_id, receive_id] = ao.ids;
                    spec.tcp_ao = Some(TcpAo {
                        key,
                        send_id,
                        receive_id,
                        algorithm: ao.algorithm,
                    });
                }
                Err(problem) => {
                    problems.push(problem.object(format!("bgp/{}", spec.name)));
                    continue;
                }
            }
        }
        restrict(&mut spec, desired);
        specs.push(spec);
    }
    specs
}

/// A VIP that not every neighbour is told of makes the list of what may be told a list of addresses.
fn restrict(spec: &mut BgpSpec, desired: &Desired) {
    let told = || {
        let elected = desired.vips.iter().filter_map(|vip| {
            let addresses: Vec<IpAddr> = vip.spec.held().collect();
            Some((vip.announced.as_ref()?, addresses))
        });
        let anycast = desired.anycast.iter();
        elected.chain(anycast.map(|it| (&it.announced, it.addresses.clone())))
    };
    let may = |announced: &Announced| {
        let list: Option<&BTreeSet<Name>> = announced.neighbors.as_ref();
        list.is_none_or(|list| list.contains(&spec.name))
    };
    if told().all(|(announced, _)| may(announced)) {
        return;
    }
    let policy = &spec.config.policy;
    let all = told().filter(|(announced, _)| may(announced));
    let all = all.flat_map(|(_, addresses)| addresses).map(Prefix::host);
    let export = all.filter(|prefix| policy.exports(prefix)).collect();
    spec.config.policy.export = Some(export);
}

#[cfg(test)]
mod tests;
