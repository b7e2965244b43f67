use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use kedge_control::local::Frozen;
use kedge_core::vip::{AdvertInterval, Priority, Vrid};
use kedge_net::Mac;
use kedge_vip_speaker::{ActivePeer, Chosen, Ordered, OwnLinks, Rejected, VipSpec};

use super::*;
use crate::{desired::Source, status::describe};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn mac() -> Mac {
    [2, 0, 0, 0, 0, 2]
}

fn priority(value: u8) -> Priority {
    Priority::new(value).unwrap()
}

pub(crate) fn snapshot(state: RouterState) -> VipSnapshot {
    VipSnapshot {
        name: "api".parse().unwrap(),
        addresses: vec!["10.20.14.10".parse().unwrap()],
        state,
        since: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        since_boottime: at(5_000),
        because: "10.20.14.12 (priority 218) has not been heard for 0.322 s".to_owned(),
        held: holds(state),
        interface: Some(Chosen {
            ifindex: 2,
            name: "eth0".to_owned(),
            address: "10.20.14.11".parse().unwrap(),
            prefix_len: 24,
            prefixes: vec!["10.20.14.0/24".parse().unwrap()],
            mac: mac(),
            running: true,
            because: String::new(),
            own_links: OwnLinks::default(),
            rejected: Vec::new(),
        }),
        interface_because: "eth0: 10.20.14.11/24 contains 10.20.14.10".to_owned(),
        rejected_interfaces: vec![Rejected {
            interface: "eth1".to_owned(),
            because: "10.0.9.4/24 does not contain it".to_owned(),
        }],
        sync_group: None,
        leader: None,
        vrid: Vrid::new(252).unwrap(),
        vrid_because: String::new(),
        priority: priority(221),
        base_priority: priority(221),
        priority_because: "221 is configured".to_owned(),
        verdict: Verdict::Healthy,
        tracked: kedge_vip_speaker::Tracked::default(),
        interval: AdvertInterval::DEFAULT,
        configured_interval: AdvertInterval::DEFAULT,
        active_down: Duration::from_millis(313),
        active: None,
        takes_over_at: None,
        waiting: None,
        proof: Proof::None,
        ordered: Ordered::default(),
        duplicates: Vec::new(),
        fence: None,
        problems: Vec::new(),
        transitions: Vec::new().into(),
        counters: BTreeMap::from([("adverts_received".to_owned(), 7)]),
    }
}

fn wanted() -> Wanted {
    let vip = snapshot(RouterState::Backup);
    Wanted {
        source: Source::Manager,
        health: Some(crate::config::check::automatic_probe()),
        tracks: BTreeMap::new(),
        announced: None,
        vrid_because: "derived from 10.20.14.10, the same on every host".to_owned(),
        priority_because: "auto: 254 less 3 x slot 11".to_owned(),
        spec: VipSpec {
            gated: true,
            ..VipSpec::new(vip.name, vip.addresses, vip.vrid, vip.base_priority)
        },
    }
}

fn told(vip: &VipSnapshot, now: Instant) -> VipExplanation {
    let health = HealthStatus {
        vip: "api".to_owned(),
        verdict: "healthy".to_owned(),
        because: "https://127.0.0.1:6443/readyz answered 200 in 3.1 ms".to_owned(),
        ..HealthStatus::default()
    };
    let frozen = vip.ordered.frozen.then(|| Frozen {
        since: "2023-11-14T22:13:20Z".to_owned(),
        until: "2023-11-14T23:13:20Z".to_owned(),
    });
    explain(&Known {
        vip,
        told: Vip {
            frozen,
            ..describe(vip, Some(&wanted()), Vec::new())
        },
        wanted: Some(&wanted()),
        health: Some(&health),
        tracks: &[],
        host: "edge-a",
        now,
    })
}

pub(crate) fn peer(priority_of: u8) -> ActivePeer {
    ActivePeer {
        address: "10.20.14.12".parse().unwrap(),
        mac: mac(),
        priority: priority(priority_of),
        interval: AdvertInterval::DEFAULT,
        heard_at: at(64_950),
    }
}

