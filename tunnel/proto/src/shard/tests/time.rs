//! Minutes and hours: re-keys, expiry, outages. With boringtun's core this needs the feature
//! `mock-clock`.

use super::harness::*;
use crate::{counters::State, directory::PeerSpec, keys::PresharedKey, noise::CoreName};

/// What a network did while time passed.
#[derive(Default)]
struct Log {
    /// When initiations were sent, in milliseconds from the start.
    initiations: Vec<u64>,
    /// When a session was missing at the first end.
    gaps: Vec<u64>,
}

/// Lets `millis` pass in steps of 20 ms; datagrams get through while `open`. `each` runs before
/// every step.
fn run(net: &mut Net, millis: u64, open: bool, mut each: impl FnMut(&mut Net, u64)) -> Log {
    let mut log = Log::default();
    for at in (0..millis).step_by(20) {
        each(net, at);
        let now = net.now;
        let due: Vec<Datagram> = net.ends.iter_mut().flat_map(|end| end.due(now)).collect();
        log.initiations.extend(
            due.iter()
                .filter(|datagram| datagram.kind() == 1)
                .map(|_| at),
        );
        net.carry(due, |_| open);
        if net.ends[0].reading(2).state != State::Connected {
            log.gaps.push(at);
        }
        net.pass(20);
    }
    log
}

fn quiet(_: &mut Net, _: u64) {}

fn always_up() -> Net {
    let mut net = Net::pair();
    net.ends[0].apply(net.now, vec![always_up_spec()]);
    let log = run(&mut net, 1_000, true, quiet);
    assert_eq!(
        (log.initiations.len(), net.ends[0].reading(2).state),
        (1, State::Connected)
    );
    net
}

fn always_up_spec() -> PeerSpec {
    PeerSpec {
        always_up: true,
        ..spec(2, Some("192.0.2.2:2000"))
    }
}

/// How long after the path is open again a session stands.
fn back_after(net: &mut Net) -> u64 {
    let log = run(net, 60_000, true, quiet);
    assert_eq!(net.ends[0].reading(2).state, State::Connected);
    assert!(net.works(0) && net.works(1));
    log.gaps.last().map_or(0, |at| at + 20)
}

#[test]
fn traffic_is_never_lost_over_re_keys() {
    let mut net = always_up();
    let mut sent = 0;
    let log = run(&mut net, 600_000, true, |net, at| {
        if at % 1_000 == 0 {
            net.send(0, &packet("10.0.0.1", "10.0.0.2", 100, 1));
            net.send(1, &packet("10.0.0.2", "10.0.0.1", 100, 2));
            sent += 1;
        }
    });
    assert_eq!(
        (net.ends[0].delivered.len(), net.ends[1].delivered.len()),
        (sent, sent)
    );
    assert!(
        (4..=5).contains(&log.initiations.len()),
        "{:?}",
        log.initiations
    );
    assert!(log.gaps.is_empty());
}

#[test]
fn an_always_up_session_has_no_gap_without_any_traffic() {
    let mut net = always_up();
    let log = run(&mut net, 900_000, true, quiet);
    assert!(
        log.gaps.is_empty(),
        "{:?}",
        &log.gaps[..log.gaps.len().min(9)]
    );
    assert!(
        (6..=8).contains(&log.initiations.len()),
        "{:?}",
        log.initiations
    );
}

#[test]
fn an_outage_of_minutes_or_an_hour_is_over_within_six_seconds() {
    for outage in [100_000, 200_000, 3_600_000] {
        let mut net = always_up();
        let log = run(&mut net, outage, false, quiet);
        let pauses = log.initiations.windows(2).map(|pair| pair[1] - pair[0]);
        let longest = pauses.max().unwrap_or_default();
        let took = back_after(&mut net);
        println!("outage {outage} ms: longest pause {longest} ms, back after {took} ms");
        assert!(longest <= 6_000 && took <= 6_000);
    }
}

#[test]
fn a_peer_that_never_answered_is_still_asked_after_an_hour() {
    let mut net = Net::pair();
    net.ends[0].apply(net.now, vec![always_up_spec()]);
    let log = run(&mut net, 3_600_000, false, quiet);
    assert!(log.initiations.len() > 600, "{}", log.initiations.len());
    assert!(back_after(&mut net) <= 6_000);
}

