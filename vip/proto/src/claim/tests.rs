//! Schedules and buckets, instant by instant.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use kedge_core::Instant;

use super::{Announcer, Defence, Probe};
use crate::wire::{
    Mac, Neighbor,
    arp::{Operation, Packet},
    nd,
};

const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);
const VIP: Ipv4Addr = Ipv4Addr::new(10, 20, 14, 10);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000) + Duration::from_millis(millis)
}

fn addresses() -> Arc<[IpAddr]> {
    [VIP, Ipv4Addr::new(10, 20, 14, 20)]
        .map(IpAddr::from)
        .into()
}

fn drain(announcer: &mut Announcer) -> usize {
    std::iter::from_fn(|| announcer.poll_output()).count()
}

#[test]
fn announcements_follow_the_schedule_and_then_refresh() {
    let mut announcer = Announcer::default();
    announcer.start(at(0), addresses(), OWN.into());
    let mut times = Vec::new();
    let mut now = at(0);
    while now <= at(200_000) {
        if drain(&mut announcer) > 0 {
            times.push(now.since(at(0)).as_millis());
        }
        let due = announcer.poll_timeout().unwrap();
        assert!(due > now, "what is announced is not due again");
        now = due;
        announcer.handle_timeout(now);
    }
    assert_eq!(
        times,
        [
            0, 1, 5, 20, 100, 500, 1_000, 5_000, 65_000, 125_000, 185_000
        ]
    );
}

#[test]
fn an_announcement_is_a_request_and_a_reply_for_ipv4_and_an_advertisement_for_ipv6() {
    let second = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x10);
    let mut announcer = Announcer::default();
    announcer.start(at(0), [VIP.into(), second.into()].into(), OWN.into());
    let sent: Vec<Neighbor> = std::iter::from_fn(|| announcer.poll_output()).collect();
    let expected = [
        Neighbor::Arp(Packet::announcement(Operation::Request, VIP, OWN)),
        Neighbor::Arp(Packet::announcement(Operation::Reply, VIP, OWN)),
        Neighbor::Nd(nd::Packet::announcement(second, OWN)),
    ];
    assert_eq!(sent, expected);
}

#[test]
fn announcements_that_were_missed_are_skipped() {
    let mut announcer = Announcer::default();
    announcer.start(at(0), addresses(), OWN.into());
    drain(&mut announcer);
    announcer.handle_timeout(at(30));
    assert_eq!(drain(&mut announcer), 4);
    assert_eq!(announcer.poll_timeout(), Some(at(100)));
}

#[test]
fn cancelling_takes_back_what_was_not_sent() {
    let mut announcer = Announcer::default();
    announcer.start(at(0), addresses(), OWN.into());
    announcer.cancel();
    assert_eq!(drain(&mut announcer), 0);
    assert_eq!(announcer.poll_timeout(), None);
    announcer.again();
    assert_eq!(
        drain(&mut announcer),
        0,
        "a cancelled announcer says nothing"
    );
}

#[test]
fn an_early_timeout_announces_nothing() {
    let mut announcer = Announcer::default();
    announcer.start(at(0), addresses(), OWN.into());
    drain(&mut announcer);
    let before = announcer.clone();
    announcer.handle_timeout(at(0));
    assert_eq!(announcer, before);
}

#[test]
fn a_probe_asks_three_times_and_ends_a_second_later() {
    let mut probe = Probe::start(at(0), addresses(), OWN);
    let mut times = Vec::new();
    let mut now = at(0);
    loop {
        while let Some(packet) = probe.poll_output() {
            assert!(packet.is_probe());
            times.push(now.since(at(0)).as_millis());
        }
        let Some(next) = probe.poll_timeout() else {
            break;
        };
        assert!(next > now, "what was asked is not due again");
        now = next;
        probe.handle_timeout(now);
    }
    assert_eq!(times, [0, 0, 1_000, 1_000, 2_000, 2_000]);
    assert_eq!(probe.ends_at(), at(3_000));
}

#[test]
fn a_defence_is_five_answers_then_one_a_second() {
    let mut defence = Defence::new();
    let answered: Vec<u64> = (0..4_000)
        .filter(|millis| defence.take(at(*millis)))
        .collect();
    assert_eq!(answered, [0, 1, 2, 3, 4, 1_000, 2_000, 3_000]);
}

#[test]
fn a_defence_against_a_claimer_that_does_not_give_in_is_one_per_ten_seconds() {
    let mut defence = Defence::new();
    let mut answered = Vec::new();
    for millis in (0..60_000).step_by(100) {
        defence.claimed(at(millis), OTHER);
        if defence.take(at(millis)) {
            answered.push(millis);
        }
    }
    assert!(defence.is_persistent());
    assert_eq!(answered.iter().filter(|millis| **millis < 1_000).count(), 5);
    let late: Vec<&u64> = answered.iter().filter(|millis| **millis >= 1_000).collect();
    assert!(late.len() <= 6, "{late:?}");
    assert!(
        late.windows(2).all(|pair| *pair[1] - *pair[0] >= 10_000),
        "{late:?}"
    );
}

#[test]
fn another_claimer_begins_another_dispute_but_refills_nothing() {
    let mut defence = Defence::new();
    for millis in 0..10 {
        defence.claimed(at(millis), OTHER);
        defence.take(at(millis));
    }
    assert!(defence.is_persistent());
    defence.claimed(at(10), OWN);
    assert_eq!(defence.claims(), 1);
    assert!(!defence.is_persistent());
    assert!(!defence.take(at(10)));
}

#[test]
fn a_dispute_is_forgotten_after_a_quiet_minute() {
    let mut defence = Defence::new();
    defence.claimed(at(0), OTHER);
    defence.claimed(at(1), OTHER);
    assert_eq!(defence.claims(), 2);
    defence.claimed(at(60_001), OTHER);
    assert_eq!(defence.claims(), 1);
}

#[test]
fn a_claim_a_second_after_an_answer_is_no_reply_to_it() {
    for (later, persistent) in [(999, true), (1_000, false)] {
        let mut defence = Defence::new();
        for round in 0..4 {
            let millis = round * 10_000;
            assert!(defence.take(at(millis)));
            defence.claimed(at(millis + later), OTHER);
        }
        assert_eq!(defence.is_persistent(), persistent, "{later}");
    }
}

#[test]
fn it_is_known_when_the_next_answer_may_leave() {
    let mut defence = Defence::new();
    assert!(defence.ready_at() <= at(0));
    for millis in 0..5 {
        assert!(defence.take(at(millis)));
        let spaced = at(millis + 1);
        assert_eq!(defence.ready_at() > spaced, millis == 4, "{millis}");
        assert!(defence.ready_at() >= spaced);
    }
    let ready = defence.ready_at();
    let just_before = Instant::from_nanos(ready.as_nanos() - 1);
    assert!(!defence.take(just_before));
    assert!(defence.take(ready), "and then it does");
}

#[test]
fn a_schedule_begun_anew_begins_with_its_burst_and_only_while_it_runs() {
    let mut announcer = Announcer::default();
    announcer.burst(at(0));
    assert_eq!(announcer.poll_timeout(), None);
    announcer.start(at(0), addresses(), OWN.into());
    announcer.handle_timeout(at(7_000));
    drain(&mut announcer);
    announcer.burst(at(10_000));
    assert_eq!(drain(&mut announcer), 4);
    assert_eq!(announcer.poll_timeout(), Some(at(10_001)));
}