#[test]
fn what_is_tracked_is_a_reason_and_what_its_failure_would_do() {
    let track = |name: &str, good, weight| TrackStatus {
        name: name.to_owned(),
        what: format!("interface {name}0"),
        good,
        because: format!("{name}0 is as it is"),
        weight,
        critical: weight.is_none(),
    };
    let tracks = [
        track("up", true, Some(-20)),
        track("way", true, Some(-200)),
        track("must", true, None),
        track("lost", false, Some(-3)),
    ];
    let vip = snapshot(RouterState::Active);
    let told = explain(&Known {
        vip: &vip,
        told: describe(&vip, Some(&wanted()), tracks.to_vec()),
        wanted: Some(&wanted()),
        health: None,
        tracks: &tracks,
        host: "edge-a",
        now: at(65_000),
    });
    assert!(
        told.because
            .contains(&"track lost (failed): lost0 is as it is".to_owned())
    );
    assert!(
        told.because
            .contains(&"track up: up0 is as it is".to_owned())
    );
    let ways = |words: &str| {
        told.would_move_if
            .iter()
            .filter(|it| it.contains(words))
            .count()
    };
    assert_eq!(
        ways("track up fails (interface up0) and a host above 201 preempts (preempt is off here"),
        1,
        "{:?}",
        told.would_move_if
    );
    assert_eq!(
        ways("track way fails (interface way0) and a host above 192 preempts"),
        1
    );
    assert_eq!(ways("track must fails (interface must0, critical)"), 1);
    assert_eq!(ways("lost"), 0);
    assert_eq!(told.vip.tracks.len(), 4);
}

#[test]
fn an_active_vip_is_explained_from_its_last_change_to_what_would_move_it() {
    let told = told(&snapshot(RouterState::Active), at(65_000));
    assert_eq!(told.conclusion, "10.20.14.10 is on edge-a");
    assert_eq!(
        told.because,
        [
            "10.20.14.12 (priority 218) has not been heard for 0.322 s \
             (Active since 2023-11-14T22:13:20Z, 60 s ago)",
            "interface eth0: 10.20.14.11/24 contains 10.20.14.10",
            "VRID 252: derived from 10.20.14.10, the same on every host",
            "priority 221: auto: 254 less 3 x slot 11",
            "health healthy: https://127.0.0.1:6443/readyz answered 200 in 3.1 ms",
        ]
    );
    assert_eq!(
        told.would_move_if,
        [
            "https://127.0.0.1:6443/readyz fails 3 times in a row (1.5 s) while another host is healthy",
            "eth0 loses its link or its address",
            "this host is silent for 0.3 s, or Kedge leaves it",
            "a host of higher priority than 221 preempts (preempt is off here)",
        ]
    );
    assert_eq!(told.rejected_interfaces[0].interface, "eth1");
    assert_eq!(told.vip.addresses, ["10.20.14.10/24"]);
    assert_eq!(told.vip.source, "manager");
    assert_eq!(told.counters["adverts_received"], 7);
}

#[test]
fn a_backup_names_who_holds_the_address_and_what_would_bring_it_here() {
    let mut vip = snapshot(RouterState::Backup);
    vip.active = Some(peer(218));
    let told = told(&vip, at(65_000));
    assert_eq!(
        told.conclusion,
        "10.20.14.10 is on 10.20.14.12, and edge-a stands by"
    );
    assert!(
        told.because
            .contains(&"10.20.14.12 advertises priority 218, heard 0.1 s ago".to_owned()),
        "{:?}",
        told.because
    );
    assert_eq!(
        told.would_move_if,
        [
            "10.20.14.12 is silent for 0.3 s, or leaves",
            "10.20.14.12's service fails while this host's answers"
        ]
    );
}

