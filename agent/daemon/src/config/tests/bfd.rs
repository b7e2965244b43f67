//! BFD sessions.

use kedge_vip_speaker::bfd::{Config, Interval, MinTtl, Multiplier};

use super::*;

fn session(body: &str) -> Result<BfdSpec, Vec<Problem>> {
    let yaml = format!("bfd:\n  sessions:\n    tor: {{{body}}}\n");
    load(&yaml).map(|config| config.bfd.into_iter().next().unwrap())
}

#[test]
fn a_peer_alone_is_a_session() {
    let spec = session("peer: 10.0.0.1").unwrap();
    assert_eq!(spec.peer, "10.0.0.1".parse::<IpAddr>().unwrap());
    assert_eq!(spec.config, Config::DEFAULT);
    assert_eq!(
        (spec.interface, spec.source, spec.multihop),
        (None, None, false)
    );
    assert!(load("").unwrap().bfd.is_empty());
}

#[test]
fn each_key_of_a_session_is_understood() {
    let spec = session(
        "peer: fd00::1, interface: eth1, source: fd00::2, multihop: true, min_ttl: 250, \
         transmit_interval: 100ms, receive_interval: 1s, detect_multiplier: 5, passive: true, \
         shutdown: true",
    )
    .unwrap();
    assert_eq!(spec.interface.as_deref(), Some("eth1"));
    assert_eq!(spec.source, Some("fd00::2".parse().unwrap()));
    let expected = Config {
        desired_min_tx: Interval::from_micros(100_000),
        required_min_rx: Interval::SLOW,
        multiplier: Multiplier::new(5).unwrap(),
        passive: true,
        shutdown: true,
        min_ttl: MinTtl::multihop(250),
    };
    assert_eq!((spec.multihop, spec.config), (true, expected));
    let spec = session("peer: 192.0.2.1, multihop: true").unwrap();
    assert_eq!(spec.config.min_ttl, MinTtl::multihop(254));
}

#[test]
fn every_mistake_in_a_session_is_located_and_coded() {
    use Code::{ConfigOutOfRange as Range, ConfigRule as Rule, ConfigUnknownKey as Unknown};

    for (body, code, words) in [
        ("", Rule, "needs its peer"),
        ("peer: tor", Range, "IP address"),
        ("peer: 224.0.0.1", Range, "not the address of a host"),
        (
            "peer: 10.0.0.1, source: 0.0.0.0",
            Range,
            "not the address of a host",
        ),
        ("peer: fe80::1", Rule, "nothing says on which"),
        (
            "peer: fe80::1, interface: e, multihop: true",
            Rule,
            "no router leads there",
        ),
        ("peer: 10.0.0.1, source: fd00::1", Rule, "another family"),
        ("peer: 10.0.0.1, min_ttl: 250", Rule, "the TTL is 255"),
        (
            "peer: 10.0.0.1, transmit_interval: 9ms",
            Range,
            "10ms to 1m",
        ),
        ("peer: 10.0.0.1, receive_interval: 61s", Range, "10ms to 1m"),
        ("peer: 10.0.0.1, receive_interval: 0ms", Range, "10ms to 1m"),
        ("peer: 10.0.0.1, detect_multiplier: 0", Range, "1 to 255"),
        ("peer: 10.0.0.1, detect_multiplier: 256", Range, "1 to 255"),
        ("peer: 10.0.0.1, echo: true", Unknown, "echo"),
    ] {
        let problems = session(body).unwrap_err();
        told_as(&problems, words, code, ["agent.yaml:3", "bfd.sessions.tor"]);
    }
}

#[test]
fn two_names_for_one_session_and_a_track_of_none_are_told() {
    let problems = load(
        "bfd: {sessions: {a: {peer: 10.0.0.1}, b: {peer: 10.0.0.1}, c: {peer: 10.0.0.1, interface: eth1}}}",
    )
    .unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        told(&problems[0]).contains("a and b are the same session"),
        "{problems:?}"
    );
    let yaml = |track: &str| {
        format!(
            "bfd: {{sessions: {{tor-a: {{peer: 10.0.0.1}}}}}}\nvips: {{api: {{addresses: \
             [10.20.14.10], track: {{router: {{bfd: {track}, critical: true}}}}}}}}"
        )
    };
    let config = load(&yaml("tor-a")).unwrap();
    let track = config.vips["api"].tracks["router"].clone();
    let (what, failure) = (Tracked::Bfd("tor-a".parse().unwrap()), Failure::Bars);
    assert_eq!(track, TrackConfig { what, failure });
    let problems = load(&yaml("tora")).unwrap_err();
    assert!(
        told(&problems[0]).contains("vips.api.track.router.bfd"),
        "{problems:?}"
    );
    let fix = problems[0].fix.as_ref().unwrap();
    assert_eq!(fix.text, "did you mean `tor-a`?");
}
