//! How the network learns where a VIP is, and which keys have no use then.

use kedge_core::{Fix, Problem};
use kedge_host::layers::Auto;

use super::{
    bgp::{Said, check_said},
    rule,
};
use crate::config::{Announced, MembersFile, Via, ViaFile, VipBgpFile, VipFile};

/// Checks the ways of a VIP and what is said on them; `key` is where the VIP stands.
pub(super) fn check(key: &str, file: &VipFile, problems: &mut Vec<Problem>) -> (Via, Announced) {
    let ways = file.via.as_deref().unwrap_or(&[ViaFile::Vrrp]);
    let has = |way| ways.contains(&way);
    let via = match (has(ViaFile::Vrrp), has(ViaFile::Bgp), ways.len()) {
        (true, false, 1) => Via::Vrrp,
        (true, true, 2) => Via::VrrpAndBgp,
        (false, true, 1) => Via::Bgp,
        (_, _, count) => {
            let what = match count {
                0 => "nobody would learn where the VIP is",
                _ => "one of the ways stands there twice",
            };
            let fix = Fix::text("take `[vrrp]`, `[vrrp, bgp]` or `[bgp]`");
            problems.push(rule(&format!("{key}.via"), what).fix(fix));
            return (Via::Vrrp, Announced::default());
        }
    };
    if via == Via::Bgp {
        check_anycast(key, file, problems);
    }
    let Some(said) = &file.bgp else {
        return (via, Announced::default());
    };
    let key = format!("{key}.bgp");
    if via == Via::Vrrp {
        let what = "nobody is told of a VIP that VRRP alone moves";
        let fix = Fix::text("leave it out, or have routers told").command("via: [vrrp, bgp]");
        problems.push(rule(&key, what).fix(fix));
    }
    (via, announced(&key, said, problems))
}

fn announced(key: &str, file: &VipBgpFile, problems: &mut Vec<Problem>) -> Announced {
    let said = Said {
        med: file.med,
        local_pref: file.local_pref,
        prepend: file.prepend,
        communities: file.communities.as_ref(),
        extended: file.extended_communities.as_ref(),
        large: file.large_communities.as_ref(),
        families: None,
    };
    check_said(key, &said, problems);
    if file.neighbors.as_ref().is_some_and(Vec::is_empty) {
        let what = "a VIP that no neighbour is told of has no use for BGP";
        let fix = Fix::text("leave the list out for all of them");
        problems.push(rule(&format!("{key}.neighbors"), what).fix(fix));
    }
    Announced {
        offer: said.over(&Said::default()),
        neighbors: file
            .neighbors
            .as_ref()
            .map(|all| all.iter().cloned().collect()),
    }
}

/// Where every healthy host has the address nobody elects anybody.
fn check_anycast(key: &str, file: &VipFile, problems: &mut Vec<Problem>) {
    let is_some =
        |list: &Option<Vec<std::net::IpAddr>>| list.as_ref().is_some_and(|it| !it.is_empty());
    let stands = [
        ("vrid", file.vrid.and_then(Auto::value).is_some()),
        ("priority", file.priority.and_then(Auto::value).is_some()),
        ("unhealthy_priority", file.unhealthy_priority.is_some()),
        ("members", file.members == Some(MembersFile::Mixed)),
        ("interface", file.interface.is_some()),
        ("source", file.source.is_some()),
        ("password_file", file.password_file.is_some()),
        ("auth", file.auth.is_some()),
        ("preempt", file.preempt == Some(true)),
        ("sync_group", file.sync_group.is_some()),
        ("unicast_peers", is_some(&file.unicast_peers)),
        ("virtual_mac", file.virtual_mac == Some(true)),
        ("accept", file.accept == Some(false)),
    ];
    for (part, _) in stands.iter().filter(|(_, stands)| *stands) {
        let what = format!("`{part}` is VRRP's, and `via: [bgp]` has no election");
        let fix = Fix::text("leave it out, or take `via: [vrrp, bgp]`");
        problems.push(rule(&format!("{key}.{part}"), what).fix(fix));
    }
    for (name, track) in file.track.iter().flatten() {
        if track.weight.is_some() {
            let what = "`via: [bgp]` has no priority that a failure could lower";
            let fix = Fix::text("have its failure take the route back").command("critical: true");
            problems.push(rule(&format!("{key}.track.{name}.weight"), what).fix(fix));
        }
    }
}
