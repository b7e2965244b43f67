mod auth;
mod bfd;
mod bgp;
mod elsewhere;
mod failover;
mod group;
mod track;
mod virtual_mac;

use kedge_core::{Code, Problem};
use kedge_host::layers::{RoleFile, Sources, load_from};
use kedge_tunnel_device::{backend, offload::Allowed};

use super::*;

fn load(yaml: &str) -> Result<AgentConfig, Vec<Problem>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.yaml");
    std::fs::write(&path, yaml).unwrap();
    load_from::<AgentFile>(&Sources::file(&path))
        .map(|loaded| loaded.config)
        .map_err(kedge_host::layers::ConfigError::into_problems)
}

/// What `yaml` says, where nothing is wrong with it.
pub(crate) fn loaded(yaml: &str) -> AgentConfig {
    load(yaml).unwrap()
}

/// The problem as text, so that a test sees everything a person sees.
fn told(problem: &Problem) -> String {
    format!(
        "{} {} {} {}",
        problem.code,
        problem.object,
        problem.what,
        problem.evidence.join(" ")
    )
}

/// The problem that says `words`: it has this code, and a place that is one of these.
fn told_as<'a>(problems: &'a [Problem], words: &str, code: Code, places: [&str; 2]) -> &'a Problem {
    let found = problems.iter().find(|it| told(it).contains(words));
    let found = found.unwrap_or_else(|| panic!("nothing says {words}: {problems:?}"));
    let text = told(found);
    assert_eq!(found.code, code, "{text}");
    let [line, object] = places;
    assert!(
        text.contains(line) || found.object.starts_with(object),
        "{text}"
    );
    found
}

const KEY: &str = "tTpyVTmHt9KKrynwDulkOR1/XLh0MwK7k2eL7DHIjkk=";

#[test]
fn a_vip_alone_is_a_configuration() {
    let config = load("vips:\n  api:\n    addresses: [10.20.14.10]\n").unwrap();
    let vip = &config.vips["api"];
    assert_eq!(vip.vrid, Vrid::derive("10.20.14.10".parse().unwrap()));
    assert!(vip.vrid_derived);
    assert_eq!(vip.priority, None);
    assert_eq!(vip.interval, AdvertInterval::DEFAULT);
    assert_eq!(vip.members, Members::Kedge);
    let health = vip.health.as_ref().unwrap();
    assert_eq!(health.url.as_str(), "https://127.0.0.1:6443/readyz");
    assert_eq!((health.rise, health.fall, health.auto), (2, 3, true));
    assert_eq!(config.manager, None);
    assert_eq!(config.tunnel.interface, "kedge0");
    assert_eq!(config.tunnel.noise_core, CoreName::Boringtun);
    assert_eq!(config.tunnel.data_plane, backend::Mode::Auto);
    assert!(!config.tunnel.wg_socket);
    assert_eq!(config.tunnel.bench_mbps, 0, "nobody is answered");
    assert_eq!(config.tunnel.offload, Allowed::ALL);
    assert_eq!(config.tunnel.allowed, DEFAULT_OVERLAY);
}

