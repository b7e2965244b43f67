use std::time::Duration;

use ipnet::IpNet;
use kedge_control::agent::{self, HealthMode};
use kedge_core::{
    Code,
    vip::{AdvertInterval, Priority},
};
use kedge_net::monitor::{Address, Link};

use super::*;
use crate::config::tests::loaded as config;

fn facts() -> Facts {
    let address = |net: &str| Address {
        net: net.parse().unwrap(),
        peer: None,
        protocol: 0,
        scope: 0,
        permanent: true,
        tentative: false,
        deprecated: false,
        temporary: false,
    };
    let link = |index, name: &str, nets: &[&str]| Link {
        index,
        name: name.to_owned(),
        up: true,
        carrier: true,
        multicast: true,
        mac: Some([2, 0, 0, 0, 0, 1]),
        addresses: nets.iter().map(|net| address(net)).collect(),
        ..Link::default()
    };
    Facts {
        links: vec![
            link(
                2,
                "eth0",
                &["10.20.14.11/24", "fe80::b/64", "fd00:14::b/64"],
            ),
            link(3, "eth1", &["10.0.9.4/24", "fe80::b/64"]),
        ],
        ..Facts::default()
    }
}

fn wish(name: &str, address: &str) -> agent::VipConfig {
    agent::VipConfig {
        name: name.to_owned(),
        addresses: vec![address.parse().unwrap()],
        vrid: Vrid::derive(address.parse().unwrap()),
        priority: Priority::new(254).unwrap(),
        advert_interval_seconds: 0.1,
        interface: None,
        health: HealthMode::Auto,
    }
}

fn of(vips: Vec<agent::VipConfig>) -> HostConfig {
    HostConfig {
        generation: 1,
        vips,
        ..HostConfig::default()
    }
}

fn planned(config: &AgentConfig, manager: Option<&HostConfig>) -> Desired {
    plan(
        config,
        manager,
        &facts(),
        &Claimed::new(),
        &Secrets::default(),
    )
}

fn names(desired: &Desired) -> Vec<String> {
    let name = |vip: &Vip| format!("{} {}", vip.spec.name, vip.source);
    desired.vips.iter().map(name).collect()
}

#[test]
fn vips_of_both_sides_stand_beside_each_other() {
    let local = config("vips: {api: {addresses: [10.20.14.10]}}");
    let desired = planned(&local, Some(&of(vec![wish("other", "10.20.14.20")])));
    assert_eq!(names(&desired), ["api local", "other manager"]);
    assert!(desired.problems.is_empty());
    let other = &desired.vips[1];
    assert_eq!(other.spec.interval, AdvertInterval::DEFAULT);
    assert_eq!(other.priority_because, "chosen by the manager");
    assert!(other.spec.gated && other.spec.first_claim);
    assert_eq!(desired.tunnel, None);
}

#[test]
fn an_automatic_priority_comes_from_the_own_address() {
    let local = config("vips: {api: {addresses: [10.20.14.10]}}");
    let vip = planned(&local, None).vips.remove(0);
    // Slot 11 at 100 ms: 254 - 3 * 11.
    assert_eq!(vip.spec.priority.get(), 221);
    assert!(
        vip.priority_because.contains("3 x slot 11"),
        "{}",
        vip.priority_because
    );
    assert!(vip.priority_because.contains("10.20.14.11/24 on eth0"));
    assert!(vip.vrid_because.contains("derived from 10.20.14.10"));
    let elsewhere = config("vips: {api: {addresses: [192.0.2.10]}}");
    let vip = planned(&elsewhere, None).vips.remove(0);
    assert_eq!(vip.spec.priority.get(), 254);
}

#[test]
fn a_vip_held_before_needs_no_first_claim() {
    let local = config("vips: {api: {addresses: [10.20.14.10], vrid: 7}}");
    let held = |interface: &str, vrid| {
        let claimed = [(interface.to_owned(), Vrid::new(vrid).unwrap())].into();
        !plan(&local, None, &facts(), &claimed, &Secrets::default()).vips[0]
            .spec
            .first_claim
    };
    assert!(held("eth0", 7));
    assert!(!held("eth0", 8));
    assert!(!held("eth1", 7));
}

#[test]
fn a_name_both_use_is_the_hosts() {
    let local = config("vips: {api: {addresses: [10.20.14.10], health: none}}");
    let desired = planned(&local, Some(&of(vec![wish("api", "10.20.14.99")])));
    assert_eq!(names(&desired), ["api local"]);
    assert!(!desired.vips[0].spec.gated);
    assert_eq!(desired.problems[0].code, Code::ConfigRule);
    assert_eq!(desired.problems[0].object, "vips/api");
}