#[test]
fn retries_come_each_five_seconds_and_not_in_step() {
    let mut net = Net::pair();
    net.ends[0].apply(net.now, vec![always_up_spec()]);
    let log = run(&mut net, 85_000, false, quiet);
    let pauses: Vec<u64> = log
        .initiations
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert!(
        pauses.iter().all(|pause| (5_000..=5_460).contains(pause)),
        "{pauses:?}"
    );
    let (least, most) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
    assert!(most - least >= 100, "{pauses:?}");
}

#[test]
fn a_peer_that_need_not_be_up_falls_silent_and_comes_back_with_a_packet() {
    // boringtun's core takes what comes between two of its ticks for answered; our own asks again
    // when nothing comes in 15 s.
    let asks = super::core(1) == CoreName::Own && super::core(2) == CoreName::Boringtun;
    let expected = usize::from(asks);
    let mut net = Net::connected();
    let log = run(&mut net, 1_200_000, true, quiet);
    assert_eq!(log.initiations.len(), expected);
    assert_eq!(net.ends[0].reading(2).state, State::Idle);
    net.send(0, &packet("10.0.0.1", "10.0.0.2", 100, 1));
    assert_eq!(net.ends[1].delivered.len(), 1);
    // The other end knows where we are and can call as well.
    let log = run(&mut net, 1_200_000, true, quiet);
    assert_eq!(log.initiations.len(), expected);
    net.send(1, &packet("10.0.0.2", "10.0.0.1", 100, 1));
    assert_eq!(net.ends[0].delivered.len(), 1);
}

#[test]
fn a_worker_that_slept_for_minutes_does_not_seal_with_old_keys() {
    let mut net = Net::connected();
    net.pass(200_000);
    let sealed = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 100, 1))
        .unwrap();
    assert_eq!(sealed.kind(), 1, "an initiation, the packet waits");
    net.carry([sealed], |_| true);
    assert_eq!(net.ends[1].delivered.len(), 1);
}

#[test]
fn a_worker_that_slept_for_minutes_does_not_open_with_old_keys() {
    let mut net = Net::connected();
    let old = net.ends[0]
        .seal(net.now, &packet("10.0.0.1", "10.0.0.2", 100, 1))
        .unwrap();
    net.pass(200_000);
    net.carry([old], |_| true);
    assert!(net.ends[1].delivered.is_empty());
}

#[test]
fn forced_handshakes_do_not_wear_out_a_peer() {
    let mut net = always_up();
    run(&mut net, 300_000, false, |net, at| {
        if at % 1_000 == 0 {
            let now = net.now;
            net.ends[0].force(now, 2);
        }
    });
    let took = {
        let now = net.now;
        net.ends[0].force(now, 2);
        back_after(&mut net)
    };
    assert!(took <= 40, "{took} ms");
}

#[test]
fn packets_that_waited_for_ninety_seconds_are_thrown_away() {
    let mut net = Net::pair();
    net.ends[0].seal(net.now, &packet("10.0.0.1", "10.0.0.2", 100, 1));
    run(&mut net, 100_000, false, quiet);
    assert_eq!(net.ends[0].dropped(2, crate::drops::DropReason::Expired), 1);
    net.send(0, &packet("10.0.0.1", "10.0.0.2", 100, 2));
    assert_eq!(net.ends[1].delivered.len(), 1);
    assert_eq!(net.ends[1].delivered[0][99], 2);
}

#[test]
fn a_changed_preshared_key_is_mixed_in_by_the_next_session_without_a_gap() {
    let mut net = Net::connected();
    let shared = |peer| PeerSpec {
        preshared_key: PresharedKey::from_bytes([7; 32]),
        ..peer
    };
    net.ends[0].apply(net.now, vec![shared(spec(2, Some("192.0.2.2:2000")))]);
    net.ends[1].apply(net.now, vec![shared(spec(1, None))]);
    let before = net.ends[0].reading(2).last_handshake;
    let (there, back) = (
        packet("10.0.0.1", "10.0.0.2", 100, 1),
        packet("10.0.0.2", "10.0.0.1", 100, 2),
    );
    for step in 0..4_000 {
        net.pass(100);
        net.tick();
        for (from, inner) in [(0, &there), (1, &back)] {
            net.ends[1 - from].delivered.clear();
            net.send(from, inner);
            assert_eq!(
                net.ends[1 - from].delivered.len(),
                1,
                "step {step} from {from}"
            );
        }
    }
    assert!(net.ends[0].reading(2).last_handshake > before);
}
