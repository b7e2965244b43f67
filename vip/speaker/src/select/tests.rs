use std::net::Ipv4Addr;

use super::*;

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 20, 14, 10));

fn link(index: u32, name: &str, nets: &[&str]) -> Link {
    let addresses = nets.iter().map(|net| address(net, 0)).collect();
    let mac = Some([2, 0, 0, 0, 0, u8::try_from(index).unwrap()]);
    Link {
        index,
        name: name.into(),
        mac,
        up: true,
        carrier: true,
        multicast: true,
        addresses,
        ..Link::default()
    }
}

fn address(net: &str, protocol: u8) -> Address {
    Address {
        net: net.parse().unwrap(),
        peer: None,
        protocol,
        scope: 0,
        permanent: true,
        tentative: false,
        deprecated: false,
        temporary: false,
    }
}

fn any() -> Wanted<'static> {
    Wanted {
        vip: VIP,
        interface: None,
        source: None,
        owner: false,
    }
}

#[test]
fn the_interface_whose_prefix_contains_the_vip_is_chosen_and_the_losers_are_explained() {
    let mut lo = link(1, "lo", &["127.0.0.1/8"]);
    lo.loopback = true;
    let mut tunnel = link(5, "kedge0", &[]);
    tunnel.addresses = vec![address("198.18.0.2/32", PROTOCOL)];
    let links = [
        lo,
        link(2, "eth0", &["10.20.14.11/24"]),
        link(3, "eth1", &["10.0.9.4/24"]),
        link(4, "eth2", &[]),
        tunnel,
    ];
    let chosen = select(&links, any()).unwrap();
    assert_eq!((chosen.ifindex, chosen.name.as_str()), (2, "eth0"));
    assert_eq!(chosen.address, Ipv4Addr::new(10, 20, 14, 11));
    assert_eq!(chosen.because, "eth0: 10.20.14.11/24 contains 10.20.14.10");
    assert_eq!(chosen.with_prefix(VIP), "10.20.14.10/24");
    let said: Vec<String> = chosen
        .rejected
        .iter()
        .map(|rejected| format!("{}: {}", rejected.interface, rejected.because))
        .collect();
    assert_eq!(
        said,
        [
            "eth1: 10.0.9.4/24 does not contain 10.20.14.10",
            "eth2: it has no IPv4 address",
            "kedge0: Kedge put its IPv4 addresses there itself",
            "lo: it is the loopback device",
        ]
    );
}

#[test]
fn the_longest_prefix_wins_then_one_that_runs_then_the_first() {
    let wide = link(2, "eth0", &["10.20.0.1/16"]);
    let near = link(3, "eth1", &["10.20.14.11/24"]);
    let chosen = select(&[wide.clone(), near.clone()], any()).unwrap();
    assert_eq!(chosen.name, "eth1");
    assert_eq!(
        chosen.rejected[0].because,
        "10.20.0.1/16 contains it too, but 10.20.14.11/24 on eth1 is closer"
    );
    let mut dark = link(2, "eth0", &["10.20.14.12/24"]);
    dark.carrier = false;
    assert_eq!(
        select(&[dark.clone(), near.clone()], any()).unwrap().name,
        "eth1"
    );
    let twin = link(4, "eth4", &["10.20.14.13/24"]);
    assert_eq!(select(&[twin, near], any()).unwrap().name, "eth1");
    assert!(
        !select(&[dark], any()).unwrap().running,
        "a link without carrier is still the one"
    );
}

#[test]
fn without_a_prefix_every_interface_is_named() {
    let why = select(&[link(2, "eth0", &["10.0.9.4/24"])], any()).unwrap_err();
    let problem = why.problem();
    assert_eq!(problem.code, Code::VipNoOnLinkPrefix);
    assert_eq!(
        problem.evidence,
        ["eth0: 10.0.9.4/24 does not contain 10.20.14.10"]
    );
}

