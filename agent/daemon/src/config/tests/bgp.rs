//! BGP neighbours, and VIPs that they are told of.

use std::time::Duration;

use kedge_core::bgp::{Asn, PeerAs};
use kedge_vip_speaker::{
    bfd::MinTtl,
    bgp::{AoAlgorithm, Config, HoldTime, PORT, Prefix},
};

use super::*;

const OURS: &str = "bgp:\n  asn: 65001\n  router_id: 10.20.14.11\n";

fn bgp(rest: &str) -> Result<BgpConfig, Vec<Problem>> {
    load(&format!("{OURS}{rest}")).map(|config| config.bgp.unwrap())
}

fn neighbor(body: &str) -> Result<NeighborConfig, Vec<Problem>> {
    let one = bgp(&format!("  neighbors:\n    tor: {{{body}}}\n"))?;
    Ok(one.neighbors.into_iter().next().unwrap())
}

fn vip(body: &str) -> Result<VipConfig, Vec<Problem>> {
    let config = load(&format!(
        "{OURS}  neighbors: {{tor: {{address: 10.20.14.1, asn: 65000}}}}\n\
         vips: {{api: {{addresses: [192.0.2.10], {body}}}}}\n"
    ))?;
    Ok(config.vips.into_values().next().unwrap())
}

#[test]
fn an_address_and_a_number_are_a_neighbour() {
    let tor = neighbor("address: 10.20.14.1, asn: 65000").unwrap();
    let spec = &tor.spec;
    assert_eq!(spec.peer, Some("10.20.14.1".parse::<IpAddr>().unwrap()));
    let (asn, id) = (
        |it| Asn::new(it).unwrap(),
        "10.20.14.11".parse::<std::net::Ipv4Addr>(),
    );
    let plain = Config::new(asn(65_001), asn(65_000), id.unwrap().try_into().unwrap());
    assert_eq!(spec.config, plain);
    assert_eq!(
        (spec.port, spec.multihop, spec.ttl_security),
        (PORT, None, false)
    );
    assert_eq!((tor.password_file, tor.bfd), (None, None));
    assert_eq!(load("").unwrap().bgp, None);
}

#[test]
fn each_key_of_a_neighbour_is_understood() {
    let tor = neighbor(
        "address: fd00::1, asn: 65001, port: 1790, source: fd00::2, multihop: 3, ttl_security: true, \
         password_file: /etc/kedge/tor, passive: true, shutdown: true, bfd: auto, \
         next_hop: {ipv4: 10.0.0.9, ipv6: 'fd00::9'}, hold_time: 90s, connect_retry: 2s, \
         families: [ipv6], extended_next_hop: true, max_prefixes: 7, graceful_shutdown: 2s, med: 5, \
         local_pref: 200, prepend: 2, communities: ['65001:7', no-export], \
         extended_communities: ['rt:65001:7'], large_communities: ['65001:1:2'], \
         export: [192.0.2.0/24]",
    )
    .unwrap();
    let NeighborConfig {
        spec,
        password_file,
        tcp_ao,
        bfd,
    } = tor;
    assert!(tcp_ao.is_none());
    assert_eq!(password_file, Some(PathBuf::from("/etc/kedge/tor")));
    assert_eq!(bfd.unwrap().as_str(), "tor");
    assert_eq!(
        (spec.port, spec.multihop, spec.ttl_security),
        (1790, Some(3), true)
    );
    assert_eq!(spec.source, Some("fd00::2".parse().unwrap()));
    let config = spec.config;
    assert!(config.is_internal() && config.passive && config.shutdown.is_some());
    assert_eq!(config.hold_time, HoldTime::from_secs(90).unwrap());
    assert_eq!(config.connect_retry, Duration::from_secs(2));
    assert_eq!(
        (config.families, config.extended_next_hop),
        ([false, true], true)
    );
    assert_eq!(
        (config.max_prefixes, config.graceful),
        (Some(7), Duration::from_secs(2))
    );
    let hops = ["10.0.0.9", "fd00::9"].map(|it| Some(it.parse().unwrap()));
    assert_eq!(config.next_hops, hops);
    let offer = config.policy.offer;
    assert_eq!(
        (offer.med, offer.local_pref, offer.prepend),
        (Some(5), Some(200), 2)
    );
    assert_eq!(
        (
            offer.communities.len(),
            offer.extended.len(),
            offer.large.len()
        ),
        (2, 1, 1)
    );
    let export: Vec<Prefix> = vec!["192.0.2.0/24".parse().unwrap()];
    assert_eq!(config.policy.export, Some(export));
}

