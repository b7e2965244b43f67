//! Endpoints at a gateway that this host answers for while no gateway is reached, and those it must not.

use std::net::IpAddr;

use kedge_control::agent::{HostConfig, ShortcutConfig};
use kedge_core::{Code, Fix, Problem};

use crate::facts::Facts;

/// An endpoint that the manager has this host answer for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShortcutWish {
    /// What the manager wants.
    pub config: ShortcutConfig,
    /// Why it is not done.
    pub refused: Option<String>,
}

/// What the manager wants, held against this host's own network.
pub(super) fn plan(
    manager: Option<&HostConfig>,
    facts: &Facts,
    problems: &mut Vec<Problem>,
) -> Vec<ShortcutWish> {
    let wishes = manager.map_or(&[][..], |manager| manager.shortcuts.as_slice());
    let wishes = wishes.iter().map(|config| {
        let mut addresses = config.addresses.iter();
        let refused = addresses.find_map(|address| refusal(*address, facts));
        ShortcutWish {
            config: config.clone(),
            refused,
        }
    });
    let wishes: Vec<ShortcutWish> = wishes.collect();
    problems.extend(wishes.iter().filter_map(problem));
    wishes
}

/// Why nobody but who has the address may answer for it: it is reached without a gateway.
fn refusal(address: IpAddr, facts: &Facts) -> Option<String> {
    if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
        return Some(format!("{address} is no address of a gateway"));
    }
    let mut links = facts.links.iter().filter(|link| !link.loopback);
    links.find_map(|link| {
        let nets = || link.addresses.iter().map(|known| known.net);
        if nets().any(|net| net.addr() == address) {
            return Some(format!("this host has {address} itself, on {}", link.name));
        }
        let net = nets().find(|net| net.contains(&address))?;
        let (net, name) = (net.trunc(), &link.name);
        Some(format!("{address} is on the LAN of {name}, {net}"))
    })
}

fn problem(wish: &ShortcutWish) -> Option<Problem> {
    let why = wish.refused.as_ref()?;
    Some(unanswered(&wish.config.name, why).fix(Fix::text(
        "leave out `shortcut` at the LoadBalancer, or give the gateway an address that no LAN has",
    )))
}

/// That this host does not answer for an endpoint, whatever is to be done about that.
pub(crate) fn unanswered(name: &str, why: &str) -> Problem {
    Problem::warning(
        Code::TunShortcut,
        format!("this host does not answer for the endpoint of {name}"),
    )
    .object(format!("shortcuts/{name}"))
    .evidence(why.to_owned())
    .consequence("while the endpoint is not reached, this host reaches no API server by it")
}

#[cfg(test)]
mod tests {
    use kedge_net::monitor::{Address, Link};

    use super::*;

    fn facts() -> Facts {
        let link = |name: &str, net: &str| Link {
            name: name.to_owned(),
            loopback: name == "lo",
            addresses: vec![Address {
                net: net.parse().unwrap(),
                peer: None,
                protocol: 0,
                scope: 0,
                permanent: true,
                tentative: false,
                deprecated: false,
                temporary: false,
            }],
            ..Link::default()
        };
        Facts {
            links: vec![
                link("lo", "127.0.0.1/8"),
                link("eth0", "10.20.14.11/24"),
                link("eth1", "2001:db8:14::b/64"),
            ],
            ..Facts::default()
        }
    }

    fn wished(address: &str) -> HostConfig {
        HostConfig {
            shortcuts: vec![ShortcutConfig {
                name: "t/edge".to_owned(),
                addresses: vec![address.parse().unwrap()],
                ports: Vec::new(),
                targets: Vec::new(),
            }],
            ..HostConfig::default()
        }
    }

    #[test]
    fn an_address_that_a_lan_of_this_host_has_is_left_to_it() {
        for (address, why) in [
            ("203.0.113.7", None),
            ("2001:db8::7", None),
            ("10.20.15.7", None),
            (
                "10.20.14.11",
                Some("this host has 10.20.14.11 itself, on eth0"),
            ),
            (
                "10.20.14.7",
                Some("10.20.14.7 is on the LAN of eth0, 10.20.14.0/24"),
            ),
            (
                "2001:db8:14::7",
                Some("2001:db8:14::7 is on the LAN of eth1, 2001:db8:14::/64"),
            ),
            ("127.0.0.1", Some("127.0.0.1 is no address of a gateway")),
            ("::", Some(":: is no address of a gateway")),
        ] {
            let mut problems = Vec::new();
            let planned = plan(Some(&wished(address)), &facts(), &mut problems);
            assert_eq!(planned[0].refused.as_deref(), why, "{address}");
            assert_eq!(problems.len(), usize::from(why.is_some()), "{address}");
            for problem in problems {
                assert_eq!(problem.code, Code::TunShortcut);
            }
        }
        assert_eq!(plan(None, &facts(), &mut Vec::new()), []);
    }
}
