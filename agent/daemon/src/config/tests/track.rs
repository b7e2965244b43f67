//! What is tracked.

use super::*;

fn vip(body: &str) -> Result<VipConfig, Vec<Problem>> {
    let yaml = format!("vips:\n  api: {{addresses: [10.20.14.10], {body}}}\n");
    load(&yaml).map(|config| config.vips.into_values().next().unwrap())
}

#[test]
fn each_kind_of_track_is_understood() {
    let vip = vip(
        "track: {uplink: {interface: eth1, weight: -20}, proxy: {process: haproxy, critical: true}, \
         k3s: {unit: k3s, critical: true}, ready: {file: /run/ready, weight: -253, critical: false}, \
         check: {script: [/bin/check, --fast], critical: true, interval: 5s, fall: 1, user: kedge}}, \
         startup_delay: 1m, link_up_delay: 0s",
    )
    .unwrap();
    let track = |name: &str| vip.tracks[name].clone();
    let (what, failure) = (Tracked::Interface("eth1".to_owned()), Failure::Costs(20));
    assert_eq!(track("uplink"), TrackConfig { what, failure });
    let (what, failure) = (Tracked::Process("haproxy".to_owned()), Failure::Bars);
    assert_eq!(track("proxy"), TrackConfig { what, failure });
    let (what, failure) = (Tracked::Unit("k3s.service".to_owned()), Failure::Bars);
    assert_eq!(track("k3s"), TrackConfig { what, failure });
    let (what, failure) = (Tracked::File("/run/ready".into()), Failure::Costs(253));
    assert_eq!(track("ready"), TrackConfig { what, failure });
    let Tracked::Script(script) = track("check").what else {
        panic!("no script");
    };
    assert_eq!(script.program, PathBuf::from("/bin/check"));
    assert_eq!(script.arguments, ["--fast"]);
    assert_eq!(
        (script.rise, script.fall, script.user.as_str()),
        (2, 1, "kedge")
    );
    let seconds = Duration::from_secs;
    assert_eq!((script.interval, script.timeout), (seconds(5), seconds(1)));
    let spec = vip.spec("api".parse().unwrap(), Priority::new(254).unwrap());
    assert!(spec.tracked);
    assert_eq!(spec.startup_delay, Some(seconds(60)));
    assert_eq!(spec.link_up_delay, Some(Duration::ZERO));
}

#[test]
fn every_mistake_in_a_track_is_located_and_coded() {
    use Code::{ConfigOutOfRange as Range, ConfigRule as Rule, ConfigUnknownKey as Unknown};

    for (track, code, words) in [
        ("{}", Rule, "nothing says what its failure means"),
        (
            "{interface: eth1}",
            Rule,
            "nothing says what its failure means",
        ),
        ("{interface: eth1, critical: false}", Rule, "nothing says"),
        (
            "{weight: -20}",
            Rule,
            "exactly one of interface, process, file, script, bfd and unit",
        ),
        (
            "{interface: e, file: /x, weight: -20}",
            Rule,
            "exactly one of",
        ),
        (
            "{interface: eth1, weight: -20, critical: true}",
            Rule,
            "exclude each other",
        ),
        (
            "{interface: eth1, weight: 20}",
            Range,
            "must be -253 to -1, not 20",
        ),
        (
            "{interface: eth1, weight: 0}",
            Range,
            "must be -253 to -1, not 0",
        ),
        (
            "{interface: eth1, weight: -254}",
            Range,
            "what a failure takes from the priority",
        ),
        (
            "{interface: eth1, weight: -20, rise: 3}",
            Rule,
            "rise goes with `script`",
        ),
        (
            "{process: /usr/bin/x, weight: -20}",
            Range,
            "without a directory",
        ),
        ("{file: ready, weight: -20}", Rule, "absolute path"),
        ("{script: [], weight: -20}", Rule, "absolute path"),
        (
            "{script: [check], weight: -20}",
            Rule,
            "no shell looks for it",
        ),
        (
            "{script: [/x], weight: -20, user: 'a b'}",
            Range,
            "not the name of a user",
        ),
        (
            "{script: [/x], weight: -20, interval: 10ms}",
            Range,
            "100ms to 1h",
        ),
        (
            "{unit: 'a/b', weight: -20}",
            Range,
            "not the name of a unit",
        ),
        (
            "{unit: k3s, weight: -20, user: x}",
            Rule,
            "user goes with `script`",
        ),
        ("{ping: 10.20.14.1, weight: -20}", Unknown, "ping"),
        ("{bfd: 10.20.14.1, weight: -20}", Range, "is not a name"),
        (
            "{bfd: tor, weight: -20}",
            Rule,
            "there is no BFD session tor",
        ),
        (
            "{bfd: tor, weight: -20, rise: 2}",
            Rule,
            "rise goes with `script`",
        ),
    ] {
        let problems = vip(&format!("track: {{a: {track}}}")).unwrap_err();
        told_as(&problems, words, code, ["agent.yaml:2", "vips.api.track"]);
    }
}

#[test]
fn the_owner_of_the_address_tracks_nothing() {
    let problems = vip("priority: 255, track: {a: {interface: eth1, weight: -20}}").unwrap_err();
    assert!(
        told(&problems[0]).contains("owner of the address"),
        "{problems:?}"
    );
}