#[test]
fn what_a_neighbour_leaves_out_is_as_the_defaults_have_it() {
    let two = bgp(
        "  defaults: {hold_time: 30s, families: [ipv4], ttl_security: true, communities: ['1:1'], \
         graceful_shutdown: 3s}\n  \
         neighbors:\n    a: {address: 10.0.0.1, asn: 1}\n    \
         b: {address: 10.0.0.2, asn: 1, hold_time: 3s, ttl_security: false, communities: ['2:2']}\n",
    )
    .unwrap();
    let [a, b] = two.neighbors.as_slice() else {
        panic!("{two:?}");
    };
    let secs = |it: &NeighborConfig| it.spec.config.hold_time.secs();
    assert_eq!((secs(a), secs(b)), (30, 3));
    assert!(a.spec.ttl_security && !b.spec.ttl_security);
    let said = |it: &NeighborConfig| it.spec.config.policy.offer.communities[0].to_string();
    assert_eq!((said(a).as_str(), said(b).as_str()), ("1:1", "2:2"));
    for one in [a, b] {
        assert_eq!(one.spec.config.families, [true, false]);
        assert_eq!(one.spec.config.graceful, Duration::from_secs(3));
    }
}

#[test]
fn a_neighbour_follows_a_session_of_its_own_or_one_that_is_there() {
    let config = load(&format!(
        "{OURS}  neighbors:\n    far: {{address: 192.0.2.1, asn: 1, multihop: 2, bfd: auto}}\n    \
         tor: {{address: 10.0.0.1, asn: 1, bfd: path}}\n\
         bfd: {{sessions: {{path: {{peer: 10.0.0.1}}}}}}\n\
         vips: {{api: {{addresses: [192.0.2.10], track: {{way: {{bfd: far, critical: true}}}}}}}}\n"
    ))
    .unwrap();
    let names: Vec<&str> = config.bfd.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["path", "far"]);
    let far = &config.bfd[1];
    assert_eq!(
        (far.multihop, far.config.min_ttl),
        (true, MinTtl::multihop(253))
    );
    let followed = config.bgp.unwrap().neighbors;
    let followed: Vec<_> = followed
        .iter()
        .map(|it| it.bfd.as_ref().unwrap().as_str())
        .collect();
    assert_eq!(followed, ["far", "path"]);
}

#[test]
fn an_interface_alone_is_whichever_router_is_there() {
    let tor = neighbor("interface: eth0, asn: external, bfd: auto, bfd_strict: true").unwrap();
    let spec = &tor.spec;
    assert_eq!((spec.peer, spec.interface.as_deref()), (None, Some("eth0")));
    assert_eq!(spec.config.peer_as, PeerAs::External);
    assert!(spec.config.extended_next_hop && spec.config.strict_bfd);
    // Its session of BFD is there once somebody was found.
    assert_eq!(tor.bfd.as_ref().unwrap().as_str(), "tor");
    let config = load(&format!(
        "{OURS}  neighbors: {{tor: {{interface: eth0, asn: internal, bfd: auto}}}}\n"
    ))
    .unwrap();
    assert!(config.bfd.is_empty());
    let path = own_session(spec, "fe80::1".parse().unwrap());
    assert_eq!(path.interface.as_deref(), Some("eth0"));
    assert_eq!(path.config.min_ttl, MinTtl::NEIGHBOR);
    let off = neighbor("interface: eth0, asn: 1, extended_next_hop: false").unwrap();
    assert!(!off.spec.config.extended_next_hop);
    let addressed = neighbor("address: fe80::1, interface: eth0, asn: internal").unwrap();
    assert!(!addressed.spec.config.extended_next_hop);
    assert!(addressed.spec.config.is_internal());
    // Two on one interface are one; one with an address is another.
    let two = |other: &str| {
        bgp(&format!(
            "  neighbors:\n    a: {{interface: eth0, asn: external}}\n    b: {{{other}}}\n"
        ))
    };
    let same = two("interface: eth0, asn: 1").unwrap_err();
    assert!(same[0].what.contains("the same neighbour"), "{same:?}");
    assert!(two("interface: eth1, asn: external").is_ok());
    assert!(two("interface: eth0, address: fe80::1, asn: 1").is_ok());
}

