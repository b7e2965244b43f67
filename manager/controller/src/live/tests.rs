use kedge_control::report::ReportedPeer;

use super::*;

fn hearing(tracker: &Tracker, at: Instant) -> Hearing {
    let name = Name::new("ns", "a");
    tracker.live(at, [name.clone()].into_iter()).hosts[&name].hearing
}

fn gateway(tracker: &mut Tracker, alive: bool, at: Instant) {
    let report = GatewayReport {
        peers: vec![ReportedPeer {
            name: "ns/a".to_owned(),
            alive,
            since: String::new(),
        }],
        ..GatewayReport::default()
    };
    tracker.gateway_report(&(Name::new("s", "gw"), "gw-0".to_owned()), report, at);
}

#[test]
fn a_host_is_alive_while_it_asks_or_reports() {
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let name = Name::new("ns", "a");
    let mut tracker = Tracker::new(start);
    assert_eq!(hearing(&tracker, at(29)), Hearing::Unknown);
    assert_eq!(hearing(&tracker, at(30)), Hearing::Silent);
    assert!(tracker.host_report(&name, HostReport::default(), at(40)));
    assert!(!tracker.host_report(&name, HostReport::default(), at(41)));
    assert_eq!(hearing(&tracker, at(70)), Hearing::Alive);
    assert!(tracker.hears(&Party::Host(name.clone()), at(70)));
    assert!(!tracker.hears(&Party::Host(name.clone()), at(71)));
    assert!(!tracker.hears(&Party::Instance(name.clone(), "a".to_owned()), at(70)));
    assert_eq!(hearing(&tracker, at(71)), Hearing::Silent);
    tracker.open_host(&name, at(80));
    assert_eq!(hearing(&tracker, at(200)), Hearing::Alive);
    tracker.close_host(&name, at(200));
    assert_eq!(hearing(&tracker, at(230)), Hearing::Silent);
}

#[test]
fn of_two_machines_with_one_identity_the_living_holder_keeps_it() {
    let start = Instant::now();
    let at = |millis: u64| start + Duration::from_millis(millis);
    let life = |boot: &str, machine: &str| Life {
        boot_id: boot.to_owned(),
        machine_id: machine.to_owned(),
    };
    let (holder, copy) = (life("1", "a"), life("1", "b"));
    let name = Name::new("ns", "a");
    let mut tracker = Tracker::new(start);
    let contested = |tracker: &Tracker, at| {
        tracker.live(at, [name.clone()].into_iter()).hosts[&name].is_contested
    };
    assert_eq!(tracker.claim_host(&name, &holder, at(0)), Claim::Yours);
    tracker.open_host(&name, at(0));
    assert_eq!(tracker.claim_host(&name, &copy, at(1000)), Claim::Probed);
    assert!(tracker.is_doubted(&name), "its open request is answered");
    // What the copy reports does not count as the holder's word, nor at all.
    let word = HostReport {
        machine_id: "b".to_owned(),
        boot_id: "1".to_owned(),
        ..HostReport::default()
    };
    assert!(!tracker.host_report(&name, word, at(1500)));
    assert_eq!(tracker.claim_host(&name, &copy, at(2000)), Claim::Probed);
    tracker.close_host(&name, at(2100));
    assert_eq!(tracker.claim_host(&name, &holder, at(2200)), Claim::Yours);
    tracker.open_host(&name, at(2200));
    assert_eq!(tracker.claim_host(&name, &copy, at(2300)), Claim::Taken);
    assert!(contested(&tracker, at(3000)));
    assert!(!contested(&tracker, at(3000) + CALM), "it calms down");
    // It asks again, and now the holder is dead: its connection stays half open.
    assert_eq!(tracker.claim_host(&name, &copy, at(60_000)), Claim::Probed);
    assert_eq!(tracker.claim_host(&name, &copy, at(64_999)), Claim::Probed);
    assert_eq!(tracker.claim_host(&name, &copy, at(65_000)), Claim::Yours);
    // A rebooted host is another life of the same machine.
    let rebooted = life("2", "b");
    tracker.open_host(&name, at(65_000));
    assert_eq!(
        tracker.claim_host(&name, &rebooted, at(66_000)),
        Claim::Probed
    );
    assert_eq!(
        tracker.claim_host(&name, &rebooted, at(71_000)),
        Claim::Yours
    );
    // Who says nothing of itself is believed.
    let silent = Life::default();
    assert_eq!(tracker.claim_host(&name, &silent, at(71_000)), Claim::Yours);
}

#[test]
fn a_host_its_gateway_lost_is_silent_unless_it_speaks() {
    let start = Instant::now();
    let at = |millis: u64| start + Duration::from_millis(millis);
    let name = Name::new("ns", "a");
    let mut tracker = Tracker::new(start);
    tracker.open_host(&name, at(0));
    gateway(&mut tracker, false, at(10));
    assert!(!tracker.is_doubted(&name), "the gateway never heard it");
    gateway(&mut tracker, true, at(20));
    gateway(&mut tracker, false, at(1000));
    assert!(tracker.is_doubted(&name));
    assert_eq!(hearing(&tracker, at(2999)), Hearing::Alive);
    // The answer to its open request does not count as its word.
    tracker.close_host(&name, at(1001));
    assert_eq!(hearing(&tracker, at(3000)), Hearing::Silent);
    tracker.open_host(&name, at(3100));
    assert_eq!(hearing(&tracker, at(3100)), Hearing::Alive);
}