#[test]
fn wishes_that_do_not_fit_are_left_out_and_told() {
    let local = config("vips: {api: {addresses: [10.20.14.10], vrid: 7}}");
    let priority = |value| Priority::new(value).unwrap();
    for (change, code) in [
        (
            Box::new(|w: &mut agent::VipConfig| w.name = "Not A Name".to_owned())
                as Box<dyn Fn(&mut agent::VipConfig)>,
            Code::ConfigOutOfRange,
        ),
        (Box::new(|w| w.addresses.clear()), Code::ConfigRule),
        (
            Box::new(|w| w.addresses[0] = "ff02::1".parse().unwrap()),
            Code::ConfigOutOfRange,
        ),
        (
            Box::new(|w| w.addresses[0] = "127.0.0.1".parse().unwrap()),
            Code::ConfigOutOfRange,
        ),
        (
            Box::new(|w| w.addresses[0] = "10.20.14.10".parse().unwrap()),
            Code::ConfigRule,
        ),
        (
            Box::new(move |w| w.priority = priority(100)),
            Code::ConfigOutOfRange,
        ),
        (
            Box::new(|w| w.advert_interval_seconds = f64::NAN),
            Code::ConfigOutOfRange,
        ),
        (
            Box::new(|w| w.advert_interval_seconds = -1.0),
            Code::ConfigOutOfRange,
        ),
        (
            Box::new(|w| w.advert_interval_seconds = 1e300),
            Code::ConfigOutOfRange,
        ),
        (
            Box::new(|w| w.advert_interval_seconds = 0.005),
            Code::ConfigOutOfRange,
        ),
        (
            Box::new(|w| w.interface = Some("a/b".to_owned())),
            Code::ConfigOutOfRange,
        ),
        (
            Box::new(|w| w.vrid = Vrid::new(7).unwrap()),
            Code::ConfigDuplicateVrid,
        ),
    ] {
        let mut bad = wish("bad", "10.20.14.20");
        change(&mut bad);
        let manager = of(vec![bad.clone(), wish("good", "10.20.14.30")]);
        let desired = planned(&local, Some(&manager));
        assert_eq!(names(&desired), ["api local", "good manager"], "{bad:?}");
        assert_eq!(desired.problems.len(), 1, "{bad:?}: {:?}", desired.problems);
        assert_eq!(desired.problems[0].code, code, "{bad:?}");
        assert!(desired.problems[0].object.starts_with("vips/"));
    }
    let twice = of(vec![wish("a", "10.20.14.20"), wish("a", "10.20.14.30")]);
    assert_eq!(planned(&local, Some(&twice)).vips.len(), 2);
}

#[test]
fn derived_vrids_collide_only_on_one_interface() {
    // 10.20.14.10 and an address on the other network with the same derived VRID.
    let vrid = Vrid::derive("10.20.14.10".parse().unwrap());
    let twin = |network: &str| {
        (1..255)
            .map(|n| format!("{network}.{n}"))
            .find(|ip| *ip != "10.20.14.10" && Vrid::derive(ip.parse().unwrap()) == vrid)
    };
    let both = |address: &str| {
        config(&format!(
            "vips: {{a: {{addresses: [10.20.14.10]}}, b: {{addresses: [{address}]}}}}"
        ))
    };
    if let Some(address) = twin("10.0.9") {
        assert!(planned(&both(&address), None).problems.is_empty());
    }
    let mut same = both("10.20.14.77");
    for vip in same.vips.values_mut() {
        vip.vrid = vrid;
    }
    let desired = planned(&same, None);
    assert_eq!(names(&desired), ["a local"]);
    assert_eq!(desired.problems[0].code, Code::ConfigDuplicateVrid);
}

const KEYS: [&str; 2] = [
    "tTpyVTmHt9KKrynwDulkOR1/XLh0MwK7k2eL7DHIjkk=",
    "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
];

fn gateway(name: &str, key: &str, prefixes: &[&str]) -> agent::PeerConfig {
    agent::PeerConfig {
        name: name.to_owned(),
        public_key: key.to_owned(),
        next_public_key: None,
        endpoint: Some("203.0.113.7:51820".to_owned()),
        other_endpoint: None,
        tls_endpoint: None,
        tenant: String::new(),
        allowed_ips: nets(prefixes),
        keepalive_seconds: 25,
    }
}