#[test]
fn a_key_of_tcp_ao_has_two_numbers() {
    let ao = neighbor(
        "address: 10.20.14.1, asn: 1, tcp_ao: {key_file: /etc/kedge/tor, send_id: 3, receive_id: 4, \
         algorithm: aes_cmac}",
    )
    .unwrap();
    let ao = ao.tcp_ao.unwrap();
    assert_eq!(ao.ids, [3, 4]);
    assert_eq!(ao.algorithm, AoAlgorithm::AesCmac);
    assert_eq!(ao.file.to_str(), Some("/etc/kedge/tor"));
}

#[test]
fn a_vip_says_how_it_is_found() {
    assert_eq!(vip("").unwrap().via, Via::Vrrp);
    assert_eq!(vip("via: [bgp]").unwrap().via, Via::Bgp);
    let both = vip("via: [bgp, vrrp], bgp: {med: 9, prepend: 1, neighbors: [tor]}").unwrap();
    assert_eq!(both.via, Via::VrrpAndBgp);
    let Announced { offer, neighbors } = both.announced;
    assert_eq!((offer.med, offer.prepend), (Some(9), 1));
    assert_eq!(neighbors.unwrap().first().unwrap().as_str(), "tor");
}

#[test]
fn a_daemon_of_the_host_takes_routes_from_a_table() {
    let mode = |text: &str| load(text).map(|config| config.bgp.unwrap().mode);
    assert_eq!(
        mode("bgp: {mode: route_table_only}"),
        Ok(BgpMode::Table(107))
    );
    assert_eq!(
        mode("bgp: {mode: route_table_only, table: 9}"),
        Ok(BgpMode::Table(9))
    );
    assert_eq!(mode("bgp: {}"), Ok(BgpMode::Own));
}