#[test]
fn waiting_fault_and_low_bands_are_told() {
    let mut vip = snapshot(RouterState::Backup);
    vip.takes_over_at = Some(at(66_000));
    vip.waiting = Some(Waiting::FirstClaim { until: at(67_000) });
    let waiting = told(&vip, at(65_000));
    assert_eq!(
        waiting.conclusion,
        "nobody is heard holding 10.20.14.10, edge-a takes it over in 1.0 s"
    );
    assert!(
        waiting
            .because
            .last()
            .unwrap()
            .contains("asked for 2.0 s more")
    );
    let mut vip = snapshot(RouterState::Fault);
    vip.interface = None;
    vip.interface_because = "no interface has a prefix that contains it".to_owned();
    let fault = told(&vip, at(65_000));
    assert_eq!(fault.conclusion, "edge-a cannot hold 10.20.14.10");
    assert!(fault.because[1].starts_with("no interface: "));
    let mut vip = snapshot(RouterState::Active);
    vip.priority = priority(30);
    vip.priority_because = "221 → 30 because no API server has answered".to_owned();
    vip.verdict = Verdict::Unproven;
    let low = told(&vip, at(65_000));
    assert!(
        low.because
            .contains(&"priority 30: 221 → 30 because no API server has answered".to_owned()),
        "{:?}",
        low.because
    );
    assert!(low.would_move_if[0].starts_with("another host's service answers"));
}

#[test]
fn durations_are_spoken_in_fitting_units() {
    for (seconds, text) in [
        (0.05, "0.1 s"),
        (9.9, "9.9 s"),
        (45.0, "45 s"),
        (600.0, "10 min"),
        (7_300.0, "2 h"),
        (1_000_000.0, "11 days"),
    ] {
        assert_eq!(spoken(Duration::from_secs_f64(seconds)), text);
    }
}

#[test]
fn orders_are_reasons_and_take_away_the_ways_they_close() {
    let ordered = |state, ordered| {
        let mut vip = snapshot(state);
        vip.active = (state == RouterState::Backup).then(|| peer(218));
        vip.ordered = ordered;
        told(&vip, at(65_000))
    };
    let frozen = Ordered {
        frozen: true,
        ..Ordered::default()
    };
    let active = ordered(RouterState::Active, frozen);
    let reason = "frozen since 2023-11-14T22:13:20Z until 2023-11-14T23:13:20Z: only a fault moves \
                  it (kedge vip thaw api)";
    assert!(
        active.because.contains(&reason.to_owned()),
        "{:?}",
        active.because
    );
    assert_eq!(
        active.would_move_if[0],
        "eth0 loses its link or its address"
    );
    let backup = ordered(RouterState::Backup, frozen);
    assert_eq!(
        backup.would_move_if,
        ["10.20.14.12 is silent for 0.3 s, or leaves"]
    );
    let drained = Ordered {
        drained: true,
        ..Ordered::default()
    };
    let active = ordered(RouterState::Active, drained);
    assert_eq!(
        active.would_move_if[0],
        "any other host takes part (this one is drained)"
    );
    assert!(
        active
            .because
            .iter()
            .any(|why| why.contains("kedge undrain"))
    );
    let yielded = Ordered {
        yielded: true,
        ..Ordered::default()
    };
    let backup = ordered(RouterState::Backup, yielded);
    assert!(
        backup
            .because
            .iter()
            .any(|why| why.contains("released by order"))
    );
}

#[test]
fn it_says_whether_packets_for_the_address_arrive() {
    let with = |proof| {
        let vip = VipSnapshot {
            proof,
            ..snapshot(RouterState::Active)
        };
        let because = told(&vip, at(9_000)).because;
        let mut said = because.into_iter().filter(|line| line.contains("packet"));
        said.next()
    };
    assert_eq!(with(Proof::None), None);
    let said = with(Proof::Seen { at: at(5_200) }).unwrap();
    assert_eq!(
        said,
        "packets for it arrive here: the first was seen 3.8 s ago"
    );
    let since = at(5_000);
    let said = with(Proof::Awaited { since }).unwrap();
    assert!(
        said.contains("4.0 s since it is held; the router"),
        "{said}"
    );
    let said = with(Proof::Missing { since }).unwrap();
    assert!(said.ends_with("does not answer it"), "{said}");
}