fn nets(prefixes: &[&str]) -> Vec<IpNet> {
    prefixes
        .iter()
        .map(|prefix| prefix.parse().unwrap())
        .collect()
}

fn tunnel(addresses: &[&str], peers: Vec<agent::PeerConfig>) -> HostConfig {
    HostConfig {
        tunnel: Some(agent::TunnelConfig {
            addresses: nets(addresses),
            mtu: 1400,
            peers,
        }),
        ..HostConfig::default()
    }
}

#[test]
fn gateways_within_the_bounds_are_taken_up_and_asked() {
    let gw = gateway("gw-0", KEYS[0], &["fd6b:6564:6765::1/128", "198.18.0.1/32"]);
    let desired = planned(
        &config("version: 1"),
        Some(&tunnel(&["fd6b:6564:6765::a/128"], vec![gw])),
    );
    assert!(desired.problems.is_empty(), "{:?}", desired.problems);
    let wish = desired.tunnel.unwrap();
    assert_eq!((wish.mtu, wish.interface.as_str()), (1400, "kedge0"));
    let peer = &wish.peers[0];
    assert_eq!(peer.allowed_ips.len(), 2);
    let echo = (
        "fd6b:6564:6765::a".parse().unwrap(),
        "fd6b:6564:6765::1".parse().unwrap(),
    );
    assert_eq!(peer.echo, Some(echo));
    assert_eq!(peer.keepalive, Some(Duration::from_secs(25)));
}

#[test]
fn an_mtu_outside_its_bounds_is_told_and_not_taken_up() {
    for (mtu, configured, expected, problems) in [
        (1279, "", 1420, 1),
        (1280, "", 1280, 0),
        (9000, "", 9000, 0),
        (9001, "", 1420, 1),
        (9001, "tunnel: {mtu: 1500}", 1500, 0),
    ] {
        let mut wished = tunnel(&["fd6b:6564:6765::a/128"], Vec::new());
        wished.tunnel.as_mut().unwrap().mtu = mtu;
        let desired = planned(&config(&format!("version: 1\n{configured}")), Some(&wished));
        assert_eq!(desired.tunnel.unwrap().mtu, expected, "{mtu}");
        assert_eq!(desired.problems.len(), problems, "{mtu}");
        for problem in desired.problems {
            assert_eq!(problem.code, Code::ConfigOutOfRange);
            assert!(problem.what.contains(&mtu.to_string()), "{}", problem.what);
        }
    }
}

#[test]
fn a_manager_cannot_take_more_than_single_overlay_addresses() {
    for prefix in [
        "0.0.0.0/0",
        "::/0",
        "10.0.0.1/32",
        "fd6b:6564:6765::/48",
        "198.18.0.0/24",
    ] {
        let gw = gateway("gw-0", KEYS[0], &[prefix, "198.18.0.1/32"]);
        let desired = planned(
            &config("version: 1"),
            Some(&tunnel(&["198.18.0.9/32"], vec![gw])),
        );
        assert_eq!(desired.problems[0].code, Code::TunOutsideBounds, "{prefix}");
        assert_eq!(
            desired.tunnel.unwrap().peers[0].allowed_ips,
            nets(&["198.18.0.1/32"])
        );
        let desired = planned(&config("version: 1"), Some(&tunnel(&[prefix], vec![])));
        assert_eq!(desired.problems[0].code, Code::TunOutsideBounds, "{prefix}");
        assert_eq!(desired.tunnel, None, "nothing is left of the wish");
    }
    let open = config("tunnel: {allowed: ['10.0.0.0/8']}");
    let gw = gateway("gw-0", KEYS[0], &["10.1.0.0/16", "198.18.0.1/32"]);
    let desired = planned(&open, Some(&tunnel(&["10.9.0.1/32"], vec![gw])));
    assert_eq!(
        desired.tunnel.unwrap().peers[0].allowed_ips,
        nets(&["10.1.0.0/16"])
    );
    assert_eq!(desired.problems.len(), 1);
}

