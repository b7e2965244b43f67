//! Which addresses this host reports, and why. No I/O.

use std::net::IpAddr;

use ipnet::IpNet;
use kedge_control::report::{AddressType, ReportedAddress};
use kedge_net::{PROTOCOL, monitor::Link};

use crate::{config::ReportConfig, facts::Facts};

/// What the choice of addresses depends on beside the facts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules<'a> {
    /// The configuration.
    pub config: Option<&'a ReportConfig>,
    /// The host's name.
    pub hostname: &'a str,
    /// Every VIP this host takes part in.
    pub vips: &'a [IpAddr],
    /// The tunnel's interface.
    pub tunnel: &'a str,
}

/// The addresses to report, best first; the first address is the primary one.
///
/// Not reported: VIPs and whatever else Kedge installed (they move), the tunnel's, loopback,
/// link-local, tentative, deprecated and privacy addresses, and what the configuration excludes.
pub(crate) fn build(facts: &Facts, rules: &Rules<'_>) -> Vec<ReportedAddress> {
    let mut candidates: Vec<Candidate<'_>> = facts
        .links
        .iter()
        .flat_map(|link| candidates(link, rules))
        .collect();
    for candidate in &mut candidates {
        candidate.rank(facts, rules);
    }
    candidates
        .sort_by_key(|candidate| (candidate.rank, candidate.link.index, candidate.net.addr()));
    let mut reported: Vec<ReportedAddress> = candidates
        .iter()
        .enumerate()
        .map(|(at, candidate)| ReportedAddress {
            kind: AddressType::InternalIP,
            address: candidate.net.addr().to_string(),
            interface: Some(candidate.link.name.clone()),
            primary: at == 0,
            because: candidate.because.clone(),
        })
        .collect();
    if !rules.hostname.is_empty() {
        reported.push(ReportedAddress {
            kind: AddressType::Hostname,
            address: rules.hostname.to_owned(),
            interface: None,
            primary: false,
            because: "it is the host's name".to_owned(),
        });
    }
    reported
}

struct Candidate<'a> {
    link: &'a Link,
    net: IpNet,
    rank: u8,
    because: String,
}

fn candidates<'a>(link: &'a Link, rules: &Rules<'_>) -> Vec<Candidate<'a>> {
    let excluded = rules
        .config
        .is_some_and(|config| config.exclude_interfaces.contains(&link.name));
    if link.loopback || excluded || link.name == rules.tunnel {
        return Vec::new();
    }
    let fits = |address: &&kedge_net::monitor::Address| {
        let ip = address.net.addr();
        let ours = address.protocol == PROTOCOL || rules.vips.contains(&ip);
        let passing = address.tentative || address.deprecated || address.temporary;
        let excluded = rules
            .config
            .is_some_and(|config| config.exclude.iter().any(|net| net.contains(&ip)));
        !(ours || passing || excluded || is_local(ip))
    };
    link.addresses
        .iter()
        .filter(fits)
        .map(|address| Candidate {
            link,
            net: address.net,
            rank: 0,
            because: String::new(),
        })
        .collect()
}

impl Candidate<'_> {
    fn rank(&mut self, facts: &Facts, rules: &Rules<'_>) {
        let ip = self.net.addr();
        let wanted = rules.config.and_then(|config| config.primary) == Some(ip);
        let vip = rules
            .vips
            .iter()
            .find(|vip| !is_single(self.net) && self.net.contains(*vip));
        let route = facts.default_routes.iter().find(|route| {
            route
                .gateway
                .is_some_and(|gateway| gateway.is_ipv4() == ip.is_ipv4())
        });
        let routed = route.is_some_and(|route| route.ifindex == self.link.index);
        let preferred = route.is_some_and(|route| route.source == Some(ip));
        let family = u8::from(ip.is_ipv6());
        (self.rank, self.because) = if wanted {
            (0, "the configuration names it (report.primary)".to_owned())
        } else if !self.link.is_running() {
            (10 + family, format!("{} has no link", self.link.name))
        } else if let Some(vip) = vip {
            (1, format!("the VIP {vip} is on-link on {}", self.link.name))
        } else if preferred {
            (
                2 + family,
                "the default route names it as source".to_owned(),
            )
        } else if routed {
            (
                4 + family,
                format!("the default route leaves by {}", self.link.name),
            )
        } else {
            (6 + family, format!("it is on {}", self.link.name))
        };
    }
}

fn is_single(net: IpNet) -> bool {
    net.prefix_len() == net.max_prefix_len()
}

fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback()
        || ip.is_unspecified()
        || ip.is_multicast()
        || match ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        }
}

#[cfg(test)]
mod tests;