#[test]
fn every_mistake_in_a_neighbour_is_located_and_coded() {
    use Code::{ConfigOutOfRange as Range, ConfigRule as Rule, ConfigUnknownKey as Unknown};

    const OK: &str = "address: 10.20.14.1, asn: 65000";
    for (body, code, words, part) in [
        ("asn: 1".to_owned(), Rule, "needs its address", "address"),
        ("address: 10.0.0.1".to_owned(), Rule, "needs its asn", "asn"),
        (
            "address: tor, asn: 1".to_owned(),
            Range,
            "IP address",
            "address",
        ),
        (
            "address: 224.0.0.1, asn: 1".to_owned(),
            Range,
            "not the address of a host",
            "address",
        ),
        (
            "address: 10.0.0.1, asn: 0".to_owned(),
            Range,
            "1 to 4294967295",
            "asn",
        ),
        (
            "address: fe80::1, asn: 1".to_owned(),
            Rule,
            "is on every link",
            "interface",
        ),
        (
            "address: fe80::1, asn: 1, multihop: 2".to_owned(),
            Rule,
            "no router leads",
            "multihop",
        ),
        (
            "address: 10.0.0.1, asn: extern".to_owned(),
            Range,
            "`external` or `internal`",
            "asn",
        ),
        (
            "interface: eth0, asn: 1, multihop: 2".to_owned(),
            Rule,
            "with none in between",
            "multihop",
        ),
        (
            "interface: eth0, asn: 1, source: 10.0.0.1".to_owned(),
            Rule,
            "an address of the link",
            "source",
        ),
        (
            format!("{OK}, bfd_strict: true"),
            Rule,
            "nothing tells whether",
            "bfd_strict",
        ),
        (
            format!("{OK}, tcp_ao: {{key_file: /k, send_id: 1}}"),
            Rule,
            "needs a key and the numbers",
            "tcp_ao",
        ),
        (
            format!("{OK}, password_file: /p, tcp_ao: {{key_file: /k, send_id: 1, receive_id: 1}}"),
            Rule,
            "not with both",
            "tcp_ao",
        ),
        (
            format!("{OK}, source: fd00::1"),
            Rule,
            "another family",
            "source",
        ),
        (format!("{OK}, port: 0"), Range, "", "port"),
        (format!("{OK}, multihop: 0"), Range, "1 to 254", "multihop"),
        (
            format!("{OK}, hold_time: 2s"),
            Range,
            "3s to 65535s",
            "hold_time",
        ),
        (
            format!("{OK}, hold_time: 3500ms"),
            Range,
            "whole seconds",
            "hold_time",
        ),
        (
            format!("{OK}, connect_retry: 0s"),
            Range,
            "1s to 5m",
            "connect_retry",
        ),
        (
            format!("{OK}, graceful_shutdown: 6s"),
            Range,
            "0s to 5s",
            "graceful_shutdown",
        ),
        (format!("{OK}, prepend: 17"), Range, "0 to 16", "prepend"),
        (
            format!("{OK}, max_prefixes: 0"),
            Range,
            "1 to",
            "max_prefixes",
        ),
        (
            format!("{OK}, families: []"),
            Rule,
            "without a kind",
            "families",
        ),
        (
            format!("{OK}, families: [ipv4, ipv4]"),
            Rule,
            "twice",
            "families",
        ),
        (
            format!("{OK}, communities: ['1:1', '1:1']"),
            Rule,
            "twice",
            "communities",
        ),
        (
            format!("{OK}, communities: ['70000:1']"),
            Range,
            "70000:1",
            "communities",
        ),
        (
            format!("{OK}, local_pref: 5"),
            Rule,
            "another autonomous system",
            "local_pref",
        ),
        (
            format!("{OK}, bfd: nobody"),
            Rule,
            "no BFD session nobody",
            "bfd",
        ),
        (
            format!("{OK}, next_hop: {{ipv4: 0.0.0.0}}"),
            Range,
            "not the address",
            "next_hop.ipv4",
        ),
        (
            format!("{OK}, password: secret"),
            Unknown,
            "password",
            "password",
        ),
    ] {
        let problems = neighbor(&body).unwrap_err();
        let object = format!("bgp.neighbors.tor.{part}");
        told_as(&problems, words, code, [":5:", &object]);
    }
}