#[test]
fn bad_peers_of_the_manager_leave_the_others_alone() {
    let local = config(&format!(
        "tunnel: {{peers: {{own: {{public_key: {}, allowed_ips: ['198.18.0.5/32']}}}}}}",
        KEYS[0]
    ));
    let good = gateway("good", KEYS[1], &["198.18.0.1/32"]);
    for (bad, code) in [
        (gateway("own", "x", &["198.18.0.2/32"]), Code::ConfigRule),
        (gateway("bad", "x", &["198.18.0.2/32"]), Code::TunKey),
        (gateway("bad", KEYS[0], &["198.18.0.2/32"]), Code::TunKey),
        (
            gateway(
                "bad",
                "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                &["198.18.0.5/32"],
            ),
            Code::TunOutsideBounds,
        ),
    ] {
        let desired = planned(&local, Some(&tunnel(&[], vec![bad, good.clone()])));
        let peers: Vec<String> = desired
            .tunnel
            .unwrap()
            .peers
            .into_iter()
            .map(|peer| peer.name)
            .collect();
        assert_eq!(peers, ["own", "good"], "{code}");
        assert_eq!(desired.problems[0].code, code);
        assert_eq!(desired.problems.len(), 1);
    }
    let mut odd = good;
    odd.endpoint = Some("nowhere".to_owned());
    let desired = planned(&local, Some(&tunnel(&[], vec![odd])));
    assert_eq!(desired.problems[0].code, Code::ConfigOutOfRange);
    assert_eq!(desired.tunnel.unwrap().peers[1].endpoint, None);
}

#[test]
fn a_vip_of_version_two_without_its_password_is_left_out_and_told() {
    let yaml = "vips: {api: {addresses: [10.20.14.10], version: 2, advert_interval: 1s, \
                password_file: /etc/kedge/vrrp}, other: {addresses: [10.20.14.20]}}";
    let desired = planned(&config(yaml), None);
    assert_eq!(names(&desired), ["other local"]);
    assert_eq!(desired.problems[0].code, Code::ConfigFileUnreadable);
    assert_eq!(desired.problems[0].object, "vips/api");
}

#[test]
fn an_ipv6_vip_is_placed_by_its_prefix_and_ranked_by_the_link_local_address() {
    let local = config("vips: {api: {addresses: ['fe80::10', 'fd00:14::10']}}");
    let vip = planned(&local, None).vips.remove(0);
    // Slot 11 at 100 ms: 254 - 3 * 11.
    assert_eq!(vip.spec.priority.get(), 221);
    assert!(
        vip.priority_because.contains("fe80::b/64 on eth0"),
        "{}",
        vip.priority_because
    );
}

fn meshed(peers: Vec<agent::MeshPeer>) -> HostConfig {
    let gw = gateway("gw-0", KEYS[0], &["fd6b:6564:6765::1/128"]);
    HostConfig {
        mesh: Some(agent::MeshConfig {
            direct_path: agent::DirectPath::Auto,
            peers,
        }),
        ..tunnel(&["fd6b:6564:6765::a/128"], vec![gw])
    }
}

fn other(name: &str, key: &str, address: &str) -> agent::MeshPeer {
    agent::MeshPeer {
        name: name.to_owned(),
        public_key: key.to_owned(),
        next_public_key: None,
        addresses: nets(&[address]),
    }
}

#[test]
fn hosts_of_the_mesh_within_the_bounds_are_taken_up_and_are_led_through_a_gateway() {
    let good = other("site/b", KEYS[1], "fd6b:6564:6765::b/128");
    let desired = planned(&config("version: 1"), Some(&meshed(vec![good])));
    assert!(desired.problems.is_empty(), "{:?}", desired.problems);
    let wish = desired.tunnel.unwrap();
    assert_eq!(wish.failover.unwrap().gateways, ["gw-0"]);
    let mesh = wish.mesh.unwrap();
    assert_eq!(mesh.refusal, None);
    let ends = ("fd6b:6564:6765::a", "fd6b:6564:6765::b");
    assert_eq!(
        mesh.peers[0].ends,
        (ends.0.parse().unwrap(), ends.1.parse().unwrap())
    );
    let hosts: Vec<String> = mesh.hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts.len(), 3, "{hosts:?}");
    assert!(hosts.contains(&"10.20.14.11".to_owned()), "{hosts:?}");
}

