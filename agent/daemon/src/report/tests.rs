use kedge_net::monitor::{Address, DefaultRoute};

use super::*;

fn address(net: &str) -> Address {
    Address {
        net: net.parse().unwrap(),
        peer: None,
        protocol: 0,
        scope: 0,
        permanent: true,
        tentative: false,
        deprecated: false,
        temporary: false,
    }
}

fn link(index: u32, name: &str, nets: &[&str]) -> Link {
    Link {
        index,
        name: name.to_owned(),
        up: true,
        carrier: true,
        addresses: nets.iter().map(|net| address(net)).collect(),
        ..Link::default()
    }
}

fn route(ifindex: u32, gateway: &str) -> DefaultRoute {
    DefaultRoute {
        gateway: Some(gateway.parse().unwrap()),
        ifindex,
        metric: 100,
        source: None,
    }
}

fn facts(links: &[Link], routes: &[DefaultRoute]) -> Facts {
    Facts {
        links: links.to_vec(),
        default_routes: routes.to_vec(),
        problem: None,
    }
}

fn told(facts: &Facts, rules: &Rules<'_>) -> Vec<String> {
    build(facts, rules)
        .into_iter()
        .map(|a| {
            format!(
                "{}{}: {}",
                if a.primary { "*" } else { "" },
                a.address,
                a.because
            )
        })
        .collect()
}

#[test]
fn only_the_hosts_own_lasting_addresses_are_reported() {
    let mut lo = link(1, "lo", &["127.0.0.1/8", "10.99.0.1/32"]);
    lo.loopback = true;
    let mut eth0 = link(2, "eth0", &["10.0.0.5/24", "169.254.7.7/16", "fe80::1/64"]);
    for (n, net) in [
        "10.0.0.10/32",
        "2001:db8::1/64",
        "2001:db8::2/64",
        "2001:db8::3/64",
    ]
    .into_iter()
    .enumerate()
    {
        let mut address = address(net);
        match n {
            0 => address.protocol = PROTOCOL,
            1 => address.tentative = true,
            2 => address.deprecated = true,
            _ => address.temporary = true,
        }
        eth0.addresses.push(address);
    }
    let facts = facts(
        &[
            lo,
            eth0,
            link(3, "kedge0", &["198.18.0.4/32"]),
            link(4, "docker0", &["172.17.0.1/16"]),
        ],
        &[],
    );
    let config = ReportConfig {
        exclude_interfaces: vec!["docker0".to_owned()],
        ..ReportConfig::default()
    };
    let rules = Rules {
        config: Some(&config),
        hostname: "edge-a",
        vips: &[],
        tunnel: "kedge0",
    };
    assert_eq!(
        told(&facts, &rules),
        ["*10.0.0.5: it is on eth0", "edge-a: it is the host's name"]
    );
}

#[test]
fn a_vip_somebody_else_installed_is_no_address_of_the_host() {
    let facts = facts(&[link(2, "eth0", &["10.0.0.10/32", "10.0.0.5/24"])], &[]);
    let rules = Rules {
        vips: &["10.0.0.10".parse().unwrap()],
        ..Rules::default()
    };
    assert_eq!(
        told(&facts, &rules),
        ["*10.0.0.5: the VIP 10.0.0.10 is on-link on eth0"]
    );
}

#[test]
fn the_primary_is_chosen_by_vip_then_default_route_then_order() {
    let links = [
        link(2, "eth0", &["192.0.2.5/24", "2001:db8::5/64"]),
        link(3, "eth1", &["10.0.0.5/24"]),
        link(4, "eth2", &["172.16.0.5/12"]),
    ];
    let plain = Rules::default();
    let first = |facts: &Facts, rules: &Rules<'_>| told(facts, rules).remove(0);
    assert_eq!(
        first(&facts(&links, &[]), &plain),
        "*192.0.2.5: it is on eth0"
    );
    let routed = facts(&links, &[route(4, "172.16.0.1")]);
    assert_eq!(
        first(&routed, &plain),
        "*172.16.0.5: the default route leaves by eth2"
    );
    let rules = Rules {
        vips: &["10.0.0.10".parse().unwrap()],
        ..Rules::default()
    };
    assert_eq!(
        first(&routed, &rules),
        "*10.0.0.5: the VIP 10.0.0.10 is on-link on eth1"
    );
    let config = ReportConfig {
        primary: Some("192.0.2.5".parse().unwrap()),
        ..ReportConfig::default()
    };
    let rules = Rules {
        config: Some(&config),
        ..rules
    };
    assert_eq!(
        first(&routed, &rules),
        "*192.0.2.5: the configuration names it (report.primary)"
    );
}

#[test]
fn the_source_of_the_default_route_beats_its_neighbours() {
    let links = [link(2, "eth0", &["192.0.2.5/24", "192.0.2.6/24"])];
    let preferred = DefaultRoute {
        source: Some("192.0.2.6".parse().unwrap()),
        ..route(2, "192.0.2.1")
    };
    assert_eq!(
        told(&facts(&links, &[preferred]), &Rules::default()),
        [
            "*192.0.2.6: the default route names it as source",
            "192.0.2.5: the default route leaves by eth0"
        ]
    );
}

#[test]
fn a_dead_link_and_excluded_prefixes_come_last_or_never() {
    let mut down = link(2, "eth0", &["192.0.2.5/24"]);
    down.carrier = false;
    let facts = facts(
        &[down, link(3, "eth1", &["10.0.0.5/24", "10.1.0.5/24"])],
        &[],
    );
    let config = ReportConfig {
        exclude: vec!["10.1.0.0/16".parse().unwrap()],
        ..ReportConfig::default()
    };
    let rules = Rules {
        config: Some(&config),
        ..Rules::default()
    };
    assert_eq!(
        told(&facts, &rules),
        ["*10.0.0.5: it is on eth1", "192.0.2.5: eth0 has no link"]
    );
    assert!(build(&Facts::default(), &Rules::default()).is_empty());
}