#[test]
fn a_configured_interface_is_the_only_candidate() {
    let links = [
        link(2, "eth0", &["10.20.14.11/24"]),
        link(3, "eth1", &["10.20.14.12/24"]),
    ];
    let wanted = |name| Wanted {
        interface: Some(name),
        ..any()
    };
    let chosen = select(&links, wanted("eth1")).unwrap();
    assert_eq!(
        chosen.because,
        "eth1 is configured, and 10.20.14.12/24 contains 10.20.14.10"
    );
    assert_eq!(chosen.rejected[0].because, "eth1 is configured");
    let why = select(&links, wanted("eth9")).unwrap_err();
    assert_eq!(why.problem().code, Code::VipInterfaceMissing);
    assert_eq!(why.problem().evidence, ["there is eth0, eth1"]);
}

#[test]
fn the_owner_needs_the_address_and_nobody_else_may_have_it() {
    let owner = Wanted {
        owner: true,
        ..any()
    };
    let without = [link(2, "eth0", &["10.20.14.11/24"])];
    let with = [link(2, "eth0", &["10.20.14.10/24"])];
    assert_eq!(
        select(&without, owner).unwrap_err().problem().code,
        Code::VipNotOwner
    );
    let chosen = select(&with, owner).unwrap();
    assert_eq!((chosen.address, chosen.prefix_len), (VIP, 24));
    assert_eq!(
        select(&with, any()).unwrap_err().problem().code,
        Code::ConfigRule
    );
}

#[test]
fn what_kedge_put_there_itself_is_no_reason() {
    let mut eth0 = link(2, "eth0", &["10.20.14.11/24"]);
    eth0.addresses.push(address("10.20.14.10/32", PROTOCOL));
    assert_eq!(
        select(&[eth0.clone()], any()).unwrap().address,
        Ipv4Addr::new(10, 20, 14, 11)
    );
    eth0.addresses.remove(0);
    assert!(select(&[eth0], any()).is_err());
}

#[test]
fn a_link_without_ethernet_address_cannot_carry_a_vip() {
    let mut tun = link(2, "tun0", &["10.20.14.11/24"]);
    tun.mac = None;
    let why = select(&[tun], any()).unwrap_err();
    assert_eq!(why.rejected()[0].because, "it has no Ethernet address");
    let problem = why.problem();
    assert_eq!(problem.code, Code::VipCannotCarry);
    assert_eq!(
        problem.what,
        "no interface with a prefix that contains 10.20.14.10 can carry it"
    );
}

#[test]
fn ports_of_a_bridge_are_not_worth_a_word() {
    let mut port = link(7, "veth7", &[]);
    port.master = Some(3);
    let chosen = select(&[port, link(3, "br0", &["10.20.14.11/24"])], any()).unwrap();
    assert_eq!((chosen.name.as_str(), chosen.rejected.len()), ("br0", 0));
}

#[test]
fn a_configured_source_is_an_address_of_the_interface_or_the_interface_is_none() {
    let links = [
        link(2, "eth0", &["10.20.14.11/24", "10.20.14.111/24"]),
        link(3, "eth1", &["10.20.14.13/24"]),
    ];
    let from = |last| Wanted {
        source: Some(Ipv4Addr::new(10, 20, 14, last).into()),
        ..any()
    };
    let chosen = select(&links, from(111)).unwrap();
    assert_eq!(chosen.address, Ipv4Addr::new(10, 20, 14, 111));
    // The first that runs would do without it.
    let chosen = select(&links, from(13)).unwrap();
    assert_eq!((chosen.ifindex, chosen.name.as_str()), (3, "eth1"));
    let refused = select(&links, from(99)).unwrap_err();
    let why = "it does not have 10.20.14.99, the source";
    assert!(
        refused.rejected().iter().all(|it| it.because == why),
        "{refused:?}"
    );
    let problem = refused.problem();
    assert_eq!(problem.code, Code::VipCannotCarry);
    assert_eq!(
        problem.what,
        "no interface with a prefix that contains 10.20.14.10 has its source 10.20.14.99"
    );
    let fix = problem.fix.unwrap();
    assert!(fix.text.contains("`source`"), "{fix:?}");
    // Where no prefix contains it that is said, whatever the source is.
    let elsewhere = [link(2, "eth0", &["10.0.9.4/24"])];
    let why = select(&elsewhere, from(99)).unwrap_err();
    assert_eq!(why.problem().code, Code::VipNoOnLinkPrefix);
}