#[test]
fn a_host_of_the_mesh_never_gets_what_is_somebody_elses() {
    for (bad, code) in [
        (
            other("site/b", KEYS[1], "10.0.0.1/32"),
            Code::TunOutsideBounds,
        ),
        (
            other("site/b", KEYS[1], "fd6b:6564:6765::/64"),
            Code::TunOutsideBounds,
        ),
        (
            other("site/b", KEYS[1], "fd6b:6564:6765::a/128"),
            Code::TunOutsideBounds,
        ),
        (
            other("site/b", KEYS[1], "fd6b:6564:6765::1/128"),
            Code::TunOutsideBounds,
        ),
        (
            other("site/b", KEYS[1], "198.18.0.9/32"),
            Code::TunOutsideBounds,
        ),
        (
            other("site/b", KEYS[0], "fd6b:6564:6765::b/128"),
            Code::TunKey,
        ),
        (
            other("gw-0", KEYS[1], "fd6b:6564:6765::b/128"),
            Code::TunKey,
        ),
        (other("site/b", "x", "fd6b:6564:6765::b/128"), Code::TunKey),
    ] {
        let desired = planned(&config("version: 1"), Some(&meshed(vec![bad.clone()])));
        assert_eq!(desired.problems.len(), 1, "{bad:?}");
        assert_eq!(desired.problems[0].code, code, "{bad:?}");
        assert!(desired.tunnel.unwrap().mesh.unwrap().peers.is_empty());
    }
}

#[test]
fn either_end_may_forbid_direct_paths_and_the_kernel_has_none() {
    use kedge_tunnel_proto::direct::Refusal;
    for (yaml, manager, refusal) in [
        ("version: 1", agent::DirectPath::Auto, None),
        (
            "version: 1",
            agent::DirectPath::Never,
            Some(Refusal::Ordered),
        ),
        (
            "tunnel: {direct_path: never}",
            agent::DirectPath::Auto,
            Some(Refusal::Ordered),
        ),
        (
            "tunnel: {direct_path: auto}",
            agent::DirectPath::Never,
            Some(Refusal::Ordered),
        ),
        (
            "tunnel: {data_plane: kernel}",
            agent::DirectPath::Auto,
            Some(Refusal::Unsupported),
        ),
    ] {
        let mut wish = meshed(Vec::new());
        wish.mesh.as_mut().unwrap().direct_path = manager;
        let mesh = planned(&config(yaml), Some(&wish)).tunnel.unwrap().mesh;
        assert_eq!(mesh.unwrap().refusal, refusal, "{yaml} {manager:?}");
    }
}

#[test]
fn an_address_that_every_host_has_is_outside_of_their_networks_and_nobody_elses() {
    const BGP: &str = "bgp: {asn: 65001, router_id: 10.20.14.11}\n";
    let of = |vips: &str| planned(&config(&format!("{BGP}vips: {{{vips}}}\n")), None);
    let desired = of("api: {addresses: [192.0.2.10, '2001:db8::10'], via: [bgp]}");
    assert!(desired.vips.is_empty() && desired.problems.is_empty());
    assert_eq!(desired.anycast[0].addresses.len(), 2);
    assert_eq!(desired.probes().len(), 1);
    for address in ["10.20.14.10", "fd00:14::10"] {
        let desired = of(&format!("api: {{addresses: ['{address}'], via: [bgp]}}"));
        assert!(desired.anycast.is_empty());
        assert_eq!(desired.problems[0].code, Code::BgpOnLink);
        assert_eq!(desired.problems[0].object, "vips/api");
    }
    // The manager's VIP of that name or address does not stand beside it.
    let local = config(&format!(
        "{BGP}vips: {{api: {{addresses: [192.0.2.10], via: [bgp]}}}}\n"
    ));
    let desired = planned(&local, Some(&of_manager("api", "10.20.14.10")));
    assert_eq!((desired.vips.len(), desired.anycast.len()), (0, 1));
    assert_eq!(desired.problems[0].code, Code::ConfigRule);
    let desired = planned(&local, Some(&of_manager("other", "192.0.2.10")));
    assert_eq!((desired.vips.len(), desired.anycast.len()), (1, 0));
}

fn of_manager(name: &str, address: &str) -> HostConfig {
    of(vec![wish(name, address)])
}

#[test]
fn a_vip_that_changes_its_kind_is_known_as_one() {
    const BGP: &str = "bgp: {asn: 65001, router_id: 10.20.14.11}\n";
    let of = |via: &str| {
        let yaml = format!("{BGP}vips: {{api: {{addresses: [192.0.2.10], via: [{via}]}}}}\n");
        planned(&config(&yaml), None)
    };
    let (elected, anycast) = (of("vrrp, bgp"), of("bgp"));
    assert!(elected.has_other_kinds(&anycast) && anycast.has_other_kinds(&elected));
    assert!(!anycast.has_other_kinds(&anycast) && !elected.has_other_kinds(&of("vrrp")));
}