#[test]
fn every_mistake_of_bgp_as_a_whole_is_located() {
    let one = "{address: 10.0.0.1, asn: 1}";
    for (yaml, words, object) in [
        (
            format!("bgp: {{router_id: 1.1.1.1, neighbors: {{a: {one}}}}}"),
            "an asn",
            "bgp.asn",
        ),
        (
            format!("bgp: {{asn: 1, neighbors: {{a: {one}}}}}"),
            "a router_id",
            "bgp.router_id",
        ),
        (
            "bgp: {table: 9}".to_owned(),
            "route_table_only",
            "bgp.table",
        ),
        (
            format!("bgp: {{mode: route_table_only, neighbors: {{a: {one}}}}}"),
            "has no neighbours",
            "bgp.neighbors",
        ),
        (
            format!("{OURS}  neighbors: {{a: {one}, b: {one}}}"),
            "a and b are the same neighbour",
            "bgp.neighbors.b.address",
        ),
        (
            format!(
                "{OURS}  neighbors: {{a: {{address: 10.0.0.1, asn: 1, bfd: x}}}}\n\
                     bfd: {{sessions: {{x: {{peer: 10.0.0.2}}}}}}"
            ),
            "watches 10.0.0.2, not 10.0.0.1",
            "bgp.neighbors.a.bfd",
        ),
        (
            format!(
                "{OURS}  neighbors: {{a: {{address: 10.0.0.1, asn: 1, bfd: auto}}}}\n\
                     bfd: {{sessions: {{a: {{peer: 10.0.0.1}}}}}}"
            ),
            "there is a BFD session a already",
            "bgp.neighbors.a.bfd",
        ),
        (
            "vips: {api: {addresses: [192.0.2.1], via: [bgp]}}".to_owned(),
            "nothing says to whom",
            "vips.api.via",
        ),
    ] {
        let problems = load(&format!("{yaml}\n")).unwrap_err();
        told_as(&problems, words, Code::ConfigRule, [object, object]);
    }
    let problems = load("bgp: {mode: route_table_only, table: 254}").unwrap_err();
    told_as(
        &problems,
        "none of 253",
        Code::ConfigOutOfRange,
        [":1:", "bgp.table"],
    );
}

#[test]
fn every_mistake_in_the_ways_of_a_vip_is_located() {
    for (body, words, part) in [
        ("via: []", "nobody would learn", "via"),
        ("via: [bgp, bgp]", "twice", "via"),
        ("bgp: {med: 1}", "VRRP alone moves", "bgp"),
        (
            "via: [vrrp, bgp], bgp: {neighbors: []}",
            "no use for BGP",
            "bgp.neighbors",
        ),
        (
            "via: [vrrp, bgp], bgp: {neighbors: [tro]}",
            "no BGP neighbour tro",
            "bgp.neighbors",
        ),
        ("via: [bgp], vrid: 51", "`vrid` is VRRP's", "vrid"),
        (
            "via: [bgp], priority: 200",
            "`priority` is VRRP's",
            "priority",
        ),
        (
            "via: [bgp], preempt: true",
            "`preempt` is VRRP's",
            "preempt",
        ),
        (
            "via: [bgp], sync_group: g",
            "`sync_group` is VRRP's",
            "sync_group",
        ),
        (
            "via: [bgp], virtual_mac: true",
            "`virtual_mac` is VRRP's",
            "virtual_mac",
        ),
        (
            "via: [bgp], interface: eth0",
            "`interface` is VRRP's",
            "interface",
        ),
        (
            "via: [bgp], track: {up: {interface: eth0, weight: -5}}",
            "no priority that a failure",
            "track.up.weight",
        ),
    ] {
        let problems = vip(body).unwrap_err();
        let object = format!("vips.api.{part}");
        told_as(&problems, words, Code::ConfigRule, [&object, &object]);
    }
    let problems = load(
        "bgp: {mode: route_table_only}\n\
         vips: {api: {addresses: [192.0.2.1], via: [vrrp, bgp], bgp: {med: 1}}}\n",
    )
    .unwrap_err();
    told_as(
        &problems,
        "says nothing of itself",
        Code::ConfigRule,
        ["vips.api.bgp", "vips.api.bgp"],
    );
}

#[test]
fn a_vip_without_an_election_has_no_virtual_router_that_another_could_meet() {
    let derived = Vrid::derive("192.0.2.1".parse().unwrap());
    let pair = |via: &str| {
        load(&format!(
            "{OURS}vips:\n  a: {{addresses: [192.0.2.1], via: [{via}]}}\n  \
             b: {{addresses: [192.0.2.2], vrid: {derived}}}\n"
        ))
    };
    assert!(pair("vrrp, bgp").is_err());
    assert_eq!(pair("bgp").unwrap().vips.len(), 2);
}