#[test]
fn every_key_is_understood() {
    let config = load(&format!(
        "
version: 1
vips:
  api:
    addresses: [10.20.14.10, 10.20.14.9]
    vrid: 51
    priority: 200
    members: kedge
    advert_interval: 1s
    health: {{url: https://127.0.0.1:9345/ping, interval: 1s, timeout: 2s, rise: 1, fall: 5}}
    interface: eth0
    preempt: true
    checksum: message
    accept: false
  web:
    addresses: [10.20.14.20]
    profile: fast
    fence: false
    members: mixed
    priority: 100
    unhealthy_priority: 50
    health: none
manager:
  url: https://203.0.113.9:9443
  token_file: /etc/kedge/token
  name: edge-a
  host_ref: {{api_group: elemental.cattle.io, kind: ElementalHost, name: edge-a}}
tunnel:
  listen_port: 51820
  interface: kedge1
  mtu: 1400
  noise_core: own
  data_plane: userspace
  wg_socket: true
  bench_mbps: 500
  offload: auto
  offload_send: off
  offload_receive: auto
  addresses: ['10.9.0.2/32']
  allowed: ['10.9.0.0/16']
  peers:
    gw: {{public_key: {KEY}, endpoint: 'gw.example:51820', allowed_ips: ['10.9.0.1/32'], keepalive: 25s}}
node: {{name: other}}
report: {{primary: 10.20.14.11, exclude: [10.0.0.0/16], exclude_interfaces: [docker0]}}
"
    ))
    .unwrap();
    let api = &config.vips["api"];
    assert_eq!(api.addresses.len(), 2);
    assert_eq!(
        (api.vrid.get(), api.vrid_derived, api.preempt),
        (51, false, true)
    );
    assert_eq!(api.priority.unwrap().get(), 200);
    assert_eq!((api.interval.centis(), api.accept), (100, false));
    assert_eq!(api.checksum, ChecksumPolicy::Message);
    let health = api.health.as_ref().unwrap();
    assert_eq!((health.rise, health.fall, health.auto), (1, 5, false));
    assert_eq!(health.trust, Trust::Local);
    let web = &config.vips["web"];
    let unhealthy = Priority::new(50).unwrap();
    assert_eq!(web.members, Members::Mixed { unhealthy });
    assert_eq!(web.health, None);
    assert_eq!(
        (web.interval.centis(), web.accept, web.fence),
        (1, true, false)
    );
    assert_eq!(
        config.node_name.unwrap().as_str(),
        "edge-a",
        "the manager's name wins"
    );
    assert_eq!(
        config.manager.unwrap().host_ref.unwrap().kind,
        "ElementalHost"
    );
    let peer = &config.tunnel.peers["gw"];
    assert_eq!(peer.keepalive, Some(Duration::from_secs(25)));
    assert_eq!(config.tunnel.mtu, Some(1400));
    assert_eq!(config.tunnel.noise_core, CoreName::Own);
    assert_eq!(config.tunnel.data_plane, backend::Mode::Userspace);
    assert!(config.tunnel.wg_socket);
    assert_eq!(config.tunnel.bench_mbps, 500);
    let inward = Allowed {
        gro: true,
        coalesce: true,
        ..Allowed::NONE
    };
    assert_eq!(config.tunnel.offload, inward);
    assert_eq!(config.report.exclude_interfaces, ["docker0"]);
}

/// (what stands below `vips.api` beside the address, code, words of the error)
const VIP_MISTAKES: &[(&str, Code, &str)] = &[
    (
        "vrid: 0",
        Code::ConfigOutOfRange,
        "vrid must be 1 to 255, not 0",
    ),
    (
        "vrid: 256",
        Code::ConfigOutOfRange,
        "vrid must be 1 to 255, not 256",
    ),
    (
        "vrid: -1",
        Code::ConfigOutOfRange,
        "vrid must be 1 to 255, not -1",
    ),
    (
        "priority: 0",
        Code::ConfigOutOfRange,
        "priority must be 1 to 255, not 0",
    ),
    (
        "priority: 256",
        Code::ConfigOutOfRange,
        "priority must be 1 to 255, not 256",
    ),
    ("priority: 191", Code::ConfigOutOfRange, "vips.api.priority"),
    (
        "unhealthy_priority: 5",
        Code::ConfigRule,
        "vips.api.unhealthy_priority",
    ),
    (
        "{members: mixed, unhealthy_priority: 5}",
        Code::ConfigRule,
        "explicit priority",
    ),
    (
        "{members: mixed, priority: 100}",
        Code::ConfigRule,
        "needs an unhealthy_priority",
    ),
    (
        "{members: mixed, priority: 100, unhealthy_priority: 100}",
        Code::ConfigOutOfRange,
        "not below the priority",
    ),
    (
        "advert_interval: 5ms",
        Code::ConfigOutOfRange,
        "steps of 10ms, not 5ms",
    ),
    (
        "advert_interval: 41s",
        Code::ConfigOutOfRange,
        "10ms to 40.95s",
    ),
    ("advert_interval: 100", Code::ConfigOutOfRange, "100"),
    (
        "interface: a-name-that-is-too-long",
        Code::ConfigOutOfRange,
        "interface name",
    ),
    ("interface: ''", Code::ConfigOutOfRange, "interface name"),
    (
        "health: {url: 'http://127.0.0.1/'}",
        Code::ConfigOutOfRange,
        "is not a URL",
    ),
    (
        "health: {url: 'https://127.0.0.1:99999/'}",
        Code::ConfigOutOfRange,
        "is not a URL",
    ),
    (
        "health: {interval: 1s}",
        Code::ConfigRule,
        "a probe needs a url",
    ),
    (
        "health: {url: 'https://10.0.0.1/'}",
        Code::ConfigRule,
        "whom to trust",
    ),
    (
        "health: {url: 'https://127.0.0.1/', interval: 50ms}",
        Code::ConfigOutOfRange,
        "100ms to 60s",
    ),
    (
        "health: {url: 'https://127.0.0.1/', timeout: 61s}",
        Code::ConfigOutOfRange,
        "50ms to 1m, not 61s",
    ),
    (
        "health: {url: 'https://127.0.0.1/', rise: 0}",
        Code::ConfigOutOfRange,
        "1 to 100, not 0",
    ),
    (
        "health: {url: 'https://127.0.0.1/', fall: 101}",
        Code::ConfigOutOfRange,
        "1 to 100, not 101",
    ),
    (
        "health: {url: 'https://127.0.0.1/', pin: abc}",
        Code::ConfigOutOfRange,
        "a pin is the SHA-256",
    ),
    ("vird: 51", Code::ConfigUnknownKey, "vird"),
    ("version: 4", Code::ConfigOutOfRange, "2 to 3, not 4"),
    ("{fence: false, accept: false}", Code::ConfigRule, "fence"),
    ("version: 2", Code::ConfigRule, "whole seconds"),
    ("password_file: /x", Code::ConfigRule, "only version 2"),
    (
        "auth: {active_key: 1, keys: {2: /x}}",
        Code::ConfigRule,
        "one of the keys",
    ),
    (
        "auth: {active_key: 0, keys: {'1': /x}}",
        Code::ConfigOutOfRange,
        "1 to 255",
    ),
    (
        "auth: {active_key: '1', keys: {'1': /x}, time_window: 6m}",
        Code::ConfigOutOfRange,
        "1s to 5m, not 6m",
    ),
    ("min_ttl: 0", Code::ConfigOutOfRange, "1 to 255, not 0"),
    ("preempt_delay: 2h", Code::ConfigOutOfRange, "1h"),
    (
        "excluded_addresses: [10.20.14.10]",
        Code::ConfigRule,
        "twice",
    ),
    (
        "unicast_peers: ['fd00::1']",
        Code::ConfigRule,
        "in the family of the VIP",
    ),
    (
        "unicast_peers: [10.20.14.10]",
        Code::ConfigRule,
        "no address of a router",
    ),
    (
        "health: {url: 'https://127.0.0.1/', raise: 2}",
        Code::ConfigUnknownKey,
        "raise",
    ),
];

#[test]
fn every_mistake_in_a_vip_is_located_and_coded() {
    for (mistake, code, words) in VIP_MISTAKES {
        let inner = mistake.trim_start_matches('{').trim_end_matches('}');
        let body = if mistake.starts_with('{') {
            inner
        } else {
            mistake
        };
        let yaml = format!("vips:\n  api: {{addresses: [10.20.14.10], {body}}}\n");
        let problems = load(&yaml).unwrap_err();
        let text = told(&problems[0]);
        assert!(text.contains(words), "{mistake}: {text}");
        assert_eq!(problems[0].code, *code, "{mistake}: {text}");
        let located = text.contains("agent.yaml:2") || problems[0].object.starts_with("vips.api.");
        assert!(located, "{mistake}: {text}");
    }
}

#[test]
fn addresses_are_those_of_hosts() {
    for (addresses, words) in [
        ("[]", "needs an address"),
        ("[10.20.14.10, 10.20.14.10]", "twice"),
        ("['::1']", "cannot be the address of a host"),
        ("['ff02::12']", "cannot be the address of a host"),
        ("['::ffff:10.20.14.10']", "cannot be the address of a host"),
        ("['fd00::1', 'FD00:0::1']", "twice"),
        ("[127.0.0.1]", "cannot be the address of a host"),
        ("[224.0.0.18]", "cannot be the address of a host"),
        ("[255.255.255.255]", "cannot be the address of a host"),
        ("[0.0.0.0]", "cannot be the address of a host"),
        ("[10.20.14]", "10.20.14"),
    ] {
        let problems = load(&format!("vips:\n  api:\n    addresses: {addresses}\n")).unwrap_err();
        assert!(
            told(&problems[0]).contains(words),
            "{addresses}: {}",
            told(&problems[0])
        );
    }
    let many: Vec<String> = (0..256)
        .map(|n| format!("10.0.{}.{}", n / 250, n % 250 + 1))
        .collect();
    let yaml = format!("vips:\n  api:\n    addresses: [{}]\n", many.join(", "));
    assert_eq!(load(&yaml).unwrap_err()[0].code, Code::ConfigOutOfRange);
}

#[test]
fn two_vips_do_not_share_a_vrid_on_an_interface_nor_an_address() {
    let two = |a: &str, b: &str| {
        load(&format!(
            "vips:\n  a: {{addresses: [10.0.0.1], {a}}}\n  b: {{addresses: [10.0.0.2], {b}}}\n"
        ))
    };
    for (a, b) in [
        ("vrid: 7", "vrid: 7"),
        ("vrid: 7, interface: eth0", "vrid: 7, interface: eth0"),
        ("vrid: 7, priority: 200", "vrid: 7, priority: 210"),
    ] {
        let problems = two(a, b).unwrap_err();
        assert_eq!(problems[0].code, Code::ConfigDuplicateVrid);
        assert_eq!(problems[0].object, "vips.b.vrid");
        assert!(
            told(&problems[0]).contains("agent.yaml:3"),
            "{}",
            told(&problems[0])
        );
    }
    two("vrid: 7, interface: eth0", "vrid: 7, interface: eth1").unwrap();
    two("vrid: 7", "vrid: 8").unwrap();
    let problems = load("vips: {a: {addresses: [10.0.0.1]}, b: {addresses: [10.0.0.1], vrid: 9}}");
    let problems = problems.unwrap_err();
    assert!(told(&problems[0]).contains("belongs to a already"));
}

#[test]
fn the_view_with_defaults_means_the_same() {
    let yaml = "peer_link: {key_file: /k}\n\
                vips: {api: {addresses: [10.20.14.10], health: {url: 'https://127.0.0.1/'}}}";
    let file: AgentFile = {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.yaml");
        std::fs::write(&path, yaml).unwrap();
        load_from(&Sources::file(&path)).unwrap().file
    };
    let filled = file.clone().filled();
    assert_eq!(filled.checked().unwrap(), file.checked().unwrap());
    assert_ne!(filled, file);
    assert_eq!(filled.clone().filled(), filled);
}
